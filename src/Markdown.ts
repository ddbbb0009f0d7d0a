/**
 * The default store on disk: a folder (vault) with one Markdown file per record. People can edit the files, and put them under git.
 *
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect, Layer } from "effect"
 * import { Markdown, MemoryStore, Viewer } from "effect-memory"
 *
 * const Store = Markdown.layer({ root: "vault" }).pipe(Layer.provide(NodeContext.layer))
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   const ada = Viewer.make({ userId: "ada" })
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }]) // vault/users/ada/<id>.md
 *   return (yield* (yield* Markdown.Vault).issues).length
 * })
 * const issues = await program.pipe(Effect.provide(Store), Effect.runPromise)
 *
 * issues // => 0
 * ```
 */
export { layer, Vault } from "./storage/MemoryStore/Markdown.ts"
export type { Finding, Issue, Options, Repair, VaultService } from "./storage/MemoryStore/Markdown.ts"
