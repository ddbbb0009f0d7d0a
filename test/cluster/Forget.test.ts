/**
 * The tables of a cluster contain neither names nor words of users: while a conversation waits, after it was forgotten, and when it
 * is idle.
 */
import type * as MessageStorage from "@effect/cluster/MessageStorage"
import type * as Sharding from "@effect/cluster/Sharding"
import { SqlClient } from "@effect/sql"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Cron from "effect/Cron"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as OutboxState from "../../src/harness/Outbox/OutboxState.ts"
import * as ConversationEntity from "../../src/harness/OutboxCluster/ConversationEntity.ts"
import * as WritePolicy from "../../src/harness/WritePolicy.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { model, never, opened, remembered, rows, settled, users } from "../harness/Outboxes.ts"
import { type Cluster, openedOn, runnerWith } from "./Clusters.ts"

const ada = Viewer.make({ userId: "ada lovelace" })
const bob = Viewer.make({ userId: "bob" })

const events = MemoryEvents.makePublisher(() => Effect.void)

/** Returns the number of the cluster's messages to conversations, and one text with these messages and every reply in the tables. */
const tables = (cluster: Cluster) =>
  Effect.gen(function*() {
    const sql = Context.get(cluster, SqlClient.SqlClient)
    const messages = yield* sql`SELECT * FROM cluster_messages WHERE entity_type LIKE 'Memory/Line/%'`
    const replies = yield* sql`SELECT * FROM cluster_replies`
    return { messages: messages.length, text: JSON.stringify([messages, replies]) }
  })

const until = <E>(condition: Effect.Effect<boolean, E>): Effect.Effect<void, E> =>
  Effect.asVoid(Effect.repeat(Effect.zipRight(settled, condition), { until: (holds) => holds }))

const isEmpty = (cluster: Cluster) => until(Effect.map(tables(cluster), ({ messages }) => messages === 0))

const law = (
  title: string,
  check: Effect.Effect<void, unknown, MemoryStore.MemoryStore | Scope.Scope>
) => it.scopedLive(title, () => Effect.provide(Effect.scoped(check), MemoryStore.layerInMemory))

describe("the tables of an OutboxCluster", () => {
  law(
    "the tables contain no user id, session id or text of a message, even if extraction fails",
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const cluster = yield* runnerWith({})
      let isDown = true
      const { extract } = model((contents) => isDown ? Effect.die(contents.join()) : Effect.void)
      const outbox = yield* openedOn(cluster, store, { extract }, { trigger: never })
      const isSilent = Effect.map(tables(cluster), ({ messages, text }) => {
        assert.isAbove(messages, 0)
        assert.notMatch(text, /lovelace|holiday|secret/)
      })
      yield* outbox.append(ada, "holiday", users("a secret"))
      yield* isSilent
      yield* outbox.flush
      assert.lengthOf(yield* outbox.deadLetters, 1)
      yield* isSilent
      isDown = false
      yield* outbox.release
      yield* outbox.sessionEnd(ada, "holiday")
      yield* until(Effect.map(remembered(store), ([text]) => text === "a secret"))
      yield* isSilent
    })
  )

  law(
    "`forget` deletes a viewer's conversations from the store and the cluster's tables; later messages are still extracted",
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const cluster = yield* runnerWith({})
      const outbox = yield* openedOn(cluster, store, model(), { trigger: never })
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.append(ada, "t", users("b"))
      assert.strictEqual((yield* tables(cluster)).messages, 2)
      assert.strictEqual(yield* outbox.forget(ada), 2)
      assert.deepStrictEqual(yield* rows(store), [])
      assert.strictEqual((yield* tables(cluster)).messages, 0)
      yield* outbox.append(bob, "s", users("c"))
      assert.strictEqual(yield* outbox.forget(ada), 0)
      assert.strictEqual(yield* outbox.append(ada, "s", users("d")), 1)
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["c", "d"])
    })
  )

  law(
    "no rows are left of a forgotten or fully extracted conversation that was idle for the cluster's `entityMaxIdleTime`",
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const cluster = yield* runnerWith({ entityMaxIdleTime: "20 millis" })
      const outbox = yield* openedOn(cluster, store, model(), { trigger: ExtractionTrigger.idle("50 millis") })
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.append(bob, "s", users("b"))
      yield* WritePolicy.forgetAll(store, { rules: { globalWrites: "deny" }, events }, ada, {}, { purge: true })
      yield* isEmpty(cluster)
      assert.deepStrictEqual(yield* remembered(store), ["b"])
      yield* outbox.append(ada, "s", users("c"))
      assert.strictEqual(yield* outbox.append(bob, "s", users("d")), 1)
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["b", "c", "d"])
    })
  )

  law(
    "`compact` deletes the rows of fully extracted conversations that were idle for an hour",
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const cluster = yield* runnerWith({})
      const outbox = yield* openedOn(cluster, store, model(), { trigger: never })
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.flush
      yield* outbox.append(bob, "s", users("b"))
      const { messages } = yield* tables(cluster)
      yield* outbox.compact
      assert.strictEqual((yield* tables(cluster)).messages, messages)
      yield* Effect.withClock(outbox.compact, later(Clock.make(), 2 * 3_600_000))
      assert.strictEqual((yield* tables(cluster)).messages, 2) // the notification of the waiting batch, and that sent by `compact`
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["a", "b"])
    })
  )
})

