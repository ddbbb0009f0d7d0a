/**
 * Damages each file of a vault in turn, hidden files included, and checks that no record is lost whose text is still in some file, and no
 * revision whose line in the history file is undamaged.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as fs from "node:fs"
import * as path from "node:path"
import { Internal } from "../../src/domain/MemoryScope.ts"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, id, put, system } from "../../src/testing/Sample.ts"
import { type Opened, opened, place } from "./Place.ts"
import { times } from "./Program.ts"

const hash = (digit: number) => digit.toString(16).repeat(64)
const vector = (digit: number) => Float32Array.of(digit, 1, 0)
const text = (name: string, version: number, length = 300) => `${name} ${version} `.padEnd(length, `${name} `).trim()
const vectorsOf = ({ store }: Opened) => Option.getOrThrow(store.vectors)
const history = ".effect-memory/history"

/** Every text that was written to each record, by the record's name. Leaves out the record that is purged. */
const written: Readonly<Record<string, ReadonlyArray<string>>> = {
  a: [1, 2, 3].map((version) => text("a", version)),
  b: [1, 2].map((version) => text("b", version)),
  late: [text("late", 1)],
  row: [1, 2].map((version) => text("row", version)),
  gone: [1, 2].map((version) => text("gone", version))
}
const alive = ["a", "b", "late", "row"]

interface Vault {
  /** Folder of the vault after all writes; `earlier` is a copy from before the last writes. */
  readonly root: string
  readonly earlier: string
  /** Whether the writer closed the vault after its last write. Otherwise the writer died. */
  readonly isClosed: boolean
}

/**
 * Makes a vault and an earlier copy of it. Unless `isClosed`, its writer died before the last files were forced to disk. Its history has
 * so many bytes of erased revisions that a write compacts it as soon as the files of all batches are forced to disk.
 */
const made = (isClosed: boolean) =>
  Effect.gen(function*() {
    const [root, earlier, died] = [yield* place, yield* place, yield* place]
    yield* Effect.scoped(Effect.gen(function*() {
      const vault = yield* opened(root)
      const { store } = vault
      for (const name of ["a", "b", "gone"]) yield* put(store, draft(text(name, 1), { id: id(name) }))
      yield* store.put(system, [draft(text("row", 1), { id: id("row"), scope: Internal })])
      fs.writeFileSync(path.join(root, "Note.md"), "# A note\n\nby a hand\n")
      yield* vectorsOf(vault).attach("default", "m", [[hash(1), vector(1)]])
      yield* store.search(ada, { text: "a" })
    }))
    fs.cpSync(root, earlier, { recursive: true, preserveTimestamps: true })
    yield* Effect.scoped(Effect.gen(function*() {
      const vault = yield* opened(root)
      const { store } = vault
      for (let n = 0; n < 19; n++) yield* put(store, draft(text("purged", n, 60_000), { id: id("purged") }))
      for (const version of [2, 3]) yield* store.update(ada, id("a"), { body: text("a", version) })
      for (const name of ["b", "gone"]) yield* store.update(ada, id(name), { body: text(name, 2) })
      yield* store.update(system, id("row"), { body: text("row", 2) })
      yield* put(store, draft(text("late", 1), { id: id("late") }))
      yield* store.forget(ada, [id("gone")])
      yield* store.forget(ada, [id("purged")], { purge: true })
      // attached after the purge, which erases vectors of texts without a record
      yield* vectorsOf(vault).attach("default", "m", [[hash(1), vector(1)], [hash(2), vector(2)]])
      yield* store.search(ada, { text: "a" })
      if (!isClosed) fs.cpSync(root, died, { recursive: true, preserveTimestamps: true })
    }))
    if (!isClosed) {
      fs.rmSync(root, { recursive: true })
      fs.renameSync(died, root)
    }
    // sets old times, so that an open vault recognises a later change of a file by its time
    const then = Date.now() / 1_000 - 3_600
    for (const name of filesOf(root)) fs.utimesSync(path.join(root, name), then, then)
    return { root, earlier, isClosed }
  })

/** Returns the path of every file. */
const filesOf = (root: string): ReadonlyArray<string> =>
  fs.readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) =>
    fs.statSync(path.join(root, name)).isFile()
  ).sort()

const linesOf = (bytes: Buffer) => bytes.toString("latin1").split("\n").slice(0, -1)

interface Damage {
  readonly name: string
  /** Returns the damaged bytes; `undefined` deletes the file. */
  readonly of: (bytes: Buffer) => Buffer | undefined
}

const turned = (at: number, bit: number): Damage => ({
  name: `bit ${bit} of byte ${at} turned`,
  of: (bytes) => {
    const copy = Buffer.from(bytes)
    copy[at]! ^= 1 << bit
    return copy
  }
})

