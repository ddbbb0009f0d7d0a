/**
 * The modules of the main entry `effect-memory`, grouped by topic. These modules contain no code. They only export names from the internal
 * folders of `src`.
 */

// Memories
/** Records, with their drafts and patches. Every memory is stored in a record. */
export * as MemoryRecord from "./MemoryRecord.ts"
/** Ids of records: ULIDs, generated or derived from a text. */
export * as MemoryId from "./MemoryId.ts"
/** The scope of a record: the user, agent, run, session or actor to whom it belongs. */
export * as MemoryScope from "./MemoryScope.ts"
/** The viewer of a call: the user, agent, run, session or actor for whom the call is made. */
export * as Viewer from "./Viewer.ts"
/** Kinds of memory. A kind defines how its records are validated, deduplicated and ranked, and how many `Retention` keeps. */
export * as MemoryKind from "./MemoryKind.ts"
/** Schemas and types of the field `data` of a record, by kind. */
export * as Payload from "./Payload.ts"
/** Changes of a store, as data. */
export * as MemoryMutation from "./MemoryMutation.ts"
/** Filters, queries, hits and pages of records. */
export * as MemoryFilter from "./MemoryFilter.ts"
/** The error type of this library's services. The documentation of the module lists the few other error types. */
export * as MemoryError from "./MemoryError.ts"
/** Emotion as numbers: affect and appraisal. */
export * as Emotion from "./Emotion.ts"
/** Messages of a conversation, as the harness passes them to this library. */
export * as Message from "./Message.ts"
/** SHA-256 of text. */
export * as Digest from "./Digest.ts"

// Ranking; the subpath `effect-memory/ranking` exports all modules of this group and more
/** Analyzers: pairs of tokenizers, one for the texts of records and one for the texts of queries. */
export * as Analyzer from "./Analyzer.ts"
/** Splits text into terms. */
export * as Tokenizer from "./Tokenizer.ts"
/** Scores texts by the words that they share with a query: Okapi BM25. */
export * as Bm25 from "./Bm25.ts"
/** Cosine similarity of vectors. */
export * as VectorIndex from "./VectorIndex.ts"
/** Scores the hits of a search by relevance, recency, importance, confidence and emotion. */
export * as Scorer from "./Scorer.ts"

// Connection to the harness, which is the program that runs the agent
/** The language model that the harness provides. */
export * as Completion from "./Completion.ts"
/** Converts texts into vectors. */
export * as Embedder from "./Embedder.ts"
/** Removes secrets from texts before they are stored or sent to a model. */
export * as Redaction from "./Redaction.ts"
/** Tools for models, as data that is independent of any AI library. */
export * as MemoryTool from "./MemoryTool.ts"
/** Plugins that handle the start and end of turns and the end of sessions, and that may deny tool calls. */
export * as HarnessPlugin from "./HarnessPlugin.ts"

// Stores
/** The store of records, through which other services read and write. */
export * as MemoryStore from "./MemoryStore.ts"
/** The contract of a store's backend, which you implement for a database of your own. */
export * as Engine from "./Engine.ts"
/** A store with one `.md` file per record, which people can read, edit and put under git. */
export * as Markdown from "./Markdown.ts"
/** Several stores, combined into one. */
export * as Federated from "./Federated.ts"
/** A branch of a store. A write stays in the branch until `commit`. A read returns the records of the store, with the branch's changes. */
export * as Overlay from "./Overlay.ts"
/** A store that fails on purpose, for tests. */
export * as Faulty from "./Faulty.ts"

// Kinds of memory
/** Makes a service for the records of one kind, with typed `data`. */
export * as TypedMemory from "./TypedMemory.ts"
/** Episodes: events, with the emotions that were felt. A chat looks up episodes before each turn, then stores the turn as an episode. */
export * as EpisodicMemory from "./EpisodicMemory.ts"
/** Entities and the relationships between them. */
export * as GraphMemory from "./GraphMemory.ts"
/** Ranks records of any kind by recency, importance and relevance. */
export * as AdaptiveMemory from "./AdaptiveMemory.ts"
/** Notes, with suggested links between related notes (A-MEM). */
export * as AgenticMemory from "./AgenticMemory.ts"
/** Learnings: what an agent learned in a session. */
export * as SessionMemory from "./SessionMemory.ts"
/** Values that are stored by key in a namespace. */
export * as KeyValueMemory from "./KeyValueMemory.ts"
/** The identity of an agent: one record, whose body is the system prompt. */
export * as CoreMemory from "./CoreMemory.ts"
/** Tasks that an agent tried, with their outcomes. */
export * as TaskMemory from "./TaskMemory.ts"
/** Facts, each of a subject, a predicate and an object. */
export * as SemanticMemory from "./SemanticMemory.ts"
/** Procedures, with their success rates. */
export * as ProceduralMemory from "./ProceduralMemory.ts"
/** Records that point to files, URLs, APIs and databases. */
export * as ResourceMemory from "./ResourceMemory.ts"
/** Insights, decisions and patterns. */
export * as KnowledgeVault from "./KnowledgeVault.ts"
/** Beliefs, with their confidence and a list of their changes. */
export * as BeliefMemory from "./BeliefMemory.ts"

// Pipeline from conversations to memories
/** Extracts facts from a conversation. */
export * as Extraction from "./Extraction.ts"
/** Turns a model's decisions about facts and related records into mutations. */
export * as Reconciliation from "./Reconciliation.ts"
/** Makes memories from a conversation, and can undo what one call has changed. */
export * as MemoryPipeline from "./MemoryPipeline.ts"

// Services for agents
/** The memory service that a harness provides to its agents. */
export * as MemoryService from "./MemoryService.ts"
/** Automatic memory over several named stores. */
export * as MemoryManager from "./MemoryManager.ts"
/** The messages of conversations, stored so that a chat can continue after a restart. */
export * as Threads from "./Threads.ts"
/** The settings of an agent's memory, which the author of the agent writes. */
export * as MemorySpec from "./MemorySpec.ts"
/** Checkpoints of runs. A run with unchanged settings can resume. If the settings have changed, the caller must accept the changes. */
export * as Resume from "./Resume.ts"
/** Events about memory, for the harness to show, log and count. */
export * as MemoryEvents from "./MemoryEvents.ts"
/** Limits the number of records of a kind in one scope. Records beyond the cap of the kind are forgotten. */
export * as Retention from "./Retention.ts"
/** Decides when memories are extracted from a conversation. */
export * as ExtractionTrigger from "./ExtractionTrigger.ts"
/** A queue of messages that wait until memories are extracted from them. */
export * as Outbox from "./Outbox.ts"
/** Limits the number of writes by a model in each turn of a run. */
export * as RateLimit from "./RateLimit.ts"
/** Instruction files such as AGENTS.md, from the root of a tree down to the agent's directory. */
export * as InstructionFiles from "./InstructionFiles.ts"
/** Formats memories as text for a model. */
export * as PromptBlock from "./PromptBlock.ts"

// Tools for models; the subpath `effect-memory/ai` exports more
/** The memory tools of an agent, independent of any AI library. */
export * as MemoryTools from "./MemoryTools.ts"

// Copies of stores
/** Copies all records of a store into another store, and verifies the copies. */
export * as Copy from "./Copy.ts"