describe("an OutboxCluster", () => {
  it.scopedLive("a batch of messages is extracted once, even if the cluster is notified of the same batch again", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const cluster = yield* runnerWith({})
      const { calls, extract } = model()
      const outbox = yield* openedOn(cluster, store, { extract }, { trigger: ExtractionTrigger.invocation })
      const lines = yield* Effect.provide(
        ConversationEntity.client(ConversationEntity.make("default")),
        cluster as Context.Context<Sharding.Sharding | MessageStorage.MessageStorage> // the cluster's context contains more services
      )
      yield* outbox.append(ada, "s", users("a"))
      yield* until(Effect.map(remembered(store), (all) => all.length === 1))
      const { revision, sessionRow } = yield* OutboxState.of(store, { viewer: ada, session: "s" })
      const again = { tenant: "default", at: 1, from: 0, to: 1, rows: [{ id: sessionRow!, revision }], revision }
      for (let n = 0; n < 2; n++) yield* lines.appended(sessionRow!, again) // the conversation has a session row
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["a"]])
      assert.strictEqual((yield* tables(cluster)).messages, 2)
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  law(
    "`compact` notifies the cluster of waiting batches in conversations that did not change for an hour",
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const { calls, extract } = model()
      const outbox = yield* openedOn(yield* runnerWith({}), store, { extract }, {
        trigger: ExtractionTrigger.invocation
      })
      const other = yield* opened(store, { extract }, { trigger: never }) // appends without notifying the cluster
      yield* other.append(ada, "s", users("a"))
      yield* outbox.compact
      assert.deepStrictEqual(yield* remembered(store), [])
      yield* Effect.withClock(outbox.compact, later(Clock.make(), 2 * 3_600_000))
      yield* until(Effect.map(remembered(store), (all) => all.length === 1))
      assert.deepStrictEqual(calls, [["a"]])
    })
  )

  it.scopedLive("the cluster runs `compact` on the cron schedule in the option `compaction`, even after one run has failed", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      let count = 0
      const counting: MemoryStore.Service = {
        ...store,
        compact: Effect.suspend(() => count++ === 0 ? Effect.die("once") : store.compact)
      }
      yield* openedOn(yield* runnerWith({ entityMessagePollInterval: "100 millis" }), counting, model(), {
        compaction: Cron.unsafeParse("* * * * * *")
      })
      yield* until(Effect.sync(() => count > 1))
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))
})

/** Returns the clock with `ahead` milliseconds added. */
const later = (clock: Clock.Clock, ahead: number): Clock.Clock =>
  Object.assign(Object.create(clock), { currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + ahead) })
