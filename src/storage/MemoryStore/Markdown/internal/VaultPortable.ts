/**
 * Imports the vault's code statically: the target of `#vault` in browsers. A bundler can leave it out if no vault is opened; a dynamic
 * `import()` would keep it in every bundle.
 */
import * as Effect from "effect/Effect"
import * as MarkdownStore from "../MarkdownStore.ts"

/** The module that opens vaults. */
export const load = Effect.succeed(MarkdownStore)
