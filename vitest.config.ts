import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const src = (path: string) => fileURLToPath(new URL(`./src/${path}`, import.meta.url))

export default defineConfig({
  resolve: {
    alias: [
      { find: /^effect-memory\/testing$/, replacement: src("testing/index.ts") },
      { find: /^effect-memory$/, replacement: src("index.ts") }
    ]
  },
  test: { include: ["test/**/*.test.ts"], exclude: ["test/.fences/**"], testTimeout: 30_000 }
})
