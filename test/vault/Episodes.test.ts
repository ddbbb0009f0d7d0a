import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Emotion from "../../src/domain/Emotion.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { files, opened, place } from "./Place.ts"

describe("an episode (a record of an event) in a vault", () => {
  it.scopedLive("an edit by hand changes the episode, and an edit that the kind's Schema rejects is reported and ignored", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      const ada = Viewer.make({ agentId: "mira", actorId: "ada" })
      const scope = { agentId: "mira", actorId: "ada" }
      yield* Effect.gen(function*() {
        const memory = yield* EpisodicMemory.EpisodicMemory
        const { record } = yield* memory.saveEpisode(ada, {
          scope,
          body: "I swam across.",
          data: { context: "The lake", emotion: { ...Emotion.neutral, V: 0.4 } }
        })
        yield* memory.saveReflection(ada, { scope, body: "Fond of her.", data: { trigger: "interaction" } })
        const all = Object.entries(files(root))
        const [path, text] = all.find(([path]) => path.includes(record.id))!
        assert.match(text, /^---\n[^]*kind: episodic\n[^]*\n---\n+I swam across\.\n?$/)
        for (const line of ["summary: The lake", "type: chat_message", "context: The lake", "V: 0.4"]) {
          assert.include(text, line)
        }
        assert.isTrue(all.some(([, text]) => /trigger: interaction\n[^]*Fond of her\./.test(text)))
        const edit = (from: string, to: string) =>
          Effect.zipRight(
            Effect.sync(() => writeFileSync(join(root, path), text.replace(from, to))),
            vault.refresh
          )
        yield* edit("V: 0.4", "V: -0.9")
        assert.lengthOf(yield* memory.recall(ada, { valenceRange: [-1, -0.9] }), 1)
        yield* edit("V: 0.4", "V: 4")
        assert.lengthOf(yield* vault.issues, 1)
        assert.lengthOf(yield* memory.recall(ada, { valenceRange: [-1, -0.9] }), 1)
        yield* edit("swam", "rowed")
        assert.isEmpty(yield* vault.issues)
        const [mended] = yield* memory.recall(ada, {})
        assert.strictEqual(mended?.record.body.trim(), "I rowed across.")
      }).pipe(Effect.provide(EpisodicMemory.layer.pipe(Layer.provide(Layer.succeed(MemoryStore.MemoryStore, store)))))
    }))
})
