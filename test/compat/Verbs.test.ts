/**
 * Every name that the five systems export for their memory, and where it is: in `effect-memory/compat` under the same name, in the root
 * often under another.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Compat from "../../src/compat.ts"
import * as Root from "../../src/index.ts"

/**
 * A row: a name of another system, the path of our equivalent in the root module, and the path in that system's compat module (default: the
 * same name).
 * `A#b` is the member `b` of the interface `A`.
 */
type Row = readonly [theirs: string, root: string, compat?: string]

const drover: ReadonlyArray<Row> = [
  ["MemoryEntry", "MemoryRecord.MemoryRecord"],
  ["MemoryDraft", "MemoryRecord.Draft"],
  ["MemoryHit", "MemoryFilter.Hit"],
  ["SearchOpts", "MemoryFilter.MemoryQuery"],
  ["MemoryScope", "MemoryScope.MemoryScope"],
  ["MemoryKind", "MemoryKind.MemoryKind"],
  ["MemoryAdapter", "MemoryStore.Service"],
  ["put", "MemoryStore.Service#put", "MemoryAdapter#put"],
  ["get", "MemoryStore.Service#get", "MemoryAdapter#get"],
  ["search", "MemoryStore.Service#search", "MemoryAdapter#search"],
  ["list", "MemoryStore.Service#list", "MemoryAdapter#list"],
  ["forget", "MemoryStore.Service#forget", "MemoryAdapter#forget"],
  ["close", "MemoryStore.layerInMemory", "MemoryAdapter#close"],
  ["MemoryError", "MemoryError.MemoryError"],
  ["createInMemoryMemory", "MemoryStore.layerInMemory"],
  ["createMarkdownMemory", "Markdown.layer"],
  ["rememberTool", "MemoryTools.make"],
  ["recallTool", "MemoryTools.make"],
  ["forgetTool", "MemoryTools.make"],
  ["ToolDef", "MemoryTool.MemoryTool"],
  ["HarnessPlugin", "HarnessPlugin.HarnessPlugin"],
  ["HarnessEvent", "MemoryEvents.MemoryEvent"],
  ["memoryRateLimitPlugin", "RateLimit.make"],
  ["renderMemoryIndex", "MemoryService.renderMemoryIndex"],
  ["groupByScope", "MemoryScope.key"],
  ["loadInstructionFiles", "InstructionFiles.loadInstructionFiles"],
  ["renderInstructionsBlock", "InstructionFiles.renderInstructionFiles"],
  ["seedInstructionFiles", "InstructionFiles.Service#seed"],
  ["InstructionFile", "InstructionFiles.InstructionFile"],
  ["stableId", "MemoryId.stableId"],
  ["ulid", "MemoryId.ulid"],
  ["ULID_RE", "MemoryId.ULID_RE"],
  ["ID_SEGMENT_RE", "MemoryScope.ScopeId"],
  ["bm25", "Bm25.bm25"],
  ["buildDoc", "Bm25.buildDoc"],
  ["Doc", "Bm25.Doc"],
  ["ScoredDoc", "Bm25.Scored"],
  ["tokenise", "Tokenizer.tokenise"],
  ["matches", "MemoryFilter.matches"],
  ["effectiveScopes", "Viewer.sees"],
  ["byRecency", "MemoryRecord.byRecency"],
  ["MemorySpec", "MemorySpec.MemorySpec"],
  ["InstructionFilesConfig", "MemorySpec.InstructionFilesConfig"],
  ["hashSpec", "MemorySpec.hashSpec"],
  ["ResumeError", "Resume.ResumeError"]
]

