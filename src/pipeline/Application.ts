/**
 * From turns to a batch of mutations, and the batch to the store.
 *
 * Law: nothing is written before the last model call has answered; then all of it or nothing, and only where every
 * neighbour that the model was shown still stands. Where one has moved on, the plan is made once more.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import { stableId } from "../domain/MemoryId.ts"
import { find, type MemoryKind } from "../domain/MemoryKind.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { embeddingText } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import * as Sharing from "../domain/Sharing.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as Completion from "../host/Completion.ts"
import type * as Embedder from "../host/Embedder.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { invalid } from "../storage/Check.ts"
import type * as Embedding from "../storage/Embedding.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"
import * as Attribution from "./Attribution.ts"
import * as DerivedIds from "./DerivedIds.ts"
import { buildExtractionPrompt, clean, readFacts } from "./Extraction.ts"
import * as FactVectors from "./FactVectors.ts"
import * as Limits from "./Limits.ts"
import type { Failure, LeftOut, Options } from "./MemoryPipeline.ts"
import * as Neighbours from "./Neighbours.ts"
import * as Reconciliation from "./Reconciliation.ts"
import * as Turns from "./Turns.ts"

/** What is to be written, and what was. */
export interface Outcome {
  readonly mutations: ReadonlyArray<MemoryMutation>
  readonly applied: ReadonlyArray<Applied>
  readonly failures: ReadonlyArray<Failure>
  readonly leftOut?: LeftOut
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** `write: false` plans, and `applied` is empty. */
export type Apply = (
  viewer: Viewer.Any,
  messages: ReadonlyArray<Message>,
  options: Options,
  write: boolean
) => Io<Outcome>

export const make = ({ completion, embedder, embedding, kinds, store }: {
  readonly store: MemoryStore.Service
  readonly completion: Completion.Service
  readonly embedder: Embedder.Service
  readonly embedding: Embedding.Embedding
  readonly kinds: ReadonlyMap<string, MemoryKind>
}): Apply => {
  const typed = typedAmong(kinds)
  const plain = new Set(Array.from(kinds.keys()).filter((name) => !typed.has(name)))

  /** The model's answer, as `read` understands it. */
  const asked = <A>(
    prompt: Completion.Prompt,
    read: (answer: string) => Either.Either<A, MemoryError.MemoryError>,
    paced: EventLoop.Pacer
  ): Io<A> =>
    Effect.gen(function*() {
      yield* paced(prompt.user.length)
      const answer = yield* completion.complete(prompt)
      yield* paced(answer.length)
      const said = yield* read(answer)
      yield* paced(answer.length)
      return said
    })

  /** Extracts the facts of the turns. `leftOut` counts the facts beyond the limits of one reading. */
  const extract = (turns: ReadonlyArray<Message>, options: Options, paced: EventLoop.Pacer) =>
    Effect.gen(function*() {
      const { customExtract, customInstructions, maxFacts = Limits.maxFacts } = options
      if (turns.length === 0) return { facts: [], leftOut: { facts: 0, characters: 0 } }
      const { leftOut: characters, turns: shown } = customExtract ? { leftOut: 0, turns } : Limits.conversation(turns)
      const said = customExtract
        ? clean(yield* customExtract(turns))
        : yield* asked(buildExtractionPrompt(shown, customInstructions), readFacts, paced)
      const { facts, leftOut } = Limits.facts(said, maxFacts)
      return { facts, leftOut: { facts: leftOut, characters } }
    })

  const vectors = FactVectors.make(embedding)

  return (viewer, messages, options, write) =>
    Effect.gen(function*() {
      const scope = yield* scopeFor(viewer, options)
      const { maxFacts = Limits.maxFacts } = options
      if (!isMaxFacts(maxFacts)) return yield* invalid("remember", "maxFacts: expected an integer of 1..256")
      const turns = Turns.read(messages, options)
      const origin = options.origin ?? "pipeline"
      const trust = Sharing.trustIn(viewer, scope, Turns.trustOf(turns, options.trust)) // the batch may be written by the library
      const apply = (mutations: ReadonlyArray<MemoryMutation>): Io<ReadonlyArray<Applied>> =>
        write && mutations.length > 0
          ? (options.apply ?? store.apply)(viewer, mutations, { origin, trust })
          : Effect.succeed([])

      if (options.infer === false) {
        const attempt = Effect.gen(function*() {
          const turns = Turns.verbatim(messages, scope, options, yield* Clock.currentTimeMillis)
          const mutations = yield* unseen(store, viewer, yield* DerivedIds.settle(store, viewer, turns))
          return { mutations, applied: yield* apply(mutations), failures: [] }
        })
        // whoever was first stored one of them at least: it is not unseen the next time
        return yield* Effect.retry(attempt, { times: messages.length, while: ({ reason }) => reason === "conflict" })
      }

      const { kind = "semantic", sequence, session, supersede = "soft", topK = 5, ttl } = options
      const paced = EventLoop.pacer()
      const { facts, leftOut } = yield* extract(turns, options, paced)
      if (facts.length === 0) return { mutations: [], applied: [], failures: [], leftOut: { ...leftOut, decisions: 0 } }
      const known = yield* vectors.of(facts, paced)
      const queries = facts.map(({ text }) => {
        const vector = known.value.get(text.normalize("NFC"))
        return { text, ...(vector && { embedding: { model: embedder.model, vector: Array.from(vector) } }) }
      })

      const attempt = (isFirst: boolean) =>
        Effect.gen(function*() {
          const before = yield* Clock.currentTimeMillis
          const found = yield* Neighbours.find(store, viewer, {
            scope,
            queries,
            topK,
            trust,
            typed,
            paced,
            now: before
          })
          const existing = found.records
          const said = yield* asked(
            Reconciliation.buildDecisionPrompt(facts, existing),
            (answer) => Reconciliation.readDecision(answer, existing.length),
            paced
          )
          const { kept: decisions, leftOut } = Limits.decisions(said, {
            additions: maxFacts,
            changes: Limits.maxChanges
          })
          const wordsOf = yield* Attribution.cut([
            ...facts.map(({ text }) => text),
            ...existing.map(embeddingText),
            ...decisions.flatMap(({ text }) => text ?? [])
          ], paced)
          const attributed = Attribution.attribute(decisions, facts, existing, wordsOf)
          yield* paced(64 * (existing.length + decisions.length))
          const planned = Reconciliation.applyEvents(attributed, existing, {
            wordsOf,
            scope,
            kind,
            kinds: plain,
            now: yield* Clock.currentTimeMillis,
            supersede,
            ttl: Turns.lifeOf(ttl),
            said: found.said,
            source: { session, sequence: Turns.placeOf(sequence, 0) }
          })
          const mutations = yield* DerivedIds.settle(store, viewer, isFirst ? planned.map(named(kinds)) : planned)
          yield* paced(mutations.length * 1_024)
          if (write) yield* Neighbours.unmoved(store, viewer, [...existing, ...found.said])
          return { mutations, applied: yield* apply(mutations), failures: found.failures, decisions: leftOut }
        })
      const { applied, decisions, failures, mutations } = yield* MemoryError.catchReason(
        "conflict",
        () => attempt(false)
      )(
        attempt(true)
      )
      const kept = yield* vectors.keep(Viewer.tenantOf(viewer), mutations, applied, known.value, paced)
      return {
        mutations,
        applied,
        failures: [...known.failures, ...failures, ...kept.failures],
        leftOut: { ...leftOut, decisions }
      }
    })
}

/**
 * Where the store lets equal records stand side by side, a fact has one id: of several at once one is first, and the
 * others see it as they plan again. Then without, for the id may be that of a closed record.
 */
const named = (kinds: ReadonlyMap<string, MemoryKind>) => (mutation: MemoryMutation): MemoryMutation => {
  if (mutation._tag !== "Put" || mutation.draft.id !== undefined) return mutation
  const { body, kind, scope } = mutation.draft
  if (find(kinds, kind).dedupe) return mutation
  const id = stableId(`fact:${JSON.stringify([MemoryScope.key(scope), kind, Attribution.collapse(body)])}`)
  return { ...mutation, draft: { ...mutation.draft, id }, ifRevision: 0 }
}

/** Without those that are there already. */
const unseen = (store: MemoryStore.Service, viewer: Viewer.Any, turns: ReadonlyArray<MemoryMutation>) =>
  Effect.gen(function*() {
    const ids = turns.flatMap((turn) => turn._tag === "Put" && turn.draft.id !== undefined ? [turn.draft.id] : [])
    const there = new Set(Array.from(yield* store.get(viewer, ids), Option.toArray).flat().map(({ id }) => id))
    return turns.filter((turn) => turn._tag !== "Put" || turn.draft.id === undefined || !there.has(turn.draft.id))
  })

const scopeFor = (
  viewer: Viewer.Any,
  { scope, sharedWrites }: Pick<Options, "scope" | "sharedWrites">
): Io<MemoryScope.MemoryScope> => {
  const message = !isScope(scope)
    ? "scope: expected at least one id, each a ScopeId"
    : !Viewer.sees(viewer, scope)
    ? "scope: the viewer does not see it, so it may not write there"
    : !Sharing.mayWrite(viewer, scope, sharedWrites)
    ? "scope: shared with others, who would read what is remembered there; sharedWrites opens it"
    : undefined
  if (message === undefined) return Effect.succeed(MemoryScope.normalise(scope))
  return MemoryError.make("invalid_scope", { op: "remember", message })
}

const isScope = Schema.is(MemoryScope.MemoryScope)
const isMaxFacts = Schema.is(Limits.MaxFacts)

/** Kinds that a sentence is not enough for: they have their own ways to change. */
const typedAmong = (kinds: ReadonlyMap<string, MemoryKind>): ReadonlySet<string> =>
  new Set(Array.from(kinds.values()).filter(({ schema }) => !Schema.is(schema)({})).map(({ name }) => name))
