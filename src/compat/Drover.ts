/**
 * The interface of `@drover/memory`, for code that was written for drover. The module has drover's `MemoryAdapter`, implemented over a
 * `MemoryStore`, and drover's functions under their own names. A vault (folder of Markdown files) that drover wrote needs no adapter:
 * `Markdown.layer` opens the vault unchanged.
 *
 * The methods of an adapter return effects, as in drover. `docs/compat.md` lists the deliberate differences from drover, with a test of
 * each. For example, a search without an agent finds only global entries. A repeated entry of kind user, feedback or project is stored
 * once. Forgotten entries can be restored for 30 days.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Drover } from "effect-memory/compat"
 *
 * const found = await Effect.gen(function*() {
 *   const memory = yield* Drover.createInMemoryMemory()
 *   yield* memory.put({ scope: "agent", agentId: "pilot", kind: "user", summary: "Tea", body: "Drinks tea, never coffee." })
 *   return yield* memory.search({ query: "tea", agentId: "pilot" })
 * }).pipe(Effect.scoped, Effect.runPromise)
 *
 * found.map(({ kind, scope, summary }) => [scope, kind, summary]) // => [["agent", "user", "Tea"]]
 * ```
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as MemoryTools from "../agent/MemoryTools.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { Limit, type MemoryFilter } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import { type Draft, type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import { Global, type MemoryScope as OurScope } from "../domain/MemoryScope.ts"
import { definedFields } from "../domain/Payload.ts"
import { check, invalid, lines } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as InstructionFiles from "../harness/InstructionFiles.ts"
import type { MemoryEvent } from "../harness/MemoryEvents.ts"
import * as MemoryService from "../harness/MemoryService.ts"
import { InstructionFilesConfig } from "../harness/MemorySpec.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import * as Bm25 from "../ranking/Bm25.ts"
import * as Store from "../storage/MemoryStore.ts"
import * as Markdown from "../storage/MemoryStore/Markdown.ts"

/** Visibility of an entry: for everyone, for one agent, or for one run of an agent. */
export type MemoryScope = "global" | "agent" | "run"
/** The four kinds of entries in drover. They are also kinds of this library. */
export type MemoryKind = "user" | "feedback" | "project" | "reference"

/** An entry to store. A draft with an id completely replaces the entry that has this id. */
export interface MemoryDraft {
  readonly id?: string | undefined
  readonly scope: MemoryScope
  /** Id of the agent; used with the scopes `agent` and `run`. */
  readonly agentId?: string | undefined
  /** Id of the run; used with the scope `run`. */
  readonly runId?: string | undefined
  readonly kind: MemoryKind
  /** Summary: one line of 1 to 200 UTF-16 units. */
  readonly summary: string
  readonly body: string
  readonly tags?: ReadonlyArray<string> | undefined
}

/** A stored entry. Times are epoch milliseconds; `updatedAt` is absent until the first update. */
export interface MemoryEntry extends Omit<MemoryDraft, "id" | "kind"> {
  readonly id: string
  readonly kind: string
  readonly createdAt: number
  readonly updatedAt?: number | undefined
}

/** An entry that a search found, with its score, 0 to 1. The score is 0 if the search had no query. */
export interface MemoryHit extends MemoryEntry {
  readonly score: number
}

/** Conditions of a search. `agentId` and `runId` identify the caller. */
export interface SearchOpts {
  /** Text to search for. If absent or `""`, the entries are ordered by recency. */
  readonly query?: string | undefined
  /** Scopes to search. Default: all scopes that the agent and its run can see. */
  readonly scopes?: ReadonlyArray<MemoryScope> | undefined
  readonly agentId?: string | undefined
  readonly runId?: string | undefined
  readonly kinds?: ReadonlyArray<string> | undefined
  /** Tags to search for. An entry must have at least one of the tags. Upper and lower case are not distinguished. */
  readonly tags?: ReadonlyArray<string> | undefined
  /** Largest number of entries, 1..1,000. Default 20. */
  readonly limit?: number | undefined
}

