import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as WritePolicy from "../../src/harness/WritePolicy.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import * as Boxes from "../harness/Outboxes.ts"
import { opened, place } from "./Place.ts"
import { eachVault, isLong, program, times } from "./Program.ts"

const Line = Schema.Union(Schema.Struct({ ready: Schema.String }), Schema.Struct({ did: Schema.Array(Schema.String) }))

/** Asserts that each acknowledged message is remembered once, in its tenant, and that no message waits; returns the number remembered. */
const onceEach = (store: Service, acknowledged: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    let count = 0
    for (const tenant of ["one", "two", "three"]) {
      const all = yield* Effect.map(
        Stream.runCollect(store.stream(Viewer.make({ tenant, userId: "ada" }), {})),
        Chunk.toReadonlyArray
      )
      const texts = all.map(({ body }) => body.replace(/ ~[\d.]+$/, ""))
      const found = new Set(texts)
      assert.lengthOf(texts, found.size, "one was extracted twice")
      assert.isTrue(texts.every((text) => text.startsWith(`${tenant} `)))
      const missing = acknowledged.filter((text) => text.startsWith(`${tenant} `) && !found.has(text))
      assert.deepStrictEqual(missing, [])
      assert.deepStrictEqual(yield* Boxes.rows(store, tenant), [])
      count += texts.length
    }
    return count
  })

describe("an outbox (queue of messages from which memories are extracted) in a vault whose process is killed at any moment", () => {
  it.scopedLive(
    "every acknowledged message of every tenant is extracted exactly once, and no message stays in the queue",
    () =>
      eachVault(times(2, isLong ? 1_000 : 50), (first, rounds) =>
        Effect.gen(function*() {
          const root = yield* place
          const acknowledged: Array<string> = []
          let waited = 0
          for (let round = first; round < first + rounds; round++) {
            yield* Effect.scoped(Effect.gen(function*() {
              const args = [root, `r${round}`, String(round), round % 4 === 3 ? "ingest" : "pipeline", "0"]
              const outbox = yield* program("outbox.mjs", args, Line)
              const heard = (line: typeof Line.Type) => {
                if ("did" in line) acknowledged.push(...line.did)
              }
              const lines = yield* Random.nextIntBetween(0, 25)
              for (let n = 0; n <= lines; n++) heard(yield* outbox.line)
              for (let turns = yield* Random.nextIntBetween(0, 300); turns > 0; turns--) yield* Effect.yieldNow()
              yield* outbox.signal("SIGKILL")
              assert.isNull(yield* outbox.end)
              for (const line of yield* outbox.rest) heard(line)
            }))
            if (round % 10 === 0) {
              yield* Effect.scoped(Effect.gen(function*() {
                const { store } = yield* opened(root)
                for (const tenant of yield* store.tenants) waited += (yield* Boxes.rows(store, tenant)).length
              }))
            }
          }
          assert.isAbove(waited, 0, "nothing ever waited")
          const { store, vault } = yield* opened(root)
          const outbox = yield* Boxes.opened(store, Boxes.model())
          yield* outbox.flush
          assert.deepStrictEqual(yield* vault.issues, [])
          assert.deepStrictEqual(yield* outbox.deadLetters, [])
          const count = yield* onceEach(store, acknowledged)
          assert.isAbove(acknowledged.length, rounds * 3)
          yield* Effect.logInfo(`${rounds} kills, ${acknowledged.length} acknowledged, ${count} extracted, each once`)
        })).pipe(Effect.withRandom(Random.make("outbox")))
  )
})

describe("two outboxes in two processes on one vault and the same conversations", () => {
  for (const extractor of ["pipeline", "ingest"]) {
    it.scopedLive(
      `no message is lost or extracted twice if the option \`extractor\` is \`${extractor}\``,
      () =>
        Effect.gen(function*() {
          const root = yield* place
          const turns = times(1, 40)
          const both = yield* Effect.forEach(
            ["ann", "bob"],
            (name, n) => program("outbox.mjs", [root, name, String(n), extractor, String(turns)], Line)
          )
          const codes = yield* Effect.forEach(both, ({ end }) => end, { concurrency: 2 })
          const said = (yield* Effect.forEach(both, ({ rest }) => rest)).flat()
          const acknowledged = said.flatMap((line) => "did" in line ? line.did : [])
          assert.deepStrictEqual(codes, [0, 0], JSON.stringify(said.slice(-5)))
          const { store, vault } = yield* opened(root)
          assert.deepStrictEqual(yield* vault.issues, [])
          assert.strictEqual(yield* onceEach(store, acknowledged), acknowledged.length)
          assert.isAtLeast(acknowledged.length, 2 * 6 * turns)
        })
    )
  }
})

