/** The part of `npm run eval` that needs the library: puts the documents into a store and asks it the queries. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Memory from "../dist/index.js"
import { Refusal } from "./dataset.mjs"
import { measure } from "./metrics.mjs"

const analyzers = {
  plain: { stem: false, stopwords: "short", query: "short" },
  stem: { stem: true, stopwords: "short", query: "wide" },
  wide: { stem: false, stopwords: "wide", query: "wide" },
  "stem-wide": { stem: true, stopwords: "wide", query: "wide" }
}

/** Makes the layer of a store, with a pipeline if an embedder is chosen. */
const layerOf = ({ analyzer, embedder, store }) => {
  const base = store === "memory" ? Memory.MemoryStore.layerInMemory : Layer.unwrapScoped(
    Effect.map(
      Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "effect-memory-eval-" })),
      (root) => Memory.Markdown.layer({ root })
    )
  )
  const layer = analyzer === undefined
    ? base
    : Layer.provide(base, supported(Memory.Analyzer?.layer, "--analyzer")(analyzers[analyzer]))
  if (embedder === "none") return layer
  const words = supported(Memory.Embedder?.layerWordVectors, "--embedder words")
  return supported(Memory.MemoryPipeline?.layer, "--embedder words").pipe(
    Layer.provide([Memory.Completion?.layerNone, words]),
    Layer.provideMerge(layer)
  )
}

const supported = (feature, name) => {
  if (feature === undefined) throw new Refusal(`${name} is not supported by this build`)
  return feature
}

/** Gives each conversation a scope of its own, and all documents without one another. */
const scopes = (documents) => {
  const numbers = new Map(
    Array.from(new Set(documents.map(({ conv }) => conv)), (conv, n) => [conv, { userId: `conv-${n}` }])
  )
  const everyone = Memory.Viewer.everyone()
  return {
    all: Array.from(numbers),
    viewer: (conv) => {
      const scope = numbers.get(conv)
      if (scope !== undefined) return Memory.Viewer.make(scope)
      if (conv === undefined) return everyone
      throw new Refusal(`no document of conversation ${conv}`)
    }
  }
}

const draft = (scope) => ({ sequence, session, text }) => ({
  scope,
  kind: session === undefined ? "reference" : "episodic",
  body: text.slice(0, 65_536).toWellFormed(),
  ...(session !== undefined && { source: { session, sequence } })
})

const batch = 250

/** Stores the documents and returns their ids by record id. */
const store = Effect.fnUntraced(function*(documents, { all, viewer }, tick) {
  const memory = yield* Memory.MemoryStore.MemoryStore
  const ids = new Map()
  for (const [conv, scope] of all) {
    const mine = documents.filter((doc) => doc.conv === conv && doc.text.trim() !== "")
    for (let at = 0; at < mine.length; at += batch) {
      const some = mine.slice(at, at + batch)
      const put = yield* memory.put(viewer(conv), some.map(draft(scope)))
      put.forEach(({ record }, i) => ids.set(record.id, some[i].id))
      tick("put", ids.size, documents.length)
    }
  }
  return ids
})

const run = Effect.fnUntraced(function*({ documents, queries }, { embedder, mode }, tick) {
  const memory = yield* Memory.MemoryStore.MemoryStore
  const seen = scopes(documents)
  const ids = yield* store(documents, seen, tick)
  const pipeline = embedder === "none"
    ? undefined
    : Option.getOrUndefined(yield* Effect.serviceOption(Memory.MemoryPipeline.MemoryPipeline))
  if (pipeline) yield* pipeline.embedMissing
  const search = pipeline ? pipeline.recall : memory.search

  const measured = []
  let took = 0
  for (const { category, conv, grades, text } of queries) {
    const viewer = seen.viewer(conv)
    const start = performance.now()
    const { failures, hits } = yield* search(viewer, { text, mode, limit: 20 })
    took += performance.now() - start
    if (failures.length > 0) yield* failures[0].error
    measured.push({ category, ...measure(hits.map(({ record }) => ids.get(record.id)), grades) })
    tick("ask", measured.length, queries.length)
  }
  return { measured, perSecond: queries.length / (took / 1_000) }
})

/** Returns the measures of every query, or the `failure` as text. Throws a `Refusal` if the data or the command is wrong. */
export const evaluate = async (data, command, tick) => {
  const layer = layerOf(command)
  const exit = await Effect.runPromiseExit(
    run(data, command, tick).pipe(Effect.provide(layer), Effect.provide(NodeContext.layer))
  )
  if (Exit.isSuccess(exit)) return exit.value
  const error = Cause.squash(exit.cause)
  if (error instanceof Refusal) throw error
  return { failure: error instanceof Memory.MemoryError.MemoryError ? error.message : Cause.pretty(exit.cause) }
}
