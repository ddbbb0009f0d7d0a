import { type PlatformError, SystemError, type SystemErrorReason } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import { textHash } from "../../src/domain/MemoryRecord.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, get, id, put, system, the } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { files, type Opened, opened, place } from "./Place.ts"
import { times } from "./Program.ts"

const codes = { ENOSPC: "Unknown", EIO: "Unknown", EACCES: "PermissionDenied" } as const satisfies Record<
  string,
  SystemErrorReason
>
type Code = keyof typeof codes
const all = ["ENOSPC", "EIO", "EACCES"] as const
/** Tries a failure at every ninth disk call. Under `npm run soak`, tries it at every call. */
const step = times(9, 1)

/** Makes an error as Node's file system does. */
const failure = (code: Code, method: string, at: string): PlatformError =>
  new SystemError({
    reason: codes[code],
    module: "FileSystem",
    method,
    pathOrDescriptor: at,
    syscall: method,
    description: `${code}: it failed, ${method} '${at}'`,
    cause: Object.assign(new Error(`${code}: it failed, ${method} '${at}'`), { code, path: at })
  })

/** A fault of the disk: the call with number `at`, counted from 1, fails; 0 for no fault. */
interface Plan {
  at: number
  code: Code
  /** Number of calls so far. */
  calls: number
}

/** Makes a copy of Node's file system in which the call with number `plan.at` fails. */
const faulty = (plan: Plan) =>
  calling((method, at) =>
    Effect.suspend(() => ++plan.calls === plan.at ? Effect.fail(failure(plan.code, method, at)) : Effect.void)
  )

/** Makes Node's file system of a process that dies: after `calls` more calls, every call fails. */
const dying = (life: { calls: number }) =>
  calling((method, at) =>
    Effect.suspend(() => life.calls-- > 0 ? Effect.void : Effect.fail(failure("EIO", method, at)))
  )

/**
 * Runs a law again and again, each time in a new folder. The law calls `die` once, with the operation of a process on the file system
 * `deadly`: the process dies at its first disk call, in the next run at a later one, and so on, until the operation ends alive.
 */
const atEachCall = <E>(
  law: (
    root: string,
    message: string,
    deadly: ReturnType<typeof dying>,
    die: (operation: Effect.Effect<unknown, unknown>) => Effect.Effect<void>
  ) => Effect.Effect<void, E>
) =>
  Effect.gen(function*() {
    for (let at = 1, died = true; died; at += times(2, 1)) {
      const root = yield* place
      const life = { calls: Infinity }
      const die = (operation: Effect.Effect<unknown, unknown>) =>
        Effect.gen(function*() {
          life.calls = at - 1
          yield* Effect.either(operation)
          died = life.calls < 0
          life.calls = 0 // nothing that the dead process does later reaches the disk
        })
      yield* law(root, `died at call ${at}`, dying(life), die)
      fs.rmSync(root, { recursive: true })
    }
  }).pipe(Logger.withMinimumLogLevel(LogLevel.None))

const [a, b, c] = [id("a"), id("b"), id("c")]
/** Id of the note `Note.md`, which its author wrote by hand. */
const note = MemoryId.foreign("file", "Note.md")
const noteOf = (tags: string, body: string) => `---\r\ntags: [${tags}] # mine\r\n---\r\n${body}\r\n`
const long = (text: string) => text + " ".padEnd(500, "x")
const operations: Readonly<Record<string, (opened: Opened) => Effect.Effect<unknown, MemoryError.MemoryError>>> = {
  put: ({ store }) => put(store, draft(long("new"), { id: c })),
  update: ({ store }) => store.update(ada, a, { body: long("new") }),
  forget: ({ store }) => store.forget(ada, [a]),
  purge: ({ store }) => store.forget(ada, [a], { purge: true }),
  batch: ({ store }) =>
    store.apply(ada, [
      { _tag: "Put", draft: draft(long("new"), { id: c }) },
      { _tag: "Update", id: a, patch: { body: long("new") } },
      { _tag: "Forget", id: b }
    ]),
  "an update of a note": ({ store }) =>
    store.update(system, note, { tags: ["hot", "cold"], body: long("new"), importance: 0.9 }),
  "an update of a field that a note's frontmatter lacks": ({ store }) =>
    store.update(system, note, { importance: 0.9 }),
  refresh: ({ vault }) => vault.refresh
}

const state = ({ store }: Pick<Opened, "store">) =>
  Effect.map(
    Effect.forEach([a, b, c, note], (id) => get(store, system, id)),
    (records) => records.map((record) => record && `${record.body.split(" ")[0]} ${record.revision}`)
  )
const old = ["a 2", "b 1", undefined, "old 1"]

