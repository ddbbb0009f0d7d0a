/**
 * The target of the import `#vault` under Node, Bun and Deno. A vault is a store of Markdown files. Its code is loaded only when a vault is
 * opened, not when the package is imported.
 */
import * as Effect from "effect/Effect"

/** Loads the module that opens vaults. */
export const load = Effect.promise(() => import("../MarkdownStore.ts"))
