/** Provenance of the records in a tool's result: what wrote each of them, and how far it is trusted. */
import { type MemoryRecord, Origin, Trust } from "../domain/MemoryRecord.ts"

/** Fields for the output schema of a tool that shows records; `provenanceOf` fills them. */
export const fields = {
  origin: Origin,
  /** 0 is the most trusted, 3 the least. */
  trust: Trust
}

/** Returns the provenance fields of a record. */
export const provenanceOf = (
  { source: { origin, trust } }: MemoryRecord
): Pick<MemoryRecord["source"], "origin" | "trust"> => ({
  origin,
  trust
})
