/**
 * From turns to a batch of mutations, and the batch to the store.
 *
 * Law: nothing is written before the last model call has answered; then all of it or nothing, and only where every
 * neighbour that the model was shown still stands. Where one has moved on, the plan is made once more.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import { stableId } from "../domain/MemoryId.ts"
import { find, type MemoryKind } from "../domain/MemoryKind.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as Completion from "../host/Completion.ts"
import type * as Embedder from "../host/Embedder.ts"
import type * as Embedding from "../storage/Embedding.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"
import { attribute, collapse } from "./Attribution.ts"
import { buildExtractionPrompt, clean, type Fact, parseFacts } from "./Extraction.ts"
import type { Failure, Options } from "./MemoryPipeline.ts"
import * as Neighbours from "./Neighbours.ts"
import { applyEvents, buildDecisionPrompt, parseDecision } from "./Reconciliation.ts"
import * as Turns from "./Turns.ts"

/** What is to be written, and what was. */
export interface Outcome {
  readonly mutations: ReadonlyArray<MemoryMutation>
  readonly applied: ReadonlyArray<Applied>
  readonly failures: ReadonlyArray<Failure>
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

  const extract = (turns: ReadonlyArray<Message>, { customExtract, customInstructions }: Options) =>
    turns.length === 0
      ? Effect.succeed([])
      : customExtract
      ? Effect.map(customExtract(turns), clean)
      : Effect.map(completion.complete(buildExtractionPrompt(turns, customInstructions)), parseFacts)

  /** The vectors that the facts are searched by, and kept under if they are stored as they are. */
  const embedded = (facts: ReadonlyArray<Fact>) =>
    tolerated(embedding.of(facts.map(({ text }) => text.normalize("NFC")), "add"), new Map())

  const keep = (
    tenant: string,
    mutations: ReadonlyArray<MemoryMutation>,
    applied: ReadonlyArray<Applied>,
    known: Embedding.Vectors
  ) => {
    const records = (isMeant: (mutation: MemoryMutation, outcome: Applied["outcome"]) => boolean) =>
      applied.flatMap(({ outcome, record }, i): ReadonlyArray<MemoryRecord> =>
        record && isMeant(mutations[i]!, outcome) ? [record] : [] // one for each
      )
    const added = records(({ _tag }, outcome) => _tag === "Put" && outcome !== "duplicate")
    const reworded = records((mutation) => mutation._tag === "Update" && mutation.patch.body !== undefined)
    return Effect.zipRight(
      embedding.keep(tenant, added, "add", known),
      embedding.keep(tenant, reworded, "update", known)
    )
  }

  return (viewer, messages, options, write) =>
    Effect.gen(function*() {
      const scope = yield* scopeFor(viewer, options.scope)
      const turns = Turns.read(messages, options)
      const origin = options.origin ?? "pipeline"
      const trust = Turns.trustOf(turns, options.trust)
      const apply = (mutations: ReadonlyArray<MemoryMutation>): Io<ReadonlyArray<Applied>> =>
        write && mutations.length > 0
          ? (options.apply ?? store.apply)(viewer, mutations, { origin, trust })
          : Effect.succeed([])

      if (options.infer === false) {
        const attempt = Effect.gen(function*() {
          const turns = Turns.verbatim(messages, scope, options, yield* Clock.currentTimeMillis)
          const mutations = yield* unseen(store, viewer, turns)
          return { mutations, applied: yield* apply(mutations), failures: [] }
        })
        // whoever was first stored one of them at least: it is not unseen the next time
        return yield* Effect.retry(attempt, { times: messages.length, while: ({ reason }) => reason === "conflict" })
      }

      const { kind = "semantic", sequence, session, supersede = "soft", topK = 5, ttl } = options
      const facts = yield* extract(turns, options)
      if (facts.length === 0) return { mutations: [], applied: [], failures: [] }
      const known = yield* embedded(facts)
      const queries = facts.map(({ text }) => {
        const vector = known.value.get(text.normalize("NFC"))
        return { text, ...(vector && { embedding: { model: embedder.model, vector: Array.from(vector) } }) }
      })

      const attempt = (isFirst: boolean) =>
        Effect.gen(function*() {
          const before = yield* Clock.currentTimeMillis
          const found = yield* Neighbours.find(store, viewer, { scope, queries, topK, trust, typed, now: before })
          const existing = found.records
          const answer = yield* completion.complete(buildDecisionPrompt(facts, existing))
          const planned = applyEvents(attribute(parseDecision(answer, existing.length), facts, existing), existing, {
            scope,
            kind,
            kinds: plain,
            now: yield* Clock.currentTimeMillis,
            supersede,
            ttl: Turns.lifeOf(ttl),
            said: found.said,
            source: { session, sequence: Turns.placeOf(sequence, 0) }
          })
          const mutations = isFirst ? planned.map(named(kinds)) : planned
          if (write) yield* Neighbours.unmoved(store, viewer, [...existing, ...found.said])
          return { mutations, applied: yield* apply(mutations), failures: found.failures }
        })
      const { applied, failures, mutations } = yield* MemoryError.catchReason("conflict", () => attempt(false))(
        attempt(true)
      )
      const kept = yield* tolerated(keep(Viewer.tenantOf(viewer), mutations, applied, known.value), 0)
      return { mutations, applied, failures: [...known.failures, ...failures, ...kept.failures] }
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
  const id = stableId(`fact:${JSON.stringify([MemoryScope.key(scope), kind, collapse(body)])}`)
  return { ...mutation, draft: { ...mutation.draft, id }, ifRevision: 0 }
}

/** Vectors are the better way, not the only one: what went wrong is told, and the words remain. */
const tolerated = <A>(self: Io<A>, otherwise: A) =>
  Effect.match(self, {
    onFailure: (error) => ({ value: otherwise, failures: [{ leg: "vector", error }] }),
    onSuccess: (value) => ({ value, failures: [] as ReadonlyArray<Failure> }) // so that both have one type
  })

/** Without those that are there already. */
const unseen = (store: MemoryStore.Service, viewer: Viewer.Any, turns: ReadonlyArray<MemoryMutation>) =>
  Effect.gen(function*() {
    const ids = turns.flatMap((turn) => turn._tag === "Put" && turn.draft.id !== undefined ? [turn.draft.id] : [])
    const there = new Set(Array.from(yield* store.get(viewer, ids), Option.toArray).flat().map(({ id }) => id))
    return turns.filter((turn) => turn._tag !== "Put" || turn.draft.id === undefined || !there.has(turn.draft.id))
  })

const scopeFor = (viewer: Viewer.Any, scope: MemoryScope.MemoryScope): Io<MemoryScope.MemoryScope> => {
  if (isScope(scope) && Viewer.sees(viewer, scope)) return Effect.succeed(MemoryScope.normalise(scope))
  const message = isScope(scope) ? "a viewer writes only where it sees" : "scope: at least one id, and each a ScopeId"
  return MemoryError.make("invalid_scope", { op: "remember", message })
}

const isScope = Schema.is(MemoryScope.MemoryScope)

/** Kinds that a sentence is not enough for: they have their own ways to change. */
const typedAmong = (kinds: ReadonlyMap<string, MemoryKind>): ReadonlySet<string> =>
  new Set(Array.from(kinds.values()).filter(({ schema }) => !Schema.is(schema)({})).map(({ name }) => name))