/** A store of entries, with drover's interface. */
export interface MemoryAdapter {
  /** Name of the store. */
  readonly id: string
  /** Stores an entry. A draft with an id replaces the entry that has this id. */
  readonly put: (draft: MemoryDraft) => Effect.Effect<MemoryEntry, MemoryError.MemoryError>
  /** Returns the entry with an id, or `null` if there is none. */
  readonly get: (id: string) => Effect.Effect<MemoryEntry | null, MemoryError.MemoryError>
  /**
   * Finds entries, best first. Without a query, the newest entries come first. Only the first 1,000 entries that meet all conditions except
   * `scopes` are considered.
   */
  readonly search: (opts: SearchOpts) => Effect.Effect<ReadonlyArray<MemoryHit>, MemoryError.MemoryError>
  /** Returns entries, newest first. */
  readonly list: (
    filter: Omit<SearchOpts, "query">
  ) => Effect.Effect<ReadonlyArray<MemoryEntry>, MemoryError.MemoryError>
  /** Forgets an entry. Returns whether the entry existed. */
  readonly forget: (id: string) => Effect.Effect<boolean, MemoryError.MemoryError>
  /** Does nothing. The store is closed by the Effect scope in which it was opened. */
  readonly close: () => Effect.Effect<void, MemoryError.MemoryError>
}

/** The agent that makes a call, and the agent's run if there is one. */
export interface Ids {
  readonly agentId?: string | undefined
  readonly runId?: string | undefined
}

/**
 * Makes an adapter with drover's interface from a store. `put`, `get` and `forget` act as `viewer`. The default viewer sees the whole
 * default tenant, since drover has no viewers. `search` and `list` act for the agent and the run in their options, in the tenant of
 * `viewer`. An id that is missing in the options is taken from `viewer`. Entries that `viewer` does not see are left out. Records with a
 * scope that drover does not have, such as the scope of a user, are never returned.
 */
export const toAdapter = (store: Store.Service, viewer: Viewer.Viewer = Viewer.everyone()): MemoryAdapter => {
  const asking = ({ agentId, runId }: Ids) =>
    Viewer.decode({ ...Viewer.idsOf(viewer), ...definedFields({ agentId, runId }), tenant: viewer.tenant })
  const isShown = ({ scope }: MemoryRecord, scopes: SearchOpts["scopes"]) => {
    const name = nameOf(scope)
    return name !== undefined && (scopes === undefined || scopes.includes(name)) && Viewer.sees(viewer, scope)
  }
  return {
    id: store.name,
    put: (draft) => Effect.map(store.put(viewer, [draftOf(draft)]), ([put]) => toEntry(put!.record)), // `put` returns one result per draft
    get: (id) =>
      Effect.map(
        store.get(viewer, [unchecked(id)]),
        ([found]) => found && Option.isSome(found) && isShown(found.value, undefined) ? toEntry(found.value) : null
      ),
    search: ({ query, ...opts }) =>
      Effect.gen(function*() {
        const limit = yield* check("search", Limit, opts.limit ?? 20)
        const isAsked = query !== undefined && query !== ""
        const text = isAsked ? { text: query } : {}
        const { hits } = yield* store.search(yield* asking(opts), { ...filterOf(opts), ...text, limit: maxPage })
        return hits.filter(({ record }) => isShown(record, opts.scopes)).slice(0, limit)
          .map(({ record, score }) => ({ ...toEntry(record), score: isAsked ? score : 0 }))
      }),
    list: (opts) =>
      Effect.gen(function*() {
        const limit = yield* check("list", Limit, opts.limit ?? 20)
        const narrowedViewer = yield* asking(opts)
        const shown: Array<MemoryRecord> = []
        let after: MemoryFilter["after"]
        do {
          const { items, next } = yield* store.list(narrowedViewer, {
            ...filterOf(opts),
            ...definedFields({ after }),
            limit: maxPage
          })
          for (const record of items) if (isShown(record, opts.scopes)) shown.push(record)
          after = next
        } while (after !== undefined && shown.length < limit)
        return shown.slice(0, limit).map(toEntry)
      }),
    forget: (id) => Effect.map(store.forget(viewer, [unchecked(id)]), ([there]) => there === true),
    close: () => Effect.void
  }
}

