/** One record in a branch, and what it comes to below. Pure. */
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryMutation } from "../../../domain/MemoryMutation.ts"
import { isExpired, type MemoryRecord, type Patch } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import { type Provenance, revisionsKept, type Stored } from "../../MemoryStore.ts"
import { draftOf } from "../../Version.ts"

export interface Row {
  /** As it stood below when the branch first wrote it; `undefined`: it was not there. */
  readonly base: Stored | undefined
  /** Purged in the branch: its past below is out of sight. */
  readonly cut: boolean
  /** The branch's own, newest first; none: it is gone. */
  readonly revisions: ReadonlyArray<Stored>
}

/** The row after one more write; `undefined`: the branch has nothing to say of it. */
export const write = (row: Row, next: Stored | undefined): Row | undefined => {
  if (next) return { ...row, revisions: [next, ...row.revisions].slice(0, revisionsKept) }
  return row.base && { base: row.base, cut: true, revisions: [] }
}

/** Where the record stands in the branch; 0 = it does not. */
export const revisionOf = (row: Row): number => row.revisions[0]?.record.revision ?? 0

/** What commit applies: nothing for what came and went, or what belongs to instruction files, which see to it themselves. */
export const mutations = (id: MemoryId, row: Row, now: number): ReadonlyArray<MemoryMutation> => {
  const { base, cut } = row
  const stood = base && !base.forgotten ? base.record : undefined
  const live = liveAt(row, now)
  const ifRevision = stood?.revision ?? 0
  if (isInstructions(row)) return []
  if (!live) {
    if (base && cut) return [{ _tag: "Forget", id, purge: true, ifRevision }]
    return stood ? [{ _tag: "Forget", id, ifRevision }] : []
  }
  if (stood && !cut && isPatch(stood, live)) return [{ _tag: "Update", id, patch: patchTo(live), ifRevision }]
  return [
    ...(base && cut ? [{ _tag: "Forget", id, purge: true, ifRevision } as const] : []),
    { _tag: "Put", draft: draftOf(live), ifRevision: cut ? 0 : ifRevision },
    ...(live.supersededBy === undefined
      ? []
      : [{ _tag: "Update", id, patch: { supersededBy: live.supersededBy } } as const])
  ]
}

/** One for all: the origin that they share, else `pipeline`; the worst trust that the branch gave. */
export const provenance = (rows: Iterable<Row>, now: number): Provenance => {
  const written = Array.from(rows).flatMap((row) => {
    const live = isInstructions(row) ? undefined : liveAt(row, now)
    return live && (!row.base || live.source.trust !== row.base.record.source.trust || !isPatch(row.base.record, live))
      ? [live.source]
      : []
  })
  const [first, ...others] = new Set(written.map(({ origin }) => origin))
  return {
    origin: others.length > 0 ? "pipeline" : first,
    trust: written.reduce<NonNullable<Provenance["trust"]>>((worst, { trust }) => trust > worst ? trust : worst, 0)
  }
}

export const isInstructions = ({ base, revisions: [last] }: Row): boolean =>
  (last ?? base)?.record.source.origin === "instructions"

const liveAt = ({ revisions: [last] }: Row, now: number): MemoryRecord | undefined =>
  last && !last.forgotten && !isExpired(last.record, now) ? last.record : undefined

/** Whether a patch can say the difference. */
const isPatch = (from: MemoryRecord, to: MemoryRecord): boolean =>
  MemoryScope.key(from.scope) === MemoryScope.key(to.scope) && from.kind === to.kind && from.validAt === to.validAt &&
  from.createdAt === to.createdAt && (from.summaryDerived === true || to.summaryDerived === undefined) &&
  from.source.origin === to.source.origin && from.source.trust <= to.source.trust &&
  from.source.reference === to.source.reference && from.source.session === to.source.session &&
  from.source.sequence === to.source.sequence

const patchTo = (record: MemoryRecord): Patch => ({
  summary: record.summaryDerived ? undefined : record.summary,
  body: record.body,
  tags: record.tags,
  importance: record.importance,
  confidence: record.confidence ?? null,
  links: record.links,
  data: record.data,
  metadata: record.metadata,
  invalidAt: record.invalidAt ?? null,
  expiresAt: record.expiresAt ?? null,
  supersededBy: record.supersededBy ?? null
})
