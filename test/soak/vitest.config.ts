/** The long runs at their full numbers: `npm run soak`, and ten times as long with `--long` (see `run.mjs`). */
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: [
      "test/vault/{Kill,Crowd,Pause,Faults,Outbox,OutboxHeap}.test.ts",
      "test/contract/{MemoryStore,Federated,naughty}.test.ts",
      "test/{domain/JsonText,ranking/Tokenizer}.test.ts",
      "test/scenarios/crowd.test.ts",
      "test/isolation/Isolation.test.ts"
    ],
    env: { SOAK: "1" },
    maxWorkers: 2, // the longest two beside each other
    minWorkers: 2,
    testTimeout: process.env["SOAK_LONG"] === undefined ? 1_800_000 : 36_000_000
  }
})
