/**
 * What the operations of a store and a service cost in stores of several sizes, in memory: users of 100 records each, half of these
 * turns of conversations, all with vectors of eight dimensions. An answer that is as long in a large store should cost as much.
 */
import { Context, Effect, Layer, Option, Stream } from "effect"
import {
  Completion,
  Embedder,
  MemoryId,
  MemoryPipeline,
  MemoryService,
  MemoryStore,
  Message,
  Viewer
} from "../../dist/index.js"
import { notes, random } from "../corpus.mjs"
import { built, heap, race, timed, watch } from "../measure.mjs"

const perUser = 100
const dimensions = 8
const everyone = Viewer.everyone()
const idOf = (n) => MemoryId.stableId(`growth ${n}`)
const userOf = (n) => `user-${Math.floor(n / perUser)}`
const viewer = Viewer.make({ userId: userOf(0), sessionId: "now" })

const vectorOf = (n) => {
  const next = random(n)
  return Float32Array.from({ length: dimensions }, () => next() - 0.5)
}

const source = notes(5_000)
const draft = (n) => {
  const { body, summary } = source[n % source.length]
  return {
    id: idOf(n),
    scope: { userId: userOf(n) },
    kind: "reference",
    summary: `${summary} ${n}`,
    body: n % 10 === 0
      ? `${body.slice(0, 120)} [[${source[(n + 1) % source.length].summary} ${n + 1}]]`
      : body.slice(0, 120),
    ...(n % 2 === 1 && { source: { session: `${userOf(n)} ${Math.floor(n / 20)}`, sequence: n % 20 } })
  }
}

/** What a model answers to every request: a fact, and that it is new. */
const model = Layer.effect(
  Completion.Completion,
  Effect.sync(() => {
    let asked = 0
    return {
      complete: () =>
        Effect.sync(() => {
          const text = `Fact number ${asked >> 1}`
          return JSON.stringify(asked++ % 2 === 0 ? { facts: [text] } : { memory: [{ event: "ADD", text }] })
        })
    }
  })
)

const layer = Layer.mergeAll(MemoryService.layer(), MemoryPipeline.layer).pipe(
  Layer.provideMerge(MemoryStore.layerInMemory),
  Layer.provide([model, Embedder.layerNone])
)

const run = (effect) => Effect.runPromise(effect.pipe(MemoryService.as(viewer)))

const fill = async (store, count) => {
  for (let n = 0; n < count; n += 1_000) {
    await run(store.put(everyone, Array.from({ length: Math.min(1_000, count - n) }, (_, i) => draft(n + i))))
  }
  const vectors = Option.getOrThrow(store.vectors)
  for (let made = 0;;) {
    const pending = await run(vectors.pending("default", "m", 10_000))
    if (pending.length === 0) return
    await run(vectors.attach("default", "m", pending.map(({ hash }) => [hash, vectorOf(made++)])))
  }
}

/** The operations by name: each takes the number of the call. */
const operations = (context, count) => {
  const store = Context.get(context, MemoryStore.MemoryStore)
  const memory = Context.get(context, MemoryService.MemoryService)
  const pipeline = Context.get(context, MemoryPipeline.MemoryPipeline)
  const vectors = Option.getOrThrow(store.vectors)
  const embedding = { model: "m", vector: Array.from(vectorOf(1)) }
  const any = (n) => (n * 7_919) % count // a prime: all records by turns
  const of = (n) => Viewer.make({ userId: userOf(any(n)) })
  const text = "a function that returns an effect"
  const other = (n) => ({ ...draft(n), id: idOf(`other ${n}`) })
  return {
    "put": (n) => store.put(of(n), [{ ...other(n), scope: { userId: userOf(any(n)) } }]),
    "get": (n) => store.get(of(n), [idOf(any(n))]),
    "update": (n) => store.update(of(n), idOf(any(n)), { body: `edited ${n}` }),
    "forget and restore": (n) => {
      const id = idOf(any(n))
      return Effect.flatMap(store.get(of(n), [id]), ([record]) =>
        Effect.zipRight(
          store.forget(of(n), [id]),
          store.apply(of(n), [{ _tag: "Restore", id, revision: Option.getOrThrow(record).revision }])
        ))
    },
    "put and purge": (n) =>
      Effect.flatMap(
        store.put(everyone, [{ ...other(n), id: idOf(`gone ${n}`) }]),
        ([{ record }]) => store.forget(everyone, [record.id], { purge: true })
      ),
    "search": (n) => store.search(of(n), { text, limit: 10 }),
    "search by vector": (n) => store.search(of(n), { embedding, mode: "vector", limit: 10 }),
    "whyNot": (n) => store.whyNot(of(n), idOf(any(n)), { text, limit: 10 }),
    "list": (n) => store.list(of(n), { limit: 10 }),
    "list, who sees all": () => store.list(everyone, { limit: 10 }),
    "list after a put": (n) =>
      Effect.zipRight(
        store.put(everyone, [{ ...other(n), id: idOf(`new ${n}`) }]),
        store.list(everyone, { limit: 10 })
      ),
    "list of an empty kind": () => store.list(everyone, { kinds: ["person"], limit: 10 }),
    "stream, first page": () => Stream.runCollect(Stream.take(store.stream(everyone, {}), 10)),
    "history": (n) => store.history(of(n), idOf(any(n)), 5),
    "links": (n) => store.links(of(n), idOf(any(n))),
    "touch": (n) => store.touch(of(n), [idOf(any(n))]),
    "uses": (n) => store.uses(of(n), [idOf(any(n))]),
    "compact": () => store.compact,
    "pending": () => vectors.pending("default", "m", 1),
    "remember, who sees all": (n) =>
      pipeline.remember(everyone, [Message.user(`I said number ${n}.`)], { scope: { userId: userOf(any(n)) } }),
    "service: put": (n) => memory.put({ ...other(n), id: idOf(`served ${n}`), scope: { userId: userOf(0) } }),
    "service: search": () => memory.search({ text, limit: 10 }),
    "service: index": () => memory.index,
    "service: context": () => memory.context([Message.user(text)])
  }
}

