/**
 * Kills a writer process again and again while a reader process reads. Checks that the batches which the writer acknowledged are stored.
 */
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { id } from "../../src/testing/Sample.ts"
import { eachVault, program } from "./Program.ts"

/** The records that a batch changes: the new version of each, by name. 0: the record is forgotten; -1: purged. */
const Changes = Schema.Record({ key: Schema.String, value: Schema.Int })

/** A line of the output of `processes/writer.mjs`. */
export const Line = Schema.Union(
  Schema.Struct({ ready: Schema.Int }),
  Schema.Struct({ will: Changes }),
  Schema.Struct({ did: Changes })
)

/** A line of the output of `processes/reader.mjs`. */
const Seen = Schema.Union(
  Schema.Struct({ ready: Schema.Int }),
  Schema.Struct({ reads: Schema.Int, wrong: Schema.Array(Schema.String) })
)

/** The viewer that the writer writes as. */
export const viewer = Viewer.make({ agentId: "Bob" })

/** A store that was opened after its writer was killed, and its contents. */
export interface Round<O> {
  /** Path of the vault or file that the writer writes to. */
  readonly at: string
  readonly opened: O
  /** The live records. Each body begins with a name and a version. */
  readonly records: ReadonlyArray<MemoryRecord>
  /** Version of each name that has a live record. */
  readonly found: ReadonlyMap<string, number>
  /** Names that were purged. */
  readonly purged: ReadonlySet<string>
}

export interface Options<O extends { readonly store: MemoryStore.Service }, E> {
  /** Number of kills. */
  readonly rounds: number
  /** Makes the folder or file to write to, for up to 50 kills, and returns its path. */
  readonly place: Effect.Effect<string, never, Scope.Scope>
  readonly open: (at: string) => Effect.Effect<O, E, Scope.Scope>
  /**
   * Runs after each kill, once these laws were checked: every acknowledged batch is stored, the batch in progress is stored completely or
   * not at all, and no other record is stored.
   */
  readonly check: (round: Round<O>) => Effect.Effect<void, E, Scope.Scope>
  /** Runs once for each place, when all its processes have ended. `rounds` is the number of kills at this place. */
  readonly end?: (at: string, rounds: number) => void
}

/** Kills the writer at random moments, and checks the store after each kill. */
export const survives = <O extends { readonly store: MemoryStore.Service }, E>(
  { check, end, open, place, rounds }: Options<O, E>
) =>
  eachVault(rounds, (first, rounds) =>
    Effect.gen(function*() {
      const at = yield* place
      const expected = new Map<string, number>()
      const purged = new Set<string>()
      let acknowledged = 0
      let last: typeof Changes.Type = {}

      const take = (changes: typeof Changes.Type) => {
        for (const [name, version] of Object.entries(changes)) {
          if (version < 1) expected.delete(name)
          else expected.set(name, version)
          if (version < 0) purged.add(name)
        }
      }
      /** Handles a line that the writer printed. Remembers an announced batch, and applies an acknowledged one to the expected state. */
      const hear = (line: typeof Line.Type) => {
        if ("will" in line) last = line.will
        if ("did" in line) {
          take(line.did)
          acknowledged++
          last = {}
        }
      }

      const reader = yield* program("reader.mjs", [at], Seen)
      yield* reader.line
      for (let round = first; round < first + rounds; round++) {
        last = {}
        yield* Effect.scoped(Effect.gen(function*() {
          const writer = yield* program("writer.mjs", [at, String(round)], Line)
          const lines = yield* Random.nextIntBetween(0, 30)
          for (let n = 0; n <= lines; n++) hear(yield* writer.line)
          for (let turns = yield* Random.nextIntBetween(0, 300); turns > 0; turns--) yield* Effect.yieldNow()
          yield* writer.signal("SIGKILL")
          assert.isNull(yield* writer.end)
          for (const line of yield* writer.rest) hear(line)
        }))
        const pending = last
        yield* Effect.scoped(Effect.gen(function*() {
          const opened = yield* open(at)
          const { store } = opened
          const records = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(viewer, { limit: 1_000 })))
          const found = new Map(records.map(({ body }): [string, number] => {
            const [name, version] = body.split(" ")
            return [name!, Number(version)]
          }))
          const done = yield* Effect.forEach(Object.entries(pending), ([name, version]) =>
            version < 0
              ? Effect.map(store.history(Viewer.system(), id(name)), (past) => past.length === 0)
              : Effect.succeed((found.get(name) ?? 0) === version))
          assert.isTrue(done.every((yes) => yes === done[0]), `half of ${JSON.stringify(pending)}`)
          if (done[0]) take(pending)
          assert.deepStrictEqual(sorted(found), sorted(expected), `round ${round}`)
          assert.strictEqual(records.length, found.size)
          // the history has no gap: from the current revision back to the first or to the oldest that is kept
          for (const { body, id, revision } of records) {
            const past = yield* store.history(viewer, id)
            assert.deepStrictEqual(
              past.map((old) => old.revision),
              Array.from({ length: Math.min(revision, 20) }, (_, i) => revision - i)
            )
            const [name, version] = body.split(" ")
            assert.deepStrictEqual(
              past.map((old) => old.body.split(" ").slice(0, 2).join(" ")),
              past.map((_, i) => `${name} ${Number(version) - i}`)
            )
          }
          for (const name of purged) {
            assert.deepStrictEqual(yield* store.history(Viewer.system(), id(name)), [], name)
          }
          yield* check({ at, opened, records, found, purged })
        }))
      }
      yield* reader.tell("over\n")
      const seen = yield* reader.line
      assert.strictEqual(yield* reader.end, 0)
      if (!("wrong" in seen)) return assert.fail("the reader said nothing")
      assert.deepStrictEqual(seen.wrong, [])
      assert.isAbove(seen.reads, rounds)
      assert.isAbove(acknowledged, rounds)
      end?.(at, rounds)
    })).pipe(Effect.withRandom(Random.make("kill")))

const sorted = (versions: ReadonlyMap<string, number>) => Array.from(versions).sort(([a], [b]) => a < b ? -1 : 1)
