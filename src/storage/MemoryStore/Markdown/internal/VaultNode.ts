/**
 * Loads the vault's code when a vault is opened: the target of `#vault` under Node, Bun and Deno. Importing the package alone does not load
 * it.
 */
import * as Effect from "effect/Effect"

/** The module that opens vaults. */
export const load = Effect.promise(() => import("../MarkdownStore.ts"))