const strands: ReadonlyArray<Row> = [
  ["MemoryStore", "MemoryStore.Service"],
  ["MemoryStoreConfig", "Federated.Entry"],
  ["MemoryManagerConfig", "MemoryManager.Config"],
  ["maxSearchResults", "Federated.Entry", "MemoryStoreConfig#maxSearchResults"],
  ["MemoryEntry", "MemoryRecord.MemoryRecord"],
  ["SearchOptions", "MemoryFilter.MemoryQuery"],
  ["AddMessagesContext", "MemoryStore.Ingest"],
  ["MemoryManager", "MemoryManager.MemoryManager"],
  ["initAgent", "MemoryManager.layer"],
  ["search", "MemoryManager.Service#search", "MemoryManager#search"],
  ["add", "MemoryManager.Service#add", "MemoryManager#add"],
  ["addMessages", "MemoryManager.Service#addMessages", "MemoryManager#addMessages"],
  ["flush", "MemoryManager.Service#flush", "MemoryManager#flush"],
  ["getTools", "MemoryTools.makeStores", "MemoryManager#getTools"],
  ["MemoryToolConfig", "MemoryTools.StoreToolsOptions"],
  ["MemoryAddToolConfig", "MemoryTools.StoreToolsOptions"],
  ["MemoryInjectionConfig", "MemoryManager.InjectionConfig"],
  ["ExtractionConfig", "Outbox.ExtractionConfig"],
  ["Extractor", "MemoryPipeline.Options#customExtract"],
  ["ModelExtractor", "MemoryPipeline.layer"],
  ["MemoryMessageFilter", "Outbox.ExtractionConfig#filter"],
  ["ExtractionTrigger", "ExtractionTrigger.ExtractionTrigger"],
  ["InvocationTrigger", "ExtractionTrigger.invocation"],
  ["IntervalTrigger", "ExtractionTrigger.interval"]
]

const deuz: ReadonlyArray<Row> = [
  ["MemoryScope", "MemoryScope.MemoryScope"],
  ["MemoryRecord", "MemoryRecord.MemoryRecord"],
  ["MemoryKind", "MemoryKind.MemoryKind"],
  ["MemoryQuery", "MemoryFilter.MemoryQuery"],
  ["MemoryHit", "MemoryFilter.Hit"],
  ["MemoryFact", "Extraction.Fact"],
  ["MemoryEvent", "Reconciliation.Decision"],
  ["MemoryMutation", "MemoryMutation.MemoryMutation"],
  ["MemoryStore", "MemoryStore.Service"],
  ["upsert", "MemoryStore.Service#put", "MemoryStore#upsert"],
  ["get", "MemoryStore.Service#get", "MemoryStore#get"],
  ["search", "MemoryStore.Service#search", "MemoryStore#search"],
  ["list", "MemoryStore.Service#list", "MemoryStore#list"],
  ["delete", "MemoryStore.Service#forget", "MemoryStore#delete"],
  ["update", "MemoryStore.Service#update", "MemoryStore#update"],
  ["MemorySeams", "MemoryPipeline.layer"],
  ["MemoryLLM", "Completion.Service"],
  ["Embedder", "Embedder.Service"],
  ["HashFn", "Digest.sha256"],
  ["MemoryScorer", "Scorer.score"],
  ["remember", "MemoryPipeline.Service#remember"],
  ["planMemory", "MemoryPipeline.Service#plan"],
  ["recall", "MemoryPipeline.Service#recall"],
  ["formatMemoriesForPrompt", "PromptBlock.formatMemoriesForPrompt"],
  ["createMemoryTools", "MemoryTools.makeRecords"],
  ["createEmbedder", "Embedder.make"],
  ["createInMemoryMemoryStore", "MemoryStore.layerInMemory"],
  ["createMarkdownMemoryStore", "Markdown.layer"],
  ["assertScope", "MemoryScope.assertScope"],
  ["matchesScope", "MemoryScope.matchesScope"],
  ["isExpired", "MemoryRecord.isExpired"],
  ["cosineSimilarity", "VectorIndex.cosineSimilarity"],
  ["defaultHashFn", "Digest.defaultHashFn"],
  ["defaultMemoryScorer", "Scorer.defaultMemoryScorer"],
  ["buildExtractionPrompt", "Extraction.buildExtractionPrompt"],
  ["parseFacts", "Extraction.parseFacts"],
  ["buildDecisionPrompt", "Reconciliation.buildDecisionPrompt"],
  ["parseDecision", "Reconciliation.parseDecision"],
  ["applyEvents", "Reconciliation.applyEvents"]
]

