/** The Vitest configuration of `npm run soak`: the long tests at full numbers. `--long` makes some of them larger (see `run.mjs`). */
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { aliases } from "../aliases.ts"

/** Test files, longest first, so that all workers end at about the same time. */
const longest = [
  "vault/Kill",
  "sqlite/Kill",
  "cluster/OutboxCluster",
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
  resolve: { alias: aliases },
  test: {
    sequence: { sequencer: LongestFirst },
    include: [
      "test/vault/{Kill,Crowd,Pause,Faults,Writers,ForeignNotes,Outbox,OutboxHeap,Reopen,EveryFile,EveryStep}.test.ts",
      "test/sqlite/{Kill,Crowd,Damage,Feed,Transactions}.test.ts",
      "test/postgres/{Clusters,Concurrency,Injection,Instances}.test.ts",
      "test/sql/{Answers,Races}.test.ts",
      "test/cluster/OutboxCluster.test.ts",
      "test/harness/Threads.test.ts",
      "test/mcp/Hostile.test.ts",
      "test/contract/{Databases,MemoryStore,Markdown,Federated,naughty}.test.ts",
      "test/{domain/JsonText,pipeline/Answer,ranking/Searcher,ranking/Tokenizer,storage/Copy,storage/CopyContents}.test.ts",
      "test/kinds/{AdaptiveMemory,BeliefMemory,CoreMemory,EpisodicMemory,GraphMemory,KeyValueMemory,Kinds,SemanticMemory,SessionMemory,Hindsight}.test.ts",
      "test/harness/Outbox.test.ts",
      "test/scenarios/{crowd,everywhere}.test.ts",
      "test/isolation/Isolation.test.ts"
    ],
    globalSetup: ["test/processes.ts"],
    setupFiles: ["test/turn.ts", "test/soak/scheduler.ts"],
    env: { SOAK: "1" },
    poolOptions: { forks: { execArgv: ["--min-semi-space-size=64", "--max-semi-space-size=128"] } },
    // more than the two cores of a small CI machine, since tests that kill processes mostly wait for the processes
    maxWorkers: 3,
    minWorkers: 3,
    testTimeout: process.env["SOAK_LONG"] === undefined ? 1_800_000 : 36_000_000
  }
})