/**
 * Copies entries of drover's own adapter to a store, in one write. `filter` selects the entries. Entries of a run are copied only if
 * `filter` has the `runId` of the run. The entries keep their ids, and `createdAt` becomes `validAt`. Returns the number of entries.
 */
export const copyAdapter = (
  adapter: Pick<MemoryAdapter, "list">,
  store: Store.Service,
  viewer: Viewer.Viewer,
  filter: Omit<SearchOpts, "query"> = {}
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const entries = yield* adapter.list({ limit: Number.MAX_SAFE_INTEGER, ...filter })
    yield* store.put(viewer, entries.map((entry) => ({ ...draftOf(entry), validAt: Math.floor(entry.createdAt) })), {
      origin: "import"
    })
    return entries.length
  })

/** Makes a viewer from drover's ids. A viewer without an agent sees global entries only. Throws a `MemoryError` if an id is invalid. */
export const viewerOf = ({ agentId, runId }: Ids): Viewer.Viewer => Viewer.make(definedFields({ agentId, runId }))

/** Makes an adapter over a new store in memory, which is discarded when the Effect scope closes. */
export const createInMemoryMemory = (viewer?: Viewer.Viewer): Effect.Effect<MemoryAdapter, never, Scope.Scope> =>
  adapterOf(Store.layerInMemory, viewer)

/**
 * Makes an adapter over a new or existing folder of Markdown files, such as one that drover wrote. The store closes with the Effect scope.
 */
export const createMarkdownMemory = (
  options: Markdown.Options,
  viewer?: Viewer.Viewer
): Effect.Effect<MemoryAdapter, MemoryError.MemoryError, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  adapterOf(Markdown.layer(options), viewer)

/**
 * Makes the tool `remember` for an agent. Fails with `unsupported` if the spec of the `MemoryService` has `enabled: false`. Also fails with
 * `unsupported` if `ids` is empty and the spec does not let a model write to `Global`.
 */
export const rememberTool = (
  ids: Ids
): Effect.Effect<MemoryTool, MemoryError.MemoryError, MemoryService.MemoryService> => toolOf("remember", ids)
/** Makes the tool `recall` for an agent. Fails with `unsupported` if the spec of the `MemoryService` has `enabled: false`. */
export const recallTool = (ids: Ids): Effect.Effect<MemoryTool, MemoryError.MemoryError, MemoryService.MemoryService> =>
  toolOf("recall", ids)
/** Makes the tool `forget`. Fails with `unsupported` unless `enabled` and `allowForget` are true in the spec of the `MemoryService`. */
export const forgetTool = (ids: Ids): Effect.Effect<MemoryTool, MemoryError.MemoryError, MemoryService.MemoryService> =>
  toolOf("forget", ids)

/**
 * Renders the memory index of an agent for its system prompt: summaries and ids of at most `maxIndexEntries` entries. Returns `""` if there
 * are none, or if `enabled` or `includeIndex` is false. Dies if an id is invalid.
 */
export const renderMemoryIndex = (ids: Ids): Effect.Effect<string, never, MemoryService.MemoryService> =>
  Effect.suspend(() => MemoryService.as(viewerOf(ids))(MemoryService.renderMemoryIndex))

/**
 * Reads the instruction files, such as AGENTS.md, in the folders from `root` to `cwd`. Default `root`: the nearest folder with `.git`, else
 * `cwd`. Logs a warning for each unreadable file.
 */
