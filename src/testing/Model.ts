/**
 * A reference model with which tests compare real stores. The model is a Map of revisions, without an index and without Effect. It has its
 * own code for visibility, writes and results. Only types and some helpers of `src/domain` are shared with the stores.
 */
import { canonicalJson } from "../domain/Digest.ts"
import type { Reason } from "../domain/MemoryError.ts"
import type { Absence, MemoryFilter } from "../domain/MemoryFilter.ts"
import { matches } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { byRecency, deriveSummary, type Draft, MemoryRecord, type Patch } from "../domain/MemoryRecord.ts"
import { fields, type MemoryScope } from "../domain/MemoryScope.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { Neighbours, Provenance } from "../storage/MemoryStore.ts"

interface Row {
  readonly record: MemoryRecord
  readonly forgotten: boolean
  /** Key that duplicates have in common; `undefined` for a tombstone, and for a kind that does not deduplicate. */
  readonly dedupeKey: string | undefined
}
/** Revisions of each record, newest first. */
type Rows = Map<MemoryId, ReadonlyArray<Row>>

/** Options of `make`. */
export interface Options {
  readonly kinds: ReadonlyMap<string, MemoryKind>
  /** Whether earlier revisions are kept. */
  readonly history: boolean
  /** Time in milliseconds for which a forgotten record is kept as a tombstone (a row that can be restored). */
  readonly trash: number
}

/** The reason why a batch was rejected. A rejected batch changes nothing. */
export interface Refused {
  readonly refused: Reason
}

/** The operations of a store, run on the model. */
export interface Model {
  /**
   * Applies a batch. `minted` has an id for each draft without one, in order. If the real store created a record, it is that record's id.
   */
  readonly apply: (
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance: Provenance,
    now: number,
    minted: ReadonlyArray<MemoryId>
  ) => ReadonlyArray<Applied> | Refused
  readonly get: (viewer: Viewer.Any, id: MemoryId, now: number) => MemoryRecord | undefined
  /** Returns all records that the viewer sees and that match the filter, newest first. Ignores the limit and the cursor of the filter. */
  readonly list: (viewer: Viewer.Any, filter: MemoryFilter, now: number) => ReadonlyArray<MemoryRecord>
  readonly history: (viewer: Viewer.Any, id: MemoryId, now: number) => ReadonlyArray<MemoryRecord>
  /** Explains why a query without text does not return a record. `hit`: the query returns it. `filtered`: it does not pass the filter. */
  readonly whyNot: (viewer: Viewer.Any, id: MemoryId, filter: MemoryFilter, now: number) => Absence | "hit" | "filtered"
  readonly links: (viewer: Viewer.Any, id: MemoryId, now: number) => Neighbours
  readonly touch: (viewer: Viewer.Any, id: MemoryId, now: number) => void
  readonly uses: (viewer: Viewer.Any, id: MemoryId, now: number) => number
  readonly compact: (now: number) => number
  readonly tenants: () => ReadonlyArray<string>
}