const molroo: ReadonlyArray<Row> = [
  ["MemoryAdapter", "EpisodicMemory.MemoryAdapter"],
  ["saveEpisode", "EpisodicMemory.Service#saveEpisode", "MemoryAdapter"],
  ["recall", "EpisodicMemory.Service#recall", "MemoryAdapter"],
  ["semanticRecall", "EpisodicMemory.Service#semanticRecall", "MemoryAdapter"],
  ["getByIds", "EpisodicMemory.Service#getByIds", "MemoryAdapter"],
  ["saveReflection", "EpisodicMemory.Service#saveReflection", "MemoryAdapter"],
  ["getReflections", "EpisodicMemory.Service#getReflections", "MemoryAdapter"],
  ["InMemoryAdapter", "EpisodicMemory.toAdapter"],
  ["RecallQuery", "EpisodicMemory.RecallQuery"],
  ["SemanticRecallOptions", "EpisodicMemory.SemanticRecallOptions"],
  ["RecallLimits", "EpisodicMemory.RecallLimits"],
  ["RecallConfig", "EpisodicMemory.RecallConfig"],
  ["RecallResult", "EpisodicMemory.Recalled"],
  ["Episode", "Payload.Episode"],
  ["Reflection", "Payload.Reflection"],
  ["VAD", "Emotion.VAD"],
  ["AppraisalVector", "Emotion.Appraisal"],
  ["NEUTRAL_APPRAISAL", "Emotion.NEUTRAL_APPRAISAL"],
  ["clamp", "Emotion.clamp"],
  ["recallMemories", "EpisodicMemory.Service#beforeTurn"],
  ["buildMemoryBlock", "EpisodicMemory.buildMemoryBlock"],
  ["stripMetaTags", "Message.stripMetaTags"]
]

/** Makes the rows of an interface's members. A member has the same name in our service, unless it is given as `theirs > ours`. */
const members = (theirs: string, service: string, ...names: ReadonlyArray<string>): ReadonlyArray<Row> =>
  names.map((name) => {
    const [member = "", ours = member] = name.split(" > ")
    return [member, `${service}.Service#${ours}`, `${theirs}#${member}`]
  })

