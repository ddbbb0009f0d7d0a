/**
 * The store in SQLite and in PostgreSQL, beside the one in memory, a table as one writes it by hand (see `postgres.mjs`), and
 * where it is asked for LangGraph's store. One user of 50,000 notes, the rest users of 500 (`--full`: a million notes). Each engine in a
 * process of its own. CPU time is this process's; that of the PostgreSQL server is in the wall time alone.
 *
 *   node databases.mjs [--full | --notes N] [--engine memory|sqlite|postgres|by-hand|langgraph] [--tenants | --race] [--url postgres://…]
 */
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { MemoryStore, Viewer } from "../dist/index.js"
import { Postgres } from "../dist/postgres.js"
import { Sqlite } from "../dist/sqlite.js"
import { notes, queries, random } from "./corpus.mjs"
import { child, cpu } from "./measure.mjs"
import { byHand, bytesOf, defaultUrl, dropSchema, hasVector, langGraph } from "./postgres.mjs"

const { values } = parseArgs({
  options: {
    full: { type: "boolean" },
    notes: { type: "string" },
    engine: { type: "string" },
    tenants: { type: "boolean" },
    race: { type: "boolean" },
    url: { type: "string" },
    alone: { type: "boolean" },
    phase: { type: "string" },
    folder: { type: "string" },
    schema: { type: "string" }
  }
})
const url = values.url ?? defaultUrl
const count = Number(values.notes ?? (values.full ? 1_000_000 : 100_000))
const large = Math.min(50_000, count / 2)
const small = 500
const dimensions = 384
const schema = values.schema ?? `bench_${process.pid}`

/** No user's name begins another's: LangGraph looks namespaces up by their beginning. */
const userOf = (n) => `user-${n}-`
const draft = (userId) => ({ body, summary, tags }) => ({ scope: { userId }, kind: "reference", summary, body, tags })
const viewer = (userId) => Viewer.make({ userId })

/** A store of ours, asked as a viewer. */
const ours = (store) => {
  const vectors = Option.getOrThrow(store.vectors)
  return {
    put: (userId, all) => store.put(viewer(userId), all.map(draft(userId))),
    settle: Effect.gen(function*() {
      for (let n = 0;; n++) {
        const pending = yield* vectors.pending("default", "m", 1_000)
        if (pending.length === 0) return
        yield* vectors.attach("default", "m", pending.map(({ hash }, i) => [hash, vectorsFor(n * 1_000 + i)]))
      }
    }),
    search: (userId, text) => store.search(viewer(userId), { text, limit: 10 }),
    near: (userId, seed, text) => {
      const embedding = { model: "m", vector: Array.from(vectorsFor(seed)) }
      return store.search(viewer(userId), { ...(text !== undefined && { text }), embedding, limit: 10 })
    }
  }
}

/** Another way to keep memory in PostgreSQL, asked the same. A note that is filled in has its vector at once. */
const theirs = (make, isFilled) =>
  Effect.gen(function*() {
    const store = yield* Effect.acquireRelease(Effect.promise(make), (store) => Effect.promise(() => store.close()))
    let made = isFilled ? 10 * count : 0
    const notesOf = (all) =>
      all.map(({ body, summary }) => {
        const n = made++
        return { key: `note-${n}`, text: `${summary ?? ""} ${body}`, vector: isFilled ? undefined : vectorsFor(n) }
      })
    return {
      put: (userId, all) => Effect.promise(() => store.put(userId, notesOf(all))),
      settle: Effect.promise(() => store.settle()),
      search: (userId, text) => Effect.promise(() => store.search(userId, { text })),
      near: hasVectors && ((userId, seed, text) => {
        const asked = { text: text ?? `question ${seed}`, vector: vectorsFor(seed) }
        return Effect.promise(() => text === undefined ? store.near(userId, asked) : store.hybrid(userId, asked))
      })
    }
  })

const engineOf = (name, folder) => {
  const store = (layer) =>
    Effect.map(Layer.build(layer), (context) => ours(Context.get(context, MemoryStore.MemoryStore)))
  const isMade = values.phase === "ask"
  switch (name) {
    case "memory":
      return store(MemoryStore.layerInMemory)
    case "sqlite":
      return store(Sqlite.layer({ filename: join(folder, "memory.db") }))
    case "postgres":
      return store(Postgres.layer({ url: Redacted.make(url), schema }))
    case "langgraph": {
      const embed = async (texts) => texts.map((text) => Array.from(vectorsFor(text.length)))
      return theirs(() => langGraph({ url, schema, dimensions, embed }), isMade)
    }
    default:
      return theirs(() => byHand({ url, schema, isMade, dimensions: hasVectors ? dimensions : undefined }), isMade)
  }
}

const sizeOf = async (name, folder) =>
  name === "memory"
    ? 0
    : name === "sqlite"
    ? ["", "-wal"].reduce((sum, end) => sum + statSync(join(folder, `memory.db${end}`)).size, 0)
    : await bytesOf(url, schema)

