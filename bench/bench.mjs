/**
 * The bench: what this library costs beside its peers, and as a store grows. Each section runs in a process of its own. Writes
 * `docs/benchmarks.md` and a plot of it; `figures.mjs` copies the summary into the README.
 *
 *   node bench.mjs             10,000 notes, about three minutes; writes nothing
 *   node bench.mjs --full      100,000 notes, and up to a million where growth is measured; writes the document
 *   node bench.mjs --only words,durable [--notes N]      with --full: measures these anew, and keeps what the document has of others
 */
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { cpus, totalmem } from "node:os"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { goals } from "./goals.mjs"
import { folder, merged } from "./measure.mjs"
import { plot, report } from "./report.mjs"

const { values } = parseArgs({
  options: {
    full: { type: "boolean", default: false },
    only: { type: "string" },
    notes: { type: "string" },
    section: { type: "string" },
    part: { type: "string" }
  }
})
const { full, notes, only, part, section } = values
const size = (quick, whole) => notes === undefined ? full ? whole : quick : Number(notes)

/** The sections: how each is measured in the process of its own. */
const sections = {
  words: async () => (await import("./rows/words.mjs")).words(size(10_000, 100_000)),
  million: async () => (await import("./rows/words.mjs")).filters(size(20_000, 1_000_000)),
  vectors: async () => (await import("./rows/vectors.mjs")).vectors(size(10_000, 100_000)),
  opening: async () => (await import("./rows/vault.mjs")).opening(size(1_000, 10_000)),
  durable: async () => (await import("./rows/vault.mjs")).durable(),
  service: async () => (await import("./rows/service.mjs")).service(size(10_000, 10_000), part),
  growth: async () => (await import("./rows/growth.mjs")).growth(full ? [1_000, 30_000, 1_000_000] : [1_000, 10_000]),
  links: async () => (await import("./rows/growth.mjs")).links(size(20_000, 1_000_000)),
  stalls: async () => (await import("./rows/growth.mjs")).stalls(size(30_000, 100_000)),
  "vault stalls": async () => (await import("./rows/vault.mjs")).stalls(size(1_000, 100_000)),
  tenants: async () => (await import("./rows/growth.mjs")).tenants(size(1_000, 10_000))
}

/** Sections whose contestants cannot share a process: who takes part, by turns. */
const parts = { service: ["service", "LangGraph, in memory", "service", "LangGraph, in memory"] }

const measured = (name, part) => {
  const { status, stdout } = spawnSync(process.execPath, [
    "--expose-gc",
    "--max-old-space-size=16000",
    fileURLToPath(import.meta.url),
    ...["--section", name],
    ...part === undefined ? [] : ["--part", part],
    ...full ? ["--full"] : [],
    ...notes === undefined ? [] : ["--notes", notes]
  ], { encoding: "utf8", maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "inherit"] })
  if (status !== 0) throw new Error(`${name} ended with ${status}`)
  return JSON.parse(stdout)
}

if (section !== undefined) {
  process.stdout.write(JSON.stringify(await sections[section]()), () => process.exit())
} else {
  const figures = {}
  process.env.BENCH_FOLDER = folder()
  process.once("exit", () => rmSync(process.env.BENCH_FOLDER, { recursive: true }))
  for (const name of only?.split(",") ?? Object.keys(sections)) {
    console.error(`${name} …`)
    figures[name] = parts[name] === undefined ? measured(name) : merged(parts[name].map((part) => measured(name, part)))
  }
  const machine = `${cpus()[0].model.trim()}, ${cpus().length} cores, ${
    Math.round(totalmem() / 2 ** 30)
  } GB; Node ${process.version}`
  const file = new URL("figures.json", import.meta.url)
  const isKept = full && notes === undefined
  const before = isKept && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {}
  const all = { ...before, ...figures }
  const text = report(all, goals, { machine, full })
  console.log(text)
  if (isKept) {
    const docs = new URL("../docs/", import.meta.url)
    writeFileSync(file, `${JSON.stringify(all, null, 1)}\n`)
    writeFileSync(new URL("benchmarks.md", docs), text)
    if (all.words && all.vectors && all.service && all.durable) {
      writeFileSync(new URL("benchmarks.svg", docs), plot(all))
    }
  }
}