export const loadInstructionFiles = (
  { cwd, ...config }:
    & { readonly cwd: string }
    & Partial<
      Pick<InstructionFilesConfig, "filenames" | "root" | "maxBytesPerFile">
    >
): Effect.Effect<
  ReadonlyArray<InstructionFiles.InstructionFile>,
  MemoryError.MemoryError,
  FileSystem.FileSystem | Path.Path
> =>
  Effect.flatMap(
    Effect.mapError(
      Schema.decodeUnknown(InstructionFilesConfig, { errors: "all" })(definedFields(config)),
      (error) => invalid("loadInstructionFiles", ...lines(error))
    ),
    (config) => InstructionFiles.loadInstructionFiles(cwd, config)
  )

/** Stores the files of `InstructionFiles.layer` as read-only records of a tenant. Forgets the records of files that no longer exist. */
export const seedInstructionFiles = (
  tenant?: string
): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError, InstructionFiles.InstructionFiles> =>
  Effect.flatMap(InstructionFiles.InstructionFiles, (files) => files.seed(Viewer.system(tenant)))

/** The pattern of agent and run ids in drover. This library accepts every id that `ScopeId` permits, and encodes ids in file names. */
export const ID_SEGMENT_RE = /^[a-zA-Z0-9_-]{1,64}$/

/** Makes a document for `bm25` from the texts of an entry. */
export const buildDoc = (
  id: string,
  summary: string,
  body: string,
  tags?: ReadonlyArray<string>
): Bm25.Doc<string> => Bm25.buildDoc(id, { summary, body, tags })

/** Returns the scopes that a search covers. Default: `global` and `agent`, and also `run` if there is a `runId`. */
export const effectiveScopes = ({ runId, scopes }: Pick<SearchOpts, "runId" | "scopes">): ReadonlyArray<MemoryScope> =>
  scopes ?? (runId === undefined ? ["global", "agent"] : ["global", "agent", "run"])

/**
 * Whether an entry meets all conditions of a search except its query. An entry of an agent or a run matches only if `opts` has the same
 * ids.
 */
export const matches = (entry: MemoryEntry, opts: SearchOpts): boolean => {
  const { agentId, kinds, runId, tags } = opts
  const wanted = new Set(tags?.map((tag) => tag.toLowerCase()))
  return effectiveScopes(opts).includes(entry.scope) &&
    (entry.scope === "global" || (agentId !== undefined && entry.agentId === agentId)) &&
    (entry.scope !== "run" || (runId !== undefined && entry.runId === runId)) &&
    (kinds === undefined || kinds.includes(entry.kind)) &&
    (tags === undefined || entry.tags?.some((tag) => wanted.has(tag.toLowerCase())) === true)
}

/** Orders entries by their last change, newest first. Entries with equal times are ordered by id, the greater id first. */
export const byRecency = (
  a: Pick<MemoryEntry, "id" | "createdAt" | "updatedAt">,
  b: Pick<MemoryEntry, "id" | "createdAt" | "updatedAt">
): number => recencyOf(b) - recencyOf(a) || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

/** Groups entries by scope, and keeps the order of the entries within each group. */
export const groupByScope = <E extends Pick<MemoryEntry, "scope">>(
  entries: ReadonlyArray<E>
): { readonly [Name in MemoryScope]: ReadonlyArray<E> } => ({
  global: entries.filter(({ scope }) => scope === "global"),
  agent: entries.filter(({ scope }) => scope === "agent"),
  run: entries.filter(({ scope }) => scope === "run")
})

/** A tool that a model can call, as data. */
export type ToolDef = MemoryTool
/** An event about memory. Unlike drover, this library also has events for forgotten records, denied calls and failed writes. */
export type HarnessEvent = MemoryEvent

/** The error type of this library, with `op` and `reason`. */
export { MemoryError } from "../domain/MemoryError.ts"
/** `stableId` derives an id from a text. `ulid` generates a new ULID. `ULID_RE` is the pattern of ULIDs. */
export { stableId, ulid, ULID_RE } from "../domain/MemoryId.ts"
/** Renders instruction files for a system prompt; `""` without files. */
export { renderInstructionFiles as renderInstructionsBlock } from "../harness/InstructionFiles.ts"
/** An instruction file and its text. */
export type { InstructionFile } from "../harness/InstructionFiles.ts"
/**
 * `MemorySpec` has the settings of an agent's memory. `InstructionFilesConfig` has the settings of instruction files. `hashSpec` hashes a
 * spec; `Resume` stores this hash in a checkpoint.
 */
