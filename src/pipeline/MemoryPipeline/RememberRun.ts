/**
 * One run of `remember`: makes a batch of mutations from messages, and writes the batch to the store.
 *
 * Law: nothing is written before the last call of the model has returned. The batch is then written as a whole. If a memory in the prompt
 * has changed since it was read, nothing is written. The run then plans a new batch, once.
 *
 * The id of a message is derived from its number in the session, and the id of a fact from its text. The id of a successor is derived from
 * the replaced record. Any viewer of the tenant can compute these ids. So a record that the viewer of the run does not see may already
 * have one of them. The run then uses an id that only the store can compute. In this module, a turn is a message to process.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../domain/MemoryId.ts"
import { find, type MemoryKind } from "../../domain/MemoryKind.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import { collapseSpace, embeddingText, type Trust } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import { type Message, usableId } from "../../domain/Message.ts"
import { invalid } from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Completion from "../../host/Completion.ts"
import type * as Embedder from "../../host/Embedder.ts"
import * as EventLoop from "../../host/EventLoop.ts"
import * as EmbeddingSync from "../../storage/EmbeddingSync.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import { buildExtractionPrompt, cut, type Fact, readFacts, textOf } from "../Extraction.ts"
import * as Extraction from "../Extraction.ts"
import type { Failure, LeftOut, Options } from "../MemoryPipeline.ts"
import * as Reconciliation from "../Reconciliation.ts"
import * as RelatedMemories from "./RelatedMemories.ts"

/** The result of a run: the planned batch, and the outcomes of its mutations in the store. */
export interface Outcome {
  readonly mutations: ReadonlyArray<MemoryMutation>
  /** Outcome of each mutation; empty if the run only plans. */
  readonly applied: ReadonlyArray<Applied>
  readonly failures: ReadonlyArray<Failure>
  readonly leftOut?: LeftOut
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Remembers messages. If `write` is false, plans the batch and writes nothing. */
export type RememberRun = (
  viewer: Viewer.Any,
  messages: ReadonlyArray<Message>,
  options: Options,
  write: boolean
) => Io<Outcome>

/** The dependencies of all runs. */
interface Services {
  readonly store: MemoryStore.Service
  readonly completion: Completion.Service
  readonly embedder: Embedder.Service
  readonly kinds: ReadonlyMap<string, MemoryKind>
}

/** The arguments of one run. */
interface Request {
  readonly viewer: Viewer.Any
  readonly messages: ReadonlyArray<Message>
  /** The messages with text. If a model extracts the facts, messages of tools and of the system are left out. */
  readonly turns: ReadonlyArray<Message>
  readonly options: Options
  readonly maxFacts: number
  readonly scope: MemoryScope.MemoryScope
  readonly trust: Trust
  readonly write: boolean
  /** Writes a batch, and returns the outcomes. If the run only plans, writes nothing, and returns no outcomes. */
  readonly apply: (mutations: ReadonlyArray<MemoryMutation>) => Io<ReadonlyArray<Applied>>
}

/** Makes the function that runs `remember` and `plan`. */
export const make = (
  { embedding, ...services }: Services & { readonly embedding: EmbeddingSync.EmbeddingSync }
): RememberRun => {
  const vectors = RelatedMemories.makeVectors(embedding)
  const typed = typedAmong(services.kinds)
  return (viewer, messages, options, write) =>
    Effect.gen(function*() {
      const scope = yield* scopeFor(viewer, options)
      const { maxFacts = Extraction.maxFacts } = options
      const turns = turnsToRead(messages, options)
      const origin = options.origin ?? "pipeline"
      // a custom `options.apply` may write as `System`. The store does not limit the trust of `System`, so `trustIn` limits it here
      const trust = Viewer.trustIn(viewer, scope, trustOf(turns, options.trust))
      const apply: Request["apply"] = (mutations) =>
        write && mutations.length > 0
          ? (options.apply ?? services.store.apply)(viewer, mutations, { origin, trust })
          : Effect.succeed([])
      const request = { viewer, messages, turns, options, maxFacts, scope, trust, write, apply }
      return options.infer === false
        ? yield* storeTurns(services, request)
        : yield* storeFacts(services, vectors, typed, request)
    })
}

/** Stores the messages word for word, except blank messages and messages that are already stored. */
const storeTurns = ({ store }: Services, { apply, messages, options, scope, viewer }: Request): Io<Outcome> => {
  const attempt = Effect.gen(function*() {
    const turns = verbatim(messages, scope, options, yield* Clock.currentTimeMillis)
    const used = turns.flatMap((turn) => turn._tag === "Put" ? turn.draft.source?.sequence ?? [] : [])
    if (new Set(used).size < used.length) return yield* invalid("remember", "sequence: give messages different numbers")
    const mutations = yield* withoutStored(store, viewer, yield* withFreeIds(store, viewer, turns))
    return { mutations, applied: yield* apply(mutations), failures: [] }
  })
  // a conflict means that another run has stored one of the messages; the next attempt skips that message
  return Effect.retry(attempt, { times: messages.length, while: ({ reason }) => reason === "conflict" })
}

/** Extracts facts, compares them with related memories, and writes the changes. Also stores vectors of added and reworded records. */
const storeFacts = (
  services: Services,
  vectors: RelatedMemories.FactVectors,
  typed: ReadonlySet<string>,
  request: Request
): Io<Outcome> =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const { facts, leftOut } = yield* extract(services, request, paced)
    if (facts.length === 0) return { mutations: [], applied: [], failures: [], leftOut: { ...leftOut, decisions: 0 } }
    const known = yield* vectors.of(facts, paced)
    const attempt = (isFirst: boolean) =>
      reconcile(services, request, { facts, vectors: known.value, typed, isFirst, paced })
    const { applied, decisions, failures, mutations } = yield* MemoryError.catchReason(
      "conflict",
      () => attempt(false)
    )(attempt(true))
    const kept = yield* vectors.keep(Viewer.tenantOf(request.viewer), mutations, applied, known.value, paced)
    return {
      mutations,
      applied,
      failures: [...known.failures, ...failures, ...kept.failures],
      leftOut: { ...leftOut, decisions }
    }
  })

