/** Printing and reading of the parts of a snapshot. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { MemoryId } from "../../src/domain/MemoryId.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { entriesOf, type Placed, textsOf, version } from "../../src/storage/MemoryStore/Markdown/SnapshotPart.ts"

const placed = (body: string, n: number): Placed => {
  const record = new MemoryRecord({
    id: MemoryId.make(`01M8AQPM22V09YRVPE7YJ5${String(n).padStart(4, "0")}`),
    scope: { userId: "ada" },
    kind: "note",
    summary: body.slice(0, 20).trim() || "none",
    body,
    tags: [body.slice(0, 5)],
    importance: 0.5,
    links: [],
    data: {},
    metadata: {},
    source: { origin: "user", trust: 1 },
    createdAt: n,
    validAt: n,
    revision: 1
  }, { disableValidation: true })
  const stat = { mtime: n, born: n, size: n, ino: n }
  return {
    entry: {
      ...{ _tag: "Entry", path: `${n}.md`, stat, settled: true, hash: "0", tenant: "default", signed: true },
      ...{ row: { record, forgotten: false }, extra: {} }
    }
  }
}

/** Encodes each text by itself as UTF-8 and concatenates the bytes, as a write of the snapshot does. */
const bytesOf = (texts: ReadonlyArray<string>) => Buffer.concat(texts.map((text) => Buffer.from(text)))

describe("a part of a snapshot", () => {
  it("the entries read from a part of a snapshot equal the written entries if no body has half of a surrogate pair", () => {
    const piece = FastCheck.constantFrom(
      "a",
      "plain text. ",
      "é",
      "字",
      "😀",
      "\ufeff",
      "\0",
      "\n",
      "\u007f",
      "\u0080",
      "\uffff",
      "\"\\"
    )
    const bodies = FastCheck.array(FastCheck.array(piece, { maxLength: 8 }).map((pieces) => pieces.join("")), {
      maxLength: 8
    })
    FastCheck.assert(
      FastCheck.property(bodies, (bodies) => {
        const entries = bodies.map(placed)
        const bytes = bytesOf(textsOf(entries))
        assert.deepStrictEqual(entriesOf(bytes, version), entries)
      }),
      { seed: 1, numRuns: 1_000 }
    )
  })

  it("half of a surrogate pair in a body is read as U+FFFD, and later bodies are read correctly", () => {
    const entries = ["a\ud83d", "\ude00b", "c"].map(placed)
    const bytes = bytesOf(textsOf(entries))
    assert.deepStrictEqual(entriesOf(bytes, version).map(({ entry }) => entry.row.record.body), [
      "a\ufffd",
      "\ufffdb",
      "c"
    ])
  })
})