export { hashSpec, InstructionFilesConfig, MemorySpec } from "../harness/MemorySpec.ts"
/**
 * Makes the plugin that limits the writes of a turn to `writesPerTurn` (default 1; 0 means no limit). `toolIds` names the tools whose calls
 * count. By default, every call that writes memories counts.
 */
export { make as memoryRateLimitPlugin } from "../harness/RateLimit.ts"
/** The error of `Resume` if a run is resumed with a spec that differs from the saved spec. */
export { ResumeError } from "../harness/Resume.ts"
/** A plugin that is told when a turn starts or ends, or a session ends, and may deny tool calls. It receives no `HarnessEvent`. */
export type { HarnessPlugin } from "../host/HarnessPlugin.ts"
/** Ranks documents by Okapi BM25, best first. */
export { bm25 } from "../ranking/Bm25.ts"
/** `Doc` is a document that `buildDoc` makes. `ScoredDoc` is the id of a document with its `bm25` score. */
export type { Doc, Scored as ScoredDoc } from "../ranking/Bm25.ts"
/** Splits a text into terms: the words of any script, without stop words and single ASCII characters. */
export { tokenise } from "../ranking/Tokenizer.ts"

const maxPage = 1_000

/** Brands a text as an id without validation. The store validates the id later, with a clearer error message. */
const unchecked = (id: string): MemoryId => MemoryId.make(id, { disableValidation: true })

const draftOf = (
  { agentId = "", body, id, kind, runId = "", scope, summary, tags }: MemoryDraft | MemoryEntry
): Draft =>
  definedFields({
    ...{ kind, summary, body, tags, id: id === undefined ? undefined : unchecked(id) },
    scope: scope === "global" ? Global : scope === "agent" ? { agentId } : { agentId, runId }
  })

const filterOf = ({ kinds, tags }: SearchOpts): Pick<MemoryFilter, "kinds" | "tags"> => definedFields({ kinds, tags })

/** Returns drover's name of a scope; `undefined` for scopes that drover does not have. */
const nameOf = (scope: OurScope): MemoryScope | undefined => {
  if (scope === Global) return "global"
  const { actorId, agentId, runId, sessionId, userId } = scope
  const isOthers = userId !== undefined || sessionId !== undefined || actorId !== undefined
  return isOthers || agentId === undefined ? undefined : runId === undefined ? "agent" : "run"
}

const toEntry = ({ body, createdAt, id, kind, scope, summary, tags, updatedAt }: MemoryRecord): MemoryEntry =>
  definedFields({
    id,
    scope: nameOf(scope) ?? "agent", // callers pass only records whose scope has a name in drover
    agentId: scope === Global ? undefined : scope.agentId,
    runId: scope === Global ? undefined : scope.runId,
    kind,
    summary,
    body,
    tags: tags.length > 0 ? tags : undefined,
    createdAt,
    updatedAt
  })

const adapterOf = <E, R>(layer: Layer.Layer<Store.MemoryStore, E, R>, viewer: Viewer.Viewer | undefined) =>
  Effect.map(Layer.build(layer), (context) => toAdapter(Context.get(context, Store.MemoryStore), viewer))

const toolOf = (name: string, { agentId, runId }: Ids) =>
  Effect.gen(function*() {
    const tools = yield* MemoryTools.make(yield* Viewer.decode(definedFields({ agentId, runId })))
    const tool = tools.find((tool) => tool.name === name)
    return tool ?? (yield* MemoryError.make("unsupported", {
      op: name,
      message: `the spec of this memory makes no tool ${name}`
    }))
  })