/** Extracts the facts from the messages. `leftOut` has the numbers of facts and characters beyond the limits of a run. */
const extract = (services: Services, { maxFacts, options, turns }: Request, paced: EventLoop.Pacer) =>
  Effect.gen(function*() {
    const { customExtract, customInstructions } = options
    if (turns.length === 0) return { facts: [], leftOut: { facts: 0, characters: 0 } }
    const { leftOut: characters, turns: shown } = customExtract
      ? { leftOut: 0, turns }
      : Extraction.fitConversation(turns)
    const extracted = customExtract
      ? yield* Extraction.extracted(yield* customExtract(turns), maxFacts, paced)
      : {
        facts: yield* asked(services, buildExtractionPrompt(shown, customInstructions), readFacts, paced),
        leftOut: 0
      }
    const { facts, leftOut } = Extraction.firstFacts(extracted.facts, maxFacts)
    return { facts, leftOut: { facts: extracted.leftOut + leftOut, characters } }
  })

/**
 * Finds related memories, asks the model how the facts change them, and writes the changes. If there is no model, adds each fact, unless a
 * related memory has the same text.
 */
const reconcile = (
  services: Services,
  { apply, maxFacts, options, scope, trust, viewer, write }: Request,
  { facts, isFirst, paced, typed, vectors }: {
    readonly facts: ReadonlyArray<Fact>
    readonly vectors: EmbeddingSync.VectorsByText
    /** Names of the kinds whose `data` cannot be empty. A fact is plain text, so it cannot have such a kind. */
    readonly typed: ReadonlySet<string>
    /** Whether this is the first attempt of the run. The second attempt, after a conflict, does not use the ids of `withDerivedId`. */
    readonly isFirst: boolean
    readonly paced: EventLoop.Pacer
  }
) =>
  Effect.gen(function*() {
    const { embedder, kinds, store } = services
    const { kind = "semantic", sequence, session, supersede = "soft", topK = 5, ttl } = options
    const now = yield* Clock.currentTimeMillis
    const queries = facts.map(({ text }) => {
      const vector = vectors.get(text.normalize("NFC"))
      return { text, ...(vector && { embedding: EmbeddingSync.queryOf(embedder, vector) }) }
    })
    const found = yield* RelatedMemories.find(store, viewer, { scope, queries, topK, trust, typed, paced, now })
    const existing = found.records
    const all = Completion.isNone(services.completion) ? facts.map(Reconciliation.added) : yield* asked(
      services,
      Reconciliation.buildDecisionPrompt(facts, existing),
      (answer) => Reconciliation.readDecision(answer, existing.length),
      paced
    )
    const { kept: decisions, leftOut } = Extraction.firstDecisions(all, maxFacts, existing)
    const wordsOf = yield* cut([
      ...facts.map(({ text }) => text),
      ...existing.map(embeddingText),
      ...decisions.flatMap(({ text }) => text ?? [])
    ], paced)
    const [attributed, rescued] = Reconciliation.attribute(decisions, facts, existing, wordsOf)
    // `rescued` comes first, so that the limit keeps all of these facts: each of them replaces a deleted memory
    const { kept, leftOut: excess } = Extraction.firstDecisions([...rescued, ...attributed], maxFacts, existing)
    yield* paced(64 * (existing.length + decisions.length))
    const final = [...attributed, ...rescued].filter((one) => kept.includes(one))
    const planned = Reconciliation.applyEvents(final, existing, {
      wordsOf,
      scope,
      kind,
      kinds: new Set(Array.from(kinds.keys()).filter((name) => !typed.has(name))),
      now: yield* Clock.currentTimeMillis,
      supersede,
      ttl: lifeOf(ttl),
      repeated: found.repeated,
      source: { session, sequence: sequenceOf(sequence, 0) }
    })
    const derived = planned.map(withDerivedId(kinds))
    const isNews = yield* areNew(store, viewer, derived, now)
    const mutations = yield* withFreeIds(store, viewer, (isFirst ? derived : planned).filter((_, i) => isNews[i]))
    yield* paced(mutations.length * 1_024)
    if (write) yield* RelatedMemories.requireUnchanged(store, viewer, [...existing, ...found.repeated])
    return { mutations, applied: yield* apply(mutations), failures: found.failures, decisions: leftOut + excess }
  })

