/** The table of contents. Strata, top to bottom: a module knows those above it, never those below. */
import * as Retirement from "./harness/Retention.ts"

// What a memory is
/** Who a record is: a ULID, minted or derived. */
export * as MemoryId from "./domain/MemoryId.ts"
/** Whose a record is. */
export * as MemoryScope from "./domain/MemoryScope.ts"
/** For whom a call is made. */
export * as Viewer from "./domain/Viewer.ts"
/** What sort of thing is remembered, and how long it matters. */
export * as MemoryKind from "./domain/MemoryKind.ts"
/** What a record of a kind carries in `data`. */
export * as Payload from "./domain/Payload.ts"
/** Every memory of every kind. */
export * as MemoryRecord from "./domain/MemoryRecord.ts"
/** `[[Name]]` in markdown. */
export * as Wikilink from "./domain/Wikilink.ts"
/** A change, as data. */
export * as MemoryMutation from "./domain/MemoryMutation.ts"
/** Which records are meant, and how they are asked for. */
export * as MemoryFilter from "./domain/MemoryFilter.ts"
/** The one error of this library. */
export * as MemoryError from "./domain/MemoryError.ts"
/** How it felt. */
export * as Emotion from "./domain/Emotion.ts"
/** One turn of a conversation, as the harness hands it over. */
export * as Message from "./domain/Message.ts"
/** What comes in, held against its Schema and its version, in messages that never quote it. */
export * as Check from "./domain/Check.ts"
/** The sanitiser of text that a model reads. */
export * as PromptText from "./domain/PromptText.ts"
/** JSON in what a model wrote. */
export * as JsonText from "./domain/JsonText.ts"
/** Fingerprints. */
export * as Digest from "./domain/Digest.ts"

// Which memories matter
/** The questions that ranking puts to a holder of records. */
export * as Retrieval from "./ranking/Retrieval.ts"
/** Text to terms. */
export * as Tokenizer from "./ranking/Tokenizer.ts"
/** How a text becomes terms: one that is remembered, and one that is asked. */
export * as Analyzer from "./ranking/Analyzer.ts"
/** Lexical relevance. */
export * as Bm25 from "./ranking/Bm25.ts"
/** Exact cosine. */
export * as VectorIndex from "./ranking/VectorIndex.ts"
/** Several rankings into one. */
export * as Fusion from "./ranking/Fusion.ts"
/** Texts that say the same but for how they are written. */
export * as NearDuplicate from "./ranking/NearDuplicate.ts"
/** Relevance made worth. */
export * as Scorer from "./ranking/Scorer.ts"
/** Vectors by model and by the hash of their text. */
/** One tenant's records, searchable: mutable and incremental. */
export * as MemoryIndex from "./ranking/MemoryIndex.ts"

// What we ask of the harness
/** The harness's language model. */
export * as Completion from "./host/Completion.ts"
/** Text to vectors. */
export * as Embedder from "./host/Embedder.ts"
/** Pauses that keep long work from blocking the event loop. */
export * as EventLoop from "./host/EventLoop.ts"
/** Randomness for secrets. */
export * as SecureRandom from "./host/SecureRandom.ts"
/** A tool as data. */
export * as MemoryTool from "./host/MemoryTool.ts"
/** Takes secrets out of what is remembered, before it is stored or sent to a model. */
export * as Redaction from "./host/Redaction.ts"
/** Where a harness, or a rule of yours, listens and says no. */
export * as HarnessPlugin from "./host/HarnessPlugin.ts"

// Where memories live
/** Where records live. */
export * as MemoryStore from "./storage/MemoryStore.ts"
/** What a store is made of, for a database of your own. */
export * as Engine from "./storage/Engine.ts"
/** One `.md` per record, made to be read, edited and put under git. */
export * as Markdown from "./storage/MemoryStore/Markdown.ts"
/** Vectors for what is written. */
export * as Embedding from "./storage/Embedding.ts"
/** Many stores are a store. */
export * as Federated from "./storage/MemoryStore/Federated.ts"
/** A branch over a store: reads through, keeps writes to itself until `commit`. */
export * as Overlay from "./storage/MemoryStore/Overlay.ts"
/** Everything that a store holds into another store, verified. */
export * as Copy from "./storage/Copy.ts"
/** A plugin that breaks on purpose, for tests. */
export * as Faulty from "./storage/MemoryStore/Faulty.ts"