/** Resident memory after garbage collection: buffers are freed some time after the first one. */
const memory = Effect.gen(function*() {
  for (let round = 0; round < 3; round++) {
    global.gc()
    yield* Effect.sleep("200 millis")
  }
  return process.memoryUsage().rss / 1e6
})

/** Median and 95th percentile of wall and CPU time, in milliseconds, after some rounds to warm up: a server runs for days. */
const timed = Effect.fnUntraced(function*(all, call, rounds = 20) {
  for (let round = 0; round < rounds; round++) yield* Effect.forEach(all, call, { discard: true })
  const walls = []
  const before = cpu()
  for (const one of all) {
    const start = performance.now()
    yield* call(one)
    walls.push(performance.now() - start)
  }
  walls.sort((a, b) => a - b)
  return {
    cpu: (cpu() - before) / all.length,
    p50: walls[walls.length >> 1],
    p95: walls[Math.floor(walls.length * 0.95)]
  }
})

/** Wall time of one call, in milliseconds. */
const once = (call) => Effect.map(Effect.timed(call), ([time]) => Duration.toMillis(time))

const vectorsFor = (n) => {
  const next = random(n)
  return Float32Array.from({ length: dimensions }, () => next() - 0.5)
}

/** Notes repeat in a large collection, each with a word of its own. */
const source = () => {
  const all = notes(Math.min(count, 20_000))
  let made = 0
  return (n) =>
    Array.from({ length: n }, () => {
      const note = all[made % all.length]
      return { ...note, body: `${note.body} number${made++}` }
    })
}

const fill = (engine, name, folder) =>
  Effect.gen(function*() {
    const next = source()
    const put = Effect.fnUntraced(function*(userId, n) {
      for (let left = n; left > 0; left -= 500) yield* engine.put(userId, next(Math.min(500, left)))
    })
    const start = performance.now()
    const before = cpu()
    yield* put("large", large)
    for (let user = 0; user * small < count - large; user++) yield* put(userOf(user), small)
    const ingest = { cpu: (cpu() - before) / count, wall: (performance.now() - start) / count }
    const bytes = (yield* Effect.promise(() => sizeOf(name, folder))) / count
    yield* engine.settle
    return { ingest, bytes, whole: (yield* Effect.promise(() => sizeOf(name, folder))) / count }
  })

const ask = (engine, name) =>
  Effect.gen(function*() {
    const asked = queries(100)
    const next = source()
    const idle = yield* memory
    yield* engine.search(userOf(9), asked[0])
    const first = [yield* once(engine.search(userOf(7), asked[0])), yield* once(engine.search("large", asked[0]))]
    const few = yield* timed(asked, (text) => engine.search(userOf(7), text))
    const slow = name === "langgraph" ? asked.slice(0, 10) : asked
    const many = yield* timed(slow, (text) => engine.search("large", text), 1)
    const rss = (yield* memory) - idle
    const put = yield* timed(next(200), (note) => engine.put(userOf(8), [note]), 5)
    if (!engine.near) return { first, few, many, put, rss }
    const some = asked.slice(0, 50)
    const near = yield* timed(some, (text) => engine.near(userOf(7), text.length))
    const far = yield* timed(some, (text) => engine.near("large", text.length), 1)
    const hybrid = yield* timed(some, (text) => engine.near(userOf(7), text.length, text))
    const wide = yield* timed(some, (text) => engine.near("large", text.length, text), 1)
    return { first, few, many, put, rss, near, far, hybrid, wide, all: (yield* memory) - idle }
  })

/** Fills and asks in one process what is gone with it; else each in a process of its own. */
const measured = (name, folder) =>
  Effect.gen(function*() {
    const engine = yield* engineOf(name, folder)
    const filled = values.phase === "ask" ? {} : yield* fill(engine, name, folder)
    const answered = values.phase === "fill" ? {} : yield* ask(engine, name)
    return { ...filled, ...answered }
  })

/** How much slower a tenant's search is among a thousand tenants of equal size than alone. */
const crowded = (name, folder) =>
  Effect.gen(function*() {
    const store = name === "sqlite"
      ? Sqlite.layer({ filename: join(folder, "memory.db") })
      : Postgres.layer({ url: Redacted.make(url), schema })
    const memory = Context.get(yield* Layer.build(store), MemoryStore.MemoryStore)
    const source = notes(100)
    const fill = (tenant) => memory.put(Viewer.make({ tenant, userId: "ada" }), source.map(draft("ada")))
    const asked = queries(100)
    const ask = (tenant) =>
      timed(asked, (text) => memory.search(Viewer.make({ tenant, userId: "ada" }), { text, limit: 10 }))
    yield* fill("tenant-0")
    const alone = yield* ask("tenant-0")
    for (let n = 1; n < 1_000; n++) yield* fill(`tenant-${n}`)
    return { alone, among: yield* ask("tenant-0") }
  })