/** Sends a prompt to the model, and parses the answer. */
const asked = <A>(
  { completion }: Services,
  prompt: Completion.Prompt,
  read: (answer: string) => Either.Either<A, MemoryError.MemoryError>,
  paced: EventLoop.Pacer
): Io<A> =>
  Effect.gen(function*() {
    yield* paced(prompt.user.length)
    const answer = yield* Completion.ask(completion, prompt)
    yield* paced(answer.length)
    const parsed = yield* read(answer)
    yield* paced(answer.length)
    return parsed
  })

/** Returns the scope to write to. Fails with `invalid_scope` if the scope is invalid, or if the viewer may not write there. */
const scopeFor = (
  viewer: Viewer.Any,
  { scope, sharedWrites }: Pick<Options, "scope" | "sharedWrites">
): Io<MemoryScope.MemoryScope> => {
  const message = !isScope(scope)
    ? "scope: expected at least one id, each a ScopeId"
    : !Viewer.sees(viewer, scope)
    ? "scope: the viewer does not see it, so it may not write there"
    : !Viewer.mayWrite(viewer, scope, sharedWrites)
    ? "scope: shared with others, who would read what is remembered there; sharedWrites opens it"
    : undefined
  if (message === undefined) return Effect.succeed(MemoryScope.normalise(scope))
  return MemoryError.make("invalid_scope", { op: "remember", message })
}

