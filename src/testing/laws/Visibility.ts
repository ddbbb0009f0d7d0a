/** Laws of visibility: a record that a viewer does not see behaves as if it did not exist, except that its id is taken in its tenant. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, fact, found, get, id, listed, put, system, whyNot } from "../Sample.ts"

const scopes: Readonly<Record<string, MemoryScope>> = {
  global: "global",
  ada: { userId: "ada" },
  bob: { userId: "bob" },
  pilot: { agentId: "pilot" },
  "pilot run": { agentId: "pilot", runId: "r1" },
  "ada pilot": { userId: "ada", agentId: "pilot" },
  "ada session": { userId: "ada", sessionId: "s1" }
}

const visibleScopes: ReadonlyArray<readonly [viewer: Viewer.Any, visible: ReadonlyArray<string>]> = [
  [Viewer.make({}), ["global"]],
  [ada, ["global", "ada"]],
  [Viewer.make({ userId: "ada", agentId: "pilot" }), ["global", "ada", "pilot", "ada pilot"]],
  [Viewer.make({ agentId: "pilot", runId: "r1" }), ["global", "pilot", "pilot run"]],
  [Viewer.make({ agentId: "pilot", runId: "r2" }), ["global", "pilot"]],
  [Viewer.everyone(), Object.keys(scopes)],
  [Viewer.make({ userId: "ada", reach: "within" }), ["ada", "ada pilot", "ada session"]],
  [Viewer.make({ agentId: "pilot", reach: "within" }), ["pilot", "pilot run", "ada pilot"]],
  [Viewer.make({ userId: "ada", sessionId: "s1", reach: "within" }), ["ada session"]],
  [Viewer.everyone("elsewhere"), []],
  [Viewer.make({ tenant: "elsewhere", userId: "ada" }), []],
  [Viewer.system("elsewhere"), []],
  [system, Object.keys(scopes)]
]

/** The laws of visibility. */
export const laws: ReadonlyArray<Law> = [
  law(
    "a viewer sees the scopes whose ids are all its own (reach `exact`), or the scopes that contain all its ids (reach `within`)",
    (store) =>
      Effect.gen(function*() {
        const entries = Object.entries(scopes)
        yield* store.put(system, entries.map(([name, scope]) => draft(name, { id: id(name), scope, tags: ["t"] })))
        for (const [viewer, visible] of visibleScopes) {
          const shown = Array.from(visible).sort()
          const ids = entries.map(([name]) => id(name))
          const got = (yield* store.get(viewer, ids)).flatMap(Option.toArray).map(({ body }) => body)
          assert.deepStrictEqual(got.sort(), shown)
          assert.deepStrictEqual((yield* listed(store, viewer)).sort(), shown)
          assert.deepStrictEqual((yield* listed(store, viewer, { tags: ["t"], ids })).sort(), shown)
          assert.deepStrictEqual((yield* found(store, viewer)).sort(), shown)
          for (const name of Object.keys(scopes)) {
            assert.lengthOf(yield* store.history(viewer, id(name)), visible.includes(name) ? 1 : 0)
            assert.strictEqual((yield* found(store, viewer, { text: name })).includes(name), visible.includes(name))
          }
        }
      })
  ),

  law(
    "a filter's `scope` limits `list` and `search` to visible records of this scope and of narrower ones; `global` selects only `global`",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(system, Object.entries(scopes).map(([name, scope]) => draft(name, { scope })))
        const seen = (viewer: Viewer.Any, scope: MemoryScope) =>
          Effect.gen(function*() {
            const list = (yield* listed(store, viewer, { scope })).sort()
            assert.deepStrictEqual((yield* found(store, viewer, { scope })).sort(), list)
            return list
          })
        assert.deepStrictEqual(yield* seen(system, { userId: "ada" }), ["ada", "ada pilot", "ada session"])
        assert.deepStrictEqual(yield* seen(system, "global"), ["global"])
        assert.deepStrictEqual(yield* seen(ada, { userId: "ada" }), ["ada"])
        assert.deepStrictEqual(yield* seen(ada, { userId: "bob" }), [])
        assert.deepStrictEqual(yield* seen(Viewer.make({ userId: "ada", reach: "within" }), "global"), [])
      })
  ),

  law("ids of a scope are compared byte for byte after NFC normalisation", (store) =>
    Effect.gen(function*() {
      const composed = Viewer.make({ userId: "Zoe\u0308", tenant: "caf\u00e9" })
      const decomposed = Viewer.make({ userId: "Zo\u00eb", tenant: "cafe\u0301" })
      yield* put(store, draft("hers", { scope: { userId: "Zo\u00eb" } }), composed)
      assert.deepStrictEqual(yield* listed(store, composed), ["hers"])
      assert.deepStrictEqual(yield* listed(store, decomposed), ["hers"])
      assert.deepStrictEqual(yield* listed(store, decomposed, { scope: { userId: "Zoe\u0308" } }), ["hers"])
      for (const userId of ["zo\u00eb", "Zoe", "Zo\u00eb ", "\uff3ao\u00eb"]) {
        assert.deepStrictEqual(yield* listed(store, Viewer.make({ userId, tenant: "caf\u00e9" })), [])
      }
    })),

  law(
    "users, agents and tenants whose ids differ only in case, width or punctuation do not share records",
    (store) =>
      Effect.gen(function*() {
        const users = [
          "Bob",
          "bob",
          "BOB",
          "con",
          "nul.txt",
          "ｂob",
          "a@b.c",
          "a_b.c",
          "a b",
          "a%20b",
          "~bob",
          "org/ada",
          "AC/DC",
          "https://example.org/users/ada?tab=1#top",
          "../../etc/passwd",
          "/",
          "-",
          "ß",
          "ss",
          "x".repeat(256)
        ]
        for (const userId of users) {
          yield* put(store, fact("Tea", { scope: { userId } }), Viewer.make({ userId }))
          yield* put(store, fact("Tea", { scope: { agentId: userId } }), Viewer.make({ agentId: userId }))
          yield* put(store, fact(userId), Viewer.system(userId))
        }
        for (const userId of users) {
          assert.lengthOf(yield* listed(store, Viewer.make({ userId })), 1)
          assert.lengthOf(yield* listed(store, Viewer.make({ agentId: userId })), 1)
          assert.deepStrictEqual(yield* listed(store, Viewer.system(userId)), [userId])
        }
        assert.lengthOf(yield* listed(store, system, { limit: 100 }), users.length * 2)
      })
  ),

  law(
    "a `userId` or `agentId` that contains slashes is one id; its scope is never confused with a scope of several ids",
    (store) =>
      Effect.gen(function*() {
        const scopes: ReadonlyArray<MemoryScope> = [
          { userId: "a", agentId: "b" },
          { userId: "a/agentId=b" },
          { userId: "a/b" },
          { userId: "a", agentId: "b/runId=c" },
          { userId: "a", agentId: "b", runId: "c" }
        ]
        for (const scope of scopes) {
          const [written] = yield* store.put(system, [fact("Tea", { scope })])
          assert.strictEqual(written?.outcome, "created", JSON.stringify(scope))
        }
        for (const scope of scopes) {
          const ids = scope === "global" ? {} : scope
          const seen = (yield* store.list(Viewer.make(ids), {})).items.map(({ scope }) => scope)
          const expected = scopes.filter((other) =>
            Object.entries(other).every(([field, id]) => Object.entries(ids).some(([f, i]) => f === field && i === id))
          )
          assert.sameDeepMembers(
            seen.map((scope) => ({ ...Object(scope) })),
            expected.map((scope) => ({ ...Object(scope) }))
          )
        }
      })
  ),

  law("`put` into a scope that the viewer does not see fails with `invalid_scope`", (store) =>
    Effect.gen(function*() {
      const { id } = yield* put(store, draft("Tea"))
      const within = Viewer.make({ userId: "ada", reach: "within" })
      for (
        const [viewer, scope] of [
          [ada, { userId: "bob" }],
          [ada, { userId: "ada", agentId: "pilot" }],
          [ada, { agentId: "pilot" }],
          [within, "global"],
          [within, { agentId: "pilot" }]
        ] as const
      ) {
        yield* refuses("invalid_scope", store.put(viewer, [draft("Tea", { scope })]))
        yield* refuses("invalid_scope", store.put(viewer, [draft("moved", { scope, id })]))
      }
      assert.deepStrictEqual(yield* listed(store, system), ["Tea"])
      yield* put(store, draft("wider", { id, scope: "global" }))
      assert.deepStrictEqual(yield* listed(store, bob), ["wider"])
      yield* put(store, draft("narrower", { scope: { userId: "ada", runId: "r" } }), within)
      assert.deepStrictEqual(yield* listed(store, within), ["narrower"])
    })),

  law(
    "a call with the id of a record invisible to the viewer answers as for an unknown id, except that `put` fails with `invalid_id`",
    (store) =>
      Effect.gen(function*() {
        const secret = yield* put(store, fact("Tea is a secret", { tags: ["secret"] }), ada)
        const [nobody, foreign] = [id("nobody"), secret.id]
        const answers = (id: typeof foreign) =>
          Effect.forEach(strangers, (viewer) =>
            Effect.gen(function*() {
              yield* store.touch(viewer, [id])
              return [
                yield* get(store, viewer, id),
                yield* store.history(viewer, id),
                yield* store.uses(viewer, [id]),
                yield* store.forget(viewer, [id]),
                yield* store.forget(viewer, [id], { purge: true }),
                yield* whyNot(store, viewer, id, {}),
                yield* whyNot(store, viewer, id, { text: "secret", ids: [id] }),
                yield* store.list(viewer, { ids: [id] }),
                yield* store.search(viewer, { text: "secret", tags: ["secret"] }),
                anonymous(yield* refuses("not_found", store.update(viewer, id, { body: "x" }))),
                anonymous(yield* refuses("not_found", store.update(viewer, id, { body: "x" }, { ifRevision: 1 }))),
                anonymous(yield* refuses("not_found", store.apply(viewer, [{ _tag: "Restore", id, revision: 1 }]))),
                anonymous(yield* refuses("conflict", store.apply(viewer, [{ _tag: "Forget", id, ifRevision: 1 }]))),
                anonymous(yield* refuses("conflict", store.put(viewer, [draft("x", { id })], { ifRevision: 1 }))),
                // the first draft is invalid; of these viewers, only `System` can write the second; the errors must not reveal whether the
                // id exists
                ...yield* Effect.forEach(
                  [draft(" ", { id, scope: { userId: "bob" } }), draft("elsewhere", { id, scope: { userId: "eve" } })],
                  (draft) =>
                    Effect.map(Effect.either(store.put(viewer, [draft])), (made) =>
                      made._tag === "Left" ? anonymous(made.left) : "written")
                )
              ]
            }))
        assert.deepEqual(yield* answers(foreign), yield* answers(nobody))
        assert.deepStrictEqual(yield* get(store, ada, foreign), secret)
        assert.deepEqual(yield* store.uses(ada, [foreign]), [{ count: 0 }])
        for (
          const viewer of strangers.filter((viewer) =>
            viewer.tenant === "default"
          )
        ) {
          const own = { userId: "bob" }
          for (const options of [{}, { ifRevision: 0 }]) {
            yield* refuses("invalid_id", store.put(viewer, [draft("mine now", { id: foreign, scope: own })], options))
          }
        }
        assert.deepStrictEqual(yield* get(store, system, foreign), secret)
      })
  ),

  law(
    "a new record with the id of a purged record starts with a use count of 0",
    (store) =>
      Effect.gen(function*() {
        const again = id("again")
        yield* store.put(ada, [draft("hers", { id: again })])
        yield* store.touch(ada, [again])
        assert.strictEqual((yield* store.uses(ada, [again]))[0]?.count, 1)
        yield* store.forget(ada, [again], { purge: true })
        yield* TestClock.adjust("1 second")
        yield* store.put(bob, [draft("his", { id: again, scope: { userId: "bob" } })])
        assert.deepEqual(yield* store.uses(bob, [again]), [{ count: 0 }])
        yield* store.touch(bob, [again])
        assert.strictEqual((yield* store.uses(bob, [again]))[0]?.count, 1)
        yield* store.forget(bob, [again], { purge: true })
        yield* store.put(bob, [draft("his again", { id: again, scope: { userId: "bob" } })])
        assert.deepEqual(yield* store.uses(bob, [again]), [{ count: 0 }])
      })
  ),

  law(
    "a draft equal to another user's record is not treated as a duplicate, and creates a record",
    (store) =>
      Effect.gen(function*() {
        const hers = yield* put(store, fact("Tea"))
        const [his] = yield* store.put(bob, [fact("Tea", { scope: { userId: "bob" } })])
        assert.strictEqual(his?.outcome, "created")
        assert.notStrictEqual(his?.record.id, hers.id)
      })
  ),

  law(
    "`search` and `whyNot` answer as in a store without the records that the viewer does not see",
    (store, another) =>
      Effect.gen(function*() {
        const alone = yield* another
        const own = ["green tea", "tea, tea and tea", "black coffee with much more to say about it", "water"]
        const foreign = ["tea", "coffee coffee coffee", "green tea", "a long treatise on tea and coffee and water"]
        const drafts = own.map((body) => draft(body, { id: id(body), scope: { userId: "bob" }, tags: ["drinks"] }))
        yield* store.put(ada, foreign.map((body) => draft(body, { tags: ["drinks"] })))
        yield* store.put(bob, drafts)
        yield* alone.put(bob, drafts)
        yield* store.put(Viewer.system("elsewhere"), foreign.map((body) => draft(body, { scope: { userId: "bob" } })))
        for (
          const query of [{ text: "tea" }, { text: "green coffee" }, { text: "tea drinks", limit: 1 }, {
            text: "water",
            explain: true
          }, { limit: 2 }]
        ) {
          assert.deepEqual(yield* store.search(bob, query), yield* alone.search(bob, query))
          for (const body of own) {
            assert.deepEqual(yield* whyNot(store, bob, id(body), query), yield* whyNot(alone, bob, id(body), query))
          }
        }
      })
  )
]

const strangers = [
  bob,
  Viewer.make({ userId: "bob", reach: "within" }),
  Viewer.make({ userId: "bob", agentId: "pilot" }),
  Viewer.make({ tenant: "elsewhere", userId: "ada" }),
  Viewer.system("elsewhere")
]

/** Removes the id from an error, so that errors for different ids can be compared. */
const anonymous = (
  { detail, id: _, message, op, reason }: {
    op: string
    reason: string
    message: string
    id?: unknown
    detail?: unknown
  }
) => ({
  op,
  reason,
  message,
  detail
})
