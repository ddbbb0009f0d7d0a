/**
 * Runs the first program, one that writes, searches and reopens a vault, the contract of a store over vaults, and the command, which must
 * print no warning, on Node 20, 22 and 24, Bun and Deno, each from npm. Needs `npm run build` and the registry. Arguments name some of the
 * runtimes; default: all.
 */
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const npx = (...command) => ["npx", "--yes", ...command]
const runtimes = {
  "node@20": npx("node@20"),
  "node@22": npx("node@22"),
  "node@24": npx("node@24"),
  bun: npx("bun@1", "run"),
  deno: npx("deno@2", "run", "--allow-all")
}

const vault = `import { NodeContext } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import { Markdown, MemoryService, Viewer } from "effect-memory"

const open = (root) => MemoryService.layer().pipe(Layer.provide(Markdown.layer({ root })), Layer.provide(NodeContext.layer))
const as = MemoryService.as(Viewer.make({ userId: "ada" }))
const program = (f) => Effect.gen(function*() { return yield* f(yield* MemoryService.MemoryService) }).pipe(as, Effect.provide(open(process.argv[2])), Effect.runPromise)

const scope = { userId: "ada" }
const [{ id }] = await program((memory) => Effect.gen(function*() {
  const written = yield* memory.put({ scope, kind: "user", body: "Drinks tea, never coffee." })
  for (let n = 0; n < 50; n++) yield* memory.put({ scope, kind: "reference", body: "Note number " + n + " about the harbour." })
  const { hits } = yield* memory.search({ text: "tea or coffee?" })
  if (hits[0]?.record.body !== "Drinks tea, never coffee.") throw new Error("not found")
  return hits.map(({ record }) => record)
}))
// opened again: what was written is there
await program((memory) => Effect.gen(function*() {
  const { hits } = yield* memory.search({ text: "harbour", limit: 60 })
  if (hits.length !== 50) throw new Error("found " + hits.length)
  const { hits: [first] } = yield* memory.search({ text: "tea" })
  if (first?.record.id !== id) throw new Error("another id")
}))
console.log("a vault: written, found, opened again")
process.exit()
`

/** Checks each law of a store on an empty vault, without Vitest, which runs on Node only: the laws are data. */
const contract = `import { NodeContext } from "@effect/platform-node"
import { Effect, Layer, TestContext } from "effect"
import { mkdtempSync } from "node:fs"
import { Markdown } from "${root}/dist/index.js"
import { MemoryStoreContract } from "${root}/dist/testing/index.js"

const place = () => mkdtempSync(process.argv[2] + "-")
const layer = Layer.unwrapEffect(Effect.sync(() => Markdown.layer({ root: place() }))).pipe(Layer.provide(NodeContext.layer), Layer.fresh)
const { check, laws } = MemoryStoreContract
const broken = []
for (const law of laws) {
  const exit = await check(law, layer).pipe(Effect.scoped, Effect.provide(TestContext.TestContext), Effect.runPromiseExit)
  if (exit._tag === "Failure") broken.push(law.title + ": " + exit.cause)
}
if (broken.length > 0) console.error(broken.join("\\n"))
console.log(laws.length - broken.length + " of " + laws.length + " laws of a store hold for a vault")
process.exit(broken.length > 0 || laws.length < 100 ? 1 : 0)
`

const folder = join(root, "test/.fences/runtimes")
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, "vault.mjs"), vault)
const first = spawnSync(process.execPath, [join(root, ".ci/readme.mjs"), "program"], { encoding: "utf8" }).stdout
writeFileSync(join(folder, "first.mjs"), first)
writeFileSync(join(folder, "vitest.mjs"), `export { assert } from "chai"\nexport const describe = () => {}, it = {}`)
await build({
  stdin: { contents: contract, resolveDir: root },
  outfile: join(folder, "contract.mjs"),
  alias: { "@effect/vitest": join(folder, "vitest.mjs") },
  bundle: true,
  tsconfigRaw: {}, // paths of the repository lead to the sources
  format: "esm",
  platform: "node",
  external: [
    "effect",
    "effect/*",
    "@effect/platform",
    "@effect/platform/*",
    "@effect/platform-node",
    "yaml",
    "fast-check"
  ]
})

let failed = 0
const chosen = process.argv.slice(2)
for (const [name, [command, ...args]] of Object.entries(runtimes)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue
  const place = mkdtempSync(join(tmpdir(), "effect-memory-"))
  const run = (title, ...rest) => {
    const { status, stderr, stdout } = spawnSync(command, [...args, ...rest], { cwd: place, encoding: "utf8" })
    const isSilent = stderr === "" || title !== "effect-memory" // npm's packages may warn, the command may not
    if (status !== 0 || !isSilent) failed++
    const line = status === 0 && isSilent ? stdout.trim().split("\n").at(-1) : `failed: ${stderr}`
    console.log(`${name.padEnd(8)} ${title.padEnd(14)} ${line}`)
  }
  for (const program of ["first.mjs", "vault.mjs", "contract.mjs"]) {
    run(program, join(folder, program), join(place, "vault"))
  }
  // the second recall has a cache of compiled code
  for (const words of [["remember", "Drinks tea."], ["recall", "tea"], ["recall", "tea"]]) {
    run("effect-memory", join(root, "dist/cli/effect-memory.mjs"), ...words)
  }
  rmSync(place, { recursive: true, force: true })
}
process.exit(failed > 0 ? 1 : 0)
