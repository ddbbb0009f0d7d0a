/** Settings of an agent's memory that its author writes down. They are part of the hash that `Resume` compares. */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import { SharedWrites } from "../domain/Viewer.ts"

const Count = Schema.NonNegativeInt
const default_ = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  schema.pipe(Schema.optionalWith({ default: () => value }))

/** Settings of an agent's memory, with their defaults. */
export class MemorySpec extends Schema.Class<MemorySpec>("@memory/MemorySpec")({
  enabled: default_(Schema.Boolean, true),
  includeIndex: default_(Schema.Boolean, true),
  maxIndexEntries: default_(Count, 30),
  allowForget: default_(Schema.Boolean, false),
  /** Most writes per run and turn; 0 = no limit. `MemoryService.turnStart` begins a turn. See `RateLimit`. */
  writesPerTurn: default_(Count, 1),
  /** Whether the agent may write `Global` records; with `deny` such a write fails with `not_owned`. */
  globalWrites: default_(Schema.Literal("allow", "deny"), "allow"),
  /**
   * Shared scopes that a model may write for a viewer that names a user, session or actor: see `Viewer.mayWrite`. Every
   * conversation reads what another one wrote there. Default: none. Absent at the default, so that specs written before
   * this field existed keep their hash.
   */
  sharedWrites: Schema.optional(SharedWrites)
}) {
  /** The fields in the form that is hashed: `sharedWrites` sorted and without repeats, an empty one left out. */
  toJSON(): typeof MemorySpec.Encoded {
    const { sharedWrites = [], ...fields } = this
    return sharedWrites.length === 0 ? fields : { ...fields, sharedWrites: Array.from(new Set(sharedWrites)).sort() }
  }
}

const maxBytes = 65_536
const maxBytesBefore = 16_384

/** Settings of instruction files, with their defaults. */
export class InstructionFilesConfig extends Schema.Class<InstructionFilesConfig>("@memory/InstructionFilesConfig")({
  filenames: default_(Schema.Array(Schema.NonEmptyString), ["AGENTS.md", "CLAUDE.md"]),
  /** Root of the tree. Default: the nearest ancestor of cwd with `.git`, else cwd. */
  root: Schema.optional(Schema.String),
  /** Most bytes of a file. A longer text is cut at a whole character and says so, and an issue reports it. Default 65,536. */
  maxBytesPerFile: default_(Count, maxBytes),
  seedMemory: default_(Schema.Boolean, true),
  /** Key from which the ids of seeded records are made, the same on every machine. Default: the root's path. */
  projectKey: Schema.optional(Schema.String)
}) {}

/** The settings as a spec file has them: every field is optional. */
export type Input = ConstructorParameters<typeof MemorySpec>[0]
/** Makes a spec; fields that are left out get their defaults. */
export const make = (input: Input = {}): MemorySpec => new MemorySpec(input ?? {})

/**
 * SHA-256 of canonical JSON, hex: neither the order of keys nor `undefined` counts. Give it specs with their defaults
 * applied (`make`), and equal meaning is an equal hash. The default limit of `InstructionFilesConfig` is hashed as that of earlier
 * versions, 16,384, so that their runs go on; a limit of 16,384 counts as the default.
 */
export const hashSpec = (spec: unknown): string => sha256(canonicalJson(hashedForm(spec)))

/** Returns the JSON that is hashed and compared. @internal */
export const hashedForm = (spec: unknown): unknown =>
  JSON.parse(
    JSON.stringify(spec, (_, value: unknown) =>
      isDefaultLimit(value) ? { ...value, maxBytesPerFile: maxBytesBefore } : value) ?? "null"
  )

/** Whether a value of JSON is an `InstructionFilesConfig` with the default limit, or the JSON of one. */
const isDefaultLimit = (value: unknown): value is object =>
  Predicate.isRecord(value) && "filenames" in value && "seedMemory" in value && value["maxBytesPerFile"] === maxBytes
