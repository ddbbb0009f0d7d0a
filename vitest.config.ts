import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { aliases } from "./test/aliases.ts"

/**
 * One more than there are cores, since some worker always waits: for a timer, a disk or a child. None is ended before the
 * last file: Vitest may end an idle one twice on a busy machine, and takes that for a failure.
 */
const workers = availableParallelism() + 1

/** The small files with the long runs. Vitest begins with the largest file, and would end with one of these by itself. */
const long = /\/test\/(?:contract|sqlite\/(?:Kill|Crowd)|vault\/(?:Kill|Crowd|Outbox|Faults|Reopen))/

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const sorted = await super.sort(files)
    return [
      ...sorted.filter(({ moduleId }) => long.test(moduleId)),
      ...sorted.filter(({ moduleId }) => !long.test(moduleId))
    ]
  }
}

const turn = fileURLToPath(new URL("./test/turn.ts", import.meta.url))

/** Ends a test that hangs. No law is about time: a machine at load 20 takes twenty times as long, and passes. */
const hangs = 600_000

/** `src` sees the sources. `built` sees what is published: `effect-memory` is `dist`, by the package's own exports. */
export default defineConfig({
  test: {
    globalSetup: ["folders", "processes"].map((name) => fileURLToPath(new URL(`./test/${name}.ts`, import.meta.url))),
    testTimeout: hangs,
    hookTimeout: hangs,
    maxWorkers: workers,
    minWorkers: workers,
    // no module of ours keeps a state, and loading all of them for each file took a third of the time
    isolate: false,
    // programs of Effect make much short-lived garbage: room for it saves a quarter of the processor
    poolOptions: { forks: { execArgv: ["--min-semi-space-size=64", "--max-semi-space-size=128"] } },
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        resolve: { alias: aliases },
        test: {
          name: "src",
          setupFiles: [turn],
          include: ["test/**/*.test.ts"],
          exclude: ["test/.fences/**", "test/built/**"],
          testTimeout: hangs,
          hookTimeout: hangs
        }
      },
      {
        test: {
          name: "built",
          setupFiles: [turn],
          include: ["test/built/*.test.ts", "examples/c-test.ts", "examples/e-own-store.ts"],
          testTimeout: hangs,
          hookTimeout: hangs
        }
      }
    ]
  }
})