describe("`forgetAll` with `purge` in a vault with an outbox", () => {
  const { ada, bob, down, model, never, refused, refusing, rows, settled, users, writes } = Boxes
  const word = "quokka"
  /** Returns the files that contain `word`, hidden files included. */
  const where = (root: string) =>
    fs.readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((name) => fs.statSync(path.join(root, name)).isFile())
      .filter((name) => fs.readFileSync(path.join(root, name), "latin1").includes(word))
  const forgets = (store: Service, viewer: Viewer.Viewer, filter = {}) =>
    WritePolicy.forgetAll(
      store,
      { rules: MemorySpec.make({}), events: MemoryEvents.makePublisher(() => Effect.void) },
      viewer,
      filter,
      {
        purge: true
      }
    )

  const boxOf = (store: Service, model: Boxes.Model) => Boxes.opened(store, model, { trigger: never })

  const law = (
    title: string,
    keep: (store: Service) => Effect.Effect<unknown, unknown, Scope.Scope>
  ) =>
    it.scopedLive(title, () =>
      Effect.gen(function*() {
        const root = yield* place
        yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          yield* Effect.scoped(keep(store))
          assert.isNotEmpty(where(root))
          yield* forgets(store, ada)
          assert.deepStrictEqual(where(root), [])
          assert.deepStrictEqual(yield* rows(store), [])
        }))
        assert.deepStrictEqual(where(root), [])
      }))

  law(
    "`forgetAll` removes every queued message of the user from disk if no outbox runs",
    (store) =>
      Effect.gen(function*() {
        const outbox = yield* boxOf(store, model(() => down))
        yield* outbox.append(ada, "s", users(word, `${word} `.repeat(30_000)))
        yield* outbox.append(ada, word, users("in its name"))
        yield* outbox.append(Viewer.make({ userId: "ada", agentId: "coach" }), "s", users(word))
      })
  )

  law(
    "`forgetAll` removes the planned writes of a failed extraction from disk",
    (store) =>
      Effect.gen(function*() {
        const outbox = yield* boxOf(refusing(store, (batch) => writes(batch) ? down : undefined), model())
        yield* outbox.append(ada, "s", users(word))
        yield* Effect.flip(outbox.flush)
        assert.include(yield* rows(store), "plan")
      })
  )

  law(
    "`forgetAll` removes from disk a message of the user that was set aside after its extraction failed",
    (store) =>
      Effect.gen(function*() {
        const outbox = yield* boxOf(store, model(() => refused))
        yield* outbox.append(ada, "s", users(word))
        yield* outbox.flush
        assert.lengthOf(yield* outbox.deadLetters, 1)
      })
  )

  it.scopedLive("`forgetAll` during an extraction of the user's message discards the model's answer; another user's message is still extracted", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      const answer = yield* Deferred.make<void>()
      const seen: Array<ReadonlyArray<string>> = []
      const watched: Service = {
        ...store,
        apply: (...args) => Effect.tap(store.apply(...args), () => Effect.sync(() => seen.push(where(root))))
      }
      const { extract } = model(() => Deferred.await(answer))
      const outbox = yield* boxOf(watched, { extract, calls: [] })
      yield* outbox.append(ada, "s", users(word))
      yield* outbox.append(bob, "s", users("a wombat"))
      const fiber = yield* Effect.fork(outbox.flush)
      yield* settled
      yield* forgets(store, ada)
      assert.deepStrictEqual(where(root), [])
      seen.length = 0
      yield* Deferred.succeed(answer, undefined)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(seen.flat(), [])
      assert.deepStrictEqual(where(root), [])
      assert.deepStrictEqual(yield* Boxes.remembered(store), ["a wombat"])
      assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 0, failuresInARow: 0 })
      assert.strictEqual(yield* outbox.append(ada, "s", users("a cat")), 1)
      yield* outbox.flush
      assert.deepStrictEqual(yield* Boxes.remembered(store), ["a cat", "a wombat"])
    }))

  it.scopedLive("`forgetAll` for an agent removes no queued message of a user", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* place)
      yield* Effect.scoped(Effect.gen(function*() {
        const outbox = yield* boxOf(store, model(() => down))
        for (const ids of [{ userId: "ada" }, { sessionId: "visit" }, {}]) {
          yield* outbox.append(Viewer.make({ agentId: "coach", ...ids }), "s", users("a"))
        }
      }))
      const coach = Viewer.make({ agentId: "coach" })
      yield* forgets(store, coach)
      assert.lengthOf(yield* rows(store), 2)
      yield* forgets(store, Viewer.make({ agentId: "coach", reach: "within" }))
      assert.lengthOf(yield* rows(store), 1) // a user's messages belong to the user, whichever agent received them
    }))

  it.scopedLive("`forgetAll` leaves queued messages of other viewers; for `Viewer.everyone` it removes all queued messages of the tenant", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* place)
      const coach = Viewer.make({ userId: "ada", agentId: "coach" })
      const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
      yield* Effect.scoped(Effect.gen(function*() {
        const outbox = yield* boxOf(store, model(() => down))
        for (const viewer of [ada, coach, bob, elsewhere]) yield* outbox.append(viewer, "s", users("a"))
      }))
      const waits = (count: number, tenant?: string) =>
        Effect.map(rows(store, tenant), (all) => assert.lengthOf(all, count))
      yield* forgets(store, ada, { kinds: ["user"] })
      yield* forgets(store, Viewer.make({}))
      yield* forgets(store, ada, { scope: { userId: "bob" } })
      yield* waits(3)
      yield* forgets(store, coach)
      yield* waits(2)
      yield* forgets(store, ada, { scope: { userId: "ada" }, limit: 3 })
      yield* waits(1)
      yield* forgets(store, Viewer.everyone())
      yield* waits(0)
      yield* waits(1, "elsewhere")
    }))
})
