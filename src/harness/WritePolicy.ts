/**
 * The boundary between a model and memory: rules for writes, and plugins that may deny a tool call. The rules apply to `apply`, `put`,
 * `update` and `forget` of the store, and to the pipeline.
 *
 * `layer` wraps a store. The wrapper rejects writes that break `globalWrites`. `sharedWrites` has no effect there, since no write counts as
 * a model's. The wrapper also publishes an event for each change and each failed write. Reads are not restricted.
 *
 * ```text
 * globalWrites: "deny"   a write that creates, changes, forgets, restores or purges a Global record fails with `not_owned`
 * sharedWrites           a model may write only scopes that `Viewer.mayWrite` allows. Any other write of a model fails: with `not_owned` if
 *                        it changes an existing record, with `invalid_scope` if it creates a record
 * ```
 *
 * Every store, with or without these rules, rejects changes of records that the viewer does not see, or that are read-only.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import { ExactFilter, type MemoryFilter, type MemoryQuery, type SearchResult } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import { isPurge } from "../domain/MemoryMutation.ts"
import type { MemoryRecord, Origin } from "../domain/MemoryRecord.ts"
import { Global, MemoryScope } from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import * as Validation from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import * as HarnessPlugin from "../host/HarnessPlugin.ts"
import * as MemoryTool from "../host/MemoryTool.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as MemoryEvents from "./MemoryEvents.ts"
import type { MemorySpec } from "./MemorySpec.ts"
import * as OutboxLog from "./Outbox/OutboxLog.ts"
import * as RateLimit from "./RateLimit.ts"
import * as ThreadWrites from "./Threads/ThreadWrites.ts"

/** The fields of a `MemorySpec` that restrict writes. */
export interface WriteRules extends Pick<MemorySpec, "globalWrites" | "sharedWrites"> {}

/** Options of a store with write rules. */
export interface Options {
  readonly rules: WriteRules
  readonly events: MemoryEvents.EventPublisher
  /**
   * Origin of the writes. `agent` and `pipeline` stand for a model; the rule `sharedWrites` restricts only these two. Default `user`, which
   * also stands for the harness.
   */
  readonly origin?: Origin | undefined
  /** Name of the operation in errors. Default: the name of the called method. */
  readonly op?: string | undefined
}

/** Wraps a store so that its writes obey the rules and publish events. */
export const make = (store: MemoryStore.Service, policy: Options): MemoryStore.Service => ({
  ...store,
  apply: (viewer, mutations, provenance) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "apply", viewer, () => mutations),
        store.apply(viewer, mutations, provenance)
      ),
      (applied) => applied.map((change, i) => ({ ...change, purged: isPurge(mutations[i]!) })) // one result per mutation
    ),
  put: (viewer, drafts, options) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "put", viewer, () => drafts.map((draft) => ({ _tag: "Put", draft }))),
        store.put(viewer, drafts, options)
      ),
      MemoryEvents.changesOf
    ),
  update: (viewer, id, patch, options) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "update", viewer, () => [{ _tag: "Update", id }]),
        store.update(viewer, id, patch, options)
      ),
      (record) => [{ id, outcome: "updated", record }]
    ),
  forget: (viewer, ids, { purge = false } = {}) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "forget", viewer, () => ids.map((id) => ({ _tag: "Forget", id, purge }))),
        store.forget(viewer, ids, { purge })
      ),
      (there) => ids.map((id, i) => ({ id, outcome: there[i] ? "forgotten" : "absent", purged: purge }))
    )
})

/**
 * Wraps the `MemoryStore` of the Effect context. Applies only the rule `globalWrites`, since no write counts as a model's. Publishes events
 * to `MemoryEvents` if that service is provided.
 */
export const layer = (rules: WriteRules): Layer.Layer<MemoryStore.MemoryStore, never, MemoryStore.MemoryStore> =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.gen(function*() {
      const listeners = yield* Effect.serviceOption(MemoryEvents.MemoryEvents)
      const publish = Option.match(listeners, { onNone: () => () => Effect.void, onSome: ({ publish }) => publish })
      return make(yield* MemoryStore.MemoryStore, { rules, events: MemoryEvents.makePublisher(publish) })
    })
  )

/** Fails with `not_owned` if the scope is Global and the rules have `globalWrites: "deny"`. */
export const mayWrite = (
  { globalWrites }: WriteRules,
  op: string,
  scope: MemoryScope
): Effect.Effect<void, MemoryError.MemoryError> =>
  globalWrites === "deny" && scope === Global ? deniedGlobal(op) : Effect.void

