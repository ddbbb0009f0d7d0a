/**
 * Measures what the command costs: CPU time of `effect-memory recall` in a vault of 10,000 notes, less that of a bare start of Node, by turns, so
 * that a busy machine slows all alike; also without the cache of compiled code. Prints medians. Needs `npm run build`.
 *
 *   node bench/cli.mjs [turns] [notes]      default 15, 10,000
 */
import { NodeContext } from "@effect/platform-node"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Markdown, MemoryStore, Viewer } from "../dist/index.js"
import { notes } from "./corpus.mjs"

const [, , turns = "15", count = "10000"] = process.argv
const command = join(import.meta.dirname, "../dist/cli/effect-memory.mjs")
const root = mkdtempSync(join(tmpdir(), "effect-memory-bench-"))
process.on("exit", () => rmSync(root, { recursive: true, force: true }))

await Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  const all = notes(Number(count)).map(({ body, summary }) => ({
    scope: { userId: "ada" },
    kind: "note",
    summary,
    body
  }))
  for (let n = 0; n < all.length; n += 500) yield* store.put(Viewer.everyone(), all.slice(n, n + 500))
}).pipe(Effect.provide(Markdown.layer({ root })), Effect.provide(NodeContext.layer), Effect.runPromise)

/** Milliseconds of CPU that a process took, which it writes to its third stream as it ends. */
const cpuOf = (args, env = {}) => {
  const told = "process.on(\"exit\", () => { const { system, user } = process.cpuUsage(); " +
    "fs.writeSync(3, String((system + user) / 1000)) })"
  const hook = `data:text/javascript,${encodeURIComponent(`import fs from "node:fs"; ${told}`)}`
  const { output, status, stderr } = spawnSync(process.execPath, ["--import", hook, ...args], {
    encoding: "utf8",
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe", "pipe"]
  })
  if (status !== 0) throw new Error(stderr)
  return Number(output[3])
}

const recall = [
  command,
  "recall",
  "how to read a file as a stream",
  "--limit",
  "5",
  "--store",
  `vault:${root}`,
  "--user",
  "ada"
]
const uncached = "effect-memory recall, no cache"
const lines = {
  "node -e 0": ["-e", "0"],
  "effect-memory --version": [command, "--version"],
  "effect-memory recall": recall,
  [uncached]: recall,
  "effect-memory recall --json": [...recall, "--json"]
}
const times = Object.fromEntries(Object.keys(lines).map((name) => [name, []]))
for (let turn = 0; turn < Number(turns); turn++) {
  for (const [name, args] of Object.entries(lines)) {
    times[name].push(cpuOf(args, name === uncached ? { NODE_DISABLE_COMPILE_CACHE: "1" } : {}))
  }
}
const median = (name) => times[name].toSorted((a, b) => a - b)[times[name].length >> 1]
const base = median("node -e 0")
for (const name of Object.keys(lines)) {
  const beyond = name === "node -e 0" ? "" : `   ${(median(name) - base).toFixed(0).padStart(5)} ms beyond Node`
  console.log(`${name.padEnd(32)} ${median(name).toFixed(0).padStart(6)} ms${beyond}`)
}
process.exit()
