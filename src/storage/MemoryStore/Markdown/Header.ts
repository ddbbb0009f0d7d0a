/** What makes a folder a vault: the version of its format, and the key with which this vault signs. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as SecureRandom from "../../../host/SecureRandom.ts"
import type { Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"
import type { Lock } from "./Lock.ts"

/** The first is the only one. */
const version = 1
const file = `${hidden}/vault.json`
const Version = Schema.parseJson(Schema.Struct({ version: Schema.Int }))
const Header = Schema.parseJson(Schema.Struct({ version: Schema.Int, key: Schema.String }))
export type Header = typeof Header.Type

/** The key is drawn once, by whoever comes first. A newer version is `unsupported`, and nothing is touched. */
export const open = (disk: Disk, lock: Lock): Effect.Effect<Header, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const known = yield* disk.read(file)
    if (Option.isSome(known)) return yield* decoded(known.value)
    yield* disk.makeFolder(hidden)
    return yield* lock.withLock(Effect.gen(function*() {
      const first = yield* disk.read(file)
      if (Option.isSome(first)) return yield* decoded(first.value)
      const made = { version, key: yield* SecureRandom.secret }
      yield* disk.write(`${hidden}/.gitignore`, "*\n")
      yield* disk.write(file, Schema.encodeSync(Header)(made))
      return made
    }))
  })

const decoded = (text: string) =>
  Effect.gen(function*() {
    const { version: found } = yield* Schema.decode(Version)(text)
    if (found !== version) {
      return yield* MemoryError.make("unsupported", {
        op: "open",
        message: `the vault has format ${found}, this is ${version}`
      })
    }
    return yield* Schema.decode(Header)(text)
  }).pipe(Effect.catchTag("ParseError", (cause) =>
    MemoryError.make("corrupt", { op: "open", message: `${file} cannot be read`, detail: { location: file }, cause })))
