/** The fast encoders of records, for the history and for files, agree with the Schema and the YAML library. */
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as Yaml from "yaml"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { encoded, MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as MemoryScope from "../../src/domain/MemoryScope.ts"
import * as Document from "../../src/storage/MemoryStore/Markdown/Document.ts"
import * as Layout from "../../src/storage/MemoryStore/Markdown/Layout.ts"

const encode = Schema.encodeSync(MemoryRecord)
const record = Arbitrary.make(MemoryRecord)
const plain = FastCheck.tuple(record, FastCheck.stringMatching(/^[A-Za-z0-9][ -~]{0,40}$/)).map(([record, summary]) =>
  new MemoryRecord({ ...record, summary, data: {}, metadata: {}, links: [], tags: ["a b", "t:1"] }, {
    disableValidation: true
  })
)
const context: Document.Context = { key: "key", kinds: Context.get(Context.empty(), MemoryKind.Kinds) }

describe("the library's own encoder and printer of a record", () => {
  it("the fast encoder of records, used for the history, returns the same JSON as the Schema of MemoryRecord", () => {
    FastCheck.assert(
      FastCheck.property(record, (record) => {
        assert.strictEqual(JSON.stringify(encoded(record)), JSON.stringify(encode(record)))
      }),
      { numRuns: 300, seed: 3 }
    )
  })

  it("a printed record is read back as the same record; frontmatter without double quotes equals the YAML library's output", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.oneof(record, plain), FastCheck.constantFrom("default", "acme"), (any, tenant) => {
        const scope = MemoryScope.normalise(any.scope)
        const record = new MemoryRecord({ ...any, scope }, { disableValidation: true })
        const path = Layout.pathOf(tenant, scope, record.id)
        const printed = Document.print(context, path, tenant, record)
        if (Either.isLeft(printed)) return
        const text = printed.right
        const parsed = Either.getOrThrow(Document.parse(context, path, text, 0))
        assert.isTrue(parsed.signed)
        assert.strictEqual(JSON.stringify(encode(parsed.record)), JSON.stringify(encode(record)))
        const matter = text.slice(4, text.indexOf("\n---\n") + 1)
        const again = Yaml.stringify(Yaml.parse(matter), { lineWidth: 0, aliasDuplicateObjects: false })
        if (!matter.includes("\"")) assert.strictEqual(matter, again) // with quotes the library may choose another style the second time
      }),
      { numRuns: 300, seed: 5 }
    )
  })
})
