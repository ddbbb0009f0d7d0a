/**
 * The messages of conversations, stored so that a chat can continue after a restart.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { MemoryStore, Message, Threads, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 *
 * const program = Effect.gen(function*() {
 *   const threads = yield* Threads.Threads
 *   yield* threads.append(ada, "monday", [Message.user("Hello"), Message.assistant("Hello, Ada")])
 *   const { items } = yield* threads.messages(ada, "monday", { limit: 10 })
 *   return items.map(({ content }) => content)
 * })
 *
 * const Store = Threads.layer.pipe(Layer.provide(MemoryStore.layerInMemory))
 *
 * const said = await program.pipe(Effect.provide(Store), Effect.runPromise)
 *
 * said // => ["Hello", "Hello, Ada"]
 * ```
 */
export { layer, Threads } from "./harness/Threads.ts"
export type { Service } from "./harness/Threads.ts"
export type { Found, Page, Range, Window } from "./harness/Threads/ThreadReads.ts"
export type { NewMessage, Thread, ThreadMessage } from "./harness/Threads/ThreadRows.ts"
