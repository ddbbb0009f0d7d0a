/** The program of `npm start`, in a folder with copies of the package's instruction files, and on a tree made for one of the tests. */
import { assert, describe, it } from "@effect/vitest"
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { elsewhere, folder, type Ran, root, run } from "./programs.ts"

const place = folder("start")
cpSync(join(root, "dist-examples"), join(place, "dist-examples"), { recursive: true })
cpSync(join(root, "examples/AGENTS.md"), join(place, "examples/AGENTS.md"))
cpSync(join(root, "AGENTS.md"), join(place, "AGENTS.md"))

const start = (...args: ReadonlyArray<string>): Promise<Ran> =>
  run(join(place, "dist-examples/main.js"), place, ...args)

describe("npm start", () => {
  it("the program remembers, recalls, forgets and resumes; a resume with a changed spec is refused", async () => {
    const { code, output } = await start()
    assert.strictEqual(code, 0, output)
    for (
      const part of [
        /\(repo root\) +AGENTS\.md .*created in the vault/,
        /examples +AGENTS\.md .*created in the vault/,
        /✓ saved agent\/feedback memory/,
        /✗ rate_limited memory write rate limit hit \(1\/turn\)/,
        /## Recalled \(1 entries/,
        /✓ forgot memory/,
        /- \[feedback\] Open pull requests before six\. \([0-9A-Z]{26}\)/,
        /agents\/pilot\/[0-9A-Z]{26}\.md/,
        /✓ resumed after turn 4/,
        /0\.\d\d +█+·* Open pull requests before six\./,
        /BM25 \d\.\d\d = open \d\.\d\d \+ pull \d\.\d\d/,
        /memory\.writesPerTurn +1 → 3/,
        /memory\.globalWrites +"allow" → "deny"/
      ]
    ) assert.match(output, part)
    const processes = Array.from(output.matchAll(/process (\d+)/g), ([, id]) => id)
    assert.strictEqual(new Set(processes).size, 2)
    assert.notInclude(output, "\u001b[") // no colours, since the output is no terminal
  })

  it("a second run prints that the memories already exist, and adds none", async () => {
    const records = () =>
      readdirSync(join(place, ".memory"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".md"))
        .filter((file) => !file.startsWith(".")).sort()
    const before = records()
    const { code, output } = await start()
    assert.strictEqual(code, 0, output)
    assert.match(output, /goes on after turn 4/)
    assert.match(output, /resumed after turn 8/)
    assert.lengthOf(output.match(/already in the vault/g) ?? [], 2)
    assert.lengthOf(output.match(/it was there already/g) ?? [], 2)
    assert.deepStrictEqual(records(), before)
  })

  it("`npm start` with a folder loads instruction files from the folder's repository, and none from outside", async () => {
    const tree = elsewhere()
    mkdirSync(join(tree, ".git"))
    mkdirSync(join(tree, "deep/er"), { recursive: true })
    writeFileSync(join(tree, "AGENTS.md"), "Be kind.")
    writeFileSync(join(tree, "deep/er/CLAUDE.md"), "Be thorough.")
    symlinkSync("/etc/hostname", join(tree, "deep/AGENTS.md"))
    const { code, output } = await start(join(tree, "deep/er"))
    assert.strictEqual(code, 0, output)
    assert.match(output, /\(repo root\) +AGENTS\.md .*created[^]*deep\/er +CLAUDE\.md .*created/)
    assert.match(output, /deep\/AGENTS\.md leads out of the root/)
    assert.match(output, /resumed after turn 4/)
  })

  it("a folder that does not exist is reported as an error", async () => {
    const { code, output } = await start(join(place, "nowhere"))
    assert.strictEqual(code, 1)
    assert.match(output, /there is no folder .*nowhere/)
  })

  it("the run leaves the first memory as a markdown file with frontmatter", () => {
    const [file] = readdirSync(join(place, ".memory/agents/pilot")).sort()
    assert.match(
      readFileSync(join(place, ".memory/agents/pilot", file!), "utf8"),
      /^---\nid: [^]*\n---\n\nOpen pull requests before six\./
    )
  })
})
