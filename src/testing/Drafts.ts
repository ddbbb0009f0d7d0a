/** Generators of random valid drafts. The texts of the drafts use all of Unicode. */
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import { Draft } from "../domain/MemoryRecord.ts"
import { id } from "./Sample.ts"

const { constantFrom, integer, nat, oneof, option, record } = FastCheck

/**
 * Generates valid drafts with an id, and with a kind that accepts any data. The clock of a test starts at time 0. No draft expires within
 * ten minutes of that time.
 */
export const anyDraft: FastCheck.Arbitrary<Draft> = record({
  draft: Arbitrary.make(Draft),
  name: nat(),
  kind: oneof(constantFrom("user", "project", "reference", "working"), FastCheck.stringMatching(/^x[a-z0-9_-]{0,63}$/)),
  expiresAt: option(integer({ min: 600_001 }), { nil: undefined })
}).map(({ draft, expiresAt, kind, name }) => ({
  ...draft,
  id: id(`draft ${name}`),
  kind,
  expiresAt,
  summary: draft.body.trim() === "" ? draft.summary ?? "blank" : draft.summary,
  tags: draft.tags?.filter((tag) => tag.trim().toLowerCase() !== "instructions"),
  importance: draft.importance === undefined ? undefined : positive(draft.importance),
  confidence: draft.confidence === undefined ? undefined : positive(draft.confidence),
  links: draft.links?.map((link) => ({ ...link, weight: positive(link.weight) }))
}))

/** Returns 0 for −0, which `JSON.stringify` writes as 0. Returns any other number unchanged. */
const positive = (n: number): number => n === 0 ? 0 : n
