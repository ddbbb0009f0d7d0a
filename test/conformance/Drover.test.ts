/** The behaviour of drover's memory. The adapter is tested through drover's own signatures, BM25 through those of this library. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Drover from "../../src/compat/Drover.ts"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { stableId, ULID_RE } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { bm25, buildDoc } from "../../src/ranking/Bm25.ts"
import { tokenise } from "../../src/ranking/Tokenizer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { stores } from "../stores.ts"
import { opened, place } from "../vault/Place.ts"

const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)
const draft = (fields: Partial<Drover.MemoryDraft> = {}): Drover.MemoryDraft => ({
  scope: "agent",
  agentId: "pilot",
  kind: "reference",
  summary: "Deploys",
  body: "Deploy on Tuesdays.",
  ...fields
})
const summaries = (all: ReadonlyArray<Drover.MemoryEntry>) => all.map(({ summary }) => summary)

describe.each(Object.entries(stores).filter(([name]) => ["memory", "markdown", "sqlite"].includes(name)))(
  "drover's adapter (%s)",
  (_, layer) => {
    const law = (
      title: string,
      check: (adapter: Drover.MemoryAdapter, store: MemoryStore.Service) => Effect.Effect<void, unknown>
    ) =>
      it.effect(
        title,
        () =>
          Effect.flatMap(MemoryStore.MemoryStore, (store) => check(Drover.toAdapter(store), store)).pipe(
            Effect.provide(Layer.orDie(layer))
          )
      )

    law(
      "`put` returns an entry that has a ULID and no `updatedAt`, and `get` returns the same entry",
      (adapter) =>
        Effect.gen(function*() {
          const entry = yield* adapter.put(draft({ tags: ["ops"] }))
          assert.match(entry.id, ULID_RE)
          assert.notProperty(entry, "updatedAt")
          assert.deepStrictEqual(yield* adapter.get(entry.id), entry)
          assert.isNull(yield* adapter.get(stableId("nobody")))
        })
    )

    law(
      "`put` with an existing id replaces the entry, but keeps the entry's `createdAt`",
      (adapter) =>
        Effect.gen(function*() {
          const { createdAt, id } = yield* adapter.put(draft({ tags: ["ops"] }))
          yield* TestClock.adjust(5_000)
          const updated = yield* adapter.put(draft({ id, body: "Deploy on Mondays." }))
          assert.deepInclude(updated, { id, createdAt, updatedAt: createdAt + 5_000, body: "Deploy on Mondays." })
          assert.notProperty(updated, "tags")
        })
    )

    law(
      "`put` fails if an id of the scope is missing or invalid, or if the entry's id is not a ULID",
      (adapter) =>
        Effect.gen(function*() {
          const { agentId: _, ...nobodys } = draft()
          assert.strictEqual(yield* reason(adapter.put(nobodys)), "invalid_scope")
          assert.strictEqual(yield* reason(adapter.put(draft({ scope: "run" }))), "invalid_scope")
          assert.strictEqual(yield* reason(adapter.put(draft({ id: "nope" }))), "invalid_id")
          assert.strictEqual(yield* reason(adapter.put(draft({ agentId: ".." }))), "path_escape")
        })
    )

    law(
      "`put` fails with `invalid_draft` if the summary or the body is too long",
      (adapter) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* reason(adapter.put(draft({ summary: "x".repeat(201) }))), "invalid_draft")
          assert.strictEqual(yield* reason(adapter.put(draft({ body: "x".repeat(65_537) }))), "invalid_draft")
          yield* adapter.put(draft({ body: "x".repeat(65_536) }))
          yield* adapter.put(draft({ body: "" }))
        })
    )

    law(
      "`list` and `search` return global entries, those of the given agent and those of the given run, and none of other agents or runs",
      (adapter) =>
        Effect.gen(function*() {
          yield* adapter.put(draft({ scope: "global", summary: "for all" }))
          yield* adapter.put(draft({ summary: "pilot's" }))
          yield* adapter.put(draft({ agentId: "other", summary: "other's" }))
          yield* adapter.put(draft({ scope: "run", runId: "r1", summary: "run's" }))
          yield* adapter.put(draft({ scope: "run", runId: "r2", summary: "another run's" }))
          const seen = (opts: Drover.SearchOpts) =>
            Effect.zipWith(adapter.list(opts), adapter.search({ ...opts, query: "deploy" }), (list, hits) => {
              assert.sameMembers(summaries(hits), summaries(list))
              return summaries(list).sort()
            })
          assert.deepStrictEqual(yield* seen({ agentId: "pilot" }), ["for all", "pilot's"])
          assert.deepStrictEqual(yield* seen({ agentId: "pilot", runId: "r1" }), ["for all", "pilot's", "run's"])
          assert.deepStrictEqual(yield* seen({ agentId: "pilot", scopes: ["agent"] }), ["pilot's"])
          assert.deepStrictEqual(yield* seen({ agentId: "pilot", runId: "r1", scopes: ["run"] }), ["run's"])
          assert.deepStrictEqual(yield* seen({}), ["for all"], "without an agent no agent's entry is shown")
        })
    )

    law(
      "`search` returns the hits in descending order of score, and no hits for a query of punctuation alone",
      (adapter) =>
        Effect.gen(function*() {
          yield* adapter.put(draft({ summary: "Release", body: "The release train leaves on Tuesday." }))
          yield* adapter.put(draft({ summary: "Train", body: "A release train waits for no release of a late train." }))
          yield* adapter.put(draft({ summary: "Lunch", body: "Soup." }))
          const hits = yield* adapter.search({ agentId: "pilot", query: "release on Tuesday" })
          assert.deepStrictEqual(summaries(hits), ["Release", "Train"])
          assert.deepStrictEqual(
            hits.map(({ score }) => score),
            hits.map(({ score }) => score).toSorted((a, b) => b - a)
          )
          assert.deepStrictEqual(yield* adapter.search({ agentId: "pilot", query: "?!" }), [])
        })
    )

    law(
      "`list` returns the newest entries first, twenty by default; `search` without a query also returns the newest first",
      (adapter) =>
        Effect.gen(function*() {
          for (let n = 0; n < 22; n++) {
            yield* adapter.put(draft({ summary: `n${n}`, body: `body ${n}` }))
            yield* TestClock.adjust(1)
          }
          const list = yield* adapter.list({ agentId: "pilot" })
          assert.lengthOf(list, 20)
          assert.deepStrictEqual(summaries(list).slice(0, 2), ["n21", "n20"])
          assert.deepStrictEqual(summaries(yield* adapter.search({ agentId: "pilot", limit: 2 })), ["n21", "n20"])
        })
    )

    law(
      "`list` filters by kinds and by tags, and `search` also finds entries by the words of their tags",
      (adapter) =>
        Effect.gen(function*() {
          yield* adapter.put(draft({ summary: "a", tags: ["Ops", "ci"] }))
          yield* adapter.put(draft({ summary: "b", kind: "feedback", tags: ["docs"] }))
          const list = (opts: Drover.SearchOpts) => Effect.map(adapter.list({ agentId: "pilot", ...opts }), summaries)
          assert.deepStrictEqual(yield* list({ tags: ["ops", "nothing"] }), ["a"])
          assert.deepStrictEqual(yield* list({ kinds: ["feedback"] }), ["b"])
          const hits = yield* adapter.search({ agentId: "pilot", query: "docs" })
          assert.deepStrictEqual(summaries(hits), ["b"], "a tag alone is found")
        })
    )

    law(
      "`forget` removes an entry, and returns `false` if the entry is already forgotten",
      (adapter) =>
        Effect.gen(function*() {
          const { id } = yield* adapter.put(draft())
          assert.isTrue(yield* adapter.forget(id))
          assert.isFalse(yield* adapter.forget(id))
          assert.isNull(yield* adapter.get(id))
          yield* adapter.close()
        })
    )

    law("a forgotten entry can be restored", (adapter, store) =>
      Effect.gen(function*() {
        const entry = yield* adapter.put(draft())
        yield* adapter.forget(entry.id)
        const [gone] = (yield* store.list(Viewer.everyone(), { forgotten: true })).items
        yield* store.apply(Viewer.everyone(), [{ _tag: "Restore", id: gone!.id, revision: gone!.revision }])
        assert.deepInclude(yield* adapter.get(entry.id), { id: entry.id, body: entry.body })
      }))

    law(
      "`put` stores two equal entries once if their kind is deduplicated, such as `user`, and twice otherwise",
      (adapter) =>
        Effect.gen(function*() {
          const [one, two] = [yield* adapter.put(draft({ kind: "user" })), yield* adapter.put(draft({ kind: "user" }))]
          assert.strictEqual(one.id, two.id)
          const [three, four] = [yield* adapter.put(draft()), yield* adapter.put(draft())]
          assert.notStrictEqual(three.id, four.id)
        })
    )
  }
)

describe("drover's folder", () => {
  const files = (root: string) =>
    readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => /[0-9A-Z]{26}\.md$/.test(file))

  it.scopedLive("an entry is one Markdown file in its scope's folder; a change of scope moves the file, and `forget` removes it", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      const adapter = Drover.toAdapter(store)
      const { id } = yield* adapter.put(draft({ tags: ["a, \"b\"", "c"] }))
      assert.deepStrictEqual(files(root), [join("agents", "pilot", `${id}.md`)])
      assert.match(
        readFileSync(join(root, files(root)[0]!), "utf8"),
        /^---\n[^]*kind: reference\n[^]*\n---\n\nDeploy on Tuesdays\.$/m
      )
      yield* adapter.put(draft({ id, scope: "global" }))
      assert.deepStrictEqual(files(root), [join("global", `${id}.md`)])
      yield* Effect.all(
        Array.from({ length: 5 }, (_, n) => adapter.put(draft({ id, scope: "global", body: `writer ${n}` }))),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(readFileSync(join(root, files(root)[0]!), "utf8").match(/^---$/gm) ?? [], 2)
      yield* adapter.forget(id)
      assert.deepStrictEqual(files(root), [])
    }))

  it.scopedLive("the file of an entry contains the ids of its agent and run, and no scope", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      yield* Drover.toAdapter(store).put(draft({ scope: "run", runId: "r1" }))
      const text = readFileSync(join(root, files(root)[0]!), "utf8")
      assert.match(text, /^agentId: pilot\nrunId: r1$/m)
      assert.notMatch(text, /^scope:/m)
    }))

  it.scopedLive("a store that opens the folder again reads each entry with tags and text unchanged", () =>
    Effect.gen(function*() {
      const root = yield* place
      const body = "  two\n\n---\nlines  "
      const entry = yield* Effect.scoped(
        Effect.flatMap(
          opened(root),
          ({ store }) => Drover.toAdapter(store).put(draft({ body, tags: ["a, \"b\"", "ü"] }))
        )
      )
      const { store } = yield* opened(root)
      assert.deepStrictEqual(yield* Drover.toAdapter(store).get(entry.id), entry)
      assert.deepInclude(entry, { body, tags: ["a, \"b\"", "ü"] })
    }))
})

describe("drover's BM25", () => {
  it("stop words and single ASCII characters are ignored, and words of non-Latin scripts are indexed", () => {
    assert.deepStrictEqual(tokenise("The quick b fox"), ["quick", "fox"])
    assert.isNotEmpty(tokenise("記憶 память"))
  })

  it("`bm25` ranks a document higher if a tag matches, and returns nothing for an empty query", () => {
    const docs = ["first", "second"].map((id, n) =>
      buildDoc(id, { summary: "deploy", body: "", tags: n === 1 ? ["deploy"] : [] })
    )
    assert.deepStrictEqual(bm25("", docs), [])
    assert.deepStrictEqual(bm25("deploy", []), [])
    assert.deepStrictEqual(bm25("deploy", docs).map(({ id }) => id), ["second", "first"])
  })
})
