/** Compares README.md and docs/compat.md with the package: exported names, error reasons, install lines and scripts. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { MemoryError } from "../../src/index.ts"
import { root } from "./programs.ts"

const text = (file: string) => readFileSync(join(root, file), "utf8")
const readme = text("README.md")
const compat = text("docs/compat.md")
const { devDependencies, peerDependencies, scripts } = JSON.parse(text("package.json"))

/** Returns the parts of the README that `.ci/run` reads and executes. */
const said = (...args: ReadonlyArray<string>) =>
  execFileSync(process.execPath, [join(root, ".ci/readme.mjs"), ...args], { encoding: "utf8" }).trimEnd()
const installed = said("install").split("\n").flatMap((line) =>
  line.split(/\s+/).slice(2).filter((word) => !word.startsWith("-") && word !== "effect-memory")
)

/** The exports of drover's memory package, and the types of its harness that their signatures name. */
const drover = [
  [
    "MemoryEntry",
    "MemoryDraft",
    "MemoryHit",
    "SearchOpts",
    "MemoryScope",
    "MemoryKind",
    "MemoryAdapter",
    "MemoryError"
  ],
  ["createInMemoryMemory", "createMarkdownMemory", "rememberTool", "recallTool", "forgetTool", "memoryRateLimitPlugin"],
  ["renderMemoryIndex", "groupByScope", "loadInstructionFiles", "renderInstructionsBlock", "seedInstructionFiles"],
  [
    "InstructionFile",
    "stableId",
    "ulid",
    "ULID_RE",
    "ID_SEGMENT_RE",
    "bm25",
    "buildDoc",
    "tokenise",
    "Doc",
    "ScoredDoc"
  ],
  ["matches", "effectiveScopes", "byRecency", "MemorySpec", "InstructionFilesConfig", "hashSpec", "ResumeError"],
  ["ToolDef", "HarnessPlugin", "HarnessEvent"]
].flat()

/** The exports of Deuz's memory package. */
const deuz = [
  [
    "MemoryScope",
    "MemoryRecord",
    "MemoryKind",
    "MemoryQuery",
    "MemoryHit",
    "MemoryFact",
    "MemoryEvent",
    "MemoryMutation"
  ],
  ["MemoryStore", "MemorySeams", "MemoryLLM", "Embedder", "HashFn", "MemoryScorer"],
  ["remember", "planMemory", "recall", "formatMemoriesForPrompt", "createMemoryTools", "createEmbedder"],
  ["createInMemoryMemoryStore", "createMarkdownMemoryStore"],
  ["assertScope", "matchesScope", "isExpired", "cosineSimilarity", "defaultHashFn", "defaultMemoryScorer"],
  ["buildExtractionPrompt", "parseFacts", "buildDecisionPrompt", "parseDecision", "applyEvents"]
].flat()

/** The memory exports of molroo's SDK. */
const molroo = [
  [
    "MemoryAdapter",
    "InMemoryAdapter",
    "RecallQuery",
    "SemanticRecallOptions",
    "RecallLimits",
    "RecallConfig",
    "RecallResult"
  ],
  ["Episode", "Reflection", "VAD", "AppraisalVector", "NEUTRAL_APPRAISAL"],
  ["recallMemories", "buildMemoryBlock", "stripMetaTags"]
].flat()

/** The memory exports of Strands' SDK, and the operations of its manager and its stores. */
const strands = [
  ["MemoryStore", "MemoryStoreConfig", "maxSearchResults", "MemoryEntry", "SearchOptions", "AddMessagesContext"],
  ["MemoryManager", "initAgent", "search", "add", "addMessages", "flush", "getTools"],
  ["MemoryToolConfig", "MemoryAddToolConfig"],
  ["MemoryInjectionConfig", "ExtractionConfig", "Extractor", "ModelExtractor", "MemoryMessageFilter"],
  ["ExtractionTrigger", "InvocationTrigger", "IntervalTrigger"]
].flat()

