/** Where a record in a tool's result comes from, and how far it is trusted. */
import { type MemoryRecord, Origin, Trust } from "../domain/MemoryRecord.ts"

/** Fields for the output schema of a tool that shows records. */
export const fields = {
  origin: Origin,
  /** 0 is the most trusted, 3 the least. */
  trust: Trust
}

export const provenanceOf = (
  { source: { origin, trust } }: MemoryRecord
): Pick<MemoryRecord["source"], "origin" | "trust"> => ({
  origin,
  trust
})
