/** The subpath `effect-memory/tools`: memory for agents that call a model's API directly, without an AI library. */
/** The file commands of Anthropic's memory tool, documented in the module `MemoryFileCommands`. */
export * as MemoryFileCommands from "./agent/MemoryFileCommands.ts"
/** Tool definitions for the APIs of models, documented in the module `ToolDefinition`. */
export * as ToolDefinition from "./agent/ToolDefinition.ts"
/** The memory tools of an agent. The main entry `effect-memory` exports them, too. */
export * as MemoryTools from "./agent/MemoryTools.ts"
