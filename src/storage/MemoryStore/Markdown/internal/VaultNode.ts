/**
 * The target of the import `#vault` under Node, Bun and Deno. Loads the code of the vault (a store of Markdown files) only when a vault is
 * opened, not when the package is imported.
 */
import * as Effect from "effect/Effect"

/** Loads the module that opens vaults. */
export const load = Effect.promise(() => import("../MarkdownStore.ts"))