/** Measures each operation in stores of these sizes, by turns. */
export const growth = async (sizes) => {
  const stores = []
  for (const size of sizes) {
    const context = await built(layer)
    await fill(Context.get(context, MemoryStore.MemoryStore), size)
    stores.push({ size, all: operations(context, size) })
  }
  const figures = {}
  for (const name of Object.keys(stores[0].all)) {
    const contestants = stores.map(({ all, size }) => ({
      name: String(size),
      calls: (first, count) =>
        run(Effect.forEach(Array.from({ length: count }, (_, n) => first + n), all[name], { discard: true }))
    }))
    figures[`growth: ${name}`] = await race(contestants, { most: 64, stretch: 40, turns: 5 })
  }
  return figures
}

/** Measures the longest time for which each operation keeps the event loop from turning in a store of `count` records, in milliseconds. */
export const stalls = async (count) => {
  const context = await built(layer)
  const store = Context.get(context, MemoryStore.MemoryStore)
  const figures = {}
  const held = async (name, effect) => {
    await new Promise(setImmediate)
    const end = watch()
    const { cpu, wall } = await timed(() => run(effect))
    await new Promise(setImmediate)
    const { clock, stall } = end()
    figures[`stall: ${name}`] = { store: { median: stall, clock, cpu, wall } }
  }
  await held("put of 20,000 in one call", store.put(everyone, Array.from({ length: 20_000 }, (_, n) => draft(n))))
  for (let n = 20_000; n < count; n += 1_000) {
    await run(store.put(everyone, Array.from({ length: 1_000 }, (_, i) => draft(n + i))))
  }
  const embedding = { model: "m", vector: Array.from(vectorOf(1)) }
  await held("first search", store.search(everyone, { text: "a function", limit: 10 }))
  await held("first links", store.links(everyone, idOf(0)))
  await held("first list", store.list(everyone, { limit: 10 }))
  const vectors = Option.getOrThrow(store.vectors)
  await held("first pending", vectors.pending("default", "m", 10_000))
  await fill(store, 0)
  await held("first search by vector", store.search(everyone, { embedding, mode: "vector", limit: 10 }))
  for (const [name, call] of Object.entries(operations(context, count))) await held(name, call(1))
  await held("forget of 1,000", store.forget(everyone, Array.from({ length: 1_000 }, (_, n) => idOf(n))))
  await held(
    "purge of 1,000",
    store.forget(everyone, Array.from({ length: 1_000 }, (_, n) => idOf(n)), { purge: true })
  )
  await held("compact", store.compact)
  return figures
}

/** Measures the first answer about links in a store of `count` records. */
export const links = async (count) => {
  const context = await built(layer)
  const store = Context.get(context, MemoryStore.MemoryStore)
  for (let n = 0; n < count; n += 1_000) {
    await run(store.put(everyone, Array.from({ length: 1_000 }, (_, i) => draft(n + i))))
  }
  await new Promise(setImmediate)
  const end = watch()
  const { cpu, wall } = await timed(() => run(store.links(everyone, idOf(0))))
  await new Promise(setImmediate)
  return { "first links": { store: { cpu, wall, ...end() } } }
}

/** Measures what `count` tenants of two records take, once each was searched, and how long compaction takes. */
export const tenants = async (count) => {
  const context = await built(layer)
  const store = Context.get(context, MemoryStore.MemoryStore)
  const use = (first, end) =>
    run(Effect.forEach(Array.from({ length: end - first }, (_, n) => first + n), (n) => {
      const viewer = Viewer.make({ tenant: `tenant-${n}`, userId: "ada" })
      const drafts = [draft(n), draft(n + 1)].map(({ body, kind, summary }) => (
        { scope: { userId: "ada" }, kind, summary, body }
      ))
      return Effect.zipRight(store.put(viewer, drafts), store.search(viewer, { text: "a function", limit: 10 }))
    }, { discard: true }))
  await use(0, 10)
  const before = heap()
  await use(10, count)
  const mb = heap() - before
  const samples = []
  for (let turn = 0; turn < 3; turn++) samples.push(await timed(() => run(store.compact)))
  return { "tenants": { memory: { mb }, compact: samples.toSorted((a, b) => a.cpu - b.cpu)[1] } }
}
