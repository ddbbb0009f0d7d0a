import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { Listed, Remembered } from "../../src/cli/commands/Records.ts"
import { Exported, Imported, Restored } from "../../src/cli/Formats.ts"
import { answered, folder, root, run, stores, told } from "./Running.ts"

const fixture = (name: string) => path.join(root, "test/fixtures/transfer", name)

/** Fills a store with records of two users and of Global; one is edited, one forgotten. */
const filled = (store: string) =>
  Effect.gen(function*() {
    const { record } = yield* answered(Remembered, ["remember", "Drinks tea.", "--user", "ada", "--store", store])
    yield* told(["remember", "Drinks mate.", "--id", record.id, "--user", "ada", "--store", store])
    const gone = yield* answered(Remembered, ["remember", "Had a cold.", "--user", "ada", "--store", store])
    yield* told(["forget", gone.record.id, "--user", "ada", "--store", store])
    yield* told(["remember", "Plays the cello.", "--user", "bob", "--store", store])
    yield* told(["remember", "Deploys go out on Tuesdays.", "--kind", "project", "--store", store])
  })

describe.each(stores)("effect-memory export and import of %s", (_, address) => {
  it.scopedLive("an export that is imported into a vault is exported again byte for byte, and a second import writes nothing", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const [one, two] = [path.join(place, "one.jsonl"), path.join(place, "two.jsonl")]
      const [from, to] = [yield* address, `vault:${path.join(place, "copy")}`]
      yield* filled(from)
      const exported = yield* answered(Exported, ["export", one, "--store", from])
      assert.deepInclude(exported, { records: 4, tombstones: 1 })
      const first = yield* answered(Restored, ["import", one, "--store", to])
      assert.deepInclude(first, { records: 4, tombstones: 1, complete: true, skipped: [] })
      assert.isAbove(first.written, 0)
      assert.strictEqual((yield* answered(Restored, ["import", one, "--store", to])).written, 0)
      yield* told(["export", two, "--store", to])
      assert.strictEqual(fs.readFileSync(two, "utf8"), fs.readFileSync(one, "utf8"))
      assert.strictEqual(yield* told(["export", "--store", to]), fs.readFileSync(one, "utf8"))
    }))

  it.scopedLive("export with --user writes everything about that user and nothing of others", () =>
    Effect.gen(function*() {
      const store = yield* address
      yield* filled(store)
      const text = yield* told(["export", "--user", "ada", "--store", store])
      assert.include(text, "Drinks tea.")
      assert.include(text, "Drinks mate.")
      assert.include(text, "Had a cold.")
      assert.notMatch(text, /bob|cello|Tuesdays/)
    }))
})

describe("effect-memory import", () => {
  it.scopedLive("reads another system's memory once, into the given scope", () =>
    Effect.gen(function*() {
      const store = `vault:${path.join(yield* folder, "memory")}`
      const args = ["import", "--format", "mcp", fixture("mcp.jsonl"), "--user", "ada", "--store", store]
      const { created } = yield* answered(Imported, args)
      assert.isAbove(created, 0)
      assert.deepInclude(yield* answered(Imported, args), { created: 0, present: created })
      const { items } = yield* answered(Listed, ["list", "--limit", "100", "--user", "ada", "--store", store])
      assert.isTrue(items.every(({ scope }) => scope !== "global" && scope.userId === "ada"))
    }))

  it.scopedLive("reads a file from stdin, and imports conversations as threads", () =>
    Effect.gen(function*() {
      const store = `vault:${path.join(yield* folder, "memory")}`
      const input = fs.readFileSync(fixture("chatgpt.json"), "utf8")
      const args = ["import", "--format", "chatgpt", "-", "--user", "ada", "--store", store]
      const { messages, threads } = yield* answered(Imported, args, { input })
      assert.isAbove(threads, 0)
      assert.isAbove(messages, 0)
      assert.deepInclude(yield* answered(Imported, args, { input }), { created: 0, messages: 0 })
    }))

  it.scopedLive("a missing file, another format or an unreadable file makes the import fail without effect", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const store = ["--user", "ada", "--store", `vault:${path.join(place, "memory")}`]
      const other = path.join(place, "other.json")
      fs.writeFileSync(other, "[{\"colour\":\"red\"}]")
      const newer = path.join(place, "newer.jsonl")
      fs.writeFileSync(newer, "{\"format\":\"effect-memory\",\"version\":99}\n")
      const cases: ReadonlyArray<readonly [code: number, args: ReadonlyArray<string>]> = [
        [3, ["import", "--format", "mem0", path.join(place, "none.json")]],
        [4, ["import", "--format", "letta", other]],
        [7, ["import", "--format", "mem0", other]],
        [4, ["import", newer]]
      ]
      for (const [code, args] of cases) {
        const ran = yield* run([...args, ...store])
        assert.strictEqual(ran.code, code, `${args.join(" ")}: ${ran.stderr}`)
        assert.match(ran.stderr, /^effect-memory: /)
        assert.notInclude(ran.stderr, "colour")
      }
      const listed = yield* run(["list", "--json", ...store])
      if (listed.code === 0) assert.deepStrictEqual(JSON.parse(listed.stdout), { items: [] })
      else assert.strictEqual(listed.code, 5)
    }))
})
