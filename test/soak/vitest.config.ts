/** The long runs at their full numbers: `npm run soak`. */
import { defineConfig, mergeConfig } from "vitest/config"
import base from "../../vitest.config.ts"

export default mergeConfig(
  { ...base, test: { ...base.test, include: [] } },
  defineConfig({
    test: {
      include: ["test/vault/{Kill,Crowd,Pause}.test.ts"],
      env: { SOAK: "1" },
      fileParallelism: false,
      testTimeout: 1_800_000
    }
  })
)