const isScope = Schema.is(MemoryScope.MemoryScope)

/** Returns the names of the kinds whose `data` cannot be empty. A fact is plain text, so it cannot have such a kind. */
const typedAmong = (kinds: ReadonlyMap<string, MemoryKind>): ReadonlySet<string> =>
  new Set(Array.from(kinds.values()).filter(({ schema }) => !Schema.is(schema)({})).map(({ name }) => name))

/** Returns the messages with text. If a model extracts the facts, leaves out messages of tools and of the system. */
const turnsToRead = (
  messages: ReadonlyArray<Message>,
  { customExtract, infer }: Pick<Options, "customExtract" | "infer">
): ReadonlyArray<Message> =>
  messages.filter((message) =>
    textOf(message) !== "" && (infer === false || customExtract || !(isTool(message) || message.role === "system"))
  )

/**
 * Returns the trust level of facts from these messages; a higher number means less trusted. The level is 3 if one of the messages is from a
 * tool. Otherwise the level is `stated`, but 1 if `stated` is 0.
 */
const trustOf = (turns: ReadonlyArray<Message>, stated: Trust = 1): Trust =>
  turns.some(isTool) ? 3 : stated === 0 ? 1 : stated

/**
 * Returns a Put for each message with text. The Put stores the text word for word, with the speaker's role in `metadata`. A message with a
 * sequence number is stored only once: its id is derived from scope, session, `conversation` and sequence number.
 */
const verbatim = (
  messages: ReadonlyArray<Message>,
  scope: MemoryScope.MemoryScope,
  { conversation, kind = "episodic", sequence, session, ttl }: Options,
  now: number
): ReadonlyArray<MemoryMutation> =>
  messages.flatMap((message, i): ReadonlyArray<MemoryMutation> => {
    const body = textOf(message)
    if (body === "") return []
    const { actorId, at, role } = message
    const position = sequenceOf(sequence, i)
    const key = [MemoryScope.key(scope), session ?? "", position, ...conversation === undefined ? [] : [conversation]]
    const life = lifeOf(ttl)
    return [{
      _tag: "Put",
      draft: {
        ...(position !== undefined && { id: stableId(`turn:${JSON.stringify(key)}`) }),
        scope,
        kind,
        body,
        metadata: { [Extraction.turnMark]: role, ...(actorId !== undefined && { actorId }) },
        validAt: at === undefined || !(at >= 0) ? now : Math.min(Math.floor(at), now),
        ...(life > 0 && { expiresAt: now + life }),
        source: { reference: usableId(message), session, actor: speakerOf(message), sequence: position }
      },
      ...(position !== undefined && { ifRevision: 0 })
    }]
  })

/** Returns the speaker's name; without a name, the id; without both, the role. A user without both gives `undefined`. */
const speakerOf = ({ actorId, name, role }: Message): string | undefined =>
  name?.slice(0, 1_024).toWellFormed() || actorId || (role === "user" ? undefined : role)

/** Returns the sequence number of the i-th message; `undefined` if it has none. */
const sequenceOf = (sequence: Options["sequence"], i: number): number | undefined =>
  typeof sequence === "number" ? sequence + i : sequence?.[i]

/** Returns the time until expiry in milliseconds, rounded up; 0 if there is no expiry. */
const lifeOf = (ttl: Duration.DurationInput | undefined): number => {
  const millis = ttl === undefined ? 0 : Duration.toMillis(ttl)
  return Number.isFinite(millis) ? Math.ceil(millis) : 0
}

const isTool = ({ role, tool }: Message): boolean => role === "tool" || tool === true

