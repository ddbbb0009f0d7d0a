/**
 * Opening a vault of 10,000 files, to the first answer: our store with and without its snapshot, against the plain way of
 * it, which reads each file in turn, parses its frontmatter with `yaml` and indexes it. CPU and wall, a new process each.
 *
 *   node vault.mjs [notes [tenants]]      default 10,000 of one tenant
 */
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parse } from "yaml"
import { Markdown, MemoryIndex, MemoryRecord, MemoryStore, Viewer } from "../dist/index.js"
import { child, median, printed } from "./measure.mjs"

const [, , argument = "10000", second = "1"] = process.argv
const root = second // of a process that this one starts
const tenant = (n) => n === 0 ? Viewer.system() : Viewer.system(`tenant-${n}`)
/** Of the ten notes of one of 3,000 tenants hardly one speaks of a release. */
const question = { text: process.argv[4] ?? "deploy friday release", limit: 10 }

const run = (effect, poll = Infinity) =>
  Effect.runPromise(effect.pipe(Effect.provide(
    Markdown.layer({ root, poll }).pipe(Layer.provide(NodeContext.layer))
  )))

const files = (folder) =>
  readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".md") && !name.includes(".effect-memory"))

const modes = {
  fill: () =>
    run(Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const words = readFileSync(new URL("../node_modules/effect/src/Effect.ts", import.meta.url), "utf8").match(
        /[a-z]{3,}/gi
      )
      const [notes, tenants] = process.argv.slice(4).map(Number)
      const size = Math.min(500, notes / tenants)
      for (let n = 0; n < notes; n += size) {
        yield* store.put(
          tenant(Math.floor(n * tenants / notes)),
          Array.from({ length: Math.min(size, notes - n) }, (_, i) => ({
            scope: { userId: `user-${(n + i) % 50}` },
            kind: "project",
            summary: `Note ${n + i}: ${words.slice((n + i) % 500, (n + i) % 500 + 6).join(" ")}`,
            body: Array.from({ length: 70 }, (_, k) => words[((n + i) * 31 + k * 7) % words.length]).join(" "),
            tags: [`t${(n + i) % 30}`]
          }))
        )
      }
    })),
  open: () =>
    run(Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const { hits } = yield* store.search(tenant(0), question)
      if (hits.length === 0) throw new Error("no hits")
    })),
  plain: async () => {
    const index = MemoryIndex.make()
    for (const name of files(root)) {
      const text = await readFile(join(root, name), "utf8")
      const end = text.indexOf("\n---\n", 4)
      const { agentId, userId, ...matter } = parse(text.slice(4, end))
      index.add(
        new MemoryRecord.MemoryRecord({
          ...matter,
          scope: { userId },
          body: text.slice(end + 6),
          tags: matter.tags ?? [],
          links: [],
          data: {},
          metadata: {},
          source: { origin: "user", trust: 1 },
          createdAt: Date.parse(matter.createdAt),
          validAt: Date.parse(matter.createdAt)
        }, { disableValidation: true })
      )
    }
    if (index.search(tenant(0), question, Date.now()).hits.length === 0) throw new Error("no hits")
  }
}

if (argument in modes) {
  await printed(modes[argument])
} else {
  const [notes, tenants] = [Number(argument), Number(second)]
  const folder = mkdtempSync(join(tmpdir(), "vault-"))
  const inChild = child(import.meta.filename)
  inChild("fill", folder, notes, tenants)
  const old = Date.now() / 1000 - 3600 // as if written an hour ago
  for (const name of files(folder)) utimesSync(join(folder, name), old, old)
  const middle = (runs) => median(runs, ({ wall }) => wall)
  const words = tenants > 1 ? ["note"] : []
  const plain = []
  const cold = []
  const warm = []
  for (let i = 0; i < 3; i++) {
    plain.push(inChild("plain", folder, ...words))
    rmSync(join(folder, ".effect-memory/snapshot"), { force: true })
    cold.push(inChild("open", folder, ...words))
    warm.push(inChild("open", folder, ...words))
  }
  const base = middle(plain)
  console.log(`${notes} files of ${tenants} tenants, median of 3 new processes each, to the first answer`)
  for (
    const [name, runs] of [["readFile + yaml + index, in turn", plain], ["opened without a snapshot", cold], [
      "opened with its snapshot, every file checked",
      warm
    ]]
  ) {
    const { cpu, wall } = middle(runs)
    console.log(
      `${name.padEnd(46)} wall ${wall.toFixed(0).padStart(6)} ms   cpu ${cpu.toFixed(0).padStart(6)} ms   ${
        (base.wall / wall).toFixed(1)
      }x wall, ${(base.cpu / cpu).toFixed(1)}x cpu`
    )
  }
  if (!process.env.KEEP) rmSync(folder, { recursive: true })
}
