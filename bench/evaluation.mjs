/** The part of `npm run eval` that needs the library: puts the documents into a store and asks it the queries. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { pathToFileURL } from "node:url"
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
const layerOf = async ({ analyzer, embedder, store }) => {
  const base = store === "memory" ? Memory.MemoryStore.layerInMemory : Layer.unwrapScoped(
    Effect.map(
      Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "effect-memory-eval-" })),
      (root) => Memory.Markdown.layer({ root })
    )
  )
  const layer = analyzer === undefined
    ? base
    : Layer.provide(base, supported(Memory.Analyzer?.layer, "--analyzer")(analyzers[analyzer]))
  const vectors = embedder === "none"
    ? Memory.Embedder.layerNone
    : embedder === "words"
    ? Memory.Embedder.layerWordVectors
    : await moduleOf(embedder)
  return Memory.MemoryPipeline.layer.pipe(
    Layer.provide([Memory.Completion.layerNone, vectors]),
    Layer.provideMerge(layer)
  )
}

/** The layer that a module exports. */
const moduleOf = async (path) => {
  try {
    return (await import(pathToFileURL(path).href)).default
  } catch (error) {
    throw new Refusal(`cannot load ${path}: ${error.message}`)
  }
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

const draft = (scope) => ({ text }) => ({ scope, kind: "reference", body: cut(text) })
const message = ({ at, speaker, text }) =>
  new Memory.Message.Message({ role: "user", content: cut(text), name: speaker, at })
const cut = (text) => text.slice(0, 65_536).toWellFormed()

const batch = 250

/** Stores the documents, turns as messages of a conversation, and returns their ids by record id. */
const store = Effect.fnUntraced(function*(documents, { all, viewer }, tick) {
  const memory = yield* Memory.MemoryStore.MemoryStore
  const pipeline = yield* Memory.MemoryPipeline.MemoryPipeline
  const ids = new Map()
  for (const [conv, scope] of all) {
    const mine = documents.filter((doc) => doc.conv === conv && doc.text.trim() !== "")
    for (const session of new Set(mine.map((doc) => doc.session))) {
      const docs = mine.filter((doc) => doc.session === session)
      for (let at = 0; at < docs.length; at += batch) {
        const some = docs.slice(at, at + batch)
        if (session === undefined) {
          const put = yield* memory.put(viewer(conv), some.map(draft(scope)))
          put.forEach(({ record }, i) => ids.set(record.id, some[i].id))
        } else {
          const sequence = some.map((doc) => doc.sequence)
          const options = { scope, infer: false, session, sequence }
          const { applied } = yield* pipeline.remember(viewer(conv), some.map(message), options)
          applied.forEach(({ id }, i) => ids.set(id, some[i].id))
        }
        tick("put", ids.size, documents.length)
      }
    }
  }
  return ids
})

const run = Effect.fnUntraced(function*({ documents, queries }, { embedder, mode, unanswerable }, tick) {
  const memory = yield* Memory.MemoryStore.MemoryStore
  const seen = scopes(documents)
  const ids = yield* store(documents, seen, tick)
  const pipeline = yield* Memory.MemoryPipeline.MemoryPipeline
  if (embedder !== "none") yield* pipeline.embedMissing
  const search = embedder === "none" ? memory.search : pipeline.recall

  const measured = []
  for (const { category, conv, grades, id, text } of queries) {
    const viewer = seen.viewer(conv)
    const start = performance.now()
    const confidence = unanswerable !== undefined || undefined
    const { confidence: sure, failures, hits } = yield* search(viewer, { text, mode, limit: 20, confidence })
    const ms = performance.now() - start
    if (failures.length > 0) yield* failures[0].error
    measured.push({ id, conv, category, ms, sure, ...measure(hits.map(({ record }) => ids.get(record.id)), grades) })
    tick("ask", measured.length, queries.length)
  }
  return { measured }
})

/** Stores the documents as `evaluate` does, and returns their records with the ids of the documents. */
export const recordsOf = async ({ documents }) => {
  const seen = scopes(documents)
  const all = Effect.gen(function*() {
    const memory = yield* Memory.MemoryStore.MemoryStore
    const ids = yield* store(documents, seen, () => {})
    const records = []
    for (const [conv] of seen.all) {
      const viewer = seen.viewer(conv)
      const found = yield* Stream.runCollect(memory.stream(viewer, { limit: 1_000 }))
      records.push({ conv, viewer, records: Array.from(found) })
    }
    return { ids, analyzer: yield* Memory.Analyzer.Analyzer, conversations: records }
  })
  return Effect.runPromise(
    all.pipe(Effect.provide(await layerOf({ embedder: "none", store: "memory" })), Effect.provide(NodeContext.layer))
  )
}

/** Returns the measures of every query, or the `failure` as text. Throws a `Refusal` if the data or the command is wrong. */
export const evaluate = async (data, command, tick) => {
  const layer = await layerOf(command)
  const exit = await Effect.runPromiseExit(
    run(data, command, tick).pipe(Effect.provide(layer), Effect.provide(NodeContext.layer))
  )
  if (Exit.isSuccess(exit)) return exit.value
  const error = Cause.squash(exit.cause)
  if (error instanceof Refusal) throw error
  return { failure: error instanceof Memory.MemoryError.MemoryError ? error.message : Cause.pretty(exit.cause) }
}

/** Greatest difference between two scores that count as one. */
const slack = 1e-9

/**
 * Stores the documents in memory, copies the store into each database, asks all of them every query, and returns, by name, the
 * queries whose ten best differ: in an id, or in a score by more than 1e-9.
 */
export const compare = (data, databases, tick) => {
  const seen = scopes(data.documents)
  const program = Effect.gen(function*() {
    const memory = yield* Memory.MemoryStore.MemoryStore
    yield* store(data.documents, seen, tick)
    const found = {}
    for (const [name, layer] of Object.entries(databases)) {
      const other = Context.get(yield* Layer.build(layer), Memory.MemoryStore.MemoryStore)
      const { records, verified } = yield* Memory.Copy.copy(memory, other)
      if (!verified) throw new Refusal(`${name}: the copy is not verified`)
      const differing = []
      for (const [n, { conv, id, text }] of data.queries.entries()) {
        const viewer = seen.viewer(conv)
        const expected = yield* memory.search(viewer, { text, limit: 10 })
        const answer = yield* other.search(viewer, { text, limit: 10 })
        const isSame = expected.hits.length === answer.hits.length &&
          expected.hits.every(({ record, score }, i) =>
            record.id === answer.hits[i].record.id && Math.abs(score - answer.hits[i].score) <= slack
          )
        if (!isSame) differing.push(id)
        tick(name, n + 1, data.queries.length)
      }
      found[name] = { records, queries: data.queries.length, differing }
    }
    return found
  })
  return layerOf({ embedder: "none", store: "memory" }).then((layer) =>
    Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(layer), Effect.provide(NodeContext.layer)))
  )
}
