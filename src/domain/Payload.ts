/**
 * Schemas of the field `data` of a record. Each built-in kind that restricts `data` has at least one schema here. Everything in `data` is
 * JSON. Times are encoded as ISO dates, which people can read in YAML.
 */
import type * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { Appraisal, VAD } from "./Emotion.ts"
import { MemoryId } from "./MemoryId.ts"

const Unit = Schema.Number.pipe(Schema.between(0, 1))
const Count = Schema.NonNegativeInt
const Millis = Schema.NonNegativeInt
/** Schema of a time: epoch ms, encoded as an ISO date, which people can read and write. */
const Instant = Schema.transform(Schema.String, Schema.Int.pipe(Schema.between(0, 8.64e15)), {
  strict: true,
  decode: (text) => Date.parse(text),
  encode: (at) => new Date(at).toISOString()
})
const Triple = { subject: Schema.NonEmptyString, predicate: Schema.NonEmptyString, object: Schema.NonEmptyString }
const Domain = { domain: Schema.optional(Schema.String) }

/** A JSON value. */
export type Json = string | number | boolean | null | ReadonlyArray<Json> | JsonObject
/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: Json
}

/** Greatest depth of a JSON value: the number of objects and arrays around its innermost value. */
export const maxDepth = 64

/**
 * Schema of JSON that can be written to a file and read back unchanged, except that −0 becomes 0. Refuses `undefined`, functions, objects
 * of a class such as Date, sparse arrays, numbers that are not finite, lone surrogates, and the key `__proto__`. Refuses a value that is
 * nested in more than 64 objects and arrays.
 */
export const Json: Schema.Schema<Json> = Schema.declare((u: unknown): u is Json => isJson(u, maxDepth), {
  identifier: "Json",
  jsonSchema: {},
  message: () => "expected JSON: finite numbers, well-formed text, at most 64 levels, no key __proto__",
  arbitrary: () => (fc) => json(fc).value
})

/** Schema of a JSON object, with the limits of `Json`. */
export const JsonObject: Schema.Schema<JsonObject> = Schema.declare(
  (u: unknown): u is JsonObject => isObject(u) && isJson(u, maxDepth),
  {
    identifier: "JsonObject",
    jsonSchema: { type: "object" },
    message: () => "expected a JSON object: finite numbers, well-formed text, at most 64 levels, no key __proto__",
    arbitrary: () => (fc) => json(fc).object
  }
)

/** Returns a deep copy that is frozen at every depth. −0 becomes 0, since `JSON.stringify` writes −0 as 0. */
export const freeze = <A extends Json>(json: A): A => copy(json) as A // a copy has the shape of its original

/**
 * A frozen empty object, the shared default of `data` and `metadata`.
 *
 * @internal
 */
export const empty: JsonObject = Object.freeze({})

/**
 * Returns the draft or patch with frozen copies of `data` and `metadata`. Later changes of the original objects do not change the store.
 *
 * @internal
 */
export const owned = <A extends { readonly data?: JsonObject | undefined; readonly metadata?: JsonObject | undefined }>(
  content: A
): A => {
  const { data, metadata } = content
  return data === undefined && metadata === undefined
    ? content
    : { ...content, ...(data && { data: freeze(data) }), ...(metadata && { metadata: freeze(metadata) }) }
}

/**
 * Estimates the length of the JSON text of a value, in characters.
 *
 * @internal
 */
export const sizeOf = (json: Json): number => {
  if (typeof json === "string") return json.length + 2
  if (typeof json !== "object" || json === null) return 8
  let size = 2
  for (const [key, value] of Object.entries(json)) size += key.length + 4 + sizeOf(value)
  return size
}

/** Schema of the outcome of a task. */
export const Outcome = Schema.Literal("success", "failure", "partial")

/** Schema of the task that an episode reports. `durationMs` is the duration of the task in milliseconds. */
export const Task = Schema.Struct({
  taskId: Schema.String,
  taskType: Schema.optional(Schema.String),
  action: Schema.String,
  outcome: Outcome,
  learnings: Schema.optional(Schema.Array(Schema.String)),
  durationMs: Schema.optional(Millis)
})