// Kinds of memory
/** A kind as a service. */
export * as TypedMemory from "./kinds/TypedMemory.ts"
/** What happened and how it felt, around each turn of a chat. */
export * as EpisodicMemory from "./kinds/EpisodicMemory.ts"
/** Entities and what holds between them. */
export * as GraphMemory from "./kinds/GraphMemory.ts"
/** What is worth having in mind now, of any kind. */
export * as AdaptiveMemory from "./kinds/AdaptiveMemory.ts"
/** Notes that know their neighbours (A-MEM). */
export * as AgenticMemory from "./kinds/AgenticMemory.ts"
/** What one sitting taught. */
export * as SessionMemory from "./kinds/SessionMemory.ts"
/** Values by key in a namespace. */
export * as KeyValueMemory from "./kinds/KeyValueMemory.ts"
/** Who an agent is. */
export * as CoreMemory from "./kinds/CoreMemory.ts"
/** What was tried, and how it went. */
export * as TaskMemory from "./kinds/TaskMemory.ts"
/** Facts as subject, predicate, object. */
export * as SemanticMemory from "./kinds/SemanticMemory.ts"
/** How things are done, and how often it worked. */
export * as ProceduralMemory from "./kinds/ProceduralMemory.ts"
/** Pointers to what lies elsewhere. */
export * as ResourceMemory from "./kinds/ResourceMemory.ts"
/** Insights, decisions, patterns. */
export * as KnowledgeVault from "./kinds/KnowledgeVault.ts"
/** What is held to be true, how surely, and why it changed. */
export * as BeliefMemory from "./kinds/BeliefMemory.ts"

// How memories change
/** Conversation to facts. */
export * as Extraction from "./pipeline/Extraction.ts"
/** Facts against neighbours to mutations. */
export * as Reconciliation from "./pipeline/Reconciliation.ts"
/** Conversation to memories, and the way back. */
export * as MemoryPipeline from "./pipeline/MemoryPipeline.ts"

// Who remembers what, and when
/** What a harness provides. */
export * as MemoryService from "./harness/MemoryService.ts"
/** Automatic memory over named stores. */
export * as MemoryManager from "./harness/MemoryManager.ts"
/** The messages of conversations, so that a chat goes on after a restart. */
export * as Threads from "./harness/Threads.ts"
/** What an agent's author writes down about memory. */
export * as MemorySpec from "./harness/MemorySpec.ts"
/** A run goes on only under the spec it began with, unless somebody says which change is meant. */
export * as Resume from "./harness/Resume.ts"
/** What memory did, for the harness to show, log and count. */
export * as MemoryEvents from "./harness/MemoryEvents.ts"
/** Keeps kinds within their caps. */
export * as Retention from "./harness/Retention.ts"
/** Another name of `Retention`. */
export { Retirement }
/** When a conversation is read for memories. */
export * as ExtractionTrigger from "./harness/ExtractionTrigger.ts"
/** Messages on their way into memory: each is read once, whatever crashes. */
export * as Outbox from "./harness/Outbox.ts"
/** Counts write attempts per run and turn, and says no. */
export * as RateLimit from "./harness/RateLimit.ts"
/** AGENTS.md and its like, from the root of the tree down to where the agent works. */
export * as InstructionFiles from "./harness/InstructionFiles.ts"
/** What bears on a turn, for the end of it. */
export * as Injection from "./harness/Injection.ts"
/** Memory as text for a model. */
export * as PromptBlock from "./harness/PromptBlock.ts"

// How it is reached; `effect-memory/ai` beside it
/** The tools of four seeds, declared once and neutrally. */
export * as MemoryTools from "./agent/MemoryTools.ts"
