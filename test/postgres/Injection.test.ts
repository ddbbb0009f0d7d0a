import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { Name } from "../../src/domain/MemoryKind.ts"
import { Summary, Tag } from "../../src/domain/MemoryRecord.ts"
import { ScopeId } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { layerInMemory, MemoryStore, type Service } from "../../src/storage/MemoryStore.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, id, listed, put } from "../../src/testing/Sample.ts"
import { strings } from "../contract/naughty.ts"
import { times } from "../vault/Program.ts"
import { ask, place } from "./Server.ts"
import { isReal, noSchema, opened, placeOf, raw } from "./World.ts"

const attacks = [
  "'; DROP TABLE memory_records; --",
  "' OR '1'='1",
  "\" OR \"\"=\"",
  "$1",
  "$$; DELETE FROM memory_records; $$",
  "?",
  "{each}",
  "') ON CONFLICT DO NOTHING; TRUNCATE memory_records; --",
  "x'::regclass",
  "%",
  "_",
  "\\'; SELECT pg_sleep(1); --",
  "\\x41",
  "{\"a\":1}",
  "[\"a\"]",
  "/* */",
  "default",
  "null",
  "a/b",
  "a\\/b",
  "\u0000",
  "a\u0000b",
  "\ud800",
  "a\udfffb"
]
const texts = [...attacks, ...strings.filter((text, n) => text.length < 200 && n % times(160, 4) === 0)]

const isOf = <A>(schema: Schema.Schema<A, string>, text: string): text is A & string => Schema.is(schema)(text)

/** Writes and queries with the text in ids of the viewer, in fields of records and in filters; returns all answers and failures. */
const answers = (store: Service, text: string, n: number) =>
  Effect.gen(function*() {
    const own = isOf(ScopeId, text) ? text : "plain"
    const viewer = Viewer.make({ tenant: own, userId: own, agentId: own, sessionId: own, runId: own, actorId: own })
    const scope = { userId: own, agentId: own, sessionId: own }
    const told = <A>(call: Effect.Effect<A, { readonly reason: string }>) =>
      Effect.match(call, { onFailure: ({ reason }): unknown => reason, onSuccess: (answer): unknown => answer })
    const target = id(`target ${n}`)
    const drafts = [
      {
        ...draft(text, { id: id(`all ${n}`), scope, data: { [text]: text }, metadata: { [text]: text } }),
        ...(isOf(Summary, text) && { summary: text }),
        ...(isOf(Tag, text) && { tags: [text] })
      },
      { ...draft(`entity ${n}`, { id: target, scope, kind: "entity", data: { name: text, type: text } }) },
      {
        ...draft(`linked ${n}`, { id: id(`linked ${n}`), scope, links: [{ to: target, type: text, weight: 1 }] }),
        kind: "semantic"
      }
    ]
    const made: Array<unknown> = []
    for (const draft of drafts) made.push(yield* told(store.put(viewer, [draft])))
    for (const vectors of Option.toArray(store.vectors)) {
      made.push(
        yield* told(Effect.gen(function*() {
          const pending = yield* vectors.pending(own, text, 10_000)
          yield* vectors.attach(own, text, pending.map(({ hash }) => [hash, Float32Array.of(1, n)] as const))
          return [pending.map(({ hash }) => hash).sort(), yield* vectors.models(own)]
        }))
      )
    }
    const asked: ReadonlyArray<Effect.Effect<unknown, MemoryError>> = [
      store.list(viewer, { tags: [text] }),
      store.list(viewer, { scope }),
      store.list(viewer, { where: { [`metadata.${text}`]: { eq: text } } }),
      store.list(viewer, { where: { "data.name": { ne: text } } }),
      store.list(viewer, { kinds: [text] }),
      store.search(viewer, { text }),
      store.search(viewer, { embedding: { model: text, vector: [1, n] }, mode: "vector" as const }),
      store.get(viewer, [id(`all ${n}`), target]),
      store.history(viewer, target),
      Effect.map(store.tenants, (all) => Array.from(all).sort())
    ]
    for (const call of asked) made.push(yield* told(Effect.map(call, (answer) => plain(answer))))
    return plain(made)
  })

/** Returns an answer as JSON without cursors, which differ since each store signs its own. */
const plain = (answer: unknown): unknown =>
  JSON.parse(JSON.stringify(answer, (key, value: unknown) => key === "next" ? undefined : value))

describe("texts that contain SQL", () => {
  it.scoped("SQL in viewers, records and filters is plain data: the answers equal those of an in-memory store", () =>
    Effect.gen(function*() {
      const at = yield* place
      const database = yield* opened(at)
      const memory = Context.get(yield* Layer.build(Layer.fresh(layerInMemory)), MemoryStore)
      const tables = raw(
        at,
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY relname"
      )
      const before = yield* tables
      assert.isAbove(before.length, 10)
      const canary = yield* put(database, draft("canary"))
      yield* put(memory, draft("canary", { id: canary.id }))
      for (const [n, text] of texts.entries()) {
        assert.deepStrictEqual(yield* answers(database, text, n), yield* answers(memory, text, n), JSON.stringify(text))
      }
      assert.include(yield* listed(database, ada), "canary")
      assert.deepStrictEqual(yield* tables, before)
    }))
})

