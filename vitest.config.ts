import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const src = (path: string) => fileURLToPath(new URL(`./src/${path}`, import.meta.url))

/** `src` sees the sources. `built` sees what is published: `effect-memory` is `dist`, by the package's own exports. */
/** Ends a test that hangs. No law is about time: a machine at load 20 takes twenty times as long, and passes. */
const hangs = 600_000

export default defineConfig({
  test: {
    testTimeout: hangs,
    hookTimeout: hangs,
    maxWorkers: Math.max(2, availableParallelism() - 1), // the default leaves one of two cores idle
    minWorkers: 1,
    // no module of ours keeps a state, and loading all of them for each file took a third of the time
    isolate: false,
    projects: [
      {
        resolve: {
          alias: [
            { find: /^effect-memory\/ai$/, replacement: src("agent/MemoryToolkit.ts") },
            { find: /^effect-memory\/testing$/, replacement: src("testing/index.ts") },
            { find: /^effect-memory$/, replacement: src("index.ts") }
          ]
        },
        test: {
          name: "src",
          include: ["test/**/*.test.ts"],
          exclude: ["test/.fences/**", "test/built/**"],
          testTimeout: hangs,
          hookTimeout: hangs
        }
      },
      {
        test: {
          name: "built",
          include: ["test/built/*.test.ts", "examples/c-test.ts", "examples/e-own-store.ts"],
          testTimeout: hangs,
          hookTimeout: hangs
        }
      }
    ]
  }
})