const nexus: ReadonlyArray<Row> = [
  ["IMemoryBackend", "KeyValueMemory.MemoryBackend"],
  ["CustomMemoryBackend", "KeyValueMemory.toBackend"],
  ["MemoryMetadata", "KeyValueMemory.Metadata"],
  ["MemoryImportance", "MemoryRecord.importanceOf"],
  ["WriteOperation", "KeyValueMemory.Entry"],
  ...["set", "get", "has", "delete", "clear", "keys", "entries", "size", "batchWrite", "search", "prune"].map((
    name
  ): Row => [name, `KeyValueMemory.Service#${name}`, "CustomMemoryBackend"]),
  ["store", "KeyValueMemory.Service#set", "CustomMemoryBackend"],
  ["retrieve", "KeyValueMemory.Service#get", "CustomMemoryBackend"],
  ["ICoreMemory", "CoreMemory.CoreMemory"],
  ["CoreMemoryData", "CoreMemory.Identity"],
  ...members("ICoreMemory", "CoreMemory", "getIdentity", "setIdentity", "getConstraints", "updateConstraints"),
  ["IEpisodicMemory", "TaskMemory.TaskMemory"],
  ["Episode", "TaskMemory.TaskEpisode"],
  ["EpisodeQuery", "TaskMemory.EpisodeQuery"],
  ...members(
    "IEpisodicMemory",
    "TaskMemory",
    "recordEpisode",
    "queryEpisodes",
    "getSimilarEpisodes",
    "getRecentFailures"
  ),
  ["ISemanticMemory", "SemanticMemory.SemanticMemory"],
  ["SemanticFact", "SemanticMemory.Fact"],
  ...members("ISemanticMemory", "SemanticMemory", "storeFact", "queryByDomain", "queryBySubject", "searchFacts"),
  ...members("ISemanticMemory", "SemanticMemory", "invalidateFact"),
  ["IProceduralMemory", "ProceduralMemory.ProceduralMemory"],
  ["Procedure", "ProceduralMemory.Procedure"],
  ...members("IProceduralMemory", "ProceduralMemory", "storeProcedure", "findProcedures"),
  ...members("IProceduralMemory", "ProceduralMemory", "updateSuccessRate > recordExecution"),
  ["IResourceMemory", "ResourceMemory.ResourceMemory"],
  ["ResourceReference", "ResourceMemory.Resource"],
  ...members("IResourceMemory", "ResourceMemory", "store", "findByType", "findByLocation", "search"),
  ...members("IResourceMemory", "ResourceMemory", "updateLastAccessed > touch"),
  ["IKnowledgeVault", "KnowledgeVault.KnowledgeVault"],
  ["VaultEntry", "KnowledgeVault.VaultEntry"],
  ...members("IKnowledgeVault", "KnowledgeVault", "store", "findByCategory", "findByImportance", "search", "archive"),
  ["BeliefConfidence", "BeliefMemory.confidenceOf"],
  ["BeliefQuery", "BeliefMemory.BeliefQuery"],
  ["BeliefMemoryStats", "BeliefMemory.Statistics"],
  ["HindsightRecord", "BeliefMemory.Hindsight"],
  ["Counterfactual", "BeliefMemory.Counterfactual"],
  ["Belief", "BeliefMemory.Belief"],
  ...members(
    "IBeliefMemory",
    "BeliefMemory",
    "retain",
    "recall",
    "query",
    "revise",
    "supersede",
    "reinforce",
    "weaken"
  ),
  ...members("IBeliefMemory", "BeliefMemory", "recallCurrent > query", "recallHistory > query", "applyHindsight"),
  ...members("IBeliefMemory", "BeliefMemory", "getHindsightRecords > hindsights", "createCounterfactual"),
  ...members("IBeliefMemory", "BeliefMemory", "validateCounterfactual", "getStats > statistics", "pruneSuperseded"),
  ...members("IBeliefMemory", "BeliefMemory", "getUpdateHistory > audit", "getRevisions > history"),
  ["IGraphMemory", "GraphMemory.GraphMemory"],
  ["Entity", "GraphMemory.Entity"],
  ["Relationship", "GraphMemory.Relationship"],
  ...members("IGraphMemory", "GraphMemory", "addEntity", "addRelationship > relate", "removeRelationship > unrelate"),
  ...members("IGraphMemory", "GraphMemory", "getRelationships > relationships", "getRelatedEntities > traverse"),
  ...members("IGraphMemory", "GraphMemory", "traverse", "findPath", "queryByPath"),
  ["IAdaptiveMemory", "AdaptiveMemory.AdaptiveMemory"],
  ["RetrievalOptions", "AdaptiveMemory.PriorityQuery"],
  ["MemoryItem", "AdaptiveMemory.Prioritised"],
  ...members("IAdaptiveMemory", "AdaptiveMemory", "retrieve", "getPriorityScore", "touch"),
  ...members("IAgenticMemory", "AgenticMemory", "storeWithAttributes > store", "suggestLinks", "refreshAttributes"),
  ...members("IAgenticMemory", "AgenticMemory", "linkRelatedMemories > link", "findBySharedAttributes > findByShared"),
  ...members("ISessionMemory", "SessionMemory", "startSession > start", "searchLearnings > search"),
  ...members("ISessionMemory", "SessionMemory", "getRecentErrorSolutions"),
  ["recordLearning", "SessionMemory.Session#recordLearning", "ISessionMemory#recordLearning"],
  ["recordTask", "SessionMemory.Session#recordTask", "ISessionMemory#recordTask"],
  ["recordError", "SessionMemory.Session#recordError", "ISessionMemory#recordError"],
  ["endSession", "SessionMemory.Session#end", "ISessionMemory#endSession"]
]

