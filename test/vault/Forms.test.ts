/** A record's text in its file and in the history, printed by hand, is what the schema and the YAML library make of it. */
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

describe("a record by hand", () => {
  it("is encoded for the history as its schema encodes it, byte for byte", () => {
    FastCheck.assert(
      FastCheck.property(record, (record) => {
        assert.strictEqual(JSON.stringify(encoded(record)), JSON.stringify(encode(record)))
      }),
      { numRuns: 300, seed: 3 }
    )
  })

  it("is printed as the YAML library prints it, byte for byte, and read back as it is, with its seal", () => {
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
        if (!matter.includes("\"")) assert.strictEqual(matter, again) // quotes may be of the second attempt
      }),
      { numRuns: 300, seed: 5 }
    )
  })
})
