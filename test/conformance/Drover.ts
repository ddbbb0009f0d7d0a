/** drover's `MemoryAdapter` over a store of ours: its signatures, our behaviour. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryFilter } from "../../src/domain/MemoryFilter.ts"
import { MemoryId } from "../../src/domain/MemoryId.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"

export type ScopeName = "global" | "agent" | "run"

export interface MemoryDraft {
  readonly id?: string
  readonly scope: ScopeName
  readonly agentId?: string
  readonly runId?: string
  readonly kind: "user" | "feedback" | "project" | "reference"
  readonly summary: string
  readonly body: string
  readonly tags?: ReadonlyArray<string>
}

export interface MemoryEntry extends Omit<MemoryDraft, "kind"> {
  readonly id: string
  readonly kind: string
  readonly createdAt: number
  readonly updatedAt?: number
}

export interface MemoryHit extends MemoryEntry {
  readonly score: number
}

export interface SearchOpts {
  readonly query?: string
  readonly scopes?: ReadonlyArray<ScopeName>
  readonly agentId?: string
  readonly runId?: string
  readonly kinds?: ReadonlyArray<string>
  readonly tags?: ReadonlyArray<string>
  readonly limit?: number
}

export interface MemoryAdapter {
  readonly id: string
  readonly put: (draft: MemoryDraft) => Effect.Effect<MemoryEntry, MemoryError>
  readonly get: (id: string) => Effect.Effect<MemoryEntry | null, MemoryError>
  readonly search: (opts: SearchOpts) => Effect.Effect<ReadonlyArray<MemoryHit>, MemoryError>
  readonly list: (filter: Omit<SearchOpts, "query">) => Effect.Effect<ReadonlyArray<MemoryEntry>, MemoryError>
  readonly forget: (id: string) => Effect.Effect<boolean, MemoryError>
  readonly close: () => Effect.Effect<void, MemoryError>
}

/** The end of the layer's scope closes the store; `close` has nothing left to do. */
export const toAdapter = (store: MemoryStore.Service): MemoryAdapter => {
  const all = Viewer.everyone()
  return {
    id: store.name,
    put: ({ agentId = "", id, runId = "", scope, ...draft }) =>
      Effect.map(
        store.put(all, [{
          ...draft,
          ...(id !== undefined && { id: MemoryId.make(id, { disableValidation: true }) }), // the store checks it
          scope: scope === "global" ? Global : scope === "agent" ? { agentId } : { agentId, runId }
        }]),
        ([put]) => toEntry(put!.record) // one in, one out
      ),
    get: (id) =>
      Effect.map(
        store.get(all, [MemoryId.make(id, { disableValidation: true })]),
        ([found]) => found && Option.isSome(found) ? toEntry(found.value) : null
      ),
    search: ({ query, ...opts }) =>
      Effect.map(
        store.search(viewerOf(opts), { ...filterOf(opts), ...(query && { text: query }), limit: 1_000 }),
        ({ hits }) =>
          hits.map(({ record, score }) => ({ ...toEntry(record), score })).filter(isIn(opts)).slice(0, opts.limit ?? 20)
      ),
    list: (opts) =>
      Effect.map(
        store.list(viewerOf(opts), { ...filterOf(opts), limit: 1_000 }),
        ({ items }) => items.map(toEntry).filter(isIn(opts)).slice(0, opts.limit ?? 20)
      ),
    forget: (id) =>
      Effect.map(store.forget(all, [MemoryId.make(id, { disableValidation: true })]), ([there]) => there === true),
    close: () => Effect.void
  }
}

/** Who asks is who sees: without an agent nothing but the global entries. */
export const viewerOf = ({ agentId, runId }: Pick<SearchOpts, "agentId" | "runId">): Viewer.Viewer =>
  Viewer.make({ ...(agentId !== undefined && { agentId }), ...(runId !== undefined && { runId }) })

const filterOf = ({ kinds, tags }: SearchOpts): Pick<MemoryFilter, "kinds" | "tags"> => ({
  ...(kinds && { kinds }),
  ...(tags && { tags })
})

const isIn = ({ scopes }: SearchOpts) => ({ scope }: Pick<MemoryEntry, "scope">): boolean =>
  scopes === undefined || scopes.includes(scope)

const nameOf = (scope: MemoryScope): ScopeName =>
  scope === Global ? "global" : scope.runId === undefined ? "agent" : "run"

const toEntry = ({ body, createdAt, id, kind, scope, summary, tags, updatedAt }: MemoryRecord): MemoryEntry => ({
  id,
  scope: nameOf(scope),
  ...(scope !== Global && scope.agentId !== undefined && { agentId: scope.agentId }),
  ...(scope !== Global && scope.runId !== undefined && { runId: scope.runId }),
  kind,
  summary,
  body,
  ...(tags.length > 0 && { tags }),
  createdAt,
  ...(updatedAt !== undefined && { updatedAt })
})