/** Makes an empty model. */
export const make = ({ history, kinds, trash }: Options): Model => {
  let world = new Map<string, Rows>()
  const used = new Map<string, number>()
  const of = (viewer: Viewer.Any): Rows => world.get(viewer.tenant) ?? new Map<MemoryId, ReadonlyArray<Row>>()
  const get: Model["get"] = (viewer, id, now) => {
    const row = of(viewer).get(id)?.[0]
    return row && (isSystem(viewer) || isFound(viewer, row, now)) ? row.record : undefined
  }
  const list: Model["list"] = (viewer, filter, now) =>
    Array.from(of(viewer).values(), ([row]) => row!) // each record has at least one revision
      .filter((row) =>
        filter.forgotten === true
          ? isInTrash(viewer, row, now) && matches(filter, undefined)(row.record)
          : isFound(viewer, row, now) && passes(viewer, row.record, filter, now)
      )
      .map(({ record }) => record)
      .sort(byRecency)

  return {
    apply(viewer, mutations, provenance, now, minted) {
      const rows: Rows = new Map(of(viewer)) // a copy, so that a rejected batch changes nothing
      const applied: Array<Applied> = []
      const ids = minted.slice()
      const purged: Array<MemoryId> = []
      let isUnusable = false
      for (const mutation of mutations) {
        const claimed = mutation._tag === "Put" ? mutation.draft.id : undefined
        if (claimed !== undefined && isHidden(rows, viewer, claimed)) {
          // the id belongs to a hidden record, so the batch is rejected at the end. Until then the id counts as unused, so that no other
          // error depends on the hidden record
          rows.delete(claimed)
          isUnusable = true
        }
        const result = step(rows, viewer, mutation, provenance, now, ids)
        if ("refused" in result) return result
        applied.push(result)
        if (!rows.has(result.id)) purged.push(result.id)
      }
      if (isUnusable) return { refused: "invalid_id" }
      world = new Map(world).set(viewer.tenant, rows)
      for (const id of purged) used.delete(useKey(viewer.tenant, id))
      return applied
    },
    get,
    list,
    history(viewer, id, now) {
      const revisions = (of(viewer).get(id) ?? []).slice(0, history ? 20 : 1)
      if (isSystem(viewer)) return revisions.map(({ record }) => record)
      if (get(viewer, id, now) === undefined) return []
      const first = revisions.findIndex(({ record }, n) => isNew(record, revisions.slice(n + 1)))
      const shown = revisions.slice(0, first < 0 ? undefined : first + 1)
      return shown.map(({ record }) => record).filter(({ scope }) => sees(viewer, scope))
    },
    whyNot(viewer, id, filter, now) {
      const row = of(viewer).get(id)?.[0]
      if (row === undefined || row.forgotten || !sees(viewer, row.record.scope)) return "absent"
      if (!isSystem(viewer) && isExpired(row.record, now)) return "expired"
      const position = list(viewer, filter, now).findIndex((record) => record.id === id)
      return position < 0 ? "filtered" : position < (filter.limit ?? 20) ? "hit" : "beyond_limit"
    },
    links(viewer, id, now) {
      const seen = Array.from(of(viewer).values(), ([row]) => row!) // each record has at least one revision
        .filter((row) => isFound(viewer, row, now) && !isExpired(row.record, now) && matches({}, now)(row.record))
        .map(({ record }) => record)
        .sort(byRecency)
      const all = seen.flatMap((record) => linksOf(record, seen).map((link) => ({ ...link, by: record.id })))
      const from = all.filter(({ to }) => to === id).map(({ by, type, weight }) => ({ id: by, type, weight }))
      const to = all.filter(({ by }) => by === id).map(({ to, type, weight }) => ({ id: to, type, weight }))
      return { to, from }
    },
    touch(viewer, id, now) {
      const key = useKey(viewer.tenant, id)
      if (get(viewer, id, now)) used.set(key, (used.get(key) ?? 0) + 1)
    },
    uses(viewer, id, now) {
      return get(viewer, id, now) ? used.get(useKey(viewer.tenant, id)) ?? 0 : 0
    },
    compact(now) {
      let erased = 0
      for (const [tenant, rows] of world) {
        for (const [id, [row]] of rows) {
          const isOver = row!.forgotten && row!.record.updatedAt! + trash <= now // `updatedAt` of a forgotten row is the time of forgetting
          if (!isOver && !isExpired(row!.record, now)) continue
          erased += Number(rows.delete(id))
          used.delete(useKey(tenant, id))
        }
      }
      return erased
    },
    tenants: () => Array.from(world).flatMap(([tenant, rows]) => rows.size > 0 ? [tenant] : []).sort()
  }

  function step(
    rows: Rows,
    viewer: Viewer.Any,
    mutation: MemoryMutation,
    { origin = "user", trust = 1 }: Provenance,
    now: number,
    minted: Array<MemoryId>
  ): Applied | Refused {
    const named = mutation._tag === "Put" ? mutation.draft.id : mutation.id
    const id = named ?? minted.shift()! // `minted` has an id for each draft without one
    const row = named === undefined ? undefined : rows.get(id)?.[0]
    const visible = row !== undefined && sees(viewer, row.record.scope)
    const isPresent = visible && isFound(viewer, row, now)
    const before = isPresent ? row.record.revision : 0
    const readOnly = visible && !isSystem(viewer) && row.record.source.origin === "instructions" &&
      origin !== "instructions"
    const isConflict = mutation.ifRevision !== undefined && mutation.ifRevision !== before
    const write = (record: MemoryRecord, forgotten = false) => {
      const dedupeKey = kinds.get(record.kind)?.dedupe === true && !forgotten ? dedupeKeyOf(record) : undefined
      rows.set(id, [{ record, forgotten, dedupeKey }, ...rows.get(id) ?? []])
    }

    switch (mutation._tag) {
      case "Put": {
        if (readOnly) return { refused: "read_only" }
        if (named === undefined && mutation.ifRevision !== undefined) return { refused: "invalid_draft" }
        if (isConflict) return { refused: "conflict" }
        const { draft } = mutation
        const record = new MemoryRecord(
          clean({
            ...draft,
            id,
            summary: draft.summary ?? deriveSummary(draft.body),
            summaryDerived: draft.summary === undefined ? true : undefined,
            tags: draft.tags ?? [],
            importance: draft.importance ?? kinds.get(draft.kind)?.importance ?? 0.5,
            links: draft.links ?? [],
            data: draft.data ?? {},
            metadata: draft.metadata ?? {},
            source: clean({ ...draft.source, origin, trust: trusted(viewer, draft.scope, origin, trust) }),
            createdAt: isPresent ? row.record.createdAt : now,
            updatedAt: isPresent ? now : undefined,
            validAt: draft.validAt ?? (isPresent ? row.record.validAt : now),
            revision: (row?.record.revision ?? 0) + 1
          }),
          { disableValidation: true }
        )
        if (!sees(viewer, record.scope)) return { refused: "invalid_scope" }
        if (record.summary === "" || isExpired(record, now)) return { refused: "invalid_draft" }
        const duplicate = named === undefined && kinds.get(draft.kind)?.dedupe === true
          ? liveDuplicate(rows, dedupeKeyOf(record), now)
          : undefined
        if (duplicate) return { id: duplicate.id, outcome: "duplicate", before: duplicate.revision, record: duplicate }
        write(record)
        return { id, outcome: isPresent ? "updated" : "created", before, record }
      }
      case "Update": {
        if (!isPresent) return { refused: "not_found" }
        if (readOnly) return { refused: "read_only" }
        if (isConflict) return { refused: "conflict" }
        const record = patched(row.record, mutation.patch, trusted(viewer, row.record.scope, origin, trust), now)
        if (record.summary === "" || isExpired(record, now)) return { refused: "invalid_draft" }
        write(record)
        return { id, outcome: "updated", before, record }
      }
      case "Forget": {
        if (readOnly && (isPresent || mutation.purge === true)) return { refused: "read_only" }
        if (isConflict) return { refused: "conflict" }
        if (visible && mutation.purge === true) rows.delete(id)
        else if (isPresent) {
          write(
            new MemoryRecord({ ...row.record, revision: before + 1, updatedAt: now }, { disableValidation: true }),
            true
          )
        }
        return { id, outcome: isPresent ? "forgotten" : "absent", before }
      }
      case "Restore": {
        if (!visible || (!row.forgotten && !isPresent)) return { refused: "not_found" }
        if (readOnly) return { refused: "read_only" }
        if (mutation.ifRevision !== undefined && mutation.ifRevision !== row.record.revision) {
          return { refused: "conflict" }
        }
        const revision = row.record.revision + 1
        if (mutation.revision === 0) {
          if (isPresent) {
            write(new MemoryRecord({ ...row.record, revision, updatedAt: now }, { disableValidation: true }), true)
          }
          return { id, outcome: isPresent ? "forgotten" : "absent", before }
        }
        const keptRevisions = (rows.get(id) ?? []).slice(0, history ? 20 : 1)
        const earlier = keptRevisions.find(({ record }) => record.revision === mutation.revision)
        if (!earlier || !sees(viewer, earlier.record.scope)) return { refused: "not_found" }
        if (!isSystem(viewer) && isExpired(earlier.record, now)) return { refused: "invalid_draft" }
        const record = new MemoryRecord({ ...earlier.record, revision }, { disableValidation: true })
        write(record)
        return { id, outcome: isPresent ? "updated" : "created", before, record }
      }
    }
  }
}

