/**
 * Where a page ended: the recency and id of the last record it showed, sealed with the viewer and the filter. It tells
 * nothing but what was shown, holds while records come and go, and is no secret: a seal that is forged reaches only what
 * the viewer sees anyway.
 */
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import * as MemoryFilter from "../domain/MemoryFilter.ts"
import { MemoryId, ULID_RE } from "../domain/MemoryId.ts"
import { fields } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Position } from "./Retrieval.ts"

type Cursor = typeof MemoryFilter.Cursor.Type

export const make = (viewer: Viewer.Any, filter: MemoryFilter.MemoryFilter, { id, recency }: Position): Cursor => {
  const place = `${recency.toString(36)}-${id}`
  return MemoryFilter.Cursor.make(`${place}-${seal(viewer, filter, place)}`)
}

/** `undefined`: not made for this viewer and filter, or not at all. The page's size may differ. */
export const read = (
  viewer: Viewer.Any,
  filter: MemoryFilter.MemoryFilter,
  cursor: Cursor
): Position | undefined => {
  const [recency = "", id = "", sealed, ...rest] = cursor.length > 100 ? [] : cursor.split("-")
  if (rest.length > 0 || !ULID_RE.test(id) || sealed !== seal(viewer, filter, `${recency}-${id}`)) return undefined
  return { recency: Number.parseInt(recency, 36), id: MemoryId.make(id) }
}

const seal = (viewer: Viewer.Any, filter: MemoryFilter.MemoryFilter, place: string): string => {
  const who = Viewer.isSystem(viewer)
    ? "System"
    : [viewer.reach, ...fields.map((field) => viewer[field]?.normalize("NFC") ?? null)]
  const clauses = { ...filter, after: undefined, limit: undefined }
  return sha256(canonicalJson([Viewer.tenantOf(viewer), who, clauses, place])).slice(0, 32)
}