/**
 * Forgets all matching records that the viewer may forget, in batches of 1,000. Returns their number. With `purge`, erases these records,
 * and also matching records in the trash, which are not counted. If the filter has no condition besides the scope, a purge first erases the
 * threads and waiting messages that the viewer may erase. So no memories are extracted from the messages meanwhile.
 */
export const forgetAll = (
  store: MemoryStore.Service,
  { events, rules }: Pick<Options, "events" | "rules">,
  viewer: Viewer.Viewer,
  filter: MemoryFilter,
  options?: { readonly purge?: boolean | undefined }
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    yield* Validation.check("forgetAll", ExactFilter, filter)
    const purge = options?.purge ?? false
    yield* Validation.refuseOptions("forgetAll", typeof purge === "boolean" ? [] : ["purge: expected a boolean"])
    if (purge && OutboxLog.selectsWaiting(filter)) {
      yield* OutboxLog.purge(store, viewer, filter.scope)
      yield* ThreadWrites.purge(store, viewer, filter.scope)
    }
    const governed = make(store, { rules, events, op: "forgetAll" })
    // reads as the system, since the viewer's data include records that are expired, not yet valid or no longer valid
    const system = Viewer.system(viewer.tenant)
    const isClosed = ({ scope, source }: MemoryRecord) =>
      source.origin === "instructions" || (rules.globalWrites === "deny" && scope === Global)
    const forgetEach = (forgotten: boolean) =>
      store.stream(system, { ...filter, forgotten, limit: 1_000, after: undefined }).pipe(
        Stream.filter((record) => Viewer.sees(viewer, record.scope) && !isClosed(record)),
        Stream.map(({ id }) => id),
        Stream.grouped(1_000),
        Stream.runCollect,
        Effect.flatMap(Effect.forEach((ids) => governed.forget(viewer, Chunk.toReadonlyArray(ids), { purge })))
      )
    const there = filter.forgotten === true ? [] : yield* forgetEach(false)
    // erases the matching records that were already in the trash before this call
    if (purge) yield* forgetEach(true)
    return there.flat().filter(Boolean).length
  })

/** Schema of the fields of a mutation that the rules read. */
const Readable = Schema.Union(
  Schema.TaggedStruct("Put", { draft: Schema.Struct({ id: Schema.optional(MemoryId), scope: MemoryScope }) }),
  Schema.TaggedStruct("Update", { id: MemoryId }),
  Schema.TaggedStruct("Forget", { id: MemoryId, purge: Schema.optional(Schema.Boolean) }),
  Schema.TaggedStruct("Restore", { id: MemoryId, revision: Schema.NonNegativeInt })
)

/**
 * Fails if the rules forbid a mutation. Reads the affected records only if a rule might forbid the write. A `Put` also affects the forgotten
 * record that has the draft's id. Malformed mutations are passed over, since the store refuses every batch that contains one.
 */
const check = (
  store: MemoryStore.Service,
  { op: named, origin, rules }: Options,
  called: string,
  viewer: Viewer.Any,
  mutations: () => ReadonlyArray<unknown>
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const op = named ?? called
    const isModels = origin === "agent" || origin === "pipeline"
    if (rules.globalWrites !== "deny" && !isModels) return
    const all = mutations()
    const readable = Array.isArray(all) ? all.filter(Schema.is(Readable)) : []
    const isClosed = (scope: MemoryScope) => isModels && !Viewer.mayWrite(viewer, scope, rules.sharedWrites)
    const standing = ({ scope, source }: MemoryRecord) =>
      source.origin === "instructions"
        ? Effect.void
        : Effect.zipRight(mayWrite(rules, op, scope), isClosed(scope) ? closedRecord(op) : Effect.void)
    const idOf = (one: typeof Readable.Type) => one._tag === "Put" ? one.draft.id : one.id

    const found = Array.from(yield* store.get(viewer, readable.flatMap((one) => idOf(one) ?? [])), Option.toArray)
      .flat()
    yield* Effect.forEach(found, standing)
    for (const one of readable) {
      if (one._tag !== "Put") continue
      yield* mayWrite(rules, op, one.draft.scope)
      if (Viewer.sees(viewer, one.draft.scope) && isClosed(one.draft.scope)) return yield* closedScope(op)
    }
    const live = new Set(found.map(({ id }) => id))
    for (const one of readable) {
      const id = idOf(one)
      const revision = one._tag === "Restore" ? one.revision : undefined
      const isPast = one._tag === "Restore" || one._tag === "Put" || (one._tag === "Forget" && one.purge === true)
      if (id === undefined || !isPast || (revision === undefined && live.has(id))) continue
      const revisions = yield* store.history(Viewer.system(viewer.tenant), id, revision === undefined ? 1 : 1_000)
      const visible = revisions[0] !== undefined && Viewer.sees(viewer, revisions[0].scope) // an invisible record counts as absent
      const meant = revision === undefined ? revisions[0] : revisions.find((found) => found.revision === revision)
      if (visible && meant) yield* standing(meant)
    }
  })