const isTyped = (error: MemoryError.MemoryError, root: string, code: Code) => {
  assert.instanceOf(error, MemoryError.MemoryError)
  assert.strictEqual(error.reason, "io", error.message)
  assert.notInclude(JSON.stringify(error) + error.message, root)
  assert.include(error.message, code)
  assert.isTrue(error.isRetryable)
}

const filled = Effect.gen(function*() {
  const root = yield* place
  yield* Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    yield* put(store, draft("a", { id: a }))
    yield* store.update(ada, a, { body: "a more" })
    yield* put(store, draft("b", { id: b }))
  }))
  fs.writeFileSync(path.join(root, "Note.md"), noteOf("hot", "old"))
  return root
})

/** Returns the code with which disk call `at` fails. The tested calls get the codes in turn. */
const codeAt = (at: number) => all[Math.floor((at - 1) / step) % all.length]!

describe("a purge in a vault", () => {
  it.scopedLive("a purge erases all texts of the record from the history: also those of the oldest revisions and of damaged lines", () =>
    Effect.gen(function*() {
      const root = yield* place
      const log = path.join(root, ".effect-memory/history")
      const texts = Array.from({ length: 30 }, (_, n) => `text-${n}-`)
      const write = (store: MemoryStore.Service, some: ReadonlyArray<string>) =>
        Effect.forEach(some, (text) => put(store, draft(long(text), { id: a })))
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        yield* write(store, texts.slice(0, 15))
        yield* put(store, draft("text of b", { id: b }))
      }))
      const bytes = fs.readFileSync(log)
      bytes[bytes.indexOf("text-7-") + 3] = 0x2d // damages a line
      fs.writeFileSync(log, bytes)
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        yield* write(store, texts.slice(15))
        const known = fs.readFileSync(log)
        const start = known.lastIndexOf("\n", known.indexOf("text-20-"))
        known[known.indexOf("\"id\":\"", start) + 8] = 0x2d // damages the id in a line that the process knows
        fs.writeFileSync(log, known)
        yield* store.forget(ada, [a], { purge: true })
        assert.notMatch(fs.readFileSync(log, "utf8"), /tex.-\d+-/)
        yield* put(store, draft("put again", { id: a }))
      }))
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        assert.deepStrictEqual((yield* store.history(ada, a)).map(({ body }) => body), ["put again"])
        assert.deepStrictEqual((yield* store.history(ada, b)).map(({ body }) => body), ["text of b"])
      }))
    }))

  const purges: Readonly<
    Record<string, (store: MemoryStore.Service) => Effect.Effect<unknown, MemoryError.MemoryError>>
  > = {
    "a purge": (store) => store.forget(ada, [a], { purge: true }),
    "a batch that updates a record and purges it": (store) =>
      store.apply(ada, [
        { _tag: "Update", id: a, patch: { body: long("second secret") } },
        { _tag: "Forget", id: a, purge: true }
      ]),
    "a batch that updates a record, purges it and puts it again": (store) =>
      store.apply(ada, [
        { _tag: "Update", id: a, patch: { body: long("second secret") } },
        { _tag: "Forget", id: a, purge: true },
        { _tag: "Put", draft: draft(long("put again"), { id: a }) }
      ])
  }
  for (const [name, purge] of Object.entries(purges)) {
    it.scopedLive(
      `the first write after a process died in ${name} leaves the record whole or its old text erased, and another record unchanged`,
      () =>
        atEachCall((root, message, deadly, die) =>
          Effect.gen(function*() {
            yield* Effect.scoped(Effect.gen(function*() {
              const { store } = yield* opened(root, { lockTimeout: 30 }, deadly)
              yield* store.put(ada, [draft(long("secret"), { id: a }), draft(long("public"), { id: b })])
              yield* die(purge(store))
            }))
            yield* Effect.scoped(Effect.gen(function*() {
              const { store } = yield* opened(root, { lockTimeout: 30 })
              yield* put(store, draft(long("later"), { id: c }))
              assert.strictEqual((yield* the(store, ada, b)).body, long("public"), message)
              const found = (yield* get(store, ada, a))?.body
              assert.include([undefined, long("secret"), long("put again")], found)
              const history = fs.readFileSync(path.join(root, ".effect-memory/history"), "utf8")
              assert.strictEqual(history.includes("secret"), found === long("secret"), message)
              assert.notInclude(history, "second secret", message)
            }))
          })
        )
    )
  }
})

