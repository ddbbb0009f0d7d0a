/**
 * The target of the import `#vault` in browsers. It imports the vault's code statically, so that a bundler can leave this code out if no
 * vault is opened. A dynamic `import()` would keep the code in every bundle.
 */
import * as Effect from "effect/Effect"
import * as MarkdownStore from "../MarkdownStore.ts"

/** Returns the module that opens vaults. */
export const load = Effect.succeed(MarkdownStore)
