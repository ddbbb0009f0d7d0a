/**
 * The first opening of a folder of notes that the library did not write, to the first answer: against MiniSearch, which reads
 * the same files and indexes their texts. CPU and wall, a new process each; and the longest time for which the opening held the
 * event loop, by the clock or by CPU time, whichever says less.
 *
 *   node notes.mjs [notes]      default 6,280
 */
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import MiniSearch from "minisearch"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Markdown, MemoryStore, Viewer } from "../dist/index.js"
import { child, median, printed, watch } from "./measure.mjs"

const [, , argument = "6280", root] = process.argv
const question = "how to read a file as a stream"

const modes = {
  fill: async () => {
    const { notes, random } = await import("./corpus.mjs")
    const next = random(3)
    const all = notes(10 * Number(process.argv[4]))
    const titles = all.filter((_, n) => n % 10 === 0).map(({ summary }, n) =>
      `${summary.replace(/[^\w ]/g, "").slice(0, 40).trim()} ${n}`
    )
    titles.forEach((title, n) => {
      const folder = join(root, `part ${n % 40}`)
      mkdirSync(folder, { recursive: true })
      const [one, two, ...more] = all.slice(10 * n, 10 * n + 10)
      const link = titles[Math.floor(next() * titles.length)]
      const tags = [...one.tags, ...two.tags].filter((tag) => /^[a-z]+$/.test(tag))
      const day = 10 + n % 20
      const matter = [
        "---",
        "aliases:",
        `  - "${title.split(" ").slice(0, 2).join(" ")}"`,
        `date created: 2024-03-${day} 09:${day}`,
        `date modified: 2024-04-${day} 10:${day}`,
        `tags: [${tags.join(", ")}]`,
        "cssclass:",
        `publish: ${n % 2 === 0}`,
        `rating: ${n % 6}`,
        `up: "[[${link}]]"`,
        "---\n"
      ].join("\n")
      writeFileSync(
        join(folder, `${title}.md`),
        `${matter}# ${title}\n\n${one.body}\n\n## See [[${link}]]\n\n${two.body}\n\n${
          more.map(({ body }) => `- ${body}\n`).join("")
        }`
      )
    })
  },
  open: () =>
    Effect.runPromise(
      Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        const { hits } = yield* store.search(Viewer.system(), { text: question, limit: 10 })
        if (hits.length === 0) throw new Error("no hits")
      }).pipe(Effect.provide(Markdown.layer({ root, poll: Infinity }).pipe(Layer.provide(NodeContext.layer))))
    ),
  mini: async () => {
    const index = new MiniSearch({ fields: ["text"] })
    for (const name of files()) index.add({ id: name, text: await readFile(join(root, name), "utf8") })
    if (index.search(question).length === 0) throw new Error("no hits")
  }
}
const files = (folder = root) =>
  readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".md") && !name.includes(".effect-memory"))

if (argument in modes) {
  const longest = process.argv[4] === "watched" ? watch() : () => undefined // to watch costs CPU time
  await printed(modes[argument], () => ({ longest: longest() }))
} else {
  const folder = mkdtempSync(join(tmpdir(), "notes-"))
  const run = child(import.meta.filename)
  run("fill", folder, argument)
  const old = Date.now() / 1000 - 3600 // as if written an hour ago
  for (const name of files(folder)) utimesSync(join(folder, name), old, old)
  const bytes = files(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
  const before = readFileSync(join(folder, files(folder)[0]), "utf8")
  const runs = { "MiniSearch, read in turn": [], "first opening": [], "second opening": [] }
  for (let i = 0; i < 3; i++) {
    rmSync(join(folder, ".effect-memory"), { recursive: true, force: true })
    runs["MiniSearch, read in turn"].push(run("mini", folder))
    runs["first opening"].push(run("open", folder))
    runs["second opening"].push(run("open", folder))
  }
  rmSync(join(folder, ".effect-memory"), { recursive: true, force: true })
  const stretches = {
    "first opening": run("open", folder, "watched").longest,
    "second opening": run("open", folder, "watched").longest
  }
  if (readFileSync(join(folder, files(folder)[0]), "utf8") !== before) throw new Error("a note was changed")
  const middle = (all) => median(all, ({ cpu }) => cpu)
  const base = middle(runs["MiniSearch, read in turn"])
  console.log(
    `${argument} notes, ${(bytes / 1e6).toFixed(1)} MB; median of 3 new processes each, to the first answer and the end`
  )
  for (const [name, all] of Object.entries(runs)) {
    const { cpu, wall } = middle(all)
    console.log(
      `${name.padEnd(26)} wall ${wall.toFixed(0).padStart(6)} ms   cpu ${cpu.toFixed(0).padStart(6)} ms   ${
        (base.cpu / cpu).toFixed(1)
      }x cpu${name in stretches ? `   longest stretch ${stretches[name].toFixed(0)} ms` : ""}`
    )
  }
  const { size } = statSync(join(folder, ".effect-memory/snapshot"))
  console.log(`snapshot ${(size / 1e6).toFixed(1)} MB, ${(size / bytes).toFixed(2)} of the notes`)
  if (!process.env.KEEP) rmSync(folder, { recursive: true })
}