describe("two processes with the same vault", () => {
  it.scopedLive("a process that dies in a purge leaves the record readable, or the next write of another process erases the record's text from the history", () =>
    atEachCall((root, message, deadly, die) =>
      Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root, { lockTimeout: 30 }, deadly)
        yield* put(store, draft(long("secret"), { id: a }))
        const other = yield* opened(root, { lockTimeout: 30 })
        yield* die(store.forget(ada, [a], { purge: true }))
        yield* other.vault.refresh
        yield* put(other.store, draft(long("later"), { id: c }))
        const isFound = (yield* get(other.store, ada, a)) !== undefined
        const history = fs.readFileSync(path.join(root, ".effect-memory/history"), "utf8")
        assert.strictEqual(history.includes("secret"), isFound, message)
      }))
    ))
})

describe("a vault on a failing disk", () => {
  // tries every error code at every call under `npm run soak`, otherwise one code per tested call, in rotation
  for (const only of times(1, 3) === 1 ? [undefined] : all) {
    for (const [name, operation] of Object.entries(operations)) {
      it.scopedLive(
        `${
          only ?? "an error"
        } at any disk call of ${name} leads to a MemoryError and no change, or to success; a new process finds the same records`,
        () =>
          Effect.gen(function*() {
            const template = yield* filled
            for (let at = 1, failed = true; failed; at += step) {
              const root = yield* place
              const code = only ?? codeAt(at)
              fs.cpSync(template, root, { recursive: true })
              const plan: Plan = { at: 0, code, calls: 0 }
              const message = `${name}, ${code} at call ${at}`
              yield* Effect.scoped(Effect.gen(function*() {
                const vault = yield* opened(root, { lockTimeout: 30 }, faulty(plan))
                assert.deepStrictEqual(yield* state(vault), old)
                plan.calls = 0
                plan.at = at
                const result = yield* Effect.either(operation(vault))
                failed = plan.calls >= at
                plan.at = 0
                const now = yield* state(vault)
                if (Either.isLeft(result)) {
                  isTyped(result.left, root, code)
                  assert.deepStrictEqual(now, old, message)
                }
                yield* vault.vault.refresh
                assert.deepStrictEqual(yield* state(vault), now, `${message}, looked at`)
                assert.deepStrictEqual(yield* vault.vault.issues, [])
                // a second process opens the vault while the first still has it open
                const reopened = yield* Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), state))
                assert.deepStrictEqual(reopened, now, `${message}, reopened`)
                const { body, tags } = yield* the(vault.store, system, note)
                assert.strictEqual(files(root)["Note.md"], noteOf(tags.join(", "), body), message)
                // further calls succeed
                yield* operation(vault)
                yield* vault.store.put(ada, [draft("later", { id: a }), draft("later", { id: b })])
                yield* vault.vault.refresh
                assert.deepStrictEqual((yield* state(vault)).map((text) => text?.split(" ")[0]).slice(0, 2), [
                  "later",
                  "later"
                ])
              }))
              const left = Object.keys(files(root)).filter((file) => !file.endsWith(".md"))
              assert.deepStrictEqual(left, [])
              fs.rmSync(root, { recursive: true })
            }
          })
      )
    }

    it.scopedLive(`opening a vault with ${only ?? "an error"} at any disk call changes no record`, () =>
      Effect.gen(function*() {
        const template = yield* filled
        for (let at = 1, failed = true; failed; at += step) {
          const root = yield* place
          const code = only ?? codeAt(at)
          fs.cpSync(template, root, { recursive: true })
          const plan: Plan = { at, code, calls: 0 }
          const result = yield* Effect.either(
            Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }, faulty(plan)), ({ vault }) => vault.issues))
          )
          failed = plan.calls >= at
          if (Either.isLeft(result)) isTyped(result.left, root, code)
          else for (const { error } of result.right) isTyped(error, root, code)
          assert.deepStrictEqual(yield* Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), state)), old)
          fs.rmSync(root, { recursive: true })
        }
      }))

    it.scopedLive(`creating a vault succeeds after ${only ?? "an error"} at any disk call of an earlier attempt`, () =>
      Effect.gen(function*() {
        for (let at = 1, failed = true; failed; at += step) {
          const root = path.join(yield* place, "vault")
          const code = only ?? codeAt(at)
          const plan: Plan = { at, code, calls: 0 }
          const result = yield* Effect.either(Effect.scoped(opened(root, { lockTimeout: 30 }, faulty(plan))))
          failed = plan.calls >= at
          if (Either.isLeft(result)) isTyped(result.left, root, code)
          yield* Effect.scoped(
            Effect.flatMap(opened(root, { lockTimeout: 30 }), ({ store }) => put(store, draft("works")))
          )
        }
      }))
  }
})

