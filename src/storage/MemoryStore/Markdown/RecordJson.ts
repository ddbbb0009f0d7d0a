/** A record as JSON, for the history and for the seal of its file, without the cost of a schema. */
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { Global } from "../../../domain/MemoryScope.ts"

/** A record as its schema encodes it, in JSON: the fields in the schema's order. Cost: a tenth of the schema's. */
export const encoded = (record: MemoryRecord) => {
  const { scope, source } = record
  return {
    tags: record.tags,
    importance: record.importance,
    confidence: record.confidence,
    links: record.links.map(({ to, type, weight }) => ({ to, type, weight })),
    data: record.data,
    metadata: record.metadata,
    validAt: record.validAt,
    invalidAt: record.invalidAt,
    expiresAt: record.expiresAt,
    id: record.id,
    scope: scope === Global
      ? scope
      : {
        userId: scope.userId,
        agentId: scope.agentId,
        runId: scope.runId,
        sessionId: scope.sessionId,
        actorId: scope.actorId
      },
    kind: record.kind,
    summary: record.summary,
    summaryDerived: record.summaryDerived,
    body: record.body,
    source: {
      origin: source.origin,
      trust: source.trust,
      reference: source.reference,
      session: source.session,
      actor: source.actor,
      sequence: source.sequence
    },
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    revision: record.revision,
    supersededBy: record.supersededBy
  }
}
