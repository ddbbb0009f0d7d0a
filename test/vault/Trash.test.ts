/** Forgotten records of a vault: restorable after a restart, also if a person deleted the file, and erased in the end. */
import { assert, describe, it } from "@effect/vitest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import { ada, draft, found, get, id, listed, put, system } from "../../src/testing/Sample.ts"
import { type Opened, opened, place } from "./Place.ts"

const one = id("one")
const at = `users/ada/${one}.md`

/** Opens the vault, uses it and closes it. */
const once = <A, E>(
  root: string,
  use: (opened: Opened) => Effect.Effect<A, E, Scope.Scope>,
  trash?: Duration.DurationInput
) => Effect.scoped(Effect.flatMap(opened(root, { trash }), use))

/** Puts a record with two revisions. */
const fill = (root: string) =>
  once(root, ({ store }) =>
    Effect.gen(function*() {
      yield* put(store, draft("the key lies under the mat", { id: one }))
      yield* store.update(ada, one, { body: "the key lies with the neighbour" })
    }))

/** Converts a vault whose only record is `one` to format 1, which releases without a trash wrote. */
const toFormat1 = (root: string) => {
  const hidden = path.join(root, ".effect-memory")
  const rows = fs.readFileSync(path.join(hidden, "history"), "utf8").split("\n")
    .map((line) => line.split("\t"))
    .filter(([, , row]) => row !== undefined && row !== "")
    .map(([, meta, row]) => ({ ...JSON.parse(row!), forgotten: JSON.parse(meta!).state === "forgotten" }))
  fs.rmSync(path.join(hidden, "history"))
  fs.mkdirSync(path.join(hidden, "revisions/default"), { recursive: true })
  fs.writeFileSync(
    path.join(hidden, "revisions/default", `${one}.jsonl`),
    rows.map((row) => `${JSON.stringify(row)}\n`).join("")
  )
  const manifest = path.join(hidden, "vault.json")
  fs.writeFileSync(manifest, JSON.stringify({ ...JSON.parse(fs.readFileSync(manifest, "utf8")), version: 1 }))
}

describe("a forgotten record of a vault", () => {
  it.scoped("a forgotten record is absent, but is listed as forgotten and can be restored after restarts", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* fill(root)
      yield* once(root, ({ store }) => store.forget(ada, [one]))
      assert.isFalse(fs.existsSync(path.join(root, at)))
      yield* once(root, ({ store }) => store.compact)
      yield* once(root, ({ store }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* listed(store, ada), [])
          const { items: [gone] } = yield* store.list(ada, { forgotten: true })
          assert.strictEqual(gone?.body, "the key lies with the neighbour")
          yield* store.apply(ada, [{ _tag: "Restore", id: one, revision: 2 }])
        }))
      yield* once(root, ({ store }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* found(store, ada, { text: "where is the key?" }), [
            "the key lies with the neighbour"
          ])
          assert.deepStrictEqual((yield* store.history(ada, one)).map(({ revision }) => revision), [4, 3, 2, 1])
          assert.deepStrictEqual(yield* store.list(ada, { forgotten: true }), { items: [] })
        }))
    }))

  it.scoped("a forgotten record is erased with its history after the duration of the option `trash`", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* fill(root)
      yield* once(root, ({ store }) => store.forget(ada, [one]))
      yield* TestClock.adjust("2 days")
      yield* once(
        root,
        ({ store }) => Effect.map(listed(store, ada, { forgotten: true }), (bodies) => assert.lengthOf(bodies, 1))
      )
      yield* once(root, ({ store }) =>
        Effect.gen(function*() {
          assert.isUndefined(yield* get(store, system, one))
          assert.deepStrictEqual(yield* store.history(system, one), [])
        }), "2 days")
      const hidden = fs.readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.includes(one))
      assert.deepStrictEqual(hidden, [])
    }))

  it.scoped("a record forgotten in a release without a trash is absent after the vault is reopened, and the old folder `revisions` is deleted", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* fill(root)
      yield* once(root, ({ store }) => store.forget(ada, [one]))
      toFormat1(root)
      yield* TestClock.setTime(1_800_000_000_000)
      yield* once(root, ({ store }) => Effect.map(get(store, system, one), (found) => assert.isUndefined(found)))
      assert.isFalse(fs.existsSync(path.join(root, ".effect-memory/revisions")))
    }))

  it.scoped("a record whose file was deleted by hand is listed as forgotten, and can be restored after a reopening", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* fill(root)
      yield* once(root, ({ store, vault }) =>
        Effect.gen(function*() {
          fs.rmSync(path.join(root, at))
          yield* vault.refresh
          assert.isUndefined(yield* get(store, ada, one))
          assert.lengthOf(yield* listed(store, ada, { forgotten: true }), 1)
        }))
      yield* TestClock.adjust("1 day")
      yield* once(root, ({ store }) =>
        Effect.gen(function*() {
          const { items: [gone] } = yield* store.list(ada, { forgotten: true })
          const [back] = yield* store.apply(ada, [{ _tag: "Restore", id: one, revision: gone!.revision }])
          assert.strictEqual(back?.outcome, "created")
          assert.include((yield* get(store, ada, one))?.body, "the key lies")
        }))
    }))
})