/**
 * Gives a Put of a new fact an id derived from scope, kind and text. A Put of a kind that deduplicates records is not changed. If
 * concurrent runs add the same fact, one run succeeds. Every other run gets a conflict, plans again, and finds the fact among the related
 * memories. The second plan has no such ids. Otherwise, a record that is no longer valid might have the id and cause another conflict.
 */
const withDerivedId = (kinds: ReadonlyMap<string, MemoryKind>) => (mutation: MemoryMutation): MemoryMutation => {
  if (mutation._tag !== "Put" || mutation.draft.id !== undefined) return mutation
  const { body, kind, scope } = mutation.draft
  if (find(kinds, kind).dedupe) return mutation
  const id = stableId(`fact:${JSON.stringify([MemoryScope.key(scope), kind, collapseSpace(body)])}`)
  return { ...mutation, draft: { ...mutation.draft, id }, ifRevision: 0 }
}

/** Tells if each mutation is needed. A Put with a future `validAt` is not needed if its text is stored under its id and valid by then. */
const areNew = (
  store: Pick<MemoryStore.Service, "get">,
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>,
  now: number
): Effect.Effect<ReadonlyArray<boolean>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const ids = mutations.flatMap((mutation) =>
      mutation._tag === "Put" && (mutation.draft.validAt ?? now) > now ? mutation.draft.id ?? [] : []
    )
    if (ids.length === 0) return mutations.map(() => true)
    const byId = new Map((yield* store.get(viewer, ids)).flatMap(Option.toArray).map((record) => [record.id, record]))
    return mutations.map((mutation) => {
      if (mutation._tag !== "Put") return true
      const { body, id, validAt = 0 } = mutation.draft
      const record = id && byId.get(id)
      return !record || record.invalidAt !== undefined || record.validAt > validAt ||
        collapseSpace(record.body) !== collapseSpace(body)
    })
  })

/** Returns the mutations for messages that are not stored yet. */
const withoutStored = (store: MemoryStore.Service, viewer: Viewer.Any, turns: ReadonlyArray<MemoryMutation>) =>
  Effect.gen(function*() {
    const ids = turns.flatMap((turn) => turn._tag === "Put" && turn.draft.id !== undefined ? [turn.draft.id] : [])
    const there = new Set(Array.from(yield* store.get(viewer, ids), Option.toArray).flat().map(({ id }) => id))
    return turns.filter((turn) => turn._tag !== "Put" || turn.draft.id === undefined || !there.has(turn.draft.id))
  })

/**
 * Replaces the id of a Put if the id belongs to a record that the viewer does not see. Only the store can compute the new id. The old id is
 * also replaced in the `supersededBy` of an Update. Cost: one `get` for all Puts.
 */
const withFreeIds = (
  store: Pick<MemoryStore.Service, "get" | "sign">,
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>
): Effect.Effect<ReadonlyArray<MemoryMutation>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : [])
    if (ids.length === 0) return mutations
    const found = yield* store.get(Viewer.system(viewer.tenant), ids)
    const foreign = ids.filter((_, i) => Option.exists(found[i]!, ({ scope }) => !Viewer.sees(viewer, scope))) // one result per id
    const others = new Map<MemoryId, MemoryId>()
    for (const id of foreign) others.set(id, stableId(yield* store.sign("derived id", id)))
    return others.size === 0 ? mutations : mutations.map((mutation) => renamed(mutation, others))
  })

const renamed = (mutation: MemoryMutation, others: ReadonlyMap<MemoryId, MemoryId>): MemoryMutation => {
  const id = mutation._tag === "Put" ? mutation.draft.id && others.get(mutation.draft.id) : undefined
  if (mutation._tag === "Put" && id) return { ...mutation, draft: { ...mutation.draft, id } }
  const heir = mutation._tag === "Update" && mutation.patch.supersededBy && others.get(mutation.patch.supersededBy)
  return mutation._tag === "Update" && heir
    ? { ...mutation, patch: { ...mutation.patch, supersededBy: heir } }
    : mutation
}
