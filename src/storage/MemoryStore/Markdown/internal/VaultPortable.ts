/**
 * The target of the import `#vault` in browsers. A vault is a store of Markdown files. Its code is imported statically, so that a bundler
 * can remove the code from a program that never opens a vault. With a dynamic `import()`, the code would always be included.
 */
import * as Effect from "effect/Effect"
import * as MarkdownStore from "../MarkdownStore.ts"

/** Returns the module that opens vaults. */
export const load = Effect.succeed(MarkdownStore)
