/*
 * Import and export of many records, and the peak memory of each: `node bench/transfer.mjs [RECORDS]`, by default a million. It makes a file,
 * reads it into a SQLite store in a process of its own, and writes that store to a file in another one. Both files have to be equal.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { createReadStream, createWriteStream, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { fileURLToPath } from "node:url"

/** Bounds of the heap: what does not fit ends the process, and garbage is collected instead of kept. */
const flags = ["--max-old-space-size=96", "--max-semi-space-size=4"]

const [phase = "1000000", folder = "", count = ""] = process.argv.slice(2)
const library = (path) => import(new URL(`../dist/${path}`, import.meta.url))

const said = () => {
  const { maxRSS } = process.resourceUsage()
  return `${(process.uptime()).toFixed(1)} s, peak memory ${Math.round(maxRSS / 1024)} MiB`
}

const hashOf = async (file) => {
  const hash = createHash("sha256")
  await pipeline(createReadStream(file), hash)
  return hash.digest("hex")
}

/** The lines of a file as `export` writes them: newest first. */
async function* lines(records) {
  const MemoryId = await library("domain/MemoryId.js")
  const { canonicalJson } = await library("domain/Digest.js")
  yield "{\"format\":\"effect-memory\",\"version\":1}\n"
  for (let n = records; n > 0; n--) {
    const record = {
      id: MemoryId.stableId(`record ${n}`),
      scope: { userId: `user ${n % 1000}` },
      kind: "reference",
      summary: `Fact ${n} about the harbour`,
      body: `The ship number ${n} left the harbour of ${n % 97} at noon, with ${n % 31} sailors.`,
      tags: [],
      importance: 0.5,
      links: [],
      data: {},
      metadata: {},
      source: { origin: "user", trust: 1 },
      createdAt: 1_700_000_000_000 + n,
      validAt: 1_700_000_000_000 + n,
      revision: 1
    }
    yield `${canonicalJson({ record: { tenant: "default", revisions: [record] } })}\n`
  }
  yield `${canonicalJson({ end: { records, messages: 0 } })}\n`
}

const inStore = async (use) => {
  const [{ Context, Effect, Layer, Stream }, Sqlite, MemoryStore, MemoryJsonl] = await Promise.all([
    import("effect"),
    library("storage/MemoryStore/Sqlite.js"),
    library("storage/MemoryStore.js"),
    library("transfer/MemoryJsonl.js")
  ])
  await Effect.gen(function*() {
    const store = Context.get(
      yield* Layer.build(Sqlite.layer({ filename: join(folder, "memory.db") })),
      MemoryStore.MemoryStore
    )
    yield* use({ Effect, MemoryJsonl, Stream, store })
  }).pipe(Effect.scoped, Effect.runPromise)
  console.log(`${phase} of ${count} records: ${said()}`)
}

if (phase === "import") {
  await inStore(({ Effect, MemoryJsonl, Stream, store }) =>
    Effect.map(
      MemoryJsonl.read(
        store,
        Stream.fromAsyncIterable(createReadStream(join(folder, "in.jsonl")), (error) => error),
        { batch: 500 }
      ),
      ({ complete, records, skipped }) => console.log({ complete, records, skipped: skipped.length })
    )
  )
} else if (phase === "export") {
  const out = createWriteStream(join(folder, "out.jsonl"))
  await inStore(({ Effect, MemoryJsonl, Stream, store }) =>
    Stream.runForEach(
      MemoryJsonl.write(store),
      (line) => Effect.async((resume) => void out.write(line, () => resume(Effect.void)))
    )
  )
  out.end()
} else {
  const records = Number(phase)
  const place = mkdtempSync(join(tmpdir(), "transfer-"))
  try {
    await pipeline(Readable.from(lines(records)), createWriteStream(join(place, "in.jsonl")))
    for (const part of ["import", "export"]) {
      spawnSync(process.execPath, [...flags, fileURLToPath(import.meta.url), part, place, String(records)], {
        stdio: "inherit"
      })
    }
    const [before, after] = await Promise.all(["in.jsonl", "out.jsonl"].map((name) => hashOf(join(place, name))))
    console.log(before === after ? "both files are equal" : "the files differ")
    process.exitCode = before === after ? 0 : 1
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}
