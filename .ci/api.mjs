/**
 * Prints the public API: every name that the package's entry points export, with its signature, from the declarations in `dist`.
 * `node .ci/api.mjs` prints it; `npm run api` writes it to `docs/api.txt`, which `test/built/api.test.ts` holds against `dist`.
 * Comments are left out, and so is what a module does not export.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"

const root = join(import.meta.dirname, "..")
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

/** The statements of a declaration file, comments left out, each on one line. */
const statementsOf = (file) => {
  const text = readFileSync(file, "utf8").replace(/\/\*[^]*?\*\/|(?<=^|\s)\/\/[^\n]*/g, "")
  const statements = []
  let current = ""
  let depth = 0
  for (const line of text.split("\n")) {
    const code = line.replace(/(["'`])(?:\\.|(?!\1).)*\1/g, "")
    depth += (code.match(/[{([]/g)?.length ?? 0) - (code.match(/[})\]]/g)?.length ?? 0)
    current += `${line.trim()} `
    if (depth === 0 && /[;}]\s*$/.test(line)) {
      statements.push(current.replace(/\s+/g, " ").trim())
      current = ""
    }
  }
  return statements.filter((statement) => statement !== "")
}

const isPublic = (statement) => statement.startsWith("export ") && statement !== "export {};"

/** The name that a statement declares. */
const nameOf = (statement) =>
  /^(?:export )?(?:declare )?(?:abstract )?(?:const|function|class|interface|type) ([\w$]+)/.exec(statement)?.[1]

/** Lines of a module, sorted: its own exports, and those that it passes on. A class that extends an expression has its type. */
const linesOf = (file) => {
  const statements = statementsOf(file)
  const bases = new Map(statements.map((statement) => [nameOf(statement), statement]))
  const other = (from) => linesOf(join(dirname(file), `${from}.d.ts`))
  return statements.filter(isPublic).flatMap((statement) => {
    const from = /^export (?:type )?\* from "(\..+)\.[jt]s";$/.exec(statement)?.[1]
    if (from !== undefined) return other(from)
    const [, names, part] = /^export (?:type )?\{ (.+) \} from "(\..+)\.[jt]s";$/.exec(statement) ?? []
    if (names !== undefined) {
      return names.split(", ").flatMap((name) => {
        const [was, is] = name.replace(/^type /, "").split(" as ")
        const lines = other(part).filter((line) => nameOf(line) === was)
        return (lines.length === 0 ? [name] : lines).map((line) => is === undefined ? line : line.replace(was, is))
      })
    }
    const base = / extends (\w+_base)\b/.exec(statement)?.[1]
    const line = statement.replace(/^export (?:declare )?/, "")
    const type = base && bases.get(base)?.replace(/^.*?_base: (.*);$/, "$1")
    return [type ? line.replace(base, () => type) : line]
  }).sort()
}

/** The text of the whole API: a heading for each entry point and for each namespace that it exports. */
export const api = () => {
  const parts = []
  for (const [entry, { types }] of Object.entries(exports)) {
    if (types === undefined) continue
    const file = join(root, types)
    const name = join("effect-memory", entry)
    const own = []
    for (const statement of statementsOf(file).filter(isPublic)) {
      const [, namespace, from] = /^export \* as (\w+) from "(\..+)\.[jt]s";$/.exec(statement) ?? []
      if (namespace === undefined) own.push(statement)
      else parts.push([`${name} ${namespace}`, linesOf(join(dirname(file), `${from}.d.ts`))])
    }
    if (own.length > 0) parts.push([name, linesOf(file).filter((line) => !line.startsWith("* as "))])
  }
  return parts.map(([name, lines]) => `## ${name}\n\n${lines.join("\n")}\n`).join("\n")
}

if (process.argv[1] === import.meta.filename) {
  const file = join(root, "docs/api.txt")
  if (process.argv.includes("--write")) {
    writeFileSync(file, api())
    console.log(`wrote ${relative(process.cwd(), file)}`)
  } else process.stdout.write(api())
}