if (isReal) {
  describe("a PostgreSQL schema of any name", () => {
    it.scopedLive("a store works in a schema whose name contains SQL, quotes, spaces or non-ASCII letters", () =>
      Effect.gen(function*() {
        const { url } = yield* noSchema
        for (const name of ["a\"; DROP SCHEMA public; --", "A b,ä$1?'", "a\\b {each}", "-c work_mem=1"]) {
          const schema = `${name} ${process.pid}`
          const at = placeOf(Redacted.value(url), schema)
          const quoted = `"${schema.replaceAll("\"", "\"\"")}"`
          yield* Effect.ensuring(
            Effect.scoped(Effect.gen(function*() {
              const store = yield* opened(at, { maxConnections: 1 })
              yield* put(store, draft("tea"))
              assert.deepStrictEqual(yield* listed(store, ada), ["tea"])
              const [row] = yield* ask(Redacted.value(url), `SELECT count(*) FROM ${quoted}.memory_records`)
              assert.deepStrictEqual(row, ["1"], schema)
            })),
            Effect.orDie(ask(Redacted.value(url), `DROP SCHEMA IF EXISTS ${quoted} CASCADE`))
          )
        }
      }))
  })

  describe("row-level security of a PostgreSQL store", () => {
    it.scopedLive("a database role that may only SELECT sees no rows except those of the tenant in the setting effect_memory.tenant", () =>
      Effect.gen(function*() {
        const at = yield* noSchema
        const store = yield* opened(at)
        for (const tenant of ["a", "b"]) {
          const viewer = Viewer.make({ tenant, userId: "ada" })
          const { id } = yield* put(store, draft(`tea of ${tenant}`), viewer)
          yield* store.update(viewer, id, { body: `green tea of ${tenant}` })
          yield* store.touch(viewer, [id])
          const gone = yield* put(store, draft("gone"), viewer)
          yield* store.forget(viewer, [gone.id], { purge: true })
          const vectors = Option.getOrThrow(store.vectors)
          const pending = yield* vectors.pending(tenant, "m", 10)
          yield* vectors.attach(tenant, "m", pending.map(({ hash }) => [hash, Float32Array.of(1)] as const))
          yield* store.update(viewer, id, { body: `black tea of ${tenant}` })
        }
        const role = `"${at.schema}"`
        yield* Effect.acquireRelease(
          raw(
            at,
            `CREATE ROLE ${role}`,
            `GRANT USAGE ON SCHEMA ${role} TO ${role}`,
            `GRANT SELECT ON ALL TABLES IN SCHEMA ${role} TO ${role}`
          ),
          () => raw(at, `DROP OWNED BY ${role}`, `DROP ROLE ${role}`)
        )
        const tables = (yield* raw(
          at,
          "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        ))
          .map(([name]) => String(name))
        assert.isAbove(tables.length, 10)
        let seen = 0
        for (const table of tables) {
          const select = `SELECT count(*), count(*) FILTER (WHERE to_jsonb(t)->>'tenant' = 'a') FROM ${table} AS t`
          const rowsOf = (...settings: ReadonlyArray<string>) =>
            Effect.map(raw(at, `SET ROLE ${role}`, ...settings, select), ([row]) => row?.map(Number))
          assert.deepStrictEqual(yield* rowsOf(), [0, 0], table)
          assert.deepStrictEqual(
            yield* rowsOf("SET effect_memory.tenant = 'a'", "RESET effect_memory.tenant"),
            [0, 0],
            table
          )
          const [all, own] = (yield* rowsOf("SET effect_memory.tenant = 'a'")) ?? []
          assert.strictEqual(all, own, table)
          const [total] = yield* raw(at, select)
          assert.strictEqual(own, Number(total?.[1]), table)
          seen += own ?? 0
        }
        assert.isAbove(seen, 8)
      }))
  })
}

it.scoped("SQL is refused as a kind by `put`, as an id by `get`, and as a cursor by `list`", () =>
  Effect.gen(function*() {
    const store = yield* opened(yield* place)
    for (const text of attacks.filter((text) => !isOf(Name, text))) {
      yield* refuses("invalid_draft", store.put(ada, [draft("tea", { kind: text })]))
      assert.isTrue(yield* Effect.isFailure(store.list(ada, { after: text as never }))) // an untyped caller may pass any text
      yield* refuses("invalid_id", store.get(ada, [text as never])) // as above
    }
  }))
