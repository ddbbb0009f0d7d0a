/** The subpath `effect-memory/tools`: memory for agents that call a model's API directly, without an AI library. */
/** The file commands of Anthropic's memory tool; their module documents them. */
export * as MemoryFileCommands from "./agent/MemoryFileCommands.ts"
/** Tool definitions for the APIs of models; their module documents them. */
export * as ToolDefinition from "./agent/ToolDefinition.ts"
/** The memory tools that the index exports too, and their declarations. */
export * as MemoryTools from "./agent/MemoryTools.ts"
