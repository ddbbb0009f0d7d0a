/**
 * `VectorIndex` against sqlite-vec and hnswlib-node. 384 dimensions, seeded: around 2,000 centres, questions as far from theirs as
 * the vectors are; ten hits wanted. Recall is against brute force, of 20 questions. sqlite-vec lies in memory and inserts in one
 * transaction; its 8-bit column holds the same vectors rounded, and is asked for what it holds. hnswlib has M 16, ef 200 when it
 * builds and 64 when it searches.
 */
import Database from "better-sqlite3"
import hnswlib from "hnswlib-node"
import * as sqliteVec from "sqlite-vec"
import { VectorIndex } from "../../dist/ranking.js"
import { random } from "../corpus.mjs"
import { race, timed } from "../measure.mjs"

const dimensions = 384
const limit = 10

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

/** A vector in 8 bits, its largest number 127. */
const rounded = (vector) => {
  const most = vector.reduce((most, number) => Math.max(most, Math.abs(number)), 0)
  return Int8Array.from(vector, (number) => Math.round(number / most * 127))
}

const sqlite = (type, encoded) => (rows) => {
  const db = new Database(":memory:")
  sqliteVec.load(db)
  const value = type === "int8" ? "vec_int8(?)" : "?"
  db.exec(`CREATE VIRTUAL TABLE whole USING vec0(v ${type}[${dimensions}] distance_metric=cosine)`)
  const insert = db.prepare(`INSERT INTO whole (rowid, v) VALUES (?, ${value})`)
  const search = db.prepare(`SELECT rowid FROM whole WHERE v MATCH ${value} AND k = ?`).pluck()
  return {
    build: () => db.transaction(() => rows.forEach((row, n) => insert.run(BigInt(n), encoded(row))))(),
    search: (query) => search.all(encoded(query), limit)
  }
}

const engines = {
  "effect-memory": (rows) => {
    const index = VectorIndex.make(dimensions)
    return {
      build: () => rows.forEach((row, n) => index.add(n, row)),
      search: (query) => index.search(query, limit).map(({ id }) => id)
    }
  },
  "sqlite-vec, 32 bits": sqlite("float", (row) => row),
  "sqlite-vec, 8 bits": sqlite("int8", rounded),
  "hnswlib": (rows) => {
    const index = new hnswlib.HierarchicalNSW("cosine", dimensions)
    index.initIndex(rows.length, 16, 200)
    index.setEf(64)
    return {
      build: () => rows.forEach((row, n) => index.addPoint(Array.from(row), n)),
      search: (query) => index.searchKnn(Array.from(query), limit).neighbors
    }
  }
}

const bruteForce = (rows, query) =>
  Array.from(rows, (row, n) => ({ n, score: VectorIndex.cosineSimilarity(query, row) }))
    .sort((a, b) => b.score - a.score).slice(0, limit).map(({ n }) => n)

/** Measures all engines over `count` vectors. */
export const vectors = async (count) => {
  const all = world(count, 100)
  const rows = all.slice(0, count)
  const questions = all.slice(count)
  const wanted = questions.slice(0, 20).map((query) => bruteForce(rows, query))
  const figures = { "vectors: build": {}, "vectors: recall": {} }
  const contestants = []
  for (const [name, make] of Object.entries(engines)) {
    const engine = make(rows)
    figures["vectors: build"][name] = await timed(engine.build)
    const shares = wanted.map((ids, n) => {
      const found = engine.search(questions[n]).map(Number)
      return found.filter((id) => ids.includes(id)).length / limit
    })
    figures["vectors: recall"][name] = { share: shares.reduce((sum, share) => sum + share, 0) / shares.length }
    contestants.push({
      name,
      calls: (first, count) => {
        for (let n = first; n < first + count; n++) engine.search(questions[n % questions.length])
      }
    })
  }
  return { ...figures, "vectors: query": await race(contestants, { stretch: 100 }) }
}
