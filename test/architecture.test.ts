/** Enforces the architecture of `src`. For example, a folder imports only from itself and from the folders above it in `strata`. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { homedir } from "node:os"
import { dirname, join, relative, sep } from "node:path"

const strata = [
  "domain",
  "ranking",
  "host",
  "storage",
  "kinds",
  "pipeline",
  "harness",
  "agent",
  "transfer",
  "mcp",
  "inspector",
  "compat",
  "testing",
  "cli"
]

const root = join(import.meta.dirname, "..")
const src = join(root, "src")
const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .map((file) => file.split(sep).join("/"))
  .filter((file) => file.endsWith(".ts"))
  .sort()
const textOf = (file: string) => readFileSync(join(src, file), "utf8")
/** Returns the text of a file without its comments. Comments may contain words that are forbidden in code. */
const codeOf = (file: string) => textOf(file).replace(/\/\*[^]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "")

const specifiers = (file: string) =>
  Array.from(codeOf(file).matchAll(/^(?:import|export)\b(?:[^"']*? from)? "([^"]+)"/gm), ([, specifier]) => specifier!)
const hashes = ["domain/internal/HashNode.ts", "domain/internal/HashPortable.ts"]
const markdown = "storage/MemoryStore/Markdown/internal"
/** The modules that a `#` import can resolve to, by the conditions of package.json's `imports`. */
const conditional: Readonly<Record<string, ReadonlyArray<string>>> = {
  "#builtins": [`${markdown}/BuiltinsNode.ts`, `${markdown}/BuiltinsPortable.ts`],
  "#hash": hashes,
  "#vault": [`${markdown}/VaultNode.ts`, `${markdown}/VaultPortable.ts`]
}
const importsOf = (file: string) =>
  specifiers(file).flatMap((specifier) =>
    specifier.startsWith("#")
      ? conditional[specifier]!
      : specifier.startsWith(".")
      ? [relative(src, join(src, dirname(file), specifier)).split(sep).join("/")]
      : []
  )
/**
 * The modules at the top level of `src`, which only re-export. All entries of the package are among them, except `effect-memory/ai` and
 * `effect-memory/testing`.
 */
const entries = files.filter((file) => !file.includes("/"))
const levelOf = (file: string) => strata.indexOf(file.split("/")[0]!)

/** Asserts that no file of `src` matches, except those in `where`. */
const forbid = (what: RegExp, where: ReadonlyArray<string> = []) =>
  assert.deepStrictEqual(files.filter((file) => !where.includes(file) && what.test(codeOf(file))), [])

describe("the architecture of src", () => {
  it("every module except the public modules is in one of the folders that this test lists", () => {
    assert.deepStrictEqual(files.filter((file) => levelOf(file) < 0), entries)
  })

  it("src has at most 155 modules, not counting the public modules and the modules that this test excludes", () => {
    const aside =
      /^testing\/|^compat\/|^mcp\/|^cli\/|^transfer\/|^inspector\/|^harness\/Threads|^agent\/(?:MemoryToolkit|ThreadTools|MemoryFileCommands|ToolDefinition)|^storage\/MemoryStore\/(?:Sql|Sqlite|Postgres)\b|^harness\/OutboxCluster\b/
    const others = Object.values(conditional).flatMap((variants) => variants.slice(1))
    const counted = files.filter((file) => !aside.test(file) && !entries.includes(file) && !others.includes(file))
    assert.isAtMost(counted.length, 155)
  })

  it("each internal module imports only from its own top-level folder and from folders earlier in this test's list", () => {
    for (const file of files.filter((file) => levelOf(file) >= 0)) {
      const below = importsOf(file).filter((imported) => levelOf(imported) > levelOf(file) || levelOf(imported) < 0)
      assert.deepStrictEqual(below, [], file)
    }
  })

  it("every import cycle stays within a module `X.ts` and its folder `X/`", () => {
    const reachable = new Map(files.map((file) => {
      const found = new Set(importsOf(file))
      for (const next of found) for (const beyond of importsOf(next)) found.add(beyond)
      return [file, found]
    }))
    const circles = files.map((file) =>
      files.filter((other) => reachable.get(file)?.has(other) && reachable.get(other)?.has(file))
    )
    const isParent = (file: string, circle: ReadonlyArray<string>) =>
      circle.every((other) => other === file || other.startsWith(file.replace(/\.ts$/, "/")))
    assert.deepStrictEqual(
      circles.filter((circle) => circle.length > 0 && !circle.some((file) => isParent(file, circle))),
      []
    )
  })

  it("time, timers and randomness come from Effect only, except in the modules that this test names", () => {
    forbid(/\bDate\.now\b|\bnew Date\(\)|\bDate\(\)|\bperformance\.now\b|\bprocess\.hrtime\b/)
    forbid(/\bMath\.random\b|\brandomUUID\b|\bcrypto\.random/)
    forbid(/\bgetRandomValues\b/, ["domain/internal/HashPortable.ts"])
    forbid(/\brandomBytes\b/, ["domain/internal/HashNode.ts"])
    forbid(/\bsecretBytes\b/, [...hashes, "domain/Digest.ts", "host/SecureRandom.ts"])
    forbid(/\bset(?:Timeout|Interval)\b/)
    forbid(/\bsetImmediate\b/, ["host/EventLoop.ts"])
  })

  it("each file imports exactly the Node modules that this test lists for the file", () => {
    const knows = new Map([
      ["domain/internal/HashNode.ts", ["node:crypto"]],
      [`${markdown}/BuiltinsNode.ts`, ["node:fs", "node:zlib"]],
      ["cli/commands/Serve.ts", ["node:http"]],
      ["cli/launcher.ts", ["node:fs", "node:module", "node:path", "node:url", "node:v8", "node:vm"]],
      ["cli/main.ts", ["node:readline"]]
    ])
    for (const file of files) {
      const node = specifiers(file).filter((specifier) => specifier.startsWith("node:"))
      assert.deepStrictEqual(node, knows.get(file) ?? [], file)
    }
  })

  it("src imports packages only from dependencies and peer dependencies; src/cli also from dev dependencies; only src/testing imports vitest", () => {
    const { dependencies, devDependencies, peerDependencies } = JSON.parse(
      readFileSync(join(root, "package.json"), "utf8")
    )
    const known = { ...dependencies, ...peerDependencies }
    for (const file of files) {
      const declared = Object.keys(file.startsWith("cli/") ? { ...known, ...devDependencies } : known)
      for (const specifier of specifiers(file).filter((specifier) => !/^(\.|#|node:)/.test(specifier))) {
        const name = specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/")
        assert.include(declared, name, file)
        if (name.endsWith("vitest")) assert.isTrue(file.startsWith("testing/"), file)
      }
    }
  })

  it("src/index.ts loads no module that imports an optional peer dependency", () => {
    const { peerDependenciesMeta } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    const optional = Object.keys(peerDependenciesMeta)
    const reached = new Set(["index.ts"])
    for (const file of reached) for (const next of importsOf(file)) reached.add(next)
    const isOptional = (specifier: string) => optional.some((peer) => `${specifier}/`.startsWith(`${peer}/`))
    assert.deepStrictEqual(Array.from(reached).filter((file) => specifiers(file).some(isOptional)), [])
    assert.isAbove(files.filter((file) => specifiers(file).some(isOptional)).length, 0)
  })

  it("exactly one file imports the MCP SDK", () => {
    const isSdk = (specifier: string) => specifier.startsWith("@modelcontextprotocol/")
    assert.deepStrictEqual(files.filter((file) => specifiers(file).some(isSdk)), ["mcp/McpProtocol.ts"])
  })

  it("only the files that this test lists may run effects, ignore failures or use `any`", () => {
    forbid(/\.run(?:Promise|Sync|Fork|Callback)(?:Exit)?\b/, ["cli/main.ts"])
    // except in the module that logs a plugin's defect, and in the command, which prints a defect as one line
    forbid(/\bEffect\.ignore\b|\bcatchAllCause\b/, ["harness/WritePolicy.ts", "cli/App.ts"])
    forbid(/\bdeclare (?:const|function)\b|@ts-ignore|@ts-expect-error/)
    forbid(/:\s*any\b(?!\s*=)|\bas any\b/, ["domain/MemoryKind.ts"]) // a kind's data has the type of its Schema
  })

  it("Effect is imported by module, such as `effect/Stream`, never as `effect`; relative imports end in `.ts`", () => {
    for (const file of files) {
      for (const specifier of specifiers(file)) {
        if (specifier.startsWith(".")) assert.isTrue(specifier.endsWith(".ts"), `${file}: ${specifier}`)
        assert.notStrictEqual(specifier, "effect", file)
      }
    }
  })

  it("no file in src has more than 400 lines", () => {
    assert.deepStrictEqual(files.filter((file) => textOf(file).split("\n").length - 1 > 400), [])
  })

  const subpaths = Object.values<{ readonly types?: string }>(
    JSON.parse(readFileSync(join(root, "package.json"), "utf8")).exports
  ).flatMap(({ types }) => types === undefined ? [] : [types.replace("./dist/", "").replace(".d.ts", ".ts")])
  const listed = Array.from(
    textOf("index.ts").matchAll(/^export \* as (\w+) from "\.\/([^"]+)"/gm),
    ([, name, file]) => ({ name: name!, file: file! })
  )

  it("every file at the top level of src is an entry point or a module that src/index.ts exports", () => {
    for (const { file, name } of listed) assert.strictEqual(file, `${name}.ts`)
    const face = [...subpaths.filter((file) => !file.includes("/")), ...listed.map(({ file }) => file)].sort()
    assert.deepStrictEqual(face, entries)
  })

  it("public modules contain only re-exports, and no internal module imports a public module", () => {
    for (const file of entries) {
      const code = codeOf(file).replace(/^export (?:type )?(?:\{[^}]*\}|\* as \w+) from "[^"]+"$/gm, "")
      assert.strictEqual(code.trim(), "", file)
    }
    const importers = files.filter((file) =>
      levelOf(file) >= 0 && importsOf(file).some((next) => entries.includes(next))
    )
    assert.deepStrictEqual(importers, [])
  })

  it("each module that src/index.ts lists re-exports values of exactly one file, which has the same name", () => {
    for (const { file } of listed) {
      const from = Array.from(codeOf(file).matchAll(/^export \{[^}]*\} from "\.\/([^"]+)"/gm), ([, from]) => from!)
      assert.deepStrictEqual(from.map((path) => path.split("/").at(-1)), [file], file)
    }
  })

  it("src/index.ts exports at most 60 modules, with at most 200 values in total; exported types do not count", () => {
    const names = listed.flatMap(({ file }) =>
      Array.from(codeOf(file).matchAll(/^export \{([^}]*)\}/gm), ([, names]) => names!.split(",")).flat()
    )
    assert.isAtMost(listed.length, 60)
    assert.isAtMost(names.length, 200)
  })

  it("every module in src/index.ts has a comment, and the modules are in the order of this test's list of folders", () => {
    const lines = textOf("index.ts").split("\n")
    const levels = lines.flatMap((line, n) => {
      const file = /^export \* as \w+ from "\.\/([^"]+)"/.exec(line)?.[1]
      if (file === undefined) return []
      assert.match(lines[n - 1]!, /^(\/\*\* .+\*\/| \*\/)$/, line)
      return [levelOf(importsOf(file).find((path) => path.endsWith(`/${file}`))!)]
    })
    assert.deepStrictEqual(levels, levels.slice().sort((a, b) => a - b))
  })

  it("every module begins with a doc comment", () => {
    const silent = files.filter((file) => !/^(?:#!.*\n)?\/\*\*/.test(textOf(file)))
    assert.deepStrictEqual(silent, [])
  })

  it("no committed text file contains an absolute path in the working copy, its parent or the home directory", () => {
    const tracked = execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" }).split("\0").filter((
      file
    ) => file !== "")
    const places = [root, dirname(root), homedir()].filter((place) => place !== sep).map((place) =>
      new RegExp(`(?<![\\w.~-])${place.replace(/\W/g, "\\$&")}/`)
    )
    const named = tracked.filter((file) => {
      const text = existsSync(join(root, file)) ? readFileSync(join(root, file), "latin1") : "\0"
      return !text.includes("\0") && places.some((place) => place.test(text))
    })
    assert.deepStrictEqual(named, [])
  })
})