/** The rows of each system, and the further values that its compat module exports: adapters and helpers. */
const systems = {
  Drover: { rows: drover, adapters: ["copyAdapter", "toAdapter", "viewerOf"] },
  Strands: { rows: strands, adapters: [] },
  Deuz: { rows: deuz, adapters: ["copyStore", "toStore"] },
  Molroo: { rows: molroo, adapters: ["layerAdapter", "toAdapter"] },
  Nexus: {
    rows: nexus,
    adapters: ["confidenceOf", "copyBackend", "importanceOf", "layer", "levelOf"].concat([
      ...["toAdaptiveMemory", "toAgenticMemory", "toBeliefMemory", "toCoreMemory", "toEpisodicMemory"],
      ...["toGraphMemory", "toKnowledgeVault", "toProceduralMemory", "toResourceMemory", "toSemanticMemory"],
      "toSessionMemory"
    ])
  }
}

/** The namespaces of the compat and the root module, which have no name in common. */
const modules: Readonly<Record<string, object>> = { ...Root, ...Compat }
const src = join(import.meta.dirname, "../../src")
const texts = new Map<string, string>()
const text = (file: string): string => {
  const read = texts.get(file) ?? readFileSync(join(src, file), "utf8")
  texts.set(file, read)
  return read
}
/** Returns the files that an index module re-exports. */
const parts = (file: string) => Array.from(text(file).matchAll(/ from "\.\/([^"]+)"/g), ([, path]) => path!)
const ofNexus = readdirSync(join(src, "compat/Nexus")).map((file) => `compat/Nexus/${file}`)
const sourceOf = (module: string): string =>
  module in Compat
    ? [`compat/${module}.ts`, ...(module === "Nexus" ? ofNexus : [])].map(text).join("\n")
    : [fileOf(module), ...parts(fileOf(module))].map(text).join("\n")
const fileOf = (module: string): string =>
  new RegExp(`export \\* as ${module} from "\\./(.+)"`).exec(text("index.ts"))?.[1] ??
    assert.fail(`the root has no ${module}`)

/** Whether the module exports a value or type with the name `path`; for a path `A#b`, an interface `A` with the member `b`. */
const isThere = (module: string, path: string): boolean => {
  const [name = "", member] = path.split("#")
  const source = sourceOf(module)
  if (member !== undefined) {
    const [, body = ""] = new RegExp(`^export interface ${name}\\b[^{]*\\{\n([^]*?)\n\\}`, "m").exec(source) ?? []
    return new RegExp(`^  (?:readonly )?${member}\\??[:(<]`, "m").test(body)
  }
  return name in (modules[module] ?? {}) ||
    (module in Compat && new RegExp(`^export (?:interface|type) ${name}\\b`, "m").test(source)) ||
    new RegExp(`^export (?:type )?\\{[^}]*\\b${name}\\b[^}]*\\}`, "m").test(source)
}

describe.each(Object.entries(systems))("the memory API of %s", (system, { adapters, rows }) => {
  it(`every name of ${system}'s memory API has an equivalent among the modules of effect-memory`, () => {
    const missing = rows.filter(([, root]) => {
      const [module = "", path = ""] = root.split(".")
      return !isThere(module, path)
    })
    assert.deepStrictEqual(missing, [])
  })

  it(`every name of ${system}'s memory API has an equivalent in the module ${system} of effect-memory/compat`, () => {
    assert.deepStrictEqual(rows.filter(([theirs, , compat = theirs]) => !isThere(system, compat)), [])
  })

  it(`the module ${system} of effect-memory/compat exports no values except those that this file lists`, () => {
    const named = new Set(rows.map(([theirs, , compat = theirs]) => compat))
    const others = Object.keys(modules[system] ?? {}).filter((name) => !named.has(name))
    assert.deepStrictEqual(others.sort(), adapters.toSorted())
  })
})
