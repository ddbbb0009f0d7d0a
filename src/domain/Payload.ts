/** What a record of a kind carries in `data`. All of it is JSON, and pleasant as YAML. */
import type * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { Appraisal, VAD } from "./Emotion.ts"
import { MemoryId } from "./MemoryId.ts"

const Unit = Schema.Number.pipe(Schema.between(0, 1))
const Count = Schema.NonNegativeInt
const Millis = Schema.NonNegativeInt
/** Epoch ms, as a date that a hand can write. */
const Instant = Schema.transform(Schema.String, Schema.Int.pipe(Schema.between(0, 8.64e15)), {
  strict: true,
  decode: (text) => Date.parse(text),
  encode: (at) => new Date(at).toISOString()
})
const Triple = { subject: Schema.NonEmptyString, predicate: Schema.NonEmptyString, object: Schema.NonEmptyString }
const Domain = { domain: Schema.optional(Schema.String) }

export type Json = string | number | boolean | null | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [key: string]: Json
}

/** How deep JSON may nest. */
export const maxDepth = 64

/** What survives a file: no `undefined`, NaN, Date, function, lone surrogate or key `__proto__`; at most 64 levels. */
export const Json: Schema.Schema<Json> = Schema.declare((u: unknown): u is Json => isJson(u, maxDepth), {
  identifier: "Json",
  jsonSchema: {},
  message: () => "expected JSON: finite numbers, well-formed text, at most 64 levels, no key __proto__",
  arbitrary: () => (fc) => json(fc).value
})

export const JsonObject: Schema.Schema<JsonObject> = Schema.declare(
  (u: unknown): u is JsonObject => isObject(u) && isJson(u, maxDepth),
  {
    identifier: "JsonObject",
    jsonSchema: { type: "object" },
    message: () => "expected a JSON object: finite numbers, well-formed text, at most 64 levels, no key __proto__",
    arbitrary: () => (fc) => json(fc).object
  }
)

/** A copy that nobody can change; −0 is 0, as in JSON. */
export const freeze = <A extends Json>(json: A): A => copy(json) as A // a copy has the shape of its original

/**
 * The object without fields.
 *
 * @internal
 */
export const empty: JsonObject = Object.freeze({})

/**
 * Returns what an author said with copies of its JSON that nobody can change.
 *
 * @internal
 */
export const owned = <A extends { readonly data?: JsonObject | undefined; readonly metadata?: JsonObject | undefined }>(
  said: A
): A => {
  const { data, metadata } = said
  return data === undefined && metadata === undefined
    ? said
    : { ...said, ...(data && { data: freeze(data) }), ...(metadata && { metadata: freeze(metadata) }) }
}

/**
 * Estimates how long the JSON of a value is, in characters.
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

export const Outcome = Schema.Literal("success", "failure", "partial")

export const Task = Schema.Struct({
  taskId: Schema.String,
  taskType: Schema.optional(Schema.String),
  action: Schema.String,
  outcome: Outcome,
  learnings: Schema.optional(Schema.Array(Schema.String)),
  durationMs: Schema.optional(Millis)
})

/** kind `episodic`: a turn, an event or a task. The counterpart is the record's `actorId`, the time its `validAt`. */
export const Episode = Schema.Struct({
  /** Default `chat_message`; any event name. */
  type: Schema.optional(Schema.String),
  context: Schema.optional(Schema.String),
  emotion: Schema.optional(VAD),
  appraisal: Schema.optional(Appraisal),
  intensity: Schema.optional(Unit),
  task: Schema.optional(Task)
})
export interface Episode extends Schema.Schema.Type<typeof Episode> {}

/** kind `reflection` */
export const Reflection = Schema.Struct({ trigger: Schema.String, emotion: Schema.optional(VAD) })
export interface Reflection extends Schema.Schema.Type<typeof Reflection> {}