/**
 * Schema of the data of kind `episodic`: a turn of a conversation, an event or a task. The record's field `validAt` is the time of the
 * event. The `actorId` of the record's scope is the id of the person with whom the agent talked.
 */
export const Episode = Schema.Struct({
  /** Name of the event. Default `chat_message`. */
  type: Schema.optional(Schema.String),
  context: Schema.optional(Schema.String),
  emotion: Schema.optional(VAD),
  appraisal: Schema.optional(Appraisal),
  intensity: Schema.optional(Unit),
  task: Schema.optional(Task)
})
/** An episode, as its schema decodes it. */
export interface Episode extends Schema.Schema.Type<typeof Episode> {}

/** Schema of the data of kind `reflection`. */
export const Reflection = Schema.Struct({ trigger: Schema.String, emotion: Schema.optional(VAD) })
/** A reflection, as its schema decodes it. */
export interface Reflection extends Schema.Schema.Type<typeof Reflection> {}

/**
 * The two fields of `data` that mark the reflections of `BeliefMemory`. The field `trigger` alone is not enough, since a reflection of
 * another program may have the same `trigger`.
 */
export const marks = {
  hindsight: { trigger: "hindsight", beliefMemory: "effect-memory/hindsight" },
  counterfactual: { trigger: "counterfactual", beliefMemory: "effect-memory/counterfactual" }
} as const
/** Names of the two fields of `data` by which `BeliefMemory` recognises the reflections that it wrote. @internal */
export const marked = ["trigger", "beliefMemory"] as const

/** Whether a record is a counterfactual: a hypothesis about events that did not happen. Never show it as a fact. @internal */
export const isCounterfactual = ({ data, kind }: { readonly kind: string; readonly data: JsonObject }): boolean =>
  kind === "reflection" && data["beliefMemory"] === marks.counterfactual.beliefMemory

/** Returns the kind of a record in words for a model. For a counterfactual, the words say that the events did not happen. @internal */
export const kindInWords = (record: { readonly kind: string; readonly data: JsonObject }): string =>
  isCounterfactual(record) ? "counterfactual: what might have been, not what was" : record.kind

/** Schema of the data of a hindsight: a record of kind `reflection` that compares a task's actual outcome with the expected one. */
export const Hindsight = Schema.Struct({
  trigger: Schema.Literal("hindsight"),
  beliefMemory: Schema.Literal("effect-memory/hindsight"),
  taskId: Schema.String,
  expected: Schema.String,
  actual: Schema.String,
  /** Whether the outcome was as expected. */
  matched: Schema.Boolean,
  /** Ids of the beliefs that the agent had before the task. */
  beliefs: Schema.Array(MemoryId),
  /** Ids of the beliefs that the outcome corrected. */
  corrected: Schema.Array(MemoryId),
  lessons: Schema.Array(Schema.String)
})
/** A hindsight, as its schema decodes it. */
export interface Hindsight extends Schema.Schema.Type<typeof Hindsight> {}

/**
 * Schema of the data of a counterfactual: a hypothesis about events that did not happen. A counterfactual is a record of kind `reflection`.
 * The body of the record states the hypothesis.
 */
export const Counterfactual = Schema.Struct({
  trigger: Schema.Literal("counterfactual"),
  beliefMemory: Schema.Literal("effect-memory/counterfactual"),
  taskId: Schema.optional(Schema.String),
  /** Ids of the beliefs that would change if the hypothesis were true. */
  beliefs: Schema.Array(MemoryId),
  predicted: Schema.Array(Schema.String),
  /** Outcome that was observed when the hypothesis was tested. Absent before the test. */
  actual: Schema.optional(Schema.Array(Schema.String))
})
/** A counterfactual, as its schema decodes it. */
export interface Counterfactual extends Schema.Schema.Type<typeof Counterfactual> {}

/** Schema of a fact as a triple: the data of kind `semantic`. The record's `validAt` and `invalidAt` say when the fact is valid. */
export const Fact = Schema.Struct({ ...Triple, ...Domain })
/** A fact, as its schema decodes it. */
export interface Fact extends Schema.Schema.Type<typeof Fact> {}

