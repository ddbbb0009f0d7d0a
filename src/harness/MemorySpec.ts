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
  /** Whether the agent may write `Global` records; with `deny` such a write fails with `not_owned`. */
  globalWrites: default_(Schema.Literal("allow", "deny"), "allow"),
  /**
   * Shared scopes (the agent's, Global) that a model may write on behalf of a viewer with a user, session or actor id: see
   * `Viewer.mayWrite`. Every conversation that reads such a scope reads what all others wrote there. Default: none; the field is then
   * absent, so that older specs without it keep their hash.
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
  /** Topmost directory whose instruction files are read. Default: cwd or its nearest ancestor that has `.git`; if none has it, cwd. */
  root: Schema.optional(Schema.String),
  /**
   * Largest number of bytes read of a file. A longer text is cut between characters, a note at its end says so, and an issue reports it.
   * Default 65,536.
   */
  maxBytesPerFile: default_(Count, maxBytes),
  seedMemory: default_(Schema.Boolean, true),
  /**
   * Key from which the ids of stored instruction records are derived; set it to get the same ids on every machine. Default: the root's
   * path.
   */
  projectKey: Schema.optional(Schema.String)
}) {}

/** The settings as a spec file has them: every field is optional. */
export type Input = ConstructorParameters<typeof MemorySpec>[0]
/** Makes a spec; fields that are left out get their defaults. */
export const make = (input: Input = {}): MemorySpec => new MemorySpec(input ?? {})

/**
 * Returns the SHA-256 of the spec's canonical JSON, in hex; the order of keys and `undefined` values do not affect it. Apply the defaults
 * first (`make`), so that specs of equal meaning have equal hashes. The default `maxBytesPerFile` is hashed as 16,384, the default of
 * earlier versions, so that runs of those versions can be resumed; an explicit limit of 16,384 therefore hashes like the default.
 */
export const hashSpec = (spec: unknown): string => sha256(canonicalJson(hashedForm(spec)))

/** Returns the JSON form of a spec, which `hashSpec` hashes and `Resume` compares. @internal */
export const hashedForm = (spec: unknown): unknown =>
  JSON.parse(
    JSON.stringify(spec, (_, value: unknown) =>
      isDefaultLimit(value) ? { ...value, maxBytesPerFile: maxBytesBefore } : value) ?? "null"
  )

/** Whether a value is an `InstructionFilesConfig`, or its JSON, whose `maxBytesPerFile` is the default. */
const isDefaultLimit = (value: unknown): value is object =>
  Predicate.isRecord(value) && "filenames" in value && "seedMemory" in value && value["maxBytesPerFile"] === maxBytes
