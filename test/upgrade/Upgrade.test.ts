/** Data that an earlier release wrote to disk can be opened by this release, with the same meaning. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import { sha256 } from "../../src/domain/Digest.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"
import type * as Outbox from "../../src/harness/Outbox.ts"
import * as Resume from "../../src/harness/Resume.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Snapshot from "../../src/storage/MemoryStore/Markdown/Snapshot.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import * as Boxes from "../harness/Outboxes.ts"
import { opened } from "../vault/Place.ts"
import { all, copy, type Expected, expectedOf, viewerOf } from "./Generation.ts"
import { observe } from "./Observed.ts"

/**
 * Tests a law on each generation (the files of one release), with a copy of its files. The clock is set to the time at which the release
 * read these files and gave the expected answers.
 */
const law = (
  title: string,
  check: (root: string, expected: Expected) => Effect.Effect<void, unknown, Scope.Scope>
) => {
  for (const name of all()) {
    it.scoped(`${title} (${name})`, () =>
      Effect.gen(function*() {
        const expected = expectedOf(name)
        yield* TestClock.setTime(expected.now)
        yield* check(yield* copy(name, expected.now), expected)
      }))
  }
}

/** Returns each text with the number of bodies in `remembered` that equal the text's first 50 characters. */
const counts = (remembered: ReadonlyArray<string>, texts: ReadonlyArray<string>) =>
  texts.map((text) => [text, remembered.filter((body) => body === text.slice(0, 50)).length])
const once = (texts: ReadonlyArray<string>) => texts.map((text) => [text, 1])

