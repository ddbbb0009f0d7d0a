import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const src = (path: string) => fileURLToPath(new URL(`./src/${path}`, import.meta.url))

/** `src` sees the sources. `built` sees what is published: `effect-memory` is `dist`, by the package's own exports. */
export default defineConfig({
  test: {
    testTimeout: 30_000,
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
          testTimeout: 30_000
        }
      },
      {
        test: {
          name: "built",
          include: ["test/built/*.test.ts", "examples/c-test.ts", "examples/e-own-store.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000
        }
      }
    ]
  }
})