const isHidden = (rows: Rows, viewer: Viewer.Any, id: MemoryId): boolean => {
  const row = rows.get(id)?.[0]
  return row !== undefined && !sees(viewer, row.record.scope)
}

const useKey = (tenant: string, id: MemoryId): string => JSON.stringify([tenant, id])

const patched = (old: MemoryRecord, patch: Patch, trust: 0 | 1 | 2 | 3, now: number): MemoryRecord => {
  const named = clean(patch)
  const derived = named.summary === undefined && old.summaryDerived === true
  const cleared = Object.fromEntries(Object.entries({ ...old, ...named }).filter(([, value]) => value !== null))
  return new MemoryRecord(
    clean({
      ...old,
      ...cleared,
      ...Object.fromEntries(Object.keys(named).map((key) => [key, cleared[key]])), // a null in the patch clears the field
      summary: derived ? deriveSummary(named.body ?? old.body) : named.summary ?? old.summary,
      summaryDerived: derived ? true : undefined,
      source: { ...old.source, trust: Math.max(old.source.trust, trust) as typeof trust }, // a higher number means less trust
      updatedAt: now,
      revision: old.revision + 1
    }),
    { disableValidation: true }
  )
}

const isSystem = (viewer: Viewer.Any): viewer is Viewer.System => "_tag" in viewer

