/**
 * Settings of an agent's memory, written by the agent's author. The settings are part of the spec of a run. `Resume` detects a spec that
 * has changed since the run was saved.
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
  /** Largest number of writing tool calls per turn of a run; 0: no limit. `MemoryService.turnStart` begins a turn. See `RateLimit`. */
  writesPerTurn: default_(Count, 1),
  /**
   * Whether `Global` records may be written through `MemoryService`. With `deny`, such a write fails with `not_owned`. Instruction files
   * are stored anyway.
   */
  globalWrites: default_(Schema.Literal("allow", "deny"), "allow"),
  /**
   * Shared scopes (`agent`, `global`) that a model may write for a viewer with a user, session or actor id: see `Viewer.mayWrite`. All
   * conversations that see a shared scope can read what is written there. Default: none. The field is then absent, as in specs of earlier
   * versions. So these specs keep their hash.
   */
  sharedWrites: Schema.optional(SharedWrites)
}) {
  /** Returns the form that is hashed. `sharedWrites` is sorted, without repeats. An empty `sharedWrites` is left out. */
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
   * Topmost directory whose instruction files are read. Default: the nearest directory with `.git`, upwards from the working directory. If
   * there is none, the default is the working directory.
   */
  root: Schema.optional(Schema.String),
  /**
   * Largest number of bytes that are read from a file. A longer text is cut, gets a note at its end, and is reported as an issue. Default
   * 65,536.
   */
  maxBytesPerFile: default_(Count, maxBytes),
  seedMemory: default_(Schema.Boolean, true),
  /**
   * Key from which the ids of stored instruction records are derived. Set it to get the same ids on every machine. Default: the path of the
   * root.
   */
  projectKey: Schema.optional(Schema.String)
}) {}

/** The input of `make`: the settings, each of them optional. */
export type Input = ConstructorParameters<typeof MemorySpec>[0]
/** Makes a spec; fields that are left out get their defaults. */
export const make = (input: Input = {}): MemorySpec => new MemorySpec(input ?? {})

/**
 * Returns the SHA-256 of the spec's canonical JSON in hex. The order of keys does not affect the hash, nor do keys with the value
 * `undefined`. Apply the defaults with `make` first, so that specs of equal meaning have equal hashes. The default `maxBytesPerFile`,
 * 65,536, is hashed as 16,384, the default of earlier versions. So runs of earlier versions can be resumed. Specs that differ only in these
 * two values have equal hashes.
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
