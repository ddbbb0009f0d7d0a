/** Seed 0's episode and reflection, to ours and back. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Emotion from "../../domain/Emotion.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import * as MemoryId from "../../domain/MemoryId.ts"
import { deriveSummary, MemoryRecord } from "../../domain/MemoryRecord.ts"
import { fields, Global, type Ids, key, type MemoryScope, normalise } from "../../domain/MemoryScope.ts"
import * as Payload from "../../domain/Payload.ts"
import * as SchemaIssues from "../../domain/SchemaIssues.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { invalid } from "../../storage/Check.ts"
import type { DraftOf, Typed } from "../TypedMemory.ts"

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })
const Felt = Schema.Struct({ V: maybe(Schema.Number), A: maybe(Schema.Number), D: maybe(Schema.Number) })
const common = {
  id: Schema.String,
  timestamp: Schema.Number,
  sourceEntity: maybe(Schema.String),
  emotionSnapshot: maybe(Felt)
}
export const SeedEpisode = Schema.Struct({
  ...common,
  type: maybe(Schema.String),
  context: maybe(Schema.String),
  content: maybe(Schema.String),
  appraisal: maybe(Emotion.AppraisalWire),
  intensity: maybe(Schema.Number),
  importance: maybe(Schema.Number)
})
export const SeedReflection = Schema.Struct({ ...common, content: Schema.String, trigger: Schema.String })

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export const parse = <A, I>(op: string, schema: Schema.Schema<A, I>, row: object): Io<A> =>
  Effect.mapError(
    Schema.decodeUnknown(schema, { errors: "all" })(row),
    (error) => invalid(op, ...SchemaIssues.lines(error))
  )

/** An id of the seed's is its own, per viewer; saved again it is the same record. */
export const foreign = (viewer: Viewer.Any, id: string): MemoryId.MemoryId =>
  MemoryId.foreign("molroo", JSON.stringify([key(scopeOf(viewer, undefined)), id]))

export type SeedEpisode = typeof SeedEpisode.Type
export type SeedReflection = typeof SeedReflection.Type

export const episodeOf = (seed: SeedEpisode, viewer: Viewer.Any, now: number): DraftOf<Payload.Episode> => ({
  id: foreign(viewer, seed.id),
  ...commonOf(seed, viewer, now),
  body: seed.content ?? seed.context ?? "",
  importance: unit(seed.importance, 0.5),
  data: defined({
    type: seed.type,
    context: seed.content === undefined || seed.context === seed.content ? undefined : seed.context,
    emotion: seed.emotionSnapshot && Emotion.clampVAD(seed.emotionSnapshot),
    appraisal: seed.appraisal,
    intensity: seed.intensity === undefined ? undefined : unit(seed.intensity, 0)
  })
})

/** The seed's ids are of the millisecond: two of one are two, by what they say. */
export const reflectionOf = (seed: SeedReflection, viewer: Viewer.Any, now: number): DraftOf<Payload.Reflection> => ({
  id: foreign(viewer, JSON.stringify([seed.id, seed.sourceEntity, seed.content])),
  ...commonOf(seed, viewer, now),
  body: seed.content,
  metadata: defined({ sourceEntity: seed.sourceEntity }),
  data: defined({
    trigger: seed.trigger,
    emotion: seed.emotionSnapshot && Emotion.clampVAD(seed.emotionSnapshot)
  })
})

const commonOf = (seed: SeedEpisode | SeedReflection, viewer: Viewer.Any, now: number) => ({
  scope: scopeOf(viewer, seed.sourceEntity),
  validAt: seed.timestamp >= 0 ? Math.min(Math.floor(seed.timestamp), now) : now,
  source: { reference: seed.id }
})

const scopeOf = (viewer: Viewer.Any, sourceEntity: string | undefined): MemoryScope => {
  const ids: Ids = Viewer.isSystem(viewer) ? {} : viewer
  const own = sourceEntity === ids.agentId ? undefined : sourceEntity // the persona itself
  const scope = defined({ ...Object.fromEntries(fields.map((field) => [field, ids[field]])), actorId: own })
  return Object.keys(scope).length === 0 ? Global : normalise(scope)
}

export const typed = <A extends object>(op: string, kind: string, draft: DraftOf<A>): Io<Typed<A>> =>
  Effect.try({
    try: () => {
      const { body, id, importance = 0.5, metadata = {}, scope, source, validAt = 0, ...rest } = draft
      const data = Schema.decodeUnknownSync(Payload.JsonObject)(defined(draft.data))
      const summary = draft.summary ?? (deriveSummary(body) || kind)
      const record = {
        ...rest,
        ...{
          id: id!,
          kind,
          scope,
          summary,
          body,
          importance,
          data,
          metadata,
          validAt,
          createdAt: validAt,
          revision: 1
        },
        ...{ tags: draft.tags ?? [], links: draft.links ?? [] },
        source: { origin: "import" as const, trust: 2 as const, ...source }
      }
      return { record: new MemoryRecord(record), data: draft.data }
    },
    catch: (cause) =>
      MemoryError.make("invalid_draft", { op, message: "not an episode", detail: { issues: [String(cause)] } })
  })

export const toEpisode = ({ data, record }: Typed<Payload.Episode>) =>
  defined({
    id: record.source.reference ?? record.id,
    timestamp: record.validAt,
    sourceEntity: record.scope === Global ? undefined : record.scope.actorId,
    type: data.type,
    context: data.context ?? record.body,
    content: record.body,
    appraisal: data.appraisal && Schema.encodeSync(Emotion.AppraisalWire)(data.appraisal),
    emotionSnapshot: data.emotion ?? Emotion.neutral,
    intensity: data.intensity,
    importance: record.importance
  })

export const toReflection = ({ data, record }: Typed<Payload.Reflection>) => {
  const said = record.metadata["sourceEntity"]
  const entity = typeof said === "string" ? said : record.scope === Global ? undefined : record.scope.actorId
  return {
    id: record.source.reference ?? record.id,
    timestamp: record.validAt,
    ...(entity !== undefined && { sourceEntity: entity }),
    content: record.body,
    trigger: data.trigger,
    emotionSnapshot: data.emotion ?? Emotion.neutral
  }
}

const unit = (value: number | undefined, otherwise: number): number =>
  value === undefined || Number.isNaN(value) ? otherwise : Math.min(1, Math.max(0, value))

/** Without what is `undefined`. */
export const defined = <A extends object>(all: A): { readonly [K in keyof A]: Exclude<A[K], undefined> } =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as never // optional for who reads it