/** Schema of the reason for a change of a belief: a text, and optionally ids of records as evidence. */
export const Because = Schema.Struct({
  reason: Schema.String.pipe(Schema.pattern(/\S/, { message: () => "expected a reason" })),
  evidence: Schema.optional(Schema.Array(MemoryId))
})
/** The reason for a change of a belief: a text that is not blank, and optionally ids of records as evidence. */
export interface Because extends Schema.Schema.Type<typeof Because> {}

/** Schema of one change of a belief: the action, the revision of the record after the change, and the reason. */
export const Audited = Schema.Struct({
  action: Schema.Literal("revise", "supersede", "reinforce", "weaken", "correct"),
  /** Time of the change, epoch ms. */
  at: Instant,
  revision: Schema.Int.pipe(Schema.positive()),
  /** Confidence after the change, 0..1. */
  confidence: Unit,
  reason: Schema.String,
  evidence: Schema.optional(Schema.Array(MemoryId))
})
/** A change of a belief, as its schema decodes it. */
export interface Audited extends Schema.Schema.Type<typeof Audited> {}

/** Schema of the data of kind `belief`. */
export const Belief = Schema.Struct({
  ...Triple,
  ...Domain,
  sourceType: Schema.Literal("observation", "inference", "external", "user_input", "hindsight", "prior"),
  derivedFrom: Schema.optional(Schema.Array(MemoryId)),
  /** Changes of the belief, oldest first. */
  audit: Schema.optional(Schema.Array(Audited))
})
/** A belief, as its schema decodes it. */
export interface Belief extends Schema.Schema.Type<typeof Belief> {}

/** Confidence, 0..1, of each named level. */
export const confidenceOf = { high: 0.9, medium: 0.6, low: 0.3, speculative: 0.1 } as const

/** The name of a level of confidence. */
export type Level = keyof typeof confidenceOf

/** Returns the level that is nearest to a number. A number halfway between two levels gets the higher level. */
export const levelOf = (confidence: number): Level =>
  confidence >= 0.75 ? "high" : confidence >= 0.45 ? "medium" : confidence >= 0.2 ? "low" : "speculative"

/** Schema of the data of kind `procedural`. The success rate of a procedure is `successes / executions`. */
export const Procedure = Schema.Struct({
  name: Schema.NonEmptyString,
  steps: Schema.Array(Schema.Struct({
    action: Schema.NonEmptyString,
    parameters: Schema.optional(JsonObject),
    preconditions: Schema.optional(Schema.Array(Schema.String)),
    postconditions: Schema.optional(Schema.Array(Schema.String))
  })).pipe(Schema.maxItems(100)),
  triggers: Schema.Array(Schema.NonEmptyString),
  successes: Count,
  executions: Count
})
/** A procedure, as its schema decodes it. */
export interface Procedure extends Schema.Schema.Type<typeof Procedure> {}

/** Schema of the data of kind `resource`. */
export const Resource = Schema.Struct({
  type: Schema.Literal("file", "url", "api", "database", "other"),
  location: Schema.NonEmptyString,
  mimeType: Schema.optional(Schema.String),
  /** Size in bytes. */
  size: Schema.optional(Count),
  hash: Schema.optional(Schema.String),
  /** Time at which the content at the location was last changed, epoch ms. */
  lastModified: Schema.optional(Instant)
})
/** A resource, as its schema decodes it. */
export interface Resource extends Schema.Schema.Type<typeof Resource> {}

/** Schema of the data of kind `vault`. */
export const VaultEntry = Schema.Struct({
  category: Schema.Literal("insight", "decision", "pattern", "config", "archive"),
  title: Schema.NonEmptyString
})
/** The data of a `KnowledgeVault` entry, as its schema decodes it. */
export interface VaultEntry extends Schema.Schema.Type<typeof VaultEntry> {}

/** Schema of the data of kind `core`: the identity of an agent. */
export const Identity = Schema.Struct({
  role: Schema.String,
  name: Schema.String,
  constraints: Schema.Array(Schema.String),
  capabilities: Schema.Array(Schema.String),
  temperament: Schema.optional(Schema.Literal("cautious", "balanced", "exploratory"))
})
/** An identity, as its schema decodes it. */
export interface Identity extends Schema.Schema.Type<typeof Identity> {}

