/** The files that docs/architecture.md lists for a put, a search and a remember are those that V8's coverage finds to run. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readFileSync } from "node:fs"
import * as Inspector from "node:inspector/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Message from "../src/domain/Message.ts"
import * as Viewer from "../src/domain/Viewer.ts"
import * as Completion from "../src/host/Completion.ts"
import * as Embedder from "../src/host/Embedder.ts"
import * as MemoryPipeline from "../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../src/storage/MemoryStore.ts"

const root = join(import.meta.dirname, "..")
const src = join(root, "src")

/** Returns the files of `src` of which a function runs during the effect. The effect has run before, so that loading does not count. */
const passed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    for (let n = 0; n < 3; n++) yield* effect
    const session = new Inspector.Session()
    session.connect()
    yield* Effect.promise(() => session.post("Profiler.enable"))
    yield* Effect.promise(() => session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false }))
    yield* Effect.promise(() => session.post("Profiler.takePreciseCoverage")) // resets the counters
    yield* effect
    const { result } = yield* Effect.promise(() => session.post("Profiler.takePreciseCoverage"))
    yield* Effect.promise(() => session.post("Profiler.stopPreciseCoverage"))
    session.disconnect()
    const files = result.flatMap(({ functions, url }) => {
      const path = url.startsWith("file:") ? fileURLToPath(url) : url
      const isRun = functions.some(({ ranges }) => ranges.some(({ count }) => count > 0))
      return isRun && path.startsWith(`${src}/`) ? [path.slice(src.length + 1)] : []
    })
    return Array.from(new Set(files)).sort()
  })

/** Returns the files that the document lists below a heading, one per line of its picture. */
const documented = (heading: string): ReadonlyArray<string> => {
  const text = readFileSync(join(root, "docs/architecture.md"), "utf8")
  const section = text.split(/^## /m).find((part) => part.startsWith(heading)) ?? ""
  const picture = /```text\n([^]*?)```/.exec(section)?.[1] ?? ""
  return Array.from(picture.matchAll(/[\w/]+\.ts\b/g), ([path]) => path).sort()
}

const ada = Viewer.make({ userId: "ada" })
const scope = { userId: "ada" }
let n = 0

describe("the call paths in docs/architecture.md", () => {
  it.effect("the page lists exactly the source files that run during a put into an in-memory store", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const files = yield* passed(
        Effect.suspend(() => store.put(ada, [{ scope, kind: "reference", body: `tea number ${++n}` }]))
      )
      assert.deepStrictEqual(files, documented("A put"))
      assert.isAtMost(files.length, 18)
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  it.effect("the page lists exactly the source files that run during a search in an in-memory store", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(ada, [{ scope, kind: "reference", body: "green tea" }])
      const files = yield* passed(Effect.suspend(() => store.search(ada, { text: "tea" })))
      assert.deepStrictEqual(files, documented("A search"))
      assert.isAtMost(files.length, 19)
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  it.effect("the page lists exactly the source files that run during MemoryPipeline.remember over an in-memory store", () =>
    Effect.gen(function*() {
      const pipeline = yield* MemoryPipeline.MemoryPipeline
      const files = yield* passed(
        Effect.suspend(() => pipeline.remember(ada, [Message.user(`I drink tea number ${++n}.`)], { scope }))
      )
      assert.deepStrictEqual(files, documented("A remember"))
      assert.isAtMost(files.length, 42)
    }).pipe(
      Effect.provide(MemoryPipeline.layer.pipe(Layer.provideMerge(Layer.mergeAll(
        MemoryStore.layerInMemory,
        Embedder.layerNone,
        Completion.layerScripted(({ user }) =>
          user.startsWith("EXISTING:")
            ? { memory: [{ event: "ADD", text: `Drinks tea number ${n}` }] }
            : { facts: [`Drinks tea number ${n}`] }
        )
      ))))
    ))
})