/** The names in nexus-agents' guide to memory. */
const nexus = [
  ["IMemoryBackend", "CustomMemoryBackend", "MemoryMetadata", "MemoryImportance", "WriteOperation", "batchWrite"],
  ["ICoreMemory", "IEpisodicMemory", "ISemanticMemory", "IProceduralMemory", "IResourceMemory", "IKnowledgeVault"],
  ["Episode", "EpisodeQuery", "BeliefConfidence", "retain"],
  ["BeliefQuery", "BeliefMemoryStats", "HindsightRecord", "Counterfactual", "pruneSuperseded"],
  ["IGraphMemory", "Entity", "Relationship", "addEntity", "addRelationship", "getRelatedEntities", "queryByPath"],
  ["findPath"],
  ["IAdaptiveMemory", "RetrievalOptions", "retrieve"],
  ["storeWithAttributes", "linkRelatedMemories", "findBySharedAttributes", "startSession", "searchLearnings"],
  ["recordTask", "endSession"]
].flat()

/** Returns the table of names below a heading of docs/compat.md: each name of the system, and ours. */
const rowsOf = (heading: string) =>
  Array.from(
    compat.split(`\n## ${heading}\n`)[1]!.split(/\n## /)[0]!.matchAll(/^\| `(\w+)` \| `(\w+)\.(\w+)` \|/gm),
    ([, name, module, ours]) => ({ name: name!, module: module!, ours: ours! })
  )

/** Whether the published module exports a value or a type of this name. */
const isPublished = (module: string, name: string): boolean => {
  const [, file] = new RegExp(`export \\* as ${module} from "\\./(.+)\\.ts"`).exec(text("src/index.ts")) ?? []
  if (file === undefined) return false
  const declarations = text(`dist/${file}.d.ts`)
  return new RegExp(`^export (?:declare )?(?:const|class|interface|type|function) ${name}\\b`, "m").test(
    declarations
  ) ||
    new RegExp(`^export (?:type )?\\{[^}]*\\b${name}\\b[^}]*\\}`, "m").test(declarations)
}

describe("README.md and docs/compat.md", () => {
  it.each([["drover", drover], ["Strands", strands], ["Deuz", deuz], ["molroo", molroo], ["nexus-agents", nexus]])(
    "docs/compat.md lists every name of %s once, with a published equivalent",
    (heading, seed) => {
      const rows = rowsOf(heading)
      assert.deepStrictEqual(rows.map(({ name }) => name).sort(), seed.toSorted())
      assert.deepStrictEqual(rows.filter(({ module, ours }) => !isPublished(module, ours)), [])
    }
  )

  it("README.md lists exactly the reasons of MemoryError", () => {
    const table = readme.slice(readme.indexOf("## Errors"), readme.indexOf("## Performance"))
    const told = Array.from(table.matchAll(/^\| `(\w+)` \|/gm), ([, reason]) => reason)
    assert.deepStrictEqual(told, [...MemoryError.Reason.literals])
  })

  it("the install lines of README.md name every peer dependency, with the major version that is tested", () => {
    const majors = new Map(
      installed.map((word) => /^(.+)@(\d+)$/.exec(word)?.slice(1) ?? [word, "none"]) as Array<[string, string]>
    )
    for (const [name, major] of majors) assert.strictEqual(major, devDependencies[name]?.split(".")[0], name)
    assert.includeMembers(Array.from(majors.keys()), Object.keys(peerDependencies))
  })

  it("`.ci/readme.mjs` prints README.md's first program and install command; a given tarball replaces the package's name", () => {
    assert.strictEqual(said("program"), readme.split("```ts\n")[1]!.split("\n```")[0])
    const [first] = said("install").split("\n")
    assert.include(readme, `\n${first}\n`)
    assert.strictEqual(
      said("install", "./packed.tgz").split("\n")[0],
      first!.replace(/ effect-memory /, " ./packed.tgz ")
    )
  })

  it.each([...new Set(readme.match(/(?<=npm run )\w+/g))])(
    "the script that the README names exists: npm run %s",
    (name) => {
      assert.property(scripts, name)
    }
  )
})
