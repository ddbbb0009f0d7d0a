/** Programs written to a folder within the package, where `effect-memory` is the package itself: compiled and run. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, relative } from "node:path"
import { text } from "node:stream/consumers"

export const root = join(import.meta.dirname, "../..")

/** Made anew; nothing that is committed. */
export const folder = (name: string): string => {
  const path = join(root, "test/.fences", name)
  rmSync(path, { recursive: true, force: true })
  mkdirSync(path, { recursive: true })
  return path
}

/** What `tsc` has to say, one line each: empty is good. The programs lie beside their sources, as `.js`. */
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

/** An empty folder elsewhere. */
export const elsewhere = (): string => mkdtempSync(join(tmpdir(), "effect-memory-"))

export interface Ran {
  readonly code: number | null
  /** All it said, on either stream. */
  readonly output: string
}

/** Runs a program in its own process, asynchronously: a worker that does not answer vitest for a minute fails the run. */
export const run = async (program: string, cwd: string, ...args: ReadonlyArray<string>): Promise<Ran> => {
  const child = spawn(process.execPath, [program, ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"] }
  })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")])
  return { code, output: stdout + stderr }
}
