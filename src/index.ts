/** The public modules, in strata from top to bottom: a module imports those above it, never those below. */
import * as Retirement from "./harness/Retention.ts"

// Memories
/** Ids of records: ULIDs, minted or derived. */
export * as MemoryId from "./domain/MemoryId.ts"
/** Scopes: the user, agent, run, session or actor that a record belongs to. */
export * as MemoryScope from "./domain/MemoryScope.ts"
/** Viewers: the user, agent, run, session or actor for whom a call is made. */
export * as Viewer from "./domain/Viewer.ts"
/** Kinds of memory: how each is validated, deduplicated, ranked and capped. */
export * as MemoryKind from "./domain/MemoryKind.ts"
/** Schemas of the `data` of each kind. */
export * as Payload from "./domain/Payload.ts"
/** The record, the one model of every memory; drafts and patches. */
export * as MemoryRecord from "./domain/MemoryRecord.ts"
/** Links to records in markdown, such as `[[Name]]`. */
export * as Wikilink from "./domain/Wikilink.ts"
/** Mutations: changes of a store as data. */
export * as MemoryMutation from "./domain/MemoryMutation.ts"
/** Filters, queries, hits and pages of records. */
export * as MemoryFilter from "./domain/MemoryFilter.ts"
/** The one error of this library. */
export * as MemoryError from "./domain/MemoryError.ts"
/** Emotion as numbers: affect and appraisal. */
export * as Emotion from "./domain/Emotion.ts"
/** Messages of a conversation, as the harness hands them over. */
export * as Message from "./domain/Message.ts"
/** Checks of input against a Schema and a format version; messages never quote the input. */
export * as Check from "./domain/Check.ts"
/** Sanitises text that a model reads. */
export * as PromptText from "./domain/PromptText.ts"
/** Finds JSON in a model's answer. */
export * as JsonText from "./domain/JsonText.ts"
/** Hashes, signatures and canonical JSON. */
export * as Digest from "./domain/Digest.ts"

// Ranking
/** The methods that ranking needs of a holder of records. */
export * as Retrieval from "./ranking/Retrieval.ts"
/** Splits text into terms. */
export * as Tokenizer from "./ranking/Tokenizer.ts"
/** The tokenizers of stored texts and of queries. */
export * as Analyzer from "./ranking/Analyzer.ts"
/** Lexical relevance by Okapi BM25. */
export * as Bm25 from "./ranking/Bm25.ts"
/** Exact vector search by cosine. */
export * as VectorIndex from "./ranking/VectorIndex.ts"
/** Combines several rankings into one. */
export * as Fusion from "./ranking/Fusion.ts"
/** Finds near-duplicate texts. */
export * as NearDuplicate from "./ranking/NearDuplicate.ts"
/** Scores hits by relevance, recency, importance, confidence and emotion. */
export * as Scorer from "./ranking/Scorer.ts"
/** A mutable search index of one tenant's records. */
export * as MemoryIndex from "./ranking/MemoryIndex.ts"

// Services of the harness
/** The harness's language model. */
export * as Completion from "./host/Completion.ts"
/** Converts texts into vectors. */
export * as Embedder from "./host/Embedder.ts"
/** Pauses that keep long work from blocking the event loop. */
export * as EventLoop from "./host/EventLoop.ts"
/** Randomness for secrets. */
export * as SecureRandom from "./host/SecureRandom.ts"
/** Tools as data, independent of any AI library. */
export * as MemoryTool from "./host/MemoryTool.ts"
/** Removes secrets from texts before they are stored or sent to a model. */
export * as Redaction from "./host/Redaction.ts"
/** Plugins that hear the signals of a harness and may deny tool calls. */
export * as HarnessPlugin from "./host/HarnessPlugin.ts"

// Stores
/** The store of records. */
export * as MemoryStore from "./storage/MemoryStore.ts"
/** The engine of a store, for a database of your own. */
export * as Engine from "./storage/Engine.ts"
/** A store of one `.md` file per record, to be read, edited and put under git. */
export * as Markdown from "./storage/MemoryStore/Markdown.ts"
/** Embeds the records that are written. */
export * as Embedding from "./storage/Embedding.ts"
/** A store of several member stores. */
export * as Federated from "./storage/MemoryStore/Federated.ts"
/** A branch over a store: reads through it, and keeps writes to itself until `commit`. */
export * as Overlay from "./storage/MemoryStore/Overlay.ts"
/** Copies all records of a store into another one, and verifies them. */
export * as Copy from "./storage/Copy.ts"
/** A store that fails on purpose, for tests. */
export * as Faulty from "./storage/MemoryStore/Faulty.ts"

