/**
 * Settings of an agent's memory, as the agent's author writes them. `Resume` hashes them together with the rest of a run's spec, to detect
 * that a spec was changed between two runs.
 */
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
  /** Largest number of writes within one turn of a run; 0 means no limit. `MemoryService.turnStart` begins a turn. See `RateLimit`. */
  writesPerTurn: default_(Count, 1),
  /** Whether the agent may write `Global` records. With `deny`, such a write fails with `not_owned`. */
  globalWrites: default_(Schema.Literal("allow", "deny"), "allow"),
  /**
   * Shared scopes (that of the agent, and Global) that a model may write on behalf of a viewer with a user, session or actor id: see
   * `Viewer.mayWrite`. Every conversation that reads such a scope reads what all other conversations wrote there. By default, the
   * model may write neither scope, and the field is absent. So specs of earlier versions, which lack the field, keep their hash.
   */
  sharedWrites: Schema.optional(SharedWrites)
}) {
  /** Returns the form that is hashed: `sharedWrites` sorted and without repeats, and left out if empty. */
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
  /**
   * Topmost directory whose instruction files are read. By default, it is the first directory with `.git`, from the working directory
   * upwards; if there is none, it is the working directory.
   */
  root: Schema.optional(Schema.String),
  /**
   * Largest number of bytes read of a file. A longer text is cut between characters. A note at its end says so, and an issue reports the
   * cut. Default 65,536.
   */
  maxBytesPerFile: default_(Count, maxBytes),
  seedMemory: default_(Schema.Boolean, true),
  /**
   * Key from which the ids of stored instruction records are derived. Set it to get the same ids on every machine. Default: the path of the
   * root.
   */
  projectKey: Schema.optional(Schema.String)
}) {}

/** The settings as a spec file has them: every field is optional. */
export type Input = ConstructorParameters<typeof MemorySpec>[0]
/** Makes a spec; fields that are left out get their defaults. */
export const make = (input: Input = {}): MemorySpec => new MemorySpec(input ?? {})

/**
 * Returns the SHA-256 of the spec's canonical JSON in hex. Neither the order of keys nor a key with the value `undefined` affects the hash.
 * Apply the defaults first (`make`), so that specs of equal meaning have equal hashes. The default `maxBytesPerFile` is hashed as 16,384,
 * the default of earlier versions, so that runs of those versions can be resumed. An explicit limit of 16,384 therefore has the same hash
 * as the default.
 */
export const hashSpec = (spec: unknown): string => sha256(canonicalJson(hashedForm(spec)))

/** Returns the JSON form of a spec, which `hashSpec` hashes and `Resume` compares. @internal */
export const hashedForm = (spec: unknown): unknown =>
  JSON.parse(
    JSON.stringify(spec, (_, value: unknown) =>
      isDefaultLimit(value) ? { ...value, maxBytesPerFile: maxBytesBefore } : value) ?? "null"
  )

/** Whether a value is an `InstructionFilesConfig` (or the JSON of one) whose `maxBytesPerFile` is the default. */
const isDefaultLimit = (value: unknown): value is object =>
  Predicate.isRecord(value) && "filenames" in value && "seedMemory" in value && value["maxBytesPerFile"] === maxBytes
