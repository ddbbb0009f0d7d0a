/**
 * `VectorIndex` against sqlite-vec and hnswlib-node: build, query, query with 1/50 of the vectors in scope, recall,
 * memory. CPU time of the process, engines by turns, so that what else the machine does falls on all. Absolute figures are
 * the machine's; the ratios are the result. Vectors lie about 2,000 centres, and a query as far from its centre as they do.
 */
import Database from "better-sqlite3"
import hnswlib from "hnswlib-node"
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as sqliteVec from "sqlite-vec"
import { VectorIndex } from "../dist/index.js"
import { random } from "./corpus.mjs"
import { cpu } from "./measure.mjs"

const dimensions = 384
const places = 50
const limit = 10
const placeOf = (n) => n % places

/** CPU milliseconds. */
const timed = (run) => {
  const start = cpu()
  run()
  return cpu() - start
}
const resident = () => {
  globalThis.gc?.()
  return process.memoryUsage().rss / 2 ** 20
}

const world = (count, questions) => {
  const next = random(3)
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
  const centres = Array.from({ length: 2_000 }, () => Float32Array.from({ length: dimensions }, normal))
  const all = new Float32Array((count + questions) * dimensions)
  return Array.from({ length: count + questions }, (_, n) => {
    const row = all.subarray(n * dimensions, (n + 1) * dimensions)
    const centre = centres[Math.floor(next() * centres.length)]
    for (let i = 0; i < dimensions; i++) row[i] = centre[i] + 0.7 * normal()
    return row
  })
}

const engines = {
  "effect-memory": (rows) => {
    const index = VectorIndex.make(dimensions)
    const scopes = Array.from(
      { length: places },
      (_, place) => Array.from(rows.keys()).filter((n) => placeOf(n) === place)
    )
    return {
      build: () => rows.forEach((row, n) => index.add(n, row)),
      search: (query) => index.search(query, limit).map(({ id }) => id),
      scoped: (query, place) => index.searchAmong(query, scopes[place], limit).map(({ id }) => id),
      holds: rows.length * dimensions * 4 / 2 ** 20 // the vectors themselves: not copied
    }
  },
  "sqlite-vec": (rows) => {
    const db = new Database(":memory:")
    sqliteVec.load(db)
    const column = `v float[${dimensions}] distance_metric=cosine`
    db.exec(
      `CREATE VIRTUAL TABLE whole USING vec0(${column}); CREATE VIRTUAL TABLE parted USING vec0(p integer partition key, ${column})`
    )
    const search = db.prepare("SELECT rowid FROM whole WHERE v MATCH ? AND k = ?").pluck()
    const scoped = db.prepare("SELECT rowid FROM parted WHERE v MATCH ? AND k = ? AND p = ?").pluck()
    const load = (insert, values) => db.transaction(() => rows.forEach((row, n) => insert.run(...values(row, n))))()
    return {
      build: () => load(db.prepare("INSERT INTO whole (rowid, v) VALUES (?, ?)"), (row, n) => [BigInt(n), row]),
      prepare: () =>
        load(
          db.prepare("INSERT INTO parted (rowid, p, v) VALUES (?, ?, ?)"),
          (row, n) => [BigInt(n), BigInt(placeOf(n)), row]
        ),
      search: (query) => search.all(query, limit),
      scoped: (query, place) => scoped.all(query, limit, BigInt(place))
    }
  },
  "hnswlib-node": (rows) => {
    const index = new hnswlib.HierarchicalNSW("cosine", dimensions)
    index.initIndex(rows.length, 16, 200)
    index.setEf(64)
    const arrays = (query) => Array.from(query) // it takes nothing else
    return {
      build: () => rows.forEach((row, n) => index.addPoint(arrays(row), n)),
      search: (query) => index.searchKnn(query, limit).neighbors,
      scoped: (query, place) => index.searchKnn(query, limit, (n) => placeOf(n) === place).neighbors,
      question: arrays
    }
  }
}

const bruteForce = (rows, query, place) =>
  Array.from(rows, (row, n) => ({ n, score: VectorIndex.cosineSimilarity(query, row) }))
    .filter(({ n }) => place === undefined || placeOf(n) === place)
    .sort((a, b) => b.score - a.score).slice(0, limit).map(({ n }) => n)
const share = (found, wanted) => found.filter((n) => wanted.includes(Number(n))).length / wanted.length

/** What a fresh process grows by, the vectors included. */
const memory = (name, count) => {
  const rows = world(count, 0)
  const engine = engines[name](rows)
  globalThis.gc?.()
  const filler = Array.from({ length: 8_000 }, () => new Float32Array(512).fill(1)) // what was freed is in use again
  const before = resident()
  engine.build()
  return filler.length > 0 ? resident() - before + (engine.holds ?? 0) : 0
}
const memoryApart = (name, count) =>
  Number(
    execFileSync(process.execPath, ["--expose-gc", fileURLToPath(import.meta.url), "--memory", name, String(count)])
  )

const measure = (count, asked) => {
  const vectors = world(count, 200)
  const rows = vectors.slice(0, count)
  const questions = vectors.slice(count)
  const results = Object.entries(engines).map(([name, make]) => {
    const engine = make(rows)
    const build = timed(engine.build)
    engine.prepare?.()
    const own = engine.question === undefined ? questions : questions.map(engine.question)
    return { name, engine, own, build, query: 0, scoped: 0, queries: 0 }
  })
  const recall = (result, scoped) => {
    let sum = 0
    for (let n = 0; n < 30; n++) {
      const place = scoped ? placeOf(n) : undefined
      const found = scoped ? result.engine.scoped(result.own[n], place) : result.engine.search(result.own[n])
      sum += share(found, bruteForce(rows, questions[n], place))
    }
    return sum / 30
  }
  const recalls = results.map((result) => ({ whole: recall(result, false), scoped: recall(result, true) }))
  for (let turn = 0; turn < 5; turn++) {
    for (const result of results) {
      const few = result.name === "sqlite-vec" ? asked : questions.length
      const some = Array.from({ length: few }, (_, n) => result.own[(turn * few + n) % questions.length])
      result.query += timed(() => {
        for (const query of some) result.engine.search(query)
      })
      result.scoped += timed(() => some.forEach((query, n) => result.engine.scoped(query, placeOf(n))))
      result.queries += few
    }
  }
  return results.map((result, n) => ({
    engine: result.name,
    "build s": result.build / 1_000,
    "query ms": result.query / result.queries,
    "recall@10": recalls[n].whole,
    "1/50 ms": result.scoped / result.queries,
    "1/50 recall@10": recalls[n].scoped,
    MB: memoryApart(result.name, count)
  }))
}

const shown = (value) => typeof value === "number" ? Number(value.toPrecision(3)) : value
const table = (rows) =>
  console.table(rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, shown(value)]))))

if (process.argv[2] === "--memory") {
  console.log(memory(process.argv[3], Number(process.argv[4])))
  process.exit()
}

console.log(`Node ${process.version}; ${dimensions} dimensions; CPU time, ${limit} hits wanted; ratios travel better`)
for (const count of [10_000, 100_000]) {
  const rows = measure(count, count > 50_000 ? 10 : 50)
  const [ours, ...peers] = rows
  console.log(`\n${count} vectors`)
  table(rows)
  table(peers.map((peer) => ({
    engine: `${peer.engine} ÷ effect-memory`,
    ...Object.fromEntries(
      Object.keys(ours).filter((key) => !/engine|recall/.test(key)).map((
        key
      ) => [key.replace(/ \w+$/, ""), peer[key] / ours[key]])
    )
  })))
}
