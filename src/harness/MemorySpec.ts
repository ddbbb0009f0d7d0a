/** What an agent's author writes down about memory; part of the hash that a resume is held to. */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import { SharedWrites } from "../domain/Viewer.ts"

const Count = Schema.NonNegativeInt
const default_ = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  schema.pipe(Schema.optionalWith({ default: () => value }))

export class MemorySpec extends Schema.Class<MemorySpec>("@memory/MemorySpec")({
  enabled: default_(Schema.Boolean, true),
  includeIndex: default_(Schema.Boolean, true),
  maxIndexEntries: default_(Count, 30),
  allowForget: default_(Schema.Boolean, false),
  /** Writes per run and turn; `MemoryService.turnStart` begins a turn. 0 = no limit. See `RateLimit`. */
  writesPerTurn: default_(Count, 1),
  /** Of `Global` records by the agent; `deny` answers `not_owned`. */
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

export class InstructionFilesConfig extends Schema.Class<InstructionFilesConfig>("@memory/InstructionFilesConfig")({
  filenames: default_(Schema.Array(Schema.NonEmptyString), ["AGENTS.md", "CLAUDE.md"]),
  /** Default: the nearest ancestor of cwd with `.git`, else cwd. */
  root: Schema.optional(Schema.String),
  /** Most bytes of a file: its text is cut there, never within a character, and says so, as an issue does. Default 65,536. */
  maxBytesPerFile: default_(Count, maxBytes),
  seedMemory: default_(Schema.Boolean, true),
  /** Makes the seeded ids the same on every machine. Default: the root's path. */
  projectKey: Schema.optional(Schema.String)
}) {}

/** As written in a spec file: every field optional, the defaults above. */
export type Input = ConstructorParameters<typeof MemorySpec>[0]
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
