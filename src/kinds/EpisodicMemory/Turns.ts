/** The two halves of a chat turn: what is recalled before the reply, and what is saved after it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { Limit } from "../../domain/MemoryFilter.ts"
import { Unit } from "../../domain/MemoryRecord.ts"
import { type Message, stripMetaTags } from "../../domain/Message.ts"
import type { Episode } from "../../domain/Payload.ts"
import * as SchemaIssues from "../../domain/SchemaIssues.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { saysTheSame } from "../../ranking/NearDuplicate.ts"
import { invalid } from "../../storage/Check.ts"
import type { Recalled, Service } from "../EpisodicMemory.ts"
import type { Found, Typed } from "../TypedMemory.ts"
import { buildMemoryBlock } from "./Block.ts"
import { newest, type Semantic, type Source, talk } from "./Source.ts"

/** Defaults 5, 3, 3 and 0. */
export const RecallLimits = Schema.Struct({
  episodicLimit: Limit.pipe(Schema.optionalWith({ default: () => 5 })),
  semanticLimit: Limit.pipe(Schema.optionalWith({ default: () => 3 })),
  reflectionLimit: Limit.pipe(Schema.optionalWith({ default: () => 3 })),
  minImportance: Unit.pipe(Schema.optionalWith({ default: () => 0 }))
})

/** Until the scope closes, which waits for what is being saved. */
export const make = (source: Source): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.gen(function*() {
    const saving = yield* FiberSet.make<void>()
    yield* Effect.addFinalizer(() => Fiber.awaitAll(saving))
    const viewers = new Map<Fiber.RuntimeFiber<unknown, unknown>, Viewer.Any>()
    const failed = yield* Ref.make<ReadonlyArray<MemoryError>>([])

    /** All that is being saved for this viewer now. */
    const settled = (viewer: Viewer.Any) =>
      Fiber.awaitAll(Array.from(viewers).flatMap(([fiber, of]) => Viewer.equals(viewer, of) ? [fiber] : []))

    const save = <A>(what: string, self: Effect.Effect<A, MemoryError>): Effect.Effect<void> =>
      Effect.catchAll(Effect.asVoid(self), (error) =>
        Effect.zipRight(
          Ref.update(failed, (all) => [...all, error]),
          Effect.logError(`${what} was not saved`, error)
        ))

    return {
      saveEpisode: (viewer, draft) => span("saveEpisode", source.saveEpisode(viewer, draft)),
      recall: (viewer, query) => span("recall", source.episodes(viewer, query)),
      semanticRecall: (viewer, text, options = {}) =>
        span(
          "semanticRecall",
          source.semantic(viewer, text, options).pipe(
            Effect.tap(({ failures }) =>
              failures.length > 0 ? Effect.logWarning("recalled by words alone", failures) : Effect.void
            ),
            Effect.map(({ found }) => found)
          )
        ),
      getByIds: (viewer, ids) => span("getByIds", source.getByIds(viewer, ids)),
      saveReflection: (viewer, draft) => span("saveReflection", source.saveReflection(viewer, draft)),
      getReflections: (viewer, limit = 20) => span("getReflections", source.reflections(viewer, limit)),
      beforeTurn: (viewer, message, limits = {}) =>
        span(
          "beforeTurn",
          Effect.flatMap(
            decoded(limits),
            (limits) => Effect.zipRight(settled(viewer), recall(source, viewer, message, limits))
          )
        ),
      afterTurn: (viewer, { episode, reflection }) =>
        Effect.gen(function*() {
          const now = yield* Clock.currentTimeMillis
          const before = settled(viewer)
          const fiber = yield* FiberSet.run(
            saving,
            before.pipe(
              Effect.zipRight(save("an episode", source.saveEpisode(viewer, { validAt: now, ...episode }))),
              Effect.zipRight(
                reflection === undefined
                  ? Effect.void
                  : save("a reflection", source.saveReflection(viewer, { validAt: now, ...reflection }))
              ),
              Effect.tapDefect((cause) => Effect.logError("a turn was not saved", cause)),
              Effect.withSpan("EpisodicMemory.save")
            )
          )
          viewers.set(fiber, viewer)
          fiber.addObserver(() => viewers.delete(fiber))
        }).pipe(Effect.uninterruptible, Effect.withSpan("EpisodicMemory.afterTurn")),
      failures: Ref.get(failed)
    }
  })

const span = <A, E>(name: string, self: Effect.Effect<A, E>) => Effect.withSpan(self, `EpisodicMemory.${name}`)

const decoded = (limits: typeof RecallLimits.Encoded) =>
  Effect.mapError(
    Schema.decode(RecallLimits, { errors: "all" })(limits),
    (error) => invalid("beforeTurn", ...SchemaIssues.lines(error))
  )

const recall = (
  source: Source,
  viewer: Viewer.Any,
  { content }: Message,
  { episodicLimit, minImportance, reflectionLimit, semanticLimit }: typeof RecallLimits.Type
) =>
  Effect.gen(function*() {
    const asked = { limit: episodicLimit, minImportance }
    const room = Math.min(1_000, semanticLimit + episodicLimit)
    const legs = yield* Effect.all({
      conversation: Effect.either(source.episodes(viewer, { ...asked, type: talk })),
      events: Effect.either(source.episodes(viewer, { ...asked, events: true })),
      semantic: Effect.either(source.semantic(viewer, stripMetaTags(content), { topK: room, minImportance })),
      reflections: Effect.either(source.reflections(viewer, reflectionLimit))
    }, { concurrency: "unbounded" })

    const failures = Object.entries<Either.Either<unknown, MemoryError>>(legs).flatMap(([leg, result]) =>
      Either.isLeft(result) ? [{ leg, error: result.left }] : []
    )
    if (failures.length === Object.keys(legs).length) return yield* failures[0]!.error

    const { found, failures: within } = Either.getOrElse(legs.semantic, (): Semantic => ({ found: [], failures: [] }))
    const episodic = shared(episodicLimit, orNone(legs.conversation), orNone(legs.events))
    const recalled = {
      episodic,
      semantic: apart(found, episodic).slice(0, semanticLimit),
      reflections: orNone(legs.reflections)
    }
    return {
      ...recalled,
      block: buildMemoryBlock(recalled),
      // what an adapter never had is no failure of a turn
      failures: [...failures.filter(({ error }) => error.reason !== "unsupported"), ...within]
    } satisfies Recalled
  })

const orNone = <A>(leg: Either.Either<ReadonlyArray<A>, MemoryError>): ReadonlyArray<A> =>
  Either.getOrElse(leg, (): ReadonlyArray<A> => [])

/** Half the room for each; what one leaves is the other's. */
const shared = (
  limit: number,
  talk: ReadonlyArray<Typed<Episode>>,
  events: ReadonlyArray<Typed<Episode>>
): ReadonlyArray<Typed<Episode>> => {
  const said = talk.slice(0, Math.max(Math.ceil(limit / 2), limit - events.length))
  return newest([...said, ...events.slice(0, limit - said.length)], limit)
}

const apart = (found: ReadonlyArray<Found<Episode>>, episodic: ReadonlyArray<Typed<Episode>>) =>
  found.filter(({ record }) => !episodic.some((one) => one.record.id === record.id || saysTheSame(one.record, record)))