/** Schema of the data of kind `entity`. The relations of an entity are the links of its record. */
export const Entity = Schema.Struct({
  name: Schema.NonEmptyString,
  type: Schema.String,
  properties: Schema.optional(JsonObject)
})
/** An entity, as its schema decodes it. */
export interface Entity extends Schema.Schema.Type<typeof Entity> {}

/** Schema of the data of kind `learning`: what an agent learned in a session. The confidence is a field of the record, not of `data`. */
export const Learning = Schema.Struct({
  type: Schema.Literal("learning", "task", "error", "summary"),
  context: Schema.optional(Schema.String),
  /** Number or name of the task in an issue tracker. */
  issue: Schema.optional(Schema.String),
  /** Difficulties that the agent met in the task. */
  challenges: Schema.optional(Schema.Array(Schema.String)),
  /** Duration in milliseconds. For the type `summary`, the duration of the session; for other types, the duration of the task. */
  durationMs: Schema.optional(Millis),
  solution: Schema.optional(Schema.String),
  /** Pattern of the files that the error is about, such as `src/*.ts`. */
  filePattern: Schema.optional(Schema.String)
})
/** A learning, as its schema decodes it. */
export interface Learning extends Schema.Schema.Type<typeof Learning> {}

/** Schema of the data of kind `entry`: a namespace, a key and a value. Without `value`, the body of the record is the value. */
export const Entry = Schema.Struct({ namespace: Schema.String, key: Schema.String, value: Schema.optional(Json) })
/** An entry (a namespace, a key and a value), as its schema decodes it. */
export interface Entry extends Schema.Schema.Type<typeof Entry> {}

/**
 * Schema of the data of kind `note`: the attributes of a note in the method A-MEM (Xu et al., 2025). `AgenticMemory` derives the attributes
 * that a note lacks.
 */
export const Note = Schema.Struct({
  keywords: Schema.Array(Schema.String).pipe(Schema.maxItems(10)),
  entities: Schema.Array(Schema.String).pipe(Schema.maxItems(10)),
  context: Schema.String.pipe(Schema.maxLength(200))
})
/** The attributes of a note, as its schema decodes it. */
export interface Note extends Schema.Schema.Type<typeof Note> {}

/**
 * Returns a copy of the object without the fields whose value is `undefined`.
 *
 * @internal
 */
export const definedFields = <A extends object>(all: A): { readonly [K in keyof A]: Exclude<A[K], undefined> } =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as never // a field that was removed is optional in every caller's type

const copy = (json: Json): Json => {
  if (typeof json === "number") return json + 0
  if (typeof json !== "object" || json === null) return json
  return Object.freeze(
    isArray(json)
      ? json.map(copy)
      : Object.fromEntries(Object.entries(json).map(([key, value]) => [key, copy(value)]))
  )
}

// needed because `Array.isArray` does not narrow to a ReadonlyArray
const isArray = (u: unknown): u is ReadonlyArray<Json> => Array.isArray(u)

const isObject = (u: unknown): u is Readonly<Record<string, unknown>> => {
  if (typeof u !== "object" || u === null || Array.isArray(u)) return false
  const prototype: unknown = Object.getPrototypeOf(u)
  return prototype === Object.prototype || prototype === null
}

const isJson = (u: unknown, depth: number): u is Json => {
  if (depth < 0) return false
  if (typeof u === "string") return u.isWellFormed()
  if (typeof u === "number") return Number.isFinite(u)
  if (typeof u === "boolean" || u === null) return true
  if (Array.isArray(u)) {
    for (let n = 0; n < u.length; n++) if (!isJson(u[n], depth - 1)) return false // `every` would skip holes in a sparse array
    return true
  }
  return isObject(u) &&
    Object.keys(u).every((key) => key !== "__proto__" && key.isWellFormed() && isJson(u[key], depth - 1))
}

const json = (fc: Omit<typeof FastCheck, "default">) =>
  fc.letrec<{ readonly value: Json; readonly object: JsonObject }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      fc.fullUnicodeString({ maxLength: 20 }),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      tie("object")
    ),
    object: fc.dictionary(fc.fullUnicodeString({ maxLength: 10 }).filter((key) => key !== "__proto__"), tie("value"), {
      maxKeys: 4
    })
  }))
