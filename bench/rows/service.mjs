/**
 * `MemoryService` against LangGraph's `InMemoryStore`, with the same embedder: words hashed into 384 dimensions. Both search by
 * vector. A put is without its vector in both.
 */
import { InMemoryStore } from "@langchain/langgraph-checkpoint"
import { Context, Effect, Layer } from "effect"
import { Embedder, MemoryService, MemoryStore, Viewer } from "../../dist/index.js"
import { notes, queries } from "../corpus.mjs"
import { built, race } from "../measure.mjs"

const dimensions = 384
const embed = (text) => {
  const vector = new Float32Array(dimensions)
  for (const word of text.toLowerCase().split(/\W+/)) {
    let hash = 0
    for (let at = 0; at < word.length; at++) hash = (Math.imul(hash, 31) + word.charCodeAt(at)) | 0
    vector[(hash >>> 1) % dimensions] += hash & 1 ? 1 : -1
  }
  return vector
}

const draft = ({ body, summary }) => ({ scope, kind: "reference", summary, body })
const scope = { userId: "ada" }
const viewer = Viewer.make(scope)
const numbers = (first, count) => Array.from({ length: count }, (_, n) => first + n)

const ours = async (all, count) => {
  const Model = Layer.succeed(Embedder.Embedder, {
    model: "hash",
    dimensions,
    embed: (texts) => Effect.sync(() => texts.map(embed))
  })
  const context = await built(
    MemoryService.layer().pipe(Layer.provideMerge(MemoryStore.layerInMemory), Layer.provide(Model))
  )
  const store = Context.get(context, MemoryStore.MemoryStore)
  const memory = Context.get(context, MemoryService.MemoryService)
  const run = (effect) => Effect.runPromise(effect.pipe(MemoryService.as(viewer)))
  for (let n = 0; n < count; n += 500) {
    await run(store.put(viewer, all.slice(n, Math.min(count, n + 500)).map(draft)))
  }
  await run(memory.embedMissing)
  const calls = (call) => (first, count) => run(Effect.forEach(numbers(first, count), call, { discard: true }))
  return {
    "search by vector": calls((n) => memory.recall({ text: question(n), mode: "vector", limit: 10 })),
    "search by words and vector": calls((n) => memory.recall({ text: question(n), limit: 10 })),
    "put": calls((n) => memory.put(draft(all[count + n])))
  }
}

const langGraph = async (all, count) => {
  const store = new InMemoryStore({
    index: {
      dims: dimensions,
      fields: ["text"],
      embeddings: {
        embedQuery: async (text) => Array.from(embed(text)),
        embedDocuments: async (texts) => texts.map((text) => Array.from(embed(text)))
      }
    }
  })
  const put = (n, index) => store.put(["ada"], `note-${n}`, { text: `${all[n].summary}\n${all[n].body}` }, index)
  for (let n = 0; n < count; n++) await put(n)
  const calls = (call) => async (first, count) => {
    for (const n of numbers(first, count)) await call(n)
  }
  return {
    "search by vector": calls((n) => store.search(["ada"], { query: question(n), limit: 10 })),
    "put": calls((n) => put(count + n, false))
  }
}

const questions = queries(200)
const question = (n) => questions[n % questions.length]
const contestants = { "service": ours, "LangGraph, in memory": langGraph }

/** The contestants. Each is measured in a process of its own: the garbage of one would be collected in the turns of the other. */
export const names = Object.keys(contestants)

/** Measures one of them over `count` notes of one user. */
export const service = async (count, name) => {
  const figures = {}
  const all = await contestants[name](notes(count + 1_000), count)
  for (const [row, calls] of Object.entries(all)) {
    figures[`service: ${row}`] = await race([{ name, calls }], row === "put" ? { most: 100 } : { stretch: 200 })
  }
  return figures
}
