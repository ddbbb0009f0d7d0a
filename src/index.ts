/**
 * The public modules, in strata from top to bottom. Each is a list of names: a module of its own that holds no code, so that what
 * is public is listed here and nowhere else. Folders beside it are internal.
 */

// Memories
/** The record in which every memory is stored; drafts and patches. */
export * as MemoryRecord from "./MemoryRecord.ts"
/** Ids of records: ULIDs, generated or derived from a text. */
export * as MemoryId from "./MemoryId.ts"
/** The scope of a record: the user, agent, run, session or actor that it belongs to. */
export * as MemoryScope from "./MemoryScope.ts"
/** The viewer of a call: the user, agent, run, session or actor on whose behalf it is made. */
export * as Viewer from "./Viewer.ts"
/** Kinds of memory. A kind defines how its records are validated, deduplicated, ranked and capped. */
export * as MemoryKind from "./MemoryKind.ts"
/** Schemas of a record's field `data`, one for each kind. */
export * as Payload from "./Payload.ts"
/** A mutation describes one change of a store as data. */
export * as MemoryMutation from "./MemoryMutation.ts"
/** Filters, queries, hits and pages of records. */
export * as MemoryFilter from "./MemoryFilter.ts"
/** The only error type of this library. */
export * as MemoryError from "./MemoryError.ts"
/** Emotion as numbers: affect and appraisal. */
export * as Emotion from "./Emotion.ts"
/** Messages of a conversation, as the harness passes them to this library. */
export * as Message from "./Message.ts"
/** SHA-256 of text. */
export * as Digest from "./Digest.ts"

// Ranking; all of it is in `effect-memory/ranking`
/** Turn stored texts and queries into terms. */
export * as Analyzer from "./Analyzer.ts"
/** Splits text into terms. */
export * as Tokenizer from "./Tokenizer.ts"
/** Lexical relevance by Okapi BM25. */
export * as Bm25 from "./Bm25.ts"
/** Exact vector search by cosine. */
export * as VectorIndex from "./VectorIndex.ts"
/** Scores the hits of a search by relevance, recency, importance, confidence and emotion. */
export * as Scorer from "./Scorer.ts"

// Services of the harness
/** The harness's language model. */
export * as Completion from "./Completion.ts"
/** Converts texts into vectors. */
export * as Embedder from "./Embedder.ts"
/** Removes secrets from texts before they are stored or sent to a model. */
export * as Redaction from "./Redaction.ts"
/** Tools as data, independent of any AI library. */
export * as MemoryTool from "./MemoryTool.ts"
/** Plugins that are told of turns and sessions, and may deny tool calls. */
export * as HarnessPlugin from "./HarnessPlugin.ts"

// Stores
/** The store of records. */
export * as MemoryStore from "./MemoryStore.ts"
/** The engine of a store, for a database of your own. */
export * as Engine from "./Engine.ts"
/** A store of one `.md` file per record, to be read, edited and put under git. */
export * as Markdown from "./Markdown.ts"
/** A store of several member stores. */
export * as Federated from "./Federated.ts"
/** A branch over a store: reads through it, and keeps writes to itself until `commit`. */
export * as Overlay from "./Overlay.ts"
/** A store that fails on purpose, for tests. */
export * as Faulty from "./Faulty.ts"

// Kinds of memory
/** Makes a typed service of a kind. */
export * as TypedMemory from "./TypedMemory.ts"
/** Episodes: events and their emotion, around each turn of a chat. */
export * as EpisodicMemory from "./EpisodicMemory.ts"
/** Entities and the relationships between them. */
export * as GraphMemory from "./GraphMemory.ts"
/** Finds the records of any kind that matter most now. */
export * as AdaptiveMemory from "./AdaptiveMemory.ts"
/** Notes that are linked to their neighbours (A-MEM). */
export * as AgenticMemory from "./AgenticMemory.ts"
/** Learnings of a session. */
export * as SessionMemory from "./SessionMemory.ts"
/** Values by key in a namespace. */
export * as KeyValueMemory from "./KeyValueMemory.ts"
/** The identity of an agent. */
export * as CoreMemory from "./CoreMemory.ts"
/** Tasks and their outcomes. */
export * as TaskMemory from "./TaskMemory.ts"
/** Facts as subject, predicate, object. */
export * as SemanticMemory from "./SemanticMemory.ts"
/** Procedures and their success rates. */
export * as ProceduralMemory from "./ProceduralMemory.ts"
/** Pointers to files, URLs, APIs and databases. */
export * as ResourceMemory from "./ResourceMemory.ts"
/** Insights, decisions and patterns. */
export * as KnowledgeVault from "./KnowledgeVault.ts"
/** Beliefs, their confidence, and the audit of their changes. */
export * as BeliefMemory from "./BeliefMemory.ts"

// Pipeline
/** Extracts facts from a conversation. */
export * as Extraction from "./Extraction.ts"
/** Compares facts with related records and proposes mutations. */
export * as Reconciliation from "./Reconciliation.ts"
/** Turns a conversation into memories, and can undo that. */
export * as MemoryPipeline from "./MemoryPipeline.ts"

// Harness
/** The memory service that a harness provides to its agents. */
export * as MemoryService from "./MemoryService.ts"
/** Automatic memory over named stores. */
export * as MemoryManager from "./MemoryManager.ts"
/** The messages of conversations, so that a chat goes on after a restart. */
export * as Threads from "./Threads.ts"
/** The specification of an agent's memory, written by its author. */
export * as MemorySpec from "./MemorySpec.ts"
/** Resumes a run under the spec that it began with, or under changes that the caller allows. */
export * as Resume from "./Resume.ts"
/** Events of memory, for the harness to show, log and count. */
export * as MemoryEvents from "./MemoryEvents.ts"
/** Keeps kinds within their caps. */
export * as Retention from "./Retention.ts"
/** Decides when a conversation is read for memories. */
export * as ExtractionTrigger from "./ExtractionTrigger.ts"
/** A queue of messages to extract memories from; each is read once, even after a crash. */
export * as Outbox from "./Outbox.ts"
/** Limits write attempts per run and turn. */
export * as RateLimit from "./RateLimit.ts"
/** Instruction files such as AGENTS.md, from the root of the tree down to the agent's folder. */
export * as InstructionFiles from "./InstructionFiles.ts"
/** Formats memories as text for a model. */
export * as PromptBlock from "./PromptBlock.ts"

// Tools; see `effect-memory/ai`, too
/** The memory tools of an agent, independent of any AI library. */
export * as MemoryTools from "./MemoryTools.ts"

// Copies
/** Copies all records of a store into another one, and verifies them. */
export * as Copy from "./Copy.ts"
