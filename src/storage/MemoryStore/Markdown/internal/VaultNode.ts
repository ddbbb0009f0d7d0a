/** Loads the vault's code when a vault is opened: what `#vault` is under Node, Bun and Deno. An import of the package does without it. */
import * as Effect from "effect/Effect"

/** The module that opens vaults. */
export const load = Effect.promise(() => import("../MarkdownStore.ts"))