/** Picks bits of a file: some in each line of the history up to 10,000 bytes long; in every other file some at equal distances. */
const bits = (file: string, bytes: Buffer): ReadonlyArray<Damage> => {
  if (file !== history) {
    const count = Math.min(bytes.length, times(4, 12))
    return Array.from({ length: count }, (_, n) => turned(Math.floor(bytes.length * n / count), n % 8))
  }
  let start = 0
  return linesOf(bytes).flatMap((line) => {
    const at = start
    start += line.length + 1
    // one bit each of the checksum, the metadata, the middle of the line, and the line break
    return line.length > 10_000 ? [] : [5, 80, line.length >> 1, line.length].map((offset, n) => turned(at + offset, n))
  })
}

const damages = ({ earlier, root }: Vault, file: string): ReadonlyArray<Damage> => {
  const bytes = fs.readFileSync(path.join(root, file))
  const old = path.join(earlier, file)
  return [
    { name: "cut to nothing", of: () => Buffer.alloc(0) },
    { name: "cut in half", of: (bytes) => bytes.subarray(0, bytes.length >> 1) },
    { name: "cut by a byte", of: (bytes) => bytes.subarray(0, -1) },
    { name: "zeroed", of: (bytes) => Buffer.alloc(bytes.length) },
    { name: "deleted", of: () => undefined },
    ...(fs.existsSync(old) ? [{ name: "as it was earlier", of: () => fs.readFileSync(old) }] : []),
    ...bits(file, bytes)
  ]
}

/** Returns the undamaged lines of a damaged history: those that also occur in the history of the vault or of its earlier copy. */
const intact = ({ earlier, root }: Vault, damaged: Buffer | undefined): string => {
  if (damaged === undefined) return ""
  const whole = new Set([root, earlier].flatMap((at) => linesOf(fs.readFileSync(path.join(at, history)))))
  return linesOf(damaged).filter((line) => whole.has(line)).join("\n")
}

/** Damages a file in a copy of the vault, and compares the vault's answers with the texts that are still intact in some file. */
const check = (vault: Vault, file: string, damage: Damage, isRunning: boolean) =>
  Effect.gen(function*() {
    const root = yield* place
    fs.cpSync(vault.root, root, { recursive: true, preserveTimestamps: true })
    const at = path.join(root, file)
    const broken = damage.of(fs.readFileSync(at))
    const hurt = () => broken === undefined ? fs.rmSync(at) : fs.writeFileSync(at, broken)
    const lines = intact(vault, file === history ? broken : fs.readFileSync(path.join(vault.root, history)))
    /** Whether the record's own file is undamaged. */
    const isSound = (name: string) =>
      file !== pathOf("default", name === "row" ? Internal : { userId: "ada" }, id(name))
    const about = (what: string) => `${file} ${damage.name} ${isRunning ? "while open" : "while closed"}: ${what}`

    // the first opening after the writer died writes the forgotten record's file again if the forget's line in the history is damaged
    const isForgotten = vault.isClosed || isRunning || lines.includes("\"state\":\"forgotten\"")
    /**
     * Whether the damage deleted the record's file, and the vault takes that for a forget. The first opening after the writer died does
     * not take a missing file for a forget, since the writer may have died before it wrote the file.
     */
    const isRemoved = (name: string) => !isSound(name) && broken === undefined && (vault.isClosed || isRunning)

    /** Texts written after the damage, by record. */
    const since = new Map<string, string>()
    const isWhole = ({ store }: Opened) =>
      Effect.gen(function*() {
        const trash = yield* store.list(system, { forgotten: true })
        for (const name of alive) {
          const viewer = name === "row" ? system : ada
          const { items: [now] } = yield* store.list(viewer, {
            ids: [id(name)],
            ...(name === "row" && { scope: Internal })
          })
          if (isRemoved(name)) {
            assert.isUndefined(now, about(`${name} stays`))
            if (name !== "row") {
              assert.include(trash.items.map((record) => record.id), id(name), about(`${name} is lost`))
            }
          } else assert.isDefined(now, about(`${name} is lost`))
          const past = yield* store.history(system, id(name))
          const bodies = past.map(({ body }) => body)
          const last = written[name]!.at(-1)!
          if (isSound(name)) assert.strictEqual(now?.body, since.get(name) ?? last, about(`${name} has another text`))
          for (const body of written[name]!) {
            const stands = lines.includes(body) || (body === last && isSound(name))
            if (stands) assert.include(bodies, body, about(`${name} lost a revision`))
          }
          const revisions = past.map(({ revision }) => revision)
          assert.deepStrictEqual(revisions, [...new Set(revisions)].sort((a, b) => b - a), about(`${name} counts`))
        }
        const back = yield* store.list(system, { ids: [id("gone"), id("purged")] })
        if (isForgotten) assert.deepStrictEqual(back.items.map(({ body }) => body.slice(0, 10)), [], about("is back"))
        const bodies = (yield* store.history(system, id("gone"))).map(({ body }) => body)
        for (const body of written["gone"]!) {
          if (lines.includes(body)) assert.include(bodies, body, about("the forgotten one lost a revision"))
        }
        if (isForgotten && bodies.length > 0) {
          assert.include(trash.items.map((record) => record.id), id("gone"), about("cannot be restored"))
        }
      })
    const hasVectors = (open: Opened) =>
      Effect.gen(function*() {
        const read = yield* vectorsOf(open).read("default", "m", [hash(1), hash(2)])
        for (const [n, one] of read.entries()) {
          if (Option.isSome(one)) assert.deepStrictEqual(one.value, vector(n + 1), about("a wrong vector"))
          else assert.include(file, "vectors", about("a vector is lost"))
        }
        yield* vectorsOf(open).attach("default", "m", [[hash(1), vector(1)], [hash(2), vector(2)]])
        const again = yield* vectorsOf(open).read("default", "m", [hash(1), hash(2)])
        assert.isTrue(again.every(Option.isSome), about("vectors cannot be attached"))
      })
    /** Updates two records and puts a new one. Checks that an update fails only if the record's own file is damaged. */
    const goesOn = (open: Opened) =>
      Effect.gen(function*() {
        for (const name of ["a", "b"]) {
          const body = text(name, 10 + since.size)
          const changed = yield* Effect.either(open.store.update(ada, id(name), { body }))
          if (Either.isRight(changed)) since.set(name, body)
          if (Either.isLeft(changed)) {
            assert.isFalse(isSound(name), about(changed.left.message))
            assert.strictEqual(
              changed.left.reason,
              isRemoved(name) ? "not_found" : "corrupt",
              about(changed.left.message)
            )
          }
        }
        yield* put(open.store, draft("new"))
      })

    if (isRunning) {
      yield* Effect.scoped(Effect.gen(function*() {
        const open = yield* opened(root, { lockTimeout: 30 })
        yield* vectorsOf(open).read("default", "m", [hash(1)])
        hurt()
        yield* open.vault.refresh
        yield* isWhole(open)
        yield* hasVectors(open)
        yield* goesOn(open)
        yield* isWhole(open)
      }))
    } else hurt()
    yield* Effect.scoped(Effect.gen(function*() {
      const open = yield* opened(root, { lockTimeout: 30 })
      yield* isWhole(open)
      yield* hasVectors(open)
      yield* goesOn(open)
      yield* isWhole(open)
    }))
    yield* Effect.scoped(Effect.gen(function*() {
      const open = yield* opened(root, { lockTimeout: 30 })
      yield* goesOn(open) // compacts the history, unless an earlier write did
      yield* isWhole(open)
    }))
    const { size } = fs.statSync(path.join(root, history))
    if (file !== history) assert.isBelow(size, 200_000, about("the history was not compacted"))
  }).pipe(Effect.scoped)