// Kinds of memory
/** Makes a typed service of a kind. */
export * as TypedMemory from "./kinds/TypedMemory.ts"
/** Episodes: events and their emotion, around each turn of a chat. */
export * as EpisodicMemory from "./kinds/EpisodicMemory.ts"
/** Entities and the relationships between them. */
export * as GraphMemory from "./kinds/GraphMemory.ts"
/** Finds the records of any kind that matter most now. */
export * as AdaptiveMemory from "./kinds/AdaptiveMemory.ts"
/** Notes that are linked to their neighbours (A-MEM). */
export * as AgenticMemory from "./kinds/AgenticMemory.ts"
/** Learnings of a session. */
export * as SessionMemory from "./kinds/SessionMemory.ts"
/** Values by key in a namespace. */
export * as KeyValueMemory from "./kinds/KeyValueMemory.ts"
/** The identity of an agent. */
export * as CoreMemory from "./kinds/CoreMemory.ts"
/** Tasks and their outcomes. */
export * as TaskMemory from "./kinds/TaskMemory.ts"
/** Facts as subject, predicate, object. */
export * as SemanticMemory from "./kinds/SemanticMemory.ts"
/** Procedures and their success rates. */
export * as ProceduralMemory from "./kinds/ProceduralMemory.ts"
/** Pointers to files, URLs, APIs and databases. */
export * as ResourceMemory from "./kinds/ResourceMemory.ts"
/** Insights, decisions and patterns. */
export * as KnowledgeVault from "./kinds/KnowledgeVault.ts"
/** Beliefs, their confidence, and the audit of their changes. */
export * as BeliefMemory from "./kinds/BeliefMemory.ts"

// Pipeline
/** Extracts facts from a conversation. */
export * as Extraction from "./pipeline/Extraction.ts"
/** Compares facts with related records and proposes mutations. */
export * as Reconciliation from "./pipeline/Reconciliation.ts"
/** Turns a conversation into memories, and can undo that. */
export * as MemoryPipeline from "./pipeline/MemoryPipeline.ts"

// Harness
/** The memory service that a harness provides to its agents. */
export * as MemoryService from "./harness/MemoryService.ts"
/** Automatic memory over named stores. */
export * as MemoryManager from "./harness/MemoryManager.ts"
/** The messages of conversations, so that a chat goes on after a restart. */
export * as Threads from "./harness/Threads.ts"
/** The specification of an agent's memory, written by its author. */
export * as MemorySpec from "./harness/MemorySpec.ts"
/** Resumes a run under the spec that it began with, or under changes that the caller allows. */
export * as Resume from "./harness/Resume.ts"
/** Events of memory, for the harness to show, log and count. */
export * as MemoryEvents from "./harness/MemoryEvents.ts"
/** Keeps kinds within their caps. */
export * as Retention from "./harness/Retention.ts"
/** Another name of `Retention`. */
export { Retirement }
/** Decides when a conversation is read for memories. */
export * as ExtractionTrigger from "./harness/ExtractionTrigger.ts"
/** A queue of messages to extract memories from; each is read once, even after a crash. */
export * as Outbox from "./harness/Outbox.ts"
/** Limits write attempts per run and turn. */
export * as RateLimit from "./harness/RateLimit.ts"
/** Instruction files such as AGENTS.md, from the root of the tree down to the agent's folder. */
export * as InstructionFiles from "./harness/InstructionFiles.ts"
/** Finds the memories that bear on a turn, for injection into the prompt. */
export * as Injection from "./harness/Injection.ts"
/** Formats memories as text for a model. */
export * as PromptBlock from "./harness/PromptBlock.ts"

// Tools; see `effect-memory/ai`, too
/** The memory tools of an agent, independent of any AI library. */
export * as MemoryTools from "./agent/MemoryTools.ts"