/** Fields that mark the reflections of a `BeliefMemory`. Others may have the same trigger, but not the same `beliefMemory`. */
export const marks = {
  hindsight: { trigger: "hindsight", beliefMemory: "effect-memory/hindsight" },
  counterfactual: { trigger: "counterfactual", beliefMemory: "effect-memory/counterfactual" }
} as const
/** The fields of `marks`. @internal */
export const marked = ["trigger", "beliefMemory"] as const

/** Whether a record is a hypothesis on what would have been, which nobody may take for what was. @internal */
export const isCounterfactual = ({ data, kind }: { readonly kind: string; readonly data: JsonObject }): boolean =>
  kind === "reflection" && data["beliefMemory"] === marks.counterfactual.beliefMemory

/** Returns the kind of a record in words that a model is to read: a counterfactual's say what it is. @internal */
export const kindInWords = (record: { readonly kind: string; readonly data: JsonObject }): string =>
  isCounterfactual(record) ? "counterfactual: what might have been, not what was" : record.kind

/** kind `reflection`, on how a task came out. */
export const Hindsight = Schema.Struct({
  trigger: Schema.Literal(marks.hindsight.trigger),
  beliefMemory: Schema.Literal(marks.hindsight.beliefMemory),
  taskId: Schema.String,
  expected: Schema.String,
  actual: Schema.String,
  /** Whether it came out as expected. */
  matched: Schema.Boolean,
  /** Beliefs that were held before. */
  beliefs: Schema.Array(MemoryId),
  /** Beliefs that it corrected. */
  corrected: Schema.Array(MemoryId),
  lessons: Schema.Array(Schema.String)
})
export interface Hindsight extends Schema.Schema.Type<typeof Hindsight> {}

/** kind `reflection`: a hypothesis, which the body states, and its predictions. */
export const Counterfactual = Schema.Struct({
  trigger: Schema.Literal(marks.counterfactual.trigger),
  beliefMemory: Schema.Literal(marks.counterfactual.beliefMemory),
  taskId: Schema.optional(Schema.String),
  /** Beliefs that would change. */
  beliefs: Schema.Array(MemoryId),
  predicted: Schema.Array(Schema.String),
  /** The outcome. Absent until the hypothesis was tried. */
  actual: Schema.optional(Schema.Array(Schema.String))
})
export interface Counterfactual extends Schema.Schema.Type<typeof Counterfactual> {}

/** kind `semantic`, where it is a fact rather than a sentence. Validity is the record's. */
export const Fact = Schema.Struct({ ...Triple, ...Domain })
export interface Fact extends Schema.Schema.Type<typeof Fact> {}

/** What was done to a belief, the revision that it made, and why. */
export const Audited = Schema.Struct({
  action: Schema.Literal("revise", "supersede", "reinforce", "weaken", "correct"),
  /** Epoch ms. */
  at: Instant,
  revision: Schema.Int.pipe(Schema.positive()),
  /** From then on, 0..1. */
  confidence: Unit,
  reason: Schema.String,
  evidence: Schema.optional(Schema.Array(MemoryId))
})
export interface Audited extends Schema.Schema.Type<typeof Audited> {}

/** kind `belief` */
export const Belief = Schema.Struct({
  ...Triple,
  ...Domain,
  sourceType: Schema.Literal("observation", "inference", "external", "user_input", "hindsight", "prior"),
  derivedFrom: Schema.optional(Schema.Array(MemoryId)),
  /** Oldest first: every change of it, and why. */
  audit: Schema.optional(Schema.Array(Audited))
})
export interface Belief extends Schema.Schema.Type<typeof Belief> {}

/** Levels of confidence as numbers. */
export const confidenceOf = { high: 0.9, medium: 0.6, low: 0.3, speculative: 0.1 } as const

/** A level of confidence. */
export type Level = keyof typeof confidenceOf