const sees = (viewer: Viewer.Any, scope: MemoryScope): boolean => {
  if (isSystem(viewer)) return true
  const on = (field: typeof fields[number]) => scope === "global" ? undefined : scope[field]
  const [wanted, asker] = viewer.reach === "exact"
    ? [on, (field: typeof fields[number]) => viewer[field]]
    : [(field: typeof fields[number]) => viewer[field], on]
  return fields.every((field) => wanted(field) === undefined || wanted(field) === asker(field))
}

/**
 * Returns the trust of a write; a higher number means less trust. If a viewer with a user writes into a scope without a user, the trust is
 * at least 2. Exception: the origin `instructions`.
 */
const trusted = (viewer: Viewer.Any, scope: MemoryScope, origin: string, trust: 0 | 1 | 2 | 3): typeof trust =>
  origin === "instructions" || isSystem(viewer) || viewer.userId === undefined ||
    (scope !== "global" && scope.userId !== undefined)
    ? trust
    : Math.max(2, trust) as typeof trust

const isExpired = (record: MemoryRecord, now: number): boolean => (record.expiresAt ?? Infinity) <= now

/** Whether the viewer finds a row. No viewer finds forgotten rows. Only `System` finds expired rows. */
const isFound = (viewer: Viewer.Any, { forgotten, record }: Row, now: number): boolean =>
  !forgotten && sees(viewer, record.scope) && (isSystem(viewer) || !isExpired(record, now))

/** Whether a row is in the viewer's trash. Expired rows and rows of the origin `instructions` are only in the trash of `System`. */
const isInTrash = (viewer: Viewer.Any, { forgotten, record }: Row, now: number): boolean =>
  forgotten && sees(viewer, record.scope) &&
  (isSystem(viewer) || (!isExpired(record, now) && record.source.origin !== "instructions"))

/** Whether a revision created its record. An edit did not, and neither did a copy of an earlier revision. */
const isNew = (record: MemoryRecord, earlier: ReadonlyArray<Row>): boolean => {
  const content = (record: MemoryRecord) => canonicalJson({ ...record, revision: undefined })
  return record.updatedAt === undefined && earlier.every((row) => content(row.record) !== content(record))
}

/** Whether a record passes the filter. If the filter sets no time, the record must be valid now, except for `System`. */
const passes = (viewer: Viewer.Any, record: MemoryRecord, filter: MemoryFilter, now: number): boolean =>
  matches(filter, isSystem(viewer) ? undefined : now)(record)

const dedupeKeyOf = (
  record: Pick<Draft, "scope" | "kind" | "summary" | "body" | "data"> & { readonly summaryDerived?: true | undefined }
): string => {
  const plain = (text = "") => text.normalize("NFC").split(/\s+/).filter((word) => word !== "").join(" ")
  return canonicalJson([
    record.scope,
    record.kind,
    record.summaryDerived ? "" : plain(record.summary),
    plain(record.body),
    record.data
  ])
}

const liveDuplicate = (rows: Rows, text: string, now: number): MemoryRecord | undefined =>
  Array.from(rows.values(), ([row]) => row!) // each record has at least one revision
    .filter(({ forgotten, record, dedupeKey }) =>
      dedupeKey === text && !forgotten && !isExpired(record, now) && (record.invalidAt ?? Infinity) > now
    )
    .map(({ record }) => record)
    .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))[0]

/**
 * Returns the links from a record to other records in `seen`, including the links in its body. A link that repeats a target and type is
 * left out. Names are compared in lower case, which is enough for the texts that tests generate.
 */
const linksOf = (record: MemoryRecord, seen: ReadonlyArray<MemoryRecord>): MemoryRecord["links"] => {
  const others = seen.filter(({ id }) => id !== record.id)
  const isNear = ({ scope }: MemoryRecord) => canonicalJson(scope) === canonicalJson(record.scope)
  const named = Array.from(record.body.matchAll(/\[\[(.*?)(?:\|.*?)?\]\]/g)).flatMap(([, target = ""]) => {
    const name = target.split("/").at(-1)?.toLowerCase()
    const bearers = others.filter(({ summary }) => summary.toLowerCase() === name)
    const linked = others.find(({ id }) => id === target) ?? bearers.find(isNear) ?? bearers[0]
    return linked === undefined ? [] : [{ to: linked.id, type: "wikilink", weight: 1 }]
  })
  return [...record.links, ...named]
    .filter(({ to }) => others.some(({ id }) => id === to))
    .filter(({ to, type }, n, all) => n === all.findIndex((link) => link.to === to && link.type === type))
}

const clean = <A extends object>(fields: A): A =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as A // only optional fields can be `undefined`
