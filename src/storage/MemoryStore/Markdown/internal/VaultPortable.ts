/**
 * The vault's code as an import like any other: what `#vault` is in browsers. A bundler leaves it out where no vault is opened; an
 * `import()` would keep it in every bundle.
 */
import * as Effect from "effect/Effect"
import * as MarkdownStore from "../MarkdownStore.ts"

/** The module that opens vaults. */
export const load = Effect.succeed(MarkdownStore)