describe("data of an earlier release", () => {
  it("the data of at least one earlier release is tested", () => assert.isNotEmpty(all()))

  law(
    "a vault of an earlier release gives the same results as in that release, even if opened a second time",
    (root, { vault: before }) =>
      Effect.gen(function*() {
        for (let opening = 0; opening < 2; opening++) {
          yield* Effect.scoped(Effect.gen(function*() {
            const { store, vault } = yield* opened(path.join(root, "vault"))
            assert.deepStrictEqual(yield* observe(store, vault), before)
          }))
        }
      })
  )

  law(
    "an earlier release's snapshot (cache of a vault) can be read, and its records of unedited files have the files' bodies",
    (root) =>
      Effect.gen(function*() {
        const vaultFs = yield* VaultFileSystem.make(path.join(root, "vault"))
        const manifest = JSON.parse(fs.readFileSync(path.join(root, "vault/.effect-memory/vault.json"), "utf8"))
        const { entries, isSigned } = yield* Snapshot.readSnapshot(vaultFs, {
          ...manifest,
          kinds: yield* MemoryKind.registered
        })
        assert.isTrue(isSigned)
        // some files were edited by hand after the snapshot
        const kept = entries.flatMap(({ hash, path: file, row: { record } }) => {
          const bytes = fs.readFileSync(path.join(root, "vault", file))
          return sha256(bytes) === hash ? [[record, bytes.toString()] as const] : []
        })
        assert.isAbove(kept.length, 20)
        for (const [record, text] of kept) {
          assert.instanceOf(record, MemoryRecord)
          assert.include(text, record.body)
        }
      }).pipe(Effect.provide(NodeContext.layer))
  )

  law(
    "opening a vault of an earlier release gives each of its tombstones the times that compaction needs",
    (root) =>
      Effect.gen(function*() {
        const vaultFs = yield* VaultFileSystem.make(path.join(root, "vault"))
        const manifest = JSON.parse(fs.readFileSync(path.join(root, "vault/.effect-memory/vault.json"), "utf8"))
        const tombstones = Effect.gen(function*() {
          const { history } = yield* Snapshot.readSnapshot(vaultFs, {
            ...manifest,
            kinds: yield* MemoryKind.registered
          })
          const newest = new Map(
            history?.locations.toReversed().map((location) => [`${location.tenant}/${location.id}`, location])
          )
          return history && Array.from(newest.values()).filter(({ forgotten }) => forgotten)
        })
        const before = yield* tombstones // the first generation has no history
        yield* Effect.scoped(opened(path.join(root, "vault")))
        const after = (yield* tombstones) ?? []
        assert.isTrue(before === undefined || before.length > 0)
        assert.strictEqual(after.filter(({ times }) => times !== undefined).length, before?.length ?? 0)
      }).pipe(Effect.provide(NodeContext.layer))
  )

  law(
    "each message that waits in an outbox of an earlier release is remembered once, and extracted only if it has no stored plan",
    (root, { outboxes }) =>
      Effect.forEach(outboxes, ({ folder, lines, parked, planned, scope, waiting }) =>
        Effect.gen(function*() {
          const model = Boxes.model()
          const session = (
            use: (outbox: Outbox.Service) => Effect.Effect<void, unknown>,
            drained: ReadonlyArray<string>
          ) =>
            Effect.scoped(Effect.gen(function*() {
              const { store } = yield* opened(path.join(root, folder))
              const outbox = yield* Boxes.opened(store, model, {
                trigger: Boxes.never,
                ...(scope && { options: { scope } })
              })
              yield* outbox.flush
              yield* use(outbox)
              for (const [tenant, texts] of Object.entries(waiting)) {
                const expected = tenant === "default" ? [...texts, ...drained] : texts
                assert.deepStrictEqual(counts(yield* Boxes.remembered(store, tenant), expected), once(expected))
              }
            }))

          for (let opening = 0; opening < 2; opening++) {
            yield* session((outbox) =>
              Effect.gen(function*() {
                assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: parked.length })
              }), [])
          }
          yield* session((outbox) =>
            Effect.gen(function*() {
              assert.strictEqual(yield* outbox.release, parked.length)
              yield* outbox.flush
              assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 0 })
            }), parked)
          const asked = model.calls.flat().map((text) => text.slice(0, 50))
          const unplanned = [...Object.values(waiting).flat(), ...parked].filter((text) => !planned.includes(text))
          assert.deepStrictEqual(asked.toSorted(), unplanned.toSorted())
          yield* session((outbox) =>
            Effect.forEach(lines, ({ next, session, viewer }) =>
              Effect.gen(function*() {
                const line = viewerOf(viewer)
                if (Viewer.isSystem(line)) return assert.fail("the library has no lines")
                assert.strictEqual(yield* outbox.append(line, session, [Message.user("One more.")]), next)
              }), { discard: true }), parked)
        }), { discard: true })
  )

  law(
    "a checkpoint of an earlier release can be resumed, since its memory spec still has the same hash",
    (root, { runs }) =>
      Effect.gen(function*() {
        const { resume } = yield* Resume.Resume
        assert.isNotEmpty(runs)
        for (const { cursor, hash, instructionFiles, memory, runId, turn } of runs) {
          const spec = {
            memory: new MemorySpec.MemorySpec(memory as MemorySpec.Input), // the fixture has the spec without its defaults
            instructionFiles: new MemorySpec.InstructionFilesConfig(instructionFiles)
          }
          assert.strictEqual(MemorySpec.hashSpec(spec), hash)
          const checkpoint = Option.getOrUndefined(yield* resume(runId, spec))
          assert.deepInclude(checkpoint, { runId, hash, turn, cursor })
        }
      }).pipe(
        Effect.provide(Resume.layer({ directory: path.join(root, "runs") }).pipe(Layer.provide(NodeContext.layer)))
      )
  )

  law(
    "a cassette (file of recorded model answers) of an earlier release still gives its recorded answers",
    (root, { cassette }) =>
      Effect.gen(function*() {
        const { complete } = yield* Completion.Completion
        assert.isNotEmpty(cassette)
        for (const { answer, ...prompt } of cassette) assert.strictEqual(yield* complete(prompt), answer)
      }).pipe(
        Effect.provide(Completion.layerReplay(path.join(root, "cassette.jsonl")).pipe(Layer.provide(NodeContext.layer)))
      )
  )
})
