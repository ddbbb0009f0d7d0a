/** The long runs at their full numbers: `npm run soak`, and ten times as long with `--long` (see `run.mjs`). */
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Longest first, so that both workers end at about the same time. */
const longest = [
  "vault/Kill",
  "vault/Outbox",
  "isolation/Isolation",
  "vault/Crowd",
  "vault/Faults",
  "vault/EveryStep",
  "vault/EveryFile",
  "vault/Pause"
]
const rank = ({ moduleId }: TestSpecification) => {
  const n = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`))
  return n < 0 ? longest.length : n
}

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    include: [
      "test/vault/{Kill,Crowd,Pause,Faults,ForeignNotes,Outbox,OutboxHeap,Reopen,EveryFile,EveryStep}.test.ts",
      "test/contract/{MemoryStore,Markdown,Federated,naughty}.test.ts",
      "test/{domain/JsonText,ranking/Tokenizer}.test.ts",
      "test/kinds/{AdaptiveMemory,BeliefMemory,CoreMemory,EpisodicMemory,GraphMemory,KeyValueMemory,Kinds,SemanticMemory,SessionMemory}.test.ts",
      "test/harness/Outbox.test.ts",
      "test/scenarios/crowd.test.ts",
      "test/isolation/Isolation.test.ts"
    ],
    setupFiles: ["test/turn.ts"],
    env: { SOAK: "1" },
    maxWorkers: 2, // the longest two beside each other
    minWorkers: 2,
    testTimeout: process.env["SOAK_LONG"] === undefined ? 1_800_000 : 36_000_000
  }
})