/** PostgreSQL's store and the table by hand in one process, asked the same by turns, so that what else the machine does falls on both. */
const raced = (folder) =>
  Effect.gen(function*() {
    const names = ["postgres", "by-hand"]
    const engines = []
    for (const name of names) {
      const engine = yield* engineOf(name, folder)
      yield* fill(engine, name, folder)
      yield* engine.search("large", "tea") // as in a process that serves all
      if (engine.near) yield* engine.near("large", 1)
      engines.push(engine)
    }
    const asked = queries(50)
    const user = userOf(7)
    const kinds = {
      words: (engine, text) => engine.search(user, text),
      vector: engines[1].near && ((engine, text) => engine.near(user, text.length)),
      hybrid: engines[1].near && ((engine, text) => engine.near(user, text.length, text))
    }
    const rows = []
    for (const [kind, call] of Object.entries(kinds)) {
      if (!call) continue
      const walls = names.map(() => [])
      for (let round = 0; round < 40; round++) {
        for (const [n, text] of asked.entries()) {
          for (const i of n % 2 === 0 ? [0, 1] : [1, 0]) {
            const start = performance.now()
            yield* call(engines[i], text)
            if (round >= 20) walls[i].push(performance.now() - start)
          }
        }
      }
      rows.push([kind, ...walls.map((all) => all.sort((a, b) => a - b))])
    }
    return rows
  })

const isServer = (name) => name !== "memory" && name !== "sqlite"

const run = (name, use) =>
  use(name, values.folder ?? mkdtempSync(join(tmpdir(), "effect-memory-bench-"))).pipe(Effect.scoped, Effect.runPromise)

/** Removes what the phases of an engine left. */
const clear = async (name, folder) => {
  rmSync(folder, { recursive: true })
  if (isServer(name)) await dropSchema(url, schema)
}

const hasVectors = isServer(values.engine ?? "postgres") && await hasVector(url)
const number = (value) => value === undefined ? "–" : value >= 100 ? value.toFixed(0) : value.toPrecision(3)
const times = (figure) => figure && `${number(figure.p50)} / ${number(figure.p95)} (${number(figure.cpu)})`

if (values.race) {
  const folder = mkdtempSync(join(tmpdir(), "effect-memory-bench-"))
  const at = (all, share) => number(all[Math.floor(all.length * share)])
  console.log(
    `| a user of 500 among ${count} notes; ms: p50 / p95 | PostgreSQL | by hand | p50 by hand ÷ ours |\n| --- | --- | --- | --- |`
  )
  try {
    for (const [kind, ours, theirs] of await run("race", () => raced(folder))) {
      const [one, other] = [ours, theirs].map((all) => `${at(all, 0.5)} / ${at(all, 0.95)}`)
      console.log(`| ${kind} | ${one} | ${other} | ${number(at(theirs, 0.5) / at(ours, 0.5))} |`)
    }
  } finally {
    await clear("postgres", folder)
  }
} else if (values.alone) {
  console.log(JSON.stringify(await run(values.engine, values.tenants ? crowded : measured)))
} else {
  const self = fileURLToPath(import.meta.url)
  const of = async (name) => {
    const folder = mkdtempSync(join(tmpdir(), "effect-memory-bench-"))
    const alone = (...more) =>
      child("--expose-gc")(
        ...[self, "--alone", "--engine", name, "--notes", count, "--url", url, "--folder", folder, "--schema", schema],
        ...more
      )
    try {
      if (values.tenants) return alone("--tenants")
      if (name === "memory") return alone()
      return { ...alone("--phase", "fill"), ...alone("--phase", "ask") }
    } finally {
      await clear(name, folder)
    }
  }
  const names = values.engine
    ? [values.engine]
    : values.tenants
    ? ["sqlite", "postgres"]
    : ["memory", "sqlite", "postgres", "by-hand"]
  if (values.tenants) {
    console.log(
      "| a tenant of 100 notes | alone, p50 / p95 (CPU) ms | among 1,000 | slower by |\n| --- | --- | --- | --- |"
    )
    for (const name of names) {
      const { alone, among } = await of(name)
      console.log(`| ${name} | ${times(alone)} | ${times(among)} | ${number(among.p50 / alone.p50)} |`)
    }
  } else {
    console.log(
      `| ${count} notes; ms: p50 / p95 (CPU) | ingest a note, wall (CPU) | first search 500, ${large} | search 500 | search ${large} | put | vector 500 | vector ${large} | ` +
        `hybrid 500 | hybrid ${large} | bytes a note, with vectors | MB above idle, with vectors |\n|${
          " --- |".repeat(12)
        }`
    )
    for (const name of names) {
      const { all, bytes, whole, far, few, first, hybrid, ingest, many, near, put, rss, wide } = await of(name)
      const cells = [few, many, put, near, far, hybrid, wide].map((figure) => times(figure) ?? "–")
      console.log(
        `| ${name} | ${number(ingest.wall)} (${number(ingest.cpu)}) | ${first.map(number).join(", ")} | ${
          cells.join(" | ")
        } | ${number(bytes)}, ${number(whole)} | ${number(rss)}, ${number(all)} |`
      )
    }
  }
}
