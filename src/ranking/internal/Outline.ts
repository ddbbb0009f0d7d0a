/** Outlines: what ranking knows of a record before its texts are read, and the facts that it makes of that. */
import type { Filtered } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { hashOf, type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import type { Fact } from "../Retrieval.ts"
import { foldName } from "../Tokenizer.ts"
import type { Form } from "./Ranker.ts"

/** A record without its texts, as far as matching and ranking need it. A record is its own outline. */
export interface Outline extends Filtered, Pick<MemoryRecord, "confidence" | "updatedAt" | "expiresAt"> {
  readonly body?: string | undefined
  /** Length of the body, where the body is not at hand; in UTF-16 units. */
  readonly size?: number | undefined
  /** Default: read off the body. */
  readonly form?: Form | undefined
  /** `MemoryRecord.textHash`, where the body is not at hand. */
  readonly hash?: string | undefined
}

/** Length of the body, in UTF-16 units. */
export const sizeOf = ({ body, size = 0 }: Pick<Outline, "body" | "size">): number => body?.length ?? size

/** Whether the body has more than 2,000 UTF-16 units: such a record is ranked, and shown, by its best passage. */
export const isLong = (record: Pick<Outline, "body" | "size">): boolean => sizeOf(record) > 2_000

/** Returns the speaker of a record: its actor, else, of turns of earlier releases, its metadata's, else that of its scope. */
export const actorOf = (
  { metadata, scope, source }: Pick<Outline, "metadata" | "scope" | "source">
): string | undefined => {
  const said = source.actor ?? metadata["actorId"]
  return typeof said === "string" ? said : scope === MemoryScope.Global ? undefined : scope.actorId
}

/** The facts of a record whose texts are not at hand, read off its outline when asked: making one costs next to nothing. */
export class OutlineFact implements Fact {
  readonly outline: Outline
  readonly length: number

  constructor(outline: Outline, length: number) {
    this.outline = outline
    this.length = length
  }

  get id(): MemoryId {
    return this.outline.id
  }
  get hash(): string {
    return this.outline.hash ?? ""
  }
  get recency(): number {
    return recencyOf(this.outline)
  }
  get validAt(): number {
    return this.outline.validAt
  }
  get kind(): string {
    return this.outline.kind
  }
  get importance(): number {
    return this.outline.importance
  }
  get confidence(): number | undefined {
    return this.outline.confidence
  }
  get trust(): number {
    return this.outline.source.trust
  }
  get actor(): string | undefined {
    const actor = actorOf(this.outline)
    return actor === undefined ? undefined : foldName(actor)
  }
  get scope(): MemoryScope.MemoryScope {
    return this.outline.scope
  }
  get session(): string | undefined {
    return this.outline.source.session
  }
  get sequence(): number | undefined {
    return this.outline.source.sequence
  }
  get emotion(): unknown {
    return this.outline.data["emotion"]
  }
}

/** The facts of a record in memory. */
export class RecordFact extends OutlineFact {
  readonly record: MemoryRecord

  constructor(record: MemoryRecord, length: number) {
    super(record, length)
    this.record = record
  }

  override get hash(): string {
    return hashOf(this.record)
  }
}