const deniedGlobal = (op: string) =>
  MemoryError.make("not_owned", {
    op,
    message: "Global memory may not be changed: globalWrites of the spec is \"deny\""
  })
const closedRecord = (op: string) => MemoryError.make("not_owned", { op, message: `the record is shared: ${closed}` })
const closedScope = (op: string) => MemoryError.make("invalid_scope", { op, message: `the scope is shared: ${closed}` })
const closed =
  "a model writes only scopes that hold the user, or every id of a viewer without one; sharedWrites of the spec opens more"

/** The pipeline of `MemoryService`. A language model and an embedder are used if they are provided. Writes and searches publish events. */
export interface Remembering {
  readonly remember: (
    viewer: Viewer.Viewer,
    turns: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Effect.Effect<MemoryPipeline.Receipt, MemoryError.MemoryError>
  readonly plan: (
    viewer: Viewer.Viewer,
    turns: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Effect.Effect<MemoryPipeline.Receipt, MemoryError.MemoryError>
  readonly undo: (
    viewer: Viewer.Viewer,
    receipt: MemoryPipeline.Receipt
  ) => Effect.Effect<void, MemoryError.MemoryError>
  readonly recall: (viewer: Viewer.Viewer, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /** Computes vectors of the records. Never fails. An error is published as an event, and `embedMissing` computes the vectors later. */
  readonly embed: (viewer: Viewer.Viewer, records: ReadonlyArray<MemoryRecord>) => Effect.Effect<void>
  readonly embedMissing: Effect.Effect<number, MemoryError.MemoryError>
  /** Names of the language model and of the embedder. `null` means that none was provided when the pipeline was made. */
  readonly found: { readonly completion: string | null; readonly embedder: string | null }
}

const noEmbedder = () => MemoryError.make("unsupported", { op: "embed", message: Embedder.missing })

/** Makes the pipeline over the `MemoryStore` of the Effect context, under the write rules. */
export const makeRemembering = (
  { events, rules }: Pick<Options, "events" | "rules">
): Effect.Effect<Remembering, never, MemoryStore.MemoryStore> =>
  Effect.gen(function*() {
    const { sharedWrites = [] } = rules
    const { degraded } = events
    const withSharedWrites = (options: MemoryPipeline.Options) =>
      Predicate.isRecord(options) ? { ...options, sharedWrites } : options // the pipeline refuses options that are no object
    const store = yield* MemoryStore.MemoryStore
    const completion = yield* Effect.serviceOption(Completion.Completion)
    const embedder = yield* Effect.serviceOption(Embedder.Embedder)
    const pipeline = yield* Effect.provide(
      MemoryPipeline.make,
      Layer.merge(
        Option.match(completion, { onNone: () => Completion.layerNone, onSome: Layer.succeed(Completion.Completion) }),
        Option.match(embedder, { onNone: () => Embedder.layerNone, onSome: Layer.succeed(Embedder.Embedder) })
      )
    )
    let isReported = false
    const legs = (viewer: Viewer.Viewer, failures: MemoryPipeline.Receipt["failures"] = []) =>
      Effect.forEach(failures, ({ error, leg }) => degraded(viewer, leg)(error), { discard: true })

    return {
      remember: (viewer, turns, options) =>
        events.write(
          viewer,
          Effect.zipRight(
            mayWrite(rules, "remember", options?.scope),
            pipeline.remember(viewer, turns, withSharedWrites(options))
          ),
          ({ applied }) => applied
        ).pipe(Effect.tap(({ failures }) => legs(viewer, failures))),
      plan: (viewer, turns, options) =>
        Effect.zipRight(
          mayWrite(rules, "plan", options?.scope),
          pipeline.plan(viewer, turns, withSharedWrites(options))
        ),
      undo: (viewer, receipt) =>
        Effect.gen(function*() {
          yield* MemoryPipeline.verify(store, receipt)
          if (!Viewer.equals(viewer, receipt.viewer)) {
            const message = "a receipt is undone by the viewer it was made for"
            return yield* MemoryError.make("not_owned", { op: "undo", message })
          }
          const mutations = MemoryPipeline.inverse(receipt, yield* Clock.currentTimeMillis)
          const governed = make(store, { rules, events, op: "undo" })
          if (mutations.length > 0) yield* governed.apply(viewer, mutations)
        }),
      recall: (viewer, query) =>
        events.recall(viewer, query, pipeline.recall(viewer, query)).pipe(
          Effect.tap(({ failures }) => legs(viewer, failures))
        ),
      embed: (viewer, records) =>
        Option.isNone(embedder) && !isReported
          ? Effect.suspend(() => {
            isReported = true
            return degraded(viewer, "vector")(noEmbedder())
          })
          : Effect.catchAll(pipeline.embed(viewer, records), degraded(viewer, "vector")),
      embedMissing: Option.isNone(embedder)
        ? Effect.zipLeft(pipeline.embedMissing, Effect.logWarning(`memory: no vectors; ${Embedder.missing}`))
        : pipeline.embedMissing,
      found: {
        completion: Option.match(completion, { onNone: () => null, onSome: ({ model }) => model }),
        embedder: Option.match(embedder, { onNone: () => null, onSome: ({ model }) => model })
      }
    }
  })

/**
 * Wraps tools so that the plugins are asked, in order, before a tool is called. `signal` tells all plugins of an event.
 *
 * The texts of a tool's results and failures are made safe for a prompt (`MemoryTool.visible`). This also applies to tools of other
 * libraries.
 *
 * A plugin's crash is logged. If a plugin crashes while it decides on a call, the call is denied. A crash on an event does not stop a turn.
 */
export interface ToolGuard {
  readonly tool: (viewer: Viewer.Viewer, tool: MemoryTool.MemoryTool) => MemoryTool.MemoryTool
  readonly signal: (signal: HarnessPlugin.Signal) => Effect.Effect<void>
}

/**
 * Makes a tool guard. A denied call fails with the plugin's message, and the event `memory_denied` is published. The failure's reason is
 * `rate_limited` if the write limit denies the call, and `unsupported` if another plugin does.
 */
export const makeToolGuard = (
  plugins: ReadonlyArray<HarnessPlugin.HarnessPlugin>,
  events: Pick<MemoryEvents.EventPublisher, "denied">
): ToolGuard => {
  const ask = (plugin: HarnessPlugin.HarnessPlugin, call: HarnessPlugin.ToolCall) =>
    Effect.suspend(() => plugin.beforeToolCall?.(call) ?? Effect.succeed(HarnessPlugin.allow)).pipe(
      Effect.filterOrDieMessage((verdict) => ["allow", "deny"].includes(verdict.kind), "the plugin gave no verdict"),
      Effect.catchAllCause((cause) =>
        Effect.as(
          Effect.logWarning(`plugin ${plugin.id} died when asked about ${call.tool}`, cause),
          HarnessPlugin.deny("the call could not be checked")
        )
      )
    )

  const admit = (call: HarnessPlugin.ToolCall): Effect.Effect<void, MemoryTool.Failure> =>
    Effect.forEach(plugins, (plugin, n) =>
      Effect.gen(function*() {
        const verdict = yield* ask(plugin, call)
        if (verdict.kind === "allow") return
        const { reason: message } = verdict
        yield* tell("a refusal", ({ onRefused }) => onRefused?.(call), plugins.slice(0, n)) // these had allowed the call
        yield* events.denied(call, plugin.id, message)
        return yield* Effect.fail(
          MemoryTool.failure(plugin.id === RateLimit.id ? "rate_limited" : "unsupported", message)
        )
      }), { discard: true })

  const tell = (
    event: string,
    f: (plugin: HarnessPlugin.HarnessPlugin) => Effect.Effect<void> | undefined,
    among = plugins
  ) =>
    Effect.forEach(among, (plugin) =>
      Effect.suspend(() => f(plugin) ?? Effect.void).pipe(
        Effect.catchAllCause((cause) => Effect.logWarning(`plugin ${plugin.id} died of ${event}`, cause))
      ), { discard: true })

  return {
    tool: (viewer, tool) => ({
      ...tool,
      call: (input) =>
        Effect.suspend(() => {
          const writes = tool.isWrite === undefined ? tool.writes : tool.isWrite(input)
          const call: HarnessPlugin.ToolCall = { tool: tool.name, writes, viewer, input }
          return Effect.zipRight(
            admit(call),
            Effect.tapError(MemoryTool.visible(tool.call(input)), ({ reason, written }) =>
              isValidation(reason) && written === undefined
                ? tell("a refusal", ({ onRefused }) =>
                  onRefused?.(call))
                : Effect.void)
          )
        })
    }),
    signal: (signal) => tell(signal._tag, ({ onEvent }) => onEvent?.(signal))
  }
}

/** Whether a failure is caused by wrong arguments, which a model can correct at once. */
const isValidation = (reason: MemoryTool.Failure["reason"]): boolean =>
  reason === "invalid_draft" || reason === "invalid_scope" || reason === "invalid_id" || reason === "path_escape"
