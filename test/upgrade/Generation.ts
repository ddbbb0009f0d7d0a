/**
 * A generation is a folder below `test/fixtures/upgrade`: the files that one release wrote to disk, and its answers from them.
 *
 * ```text
 * files.json      every file by its path: short texts unchanged, bytes and long texts deflated and in base64
 * expected.json   the answers of the release that wrote the files; see `Expected`
 * ```
 *
 * The files are kept in JSON because a vault's hidden folder has a `.gitignore` that keeps them out of git.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { deflateRawSync, inflateRawSync } from "node:zlib"
import * as Viewer from "../../src/domain/Viewer.ts"
import { place } from "../vault/Place.ts"

export const home = path.join(import.meta.dirname, "../fixtures/upgrade")

/** Returns the names of all generations, oldest first. */
export const all = (): ReadonlyArray<string> =>
  fs.readdirSync(home, { withFileTypes: true }).flatMap((entry) => entry.isDirectory() ? [entry.name] : []).sort()

const Files = Schema.parseJson(
  Schema.Record({ key: Schema.String, value: Schema.Union(Schema.String, Schema.Struct({ deflated: Schema.String })) })
)

/** A viewer in the JSON of a generation: its ids, or a whole tenant, or the library itself. */
export const Named = Schema.Union(
  Schema.Struct({ system: Schema.String }),
  Schema.Struct({ everyone: Schema.String }),
  Schema.Struct({ ids: Schema.Record({ key: Schema.String, value: Schema.String }), within: Schema.Boolean })
)
export type Named = typeof Named.Type

/** Makes the viewer who sees all records of the tenant except the rows that the library writes for itself. */
export const everyone = (tenant: string): Viewer.Viewer => Viewer.everyone(tenant)

export const viewerOf = (named: Named): Viewer.Any => {
  if ("system" in named) return Viewer.system(named.system)
  if ("everyone" in named) return everyone(named.everyone)
  return Viewer.make({ ...named.ids, reach: named.within ? "within" : "exact" })
}

const Outbox = Schema.Struct({
  /** Folder of the vault that has the rows of the outbox. */
  folder: Schema.String,
  /** Scope into which the outbox writes memories. Absent if the outbox uses the default scope of each viewer. */
  scope: Schema.optional(Schema.Struct({ userId: Schema.String })),
  /** First 50 characters of the messages that wait for extraction, by tenant, including those in `planned`. */
  waiting: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) }),
  /** Texts of the messages for which the extracted mutations (the plan) are stored, so that no model is asked for them again. */
  planned: Schema.Array(Schema.String),
  /** Texts of the messages in dead letters (batches whose extraction was given up), all in the default tenant. */
  parked: Schema.Array(Schema.String),
  /** Some conversations (viewer and session), each with the sequence number of its next message. */
  lines: Schema.Array(Schema.Struct({ viewer: Named, session: Schema.String, next: Schema.Int }))
})

const Answer = Schema.Struct({ system: Schema.String, user: Schema.String, answer: Schema.String })

/** Schema of the answers that a release gave from its own files. `vault` is the result of `Observed.observe`, as JSON. */
export const Expected = Schema.Struct({
  /** Time at which the release read the files, in epoch milliseconds. */
  now: Schema.Int,
  vault: Schema.Unknown,
  outboxes: Schema.Array(Outbox),
  runs: Schema.Array(Schema.Struct({
    runId: Schema.String,
    /** The spec as its author wrote it, without the defaults of the code. */
    memory: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
    instructionFiles: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
    hash: Schema.String,
    turn: Schema.Int,
    cursor: Schema.Int
  })),
  /** The recorded answers, in the order of their recording. */
  cassette: Schema.Array(Answer)
})
export type Expected = typeof Expected.Type
const Text = Schema.parseJson(Expected)

export const expectedOf = (name: string): Expected =>
  Schema.decodeSync(Text)(fs.readFileSync(path.join(home, name, "expected.json"), "utf8"))

/** Returns the bytes of every file below a folder, by the file's path with `/`. Leaves out locks, which are not data. */
export const read = (root: string): Readonly<Record<string, Buffer>> =>
  Object.fromEntries(
    fs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort()
      .filter((name) => fs.statSync(path.join(root, name)).isFile() && path.basename(name) !== "lock")
      .map((name) => [name.split(path.sep).join("/"), fs.readFileSync(path.join(root, name))])
  )

/** Least length in bytes of a text that is stored deflated. */
const long = 4_096

const encode = (bytes: Buffer): typeof Files.Type[string] => {
  const text = bytes.toString("utf8")
  return bytes.length < long && Buffer.from(text).equals(bytes)
    ? text
    : { deflated: deflateRawSync(bytes, { level: 9 }).toString("base64") }
}

const decode = (content: typeof Files.Type[string]): Buffer =>
  typeof content === "string" ? Buffer.from(content) : inflateRawSync(Buffer.from(content.deflated, "base64"))

/** Copies the generation's files into a temporary folder, with `now` as time of their last change. The Effect scope removes the folder. */
export const copy = (name: string, now: number) =>
  Effect.tap(place, (root) =>
    Effect.sync(() => {
      const files = Schema.decodeSync(Files)(fs.readFileSync(path.join(home, name, "files.json"), "utf8"))
      for (const [file, content] of Object.entries(files)) {
        const target = path.join(root, file)
        fs.mkdirSync(path.dirname(target), { recursive: true })
        fs.writeFileSync(target, decode(content))
        fs.utimesSync(target, now / 1_000, now / 1_000)
      }
    }))

/** Writes a folder's files as a generation. */
export const writeFiles = (name: string, root: string): void => {
  fs.mkdirSync(path.join(home, name), { recursive: true })
  const files = Object.fromEntries(Object.entries(read(root)).map(([file, bytes]) => [file, encode(bytes)]))
  fs.writeFileSync(path.join(home, name, "files.json"), `${JSON.stringify(files, null, 1)}\n`)
}

export const writeExpected = (name: string, expected: Expected): void =>
  fs.writeFileSync(path.join(home, name, "expected.json"), `${Schema.encodeSync(Text)(expected)}\n`)