/** Distance from one tried damage to the next: 37. Under `npm run soak`, 1, or 2 for flipped bits. */
const step = (name: string) => times(37, name.startsWith("bit") ? 2 : 1)

describe("a vault with damaged files", () => {
  for (const isClosed of [true, false]) {
    for (const isRunning of [true, false]) {
      const when = isRunning ? "after" : "before"
      const state = isClosed ? "that its writer closed" : "whose writer died"
      it.scopedLive(`a vault ${state} keeps every revision with intact text if a file is damaged ${when} the next opening`, () =>
        Effect.gen(function*() {
          const vault = yield* made(isClosed)
          const all = filesOf(vault.root).filter((file) => !/\/lock$|\/turns\//.test(file)).flatMap((file) =>
            damages(vault, file).map((damage) => [file, damage] as const)
          )
          assert.isAbove(all.length, 100)
          const tried = all.filter(([, { name }], n) =>
            (n + Number(isClosed) * 7 + Number(isRunning) * 13) % step(name) === 0
          )
          for (const [file, damage] of tried) yield* check(vault, file, damage, isRunning)
        }))
    }
  }

  it.scopedLive("opening a vault with two damaged manifests succeeds, or fails without changing any file", () =>
    Effect.gen(function*() {
      const vault = yield* made(true)
      const manifests = [".effect-memory/vault.json", ".effect-memory/vault.copy.json"]
      const all = damages(vault, manifests[0]!).filter(({ name }) => name !== "as it was earlier")
      let refusals = 0
      for (const damage of all.filter((_, n) => n % times(5, 1) === 0)) {
        const root = yield* place
        fs.cpSync(vault.root, root, { recursive: true, preserveTimestamps: true })
        for (const file of manifests) {
          const broken = damage.of(fs.readFileSync(path.join(root, file)))
          if (broken === undefined) fs.rmSync(path.join(root, file))
          else fs.writeFileSync(path.join(root, file), broken)
        }
        const bytes = () => filesOf(root).map((file) => [file, fs.readFileSync(path.join(root, file), "latin1")])
        const before = bytes()
        const refused = yield* Effect.either(Effect.scoped(opened(root)))
        if (Either.isRight(refused)) continue // a manifest is still readable if only its version number is damaged
        refusals++
        assert.include(["corrupt", "unsupported"], refused.left.reason, damage.name)
        assert.deepStrictEqual(bytes(), before, damage.name)
      }
      assert.isAbove(refusals, 0)
    }))
})