describe("vectors of a vault on a failing disk", () => {
  const hash = textHash({ summary: "", summaryDerived: true, body: "a more" })
  const vector = Float32Array.of(1, 0)
  const vectorsOf = ({ store }: Opened) => Option.getOrThrow(store.vectors)
  const query = { text: "more", embedding: { model: "m", vector: [1, 0] } }
  const attach = (vault: Opened, hash: string) => vectorsOf(vault).attach("default", "m", [[hash, vector]])
  const other = textHash({ summary: "", summaryDerived: true, body: "b" })
  const calls: Readonly<Record<string, (opened: Opened) => Effect.Effect<unknown, MemoryError.MemoryError>>> = {
    "the first attach": (vault) => vectorsOf(vault).attach("default", "n", [[hash, vector]]),
    "a further attach": (vault) => attach(vault, other),
    "vectors.pending": (vault) => vectorsOf(vault).pending("default", "m"),
    "a hybrid search": ({ store }) =>
      Effect.flatMap(store.search(ada, query), ({ failures, hits }) => {
        assert.lengthOf(hits, 1) // the record is found at least by its word, even if its vector cannot be read
        return failures[0]?.error ?? Effect.void
      }),
    "a purge": ({ store }) => store.forget(ada, [c], { purge: true })
  }
  for (const [name, call] of Object.entries(calls)) {
    it.scopedLive(
      `an error at any disk call of ${name} leaves two records unchanged, and loses no attached vector`,
      () =>
        Effect.gen(function*() {
          const template = yield* filled
          yield* Effect.scoped(Effect.gen(function*() {
            const vault = yield* opened(template)
            yield* put(vault.store, draft("c", { id: c }))
            yield* attach(vault, hash)
          }))
          for (let at = 1, failed = true; failed; at += step) {
            const root = yield* place
            const code = codeAt(at)
            fs.cpSync(template, root, { recursive: true })
            const plan: Plan = { at: 0, code, calls: 0 }
            yield* Effect.scoped(Effect.gen(function*() {
              const vault = yield* opened(root, { lockTimeout: 30 }, faulty(plan))
              plan.calls = 0
              plan.at = at
              const result = yield* Effect.either(call(vault))
              failed = plan.calls >= at
              plan.at = 0
              if (Either.isLeft(result)) isTyped(result.left, root, code)
              assert.deepStrictEqual((yield* state(vault)).slice(0, 2), old.slice(0, 2))
              yield* attach(vault, other)
              for (const one of [vault, yield* opened(root, { lockTimeout: 30 })]) {
                const read = yield* vectorsOf(one).read("default", "m", [hash, other])
                assert.deepStrictEqual(read.map(Option.getOrUndefined), [vector, vector], `${code} at call ${at}`)
                assert.deepStrictEqual((yield* one.store.search(ada, query)).failures, [])
              }
            }))
          }
        })
    )
  }
})

describe("MemoryStore.make over a backend that fails", () => {
  it.scoped("an operation fails with the error of the backend and changes no record; the next operation succeeds", () =>
    Effect.gen(function*() {
      const rows = new Map<string, MemoryStore.Stored>()
      let fails: string | undefined
      const error = MemoryError.make("io", { op: "shelf", message: "the shelf fell" })
      const due = (name: string) => Effect.suspend(() => fails === name ? Effect.fail(error) : Effect.void)
      const store = yield* MemoryStore.make("shelf", {
        read: (_, ids) => Effect.as(due("read"), ids.map((id) => Option.fromNullable(rows.get(id)))),
        tenants: Effect.as(due("tenants"), ["default"]),
        scan: () => Stream.unwrap(Effect.map(due("scan"), () => Stream.fromIterable(Array.from(rows.values())))),
        commit: (_, writes) =>
          Effect.map(due("commit"), () => {
            for (const { id, next } of writes) {
              if (next) rows.set(id, next)
              else rows.delete(id)
            }
          })
      })
      yield* put(store, draft("alpha", { id: a }))
      const calls: ReadonlyArray<readonly [string, Effect.Effect<unknown, MemoryError.MemoryError>]> = [
        ["read", get(store, ada, a)],
        ["read", store.update(ada, a, { body: "beta" })],
        ["commit", store.update(ada, a, { body: "beta" })],
        ["commit", store.forget(ada, [a])],
        ["commit", store.apply(ada, [{ _tag: "Put", draft: draft("new") }, { _tag: "Forget", id: a }])],
        ["tenants", store.tenants],
        ["tenants", store.compact],
        ["scan", store.compact]
      ]
      for (const [primitive, call] of calls) {
        fails = primitive
        assert.strictEqual((yield* Effect.flip(call)).message, error.message, primitive)
        fails = undefined
        assert.strictEqual((yield* get(store, ada, a))?.body, "alpha", primitive)
        assert.lengthOf((yield* store.search(ada, { text: "alpha beta new" })).hits, 1)
      }
      yield* store.update(ada, a, { body: "beta" })
      assert.strictEqual((yield* get(store, ada, a))?.revision, 2)
    }))
})
