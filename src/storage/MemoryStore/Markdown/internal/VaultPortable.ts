/**
 * The target of the import `#vault` in browsers. Imports the code of the vault (a store of Markdown files) statically, so that a bundler
 * can remove this code from a program that never opens a vault. With a dynamic `import()`, a bundler would always include the code.
 */
import * as Effect from "effect/Effect"
import * as MarkdownStore from "../MarkdownStore.ts"

/** Returns the module that opens vaults. */
export const load = Effect.succeed(MarkdownStore)
