/*
 * Import and export of many records by the command, and the peak memory of each: `node bench/transfer.mjs [RECORDS]`, by default a million. It
 * makes a file, imports it into a SQLite store, and exports that store. Both files have to be equal. Needs `npm run build`.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { createReadStream, createWriteStream, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { fileURLToPath } from "node:url"

const records = Number(process.argv[2] ?? 1_000_000)
const library = (path) => import(new URL(`../dist/${path}`, import.meta.url))
const command = fileURLToPath(new URL("../dist/cli/effect-memory.mjs", import.meta.url))

/** A module that says at the end of its process how long it ran, and how much memory it had at most. */
const watching = `data:text/javascript,process.on("exit", () => console.error(
  process.uptime().toFixed(1) + " s, peak memory " + Math.round(process.resourceUsage().maxRSS / 1024) + " MiB"))`

const hashOf = async (file) => {
  const hash = createHash("sha256")
  await pipeline(createReadStream(file), hash)
  return hash.digest("hex")
}

/** The lines of a file as `export` writes them: newest first. */
async function* lines() {
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

const place = mkdtempSync(join(tmpdir(), "transfer-"))
const [given, made] = ["in.jsonl", "out.jsonl"].map((name) => join(place, name))
try {
  await pipeline(Readable.from(lines()), createWriteStream(given))
  for (const [part, file] of [["import", given], ["export", made]]) {
    const args = ["--import", watching, command, part, file, "--store", `sqlite:${join(place, "memory.db")}`]
    console.log(`${part} of ${records} records`)
    if (spawnSync(process.execPath, args, { stdio: "inherit" }).status !== 0) process.exitCode = 1
  }
  const isEqual = await hashOf(given) === await hashOf(made)
  console.log(isEqual ? "both files are equal" : "the files differ")
  if (!isEqual) process.exitCode = 1
} finally {
  rmSync(place, { recursive: true, force: true })
}
