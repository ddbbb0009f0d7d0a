// A vault, or a SQLite file if the path ends in .db, in a child process. Each line is written out before the next step.
import * as NodeContext from "@effect/platform-node/NodeContext" // instead of the package's index, which takes long to load
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeSync } from "node:fs"
import { Markdown, MemoryStore, Viewer } from "../../../dist/index.js"
import { Sqlite } from "../../../dist/sqlite.js"

export const viewer = Viewer.make({ agentId: "Bob" })
export const scope = { agentId: "Bob" }

export const say = (json) =>
  Effect.sync(() => {
    writeSync(1, JSON.stringify(json) + "\n")
  })

/** Seeded random numbers (mulberry32). */
export const dice = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

const layer = (root, options) =>
  root.endsWith(".db")
    ? Sqlite.layer({ filename: root, ...options })
    : Markdown.layer({ root, lockTimeout: 300, ...options }).pipe(Layer.provide(NodeContext.layer))

export const run = (root, use, options = {}) =>
  Effect.runPromise(Effect.flatMap(MemoryStore.MemoryStore, use).pipe(Effect.provide(layer(root, options))))
