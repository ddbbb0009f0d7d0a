/** Laws that are tested with random drafts and random operations. The random numbers are seeded, so that runs are repeatable. */
import { assert } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as TestContext from "effect/TestContext"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import type { MemoryMutation } from "../../domain/MemoryMutation.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { anyDraft } from "../Drafts.ts"
import { Courses, type Law, law, Trash } from "../Law.ts"
import { listen } from "../Listener.ts"
import * as Model from "../Model.ts"
import * as Nearness from "../Nearness.ts"
import * as Question from "../Question.ts"
import { get, id, put, system } from "../Sample.ts"

/** The laws of random drafts and sequences of operations. */
export const laws: ReadonlyArray<Law> = [
  law(
    "a random valid draft is stored with every field unchanged",
    (store) =>
      Effect.forEach(sample(anyDraft, 100), (draft) =>
        Effect.gen(function*() {
          const record = yield* put(store, draft, system)
          assert.deepStrictEqual(yield* get(store, system, record.id), record)
          const { source, ...fields } = { ...record }
          const { source: citation, ...written } = draft
          assert.deepEqual({ ...plain(fields), ...plain(written) }, plain(fields)) // the record has all fields of the draft
          assert.deepEqual(plain(source), plain({ ...citation, origin: "user", trust: 1 }))
        }), { discard: true })
  ),

  law(
    "the store and a simple reference model give the same answers to random calls of random viewers",
    (store, another) =>
      each(store, course(anything), (questions) =>
        Effect.gen(function*() {
          const store = yield* another
          const model = Model.make({
            kinds: yield* MemoryKind.registered,
            history: store.capabilities.history,
            trash: Duration.toMillis(yield* Trash)
          })
          const { learn, resolve } = Question.mintedIds()
          const past: Array<string> = []
          for (const [tick, question] of questions) {
            if (tick > 0) yield* TestClock.adjust(tick) // `adjust(0)` is left out, since every call of `adjust` waits for a real timer
            past.push(`+${tick} ${JSON.stringify(question.viewer)} ${question.text}`)
            const answer = yield* Question.put(question, store, resolve)
            assert.deepEqual(
              answer.gist,
              yield* Question.expected(question, model, resolve, answer.gist),
              past.join("\n")
            )
            learn(answer)
          }
        }))
  ),

  law(
    "random calls and the `changes` stream of a viewer do not depend on records that the viewer does not see",
    (store, another) =>
      each(store, isolated, ({ foreign, questions, viewer }) =>
        Effect.gen(function*() {
          const scope = Viewer.sees(viewer, "global") ? "global" : MemoryScope.normalise(viewer)
          const [sharedStore, undisturbedStore] = [yield* another, yield* another]
          const [receivedHere, receivedThere] = [
            yield* listen(sharedStore, viewer, scope),
            yield* listen(undisturbedStore, viewer, scope)
          ]
          const [here, there] = [Question.mintedIds(), Question.mintedIds()]
          const past: Array<string> = []
          for (const [n, [tick, question]] of questions.entries()) {
            if (tick > 0) yield* TestClock.adjust(tick) // `adjust(0)` is left out, since every call of `adjust` waits for a real timer
            const stranger = foreign[n]
            if (stranger && isForeign(viewer, stranger)) {
              yield* Effect.either(sharedStore.apply(stranger.writer, [stranger.mutation]))
            }
            past.push(`+${tick} ${question.text}`)
            const answer = yield* Question.put(question, sharedStore, here.resolve)
            const undisturbed = yield* Question.put(question, undisturbedStore, there.resolve)
            here.learn(answer)
            there.learn(undisturbed)
            assert.strictEqual(
              here.anonymous(answer),
              there.anonymous(undisturbed),
              `${JSON.stringify(viewer)}\n${past.join("\n")}`
            )
          }
          assert.strictEqual(here.anonymous(yield* receivedHere), there.anonymous(yield* receivedThere))
        }))
  )
]

/**
 * Checks random sequences of operations. Each sequence has its own clock, randomness and Effect scope. Several sequences run concurrently,
 * because every adjustment of a test clock waits for a real timer.
 */
const each = <A>(
  { capabilities }: Service,
  arbitrary: FastCheck.Arbitrary<A>,
  check: (course: A) => Effect.Effect<void, unknown, Scope.Scope>
) =>
  Effect.gen(function*() {
    const courses = (yield* Courses) ?? (capabilities.durable ? 6 : 40)
    yield* Effect.forEach(sample(arbitrary, courses).entries(), ([n, course]) =>
      check(course).pipe(
        Effect.scoped,
        Effect.provide(TestContext.TestContext),
        Effect.withRandom(Random.make(`effect-memory/testing ${n}`))
      ), { concurrency: capabilities.durable ? 2 : 8, discard: true })
  })

const sample = <A>(arbitrary: FastCheck.Arbitrary<A>, numRuns: number) =>
  FastCheck.sample(arbitrary, { numRuns, seed: 2 })

const tick = FastCheck.oneof(
  { weight: 6, arbitrary: FastCheck.constant(0) },
  { weight: 1, arbitrary: FastCheck.constantFrom(1, 50, 5_000, 60_000) }
)

/**
 * Generates sequences of operations. Each operation comes with the time that passes before it. All these times together are less than an
 * hour, because a store may compact by itself after an hour.
 */
const course = <A>(question: FastCheck.Arbitrary<A>) =>
  FastCheck.array(FastCheck.tuple(tick, question), {
    minLength: 25,
    maxLength: 50
  })

const anything = FastCheck.oneof(
  { weight: 20, arbitrary: Question.make(Question) },
  { weight: 2, arbitrary: Nearness.make(Question.viewer) },
  { weight: 1, arbitrary: Question.maintenance }
)

interface Stranger {
  readonly writer: Viewer.System
  readonly mutation: MemoryMutation
}

/**
 * Generates a viewer, operations of this viewer, and writes of other viewers. The store generates the ids of the viewer's records.
 * Exception: the viewer may put the id `id("nobody")` while the store has generated no id. The ids of other viewers' records are generated,
 * or derived from the names `a`, `b` and `c`. The viewer's operations, except puts, may use the ids of these three names, too. `isForeign`
 * selects the writes of which the viewer sees nothing.
 */
const isolated = Question.viewer.filter((viewer): viewer is Viewer.Viewer => !Viewer.isSystem(viewer)).chain((viewer) =>
  FastCheck.record({
    viewer: FastCheck.constant(viewer),
    questions: course(FastCheck.oneof(
      {
        weight: 6,
        arbitrary: Question.make({
          viewer: FastCheck.constant(viewer),
          names: Question.names,
          putNames: FastCheck.integer({ min: 0, max: 9 })
        })
      },
      { weight: 1, arbitrary: Nearness.make(FastCheck.constant(viewer)) }
    )),
    foreign: FastCheck.array(
      FastCheck.record<Stranger>({
        writer: FastCheck.constantFrom(Viewer.system(viewer.tenant), Viewer.system("nowhere")),
        mutation: Question.mutation(FastCheck.constantFrom("a", "b", "c")).map((named) =>
          Question.resolved((name) => id(String(name)))(named)
        )
      }),
      { minLength: 50, maxLength: 50 }
    )
  })
)

/** Whether the viewer sees nothing of this write of another viewer. */
const isForeign = (viewer: Viewer.Viewer, { mutation, writer }: Stranger): boolean =>
  mutation._tag !== "Put" || writer.tenant !== viewer.tenant || !Viewer.sees(viewer, mutation.draft.scope)

const plain = (value: object): object => JSON.parse(JSON.stringify(value))
