/** Compiles and runs programs in a folder within the package, where `effect-memory` resolves to the package itself. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, relative } from "node:path"
import { text } from "node:stream/consumers"

export const root = join(import.meta.dirname, "../..")

/** Makes an empty folder below `test/.fences`, which git ignores. */
export const folder = (name: string): string => {
  const path = join(root, "test/.fences", name)
  rmSync(path, { recursive: true, force: true })
  mkdirSync(path, { recursive: true })
  return path
}

/** Compiles the programs with `tsc`, and returns its errors, one line each. The output lies beside the sources, as `.js`. */
export const compile = (path: string, sources: Readonly<Record<string, string>>): ReadonlyArray<string> => {
  for (const [name, code] of Object.entries(sources)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), code)
  }
  const config = {
    extends: relative(path, join(root, "tsconfig.json")),
    compilerOptions: { noEmit: false, noUnusedLocals: false, paths: {}, outDir: ".", rootDir: "." },
    files: Object.keys(sources),
    include: []
  }
  writeFileSync(join(path, "tsconfig.json"), JSON.stringify(config))
  const { stderr, stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", path], { encoding: "utf8" })
  return `${stdout}${stderr}`.split("\n").filter((line) => line !== "")
}

/** An empty temporary folder outside of the package. */
export const elsewhere = (): string => mkdtempSync(join(tmpdir(), "effect-memory-"))

export interface Ran {
  readonly code: number | null
  /** The whole output, of stdout and stderr. */
  readonly output: string
}

/** Runs a program in a child process. Asynchronously, since Vitest fails the run if a worker does not answer for a minute. */
export const run = async (program: string, cwd: string, ...args: ReadonlyArray<string>): Promise<Ran> => {
  const child = spawn(process.execPath, [program, ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"] }
  })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")])
  return { code, output: stdout + stderr }
}
