/** Declares laws of nexus-agents' memories: each law gets a new memory over a new store. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as Nexus from "../../src/compat/Nexus.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as AdaptiveMemory from "../../src/kinds/AdaptiveMemory.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { rejection, type Run, running } from "./running.ts"

/** The viewer of every law. */
export const viewer = Viewer.make({ userId: "ada" })

/** The services of `Nexus.layer`, and the store below them. */
export type Kinds = Layer.Layer.Success<typeof Nexus.layer> | MemoryStore.MemoryStore

/** Checks that a promise is rejected with a value that has this `reason`. */
export const refused = (reason: string, call: () => Promise<unknown>) =>
  Effect.map(rejection(call), (cause) => assert.deepInclude(cause, { reason }))

type Make<S, A> = (service: S, viewer: Viewer.Viewer, run: Run) => A

const laws =
  <A>(name: string, make: Effect.Effect<(run: Run) => A, never, Kinds>) =>
  (title: string, check: (memory: A, store: MemoryStore.Service) => Effect.Effect<void, unknown>) =>
    it.effect(`${name}: ${title}`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000_000)
        yield* check((yield* make)(yield* running()), yield* MemoryStore.MemoryStore)
      }).pipe(Effect.provide(Layer.provideMerge(Nexus.layer, MemoryStore.layerInMemory))))

const over = <S, A>(service: Effect.Effect<S, never, Kinds>, make: Make<S, A>) =>
  Effect.map(service, (service) => (run: Run) => make(service, viewer, run))

/** Declares a law of task episodes. */
export const episodic = laws("episodes", over(TaskMemory.TaskMemory, Nexus.toEpisodicMemory))
/** Declares a law of facts. */
export const semantic = laws("facts", over(SemanticMemory.SemanticMemory, Nexus.toSemanticMemory))
/** Declares a law of retrieval by priority. */
export const adaptive = laws("priorities", over(AdaptiveMemory.AdaptiveMemory, Nexus.toAdaptiveMemory))
/** Declares a law of the graph. */
export const graph = laws("the graph", over(GraphMemory.GraphMemory, Nexus.toGraphMemory))
/** Declares a law of sessions. */
export const session = laws("a session", over(SessionMemory.SessionMemory, Nexus.toSessionMemory))
/** Declares a law of beliefs. */
export const beliefs = laws("beliefs", over(BeliefMemory.BeliefMemory, Nexus.toBeliefMemory))