/** Returns the level whose number is nearest; between two of them the surer one. */
export const levelOf = (confidence: number): Level =>
  confidence >= 0.75 ? "high" : confidence >= 0.45 ? "medium" : confidence >= 0.2 ? "low" : "speculative"

/** kind `procedural`. `successRate` is exactly successes ÷ executions. */
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
export interface Procedure extends Schema.Schema.Type<typeof Procedure> {}

/** kind `resource` */
export const Resource = Schema.Struct({
  type: Schema.Literal("file", "url", "api", "database", "other"),
  location: Schema.NonEmptyString,
  mimeType: Schema.optional(Schema.String),
  /** bytes */
  size: Schema.optional(Count),
  hash: Schema.optional(Schema.String),
  /** Epoch ms, of what is there. */
  lastModified: Schema.optional(Instant)
})
export interface Resource extends Schema.Schema.Type<typeof Resource> {}

/** kind `vault` */
export const VaultEntry = Schema.Struct({
  category: Schema.Literal("insight", "decision", "pattern", "config", "archive"),
  title: Schema.NonEmptyString
})
export interface VaultEntry extends Schema.Schema.Type<typeof VaultEntry> {}

/** kind `core` */
export const Identity = Schema.Struct({
  role: Schema.String,
  name: Schema.String,
  constraints: Schema.Array(Schema.String),
  capabilities: Schema.Array(Schema.String),
  temperament: Schema.optional(Schema.Literal("cautious", "balanced", "exploratory"))
})
export interface Identity extends Schema.Schema.Type<typeof Identity> {}

/** kind `entity`; its relations are the record's links. */
export const Entity = Schema.Struct({
  name: Schema.NonEmptyString,
  type: Schema.String,
  properties: Schema.optional(JsonObject)
})
export interface Entity extends Schema.Schema.Type<typeof Entity> {}

/** kind `learning`: of a session; `confidence` is the record's. */
export const Learning = Schema.Struct({
  type: Schema.Literal("learning", "task", "error", "summary"),
  context: Schema.optional(Schema.String),
  /** Number or name that others know a task by. */
  issue: Schema.optional(Schema.String),
  /** Difficulties of a task. */
  challenges: Schema.optional(Schema.Array(Schema.String)),
  /** Milliseconds that a task took, or the session that a summary ends. */
  durationMs: Schema.optional(Millis),
  solution: Schema.optional(Schema.String),
  /** Files that an error is about, such as `src/*.ts`. */
  filePattern: Schema.optional(Schema.String)
})
export interface Learning extends Schema.Schema.Type<typeof Learning> {}

/** kind `entry`: key and value. Without a value it is the body. */
export const Entry = Schema.Struct({ namespace: Schema.String, key: Schema.String, value: Schema.optional(Json) })
export interface Entry extends Schema.Schema.Type<typeof Entry> {}

/** kind `note`: the attributes of A-MEM. A note may be without them: a plain text, to which `AgenticMemory` adds them. */
export const Note = Schema.Struct({
  keywords: Schema.Array(Schema.String).pipe(Schema.maxItems(10)),
  entities: Schema.Array(Schema.String).pipe(Schema.maxItems(10)),
  context: Schema.String.pipe(Schema.maxLength(200))
})
export interface Note extends Schema.Schema.Type<typeof Note> {}

/**
 * Returns the object without its fields that are `undefined`.
 *
 * @internal
 */
export const definedFields = <A extends object>(all: A): { readonly [K in keyof A]: Exclude<A[K], undefined> } =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as never // a field that was `undefined` is optional to its readers

const copy = (json: Json): Json => {
  if (typeof json === "number") return json + 0
  if (typeof json !== "object" || json === null) return json
  return Object.freeze(
    isArray(json)
      ? json.map(copy)
      : Object.fromEntries(Object.entries(json).map(([key, value]) => [key, copy(value)]))
  )
}

// `Array.isArray` does not narrow a ReadonlyArray
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
  if (Array.isArray(u)) return u.every((item) => isJson(item, depth - 1))
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
