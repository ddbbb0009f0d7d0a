/** The subpath `effect-memory/tools`: memory for agents that call the API of a model by themselves. */
/** The file commands of Anthropic's memory tool: see its module. */
export * as MemoryFileCommands from "./agent/MemoryFileCommands.ts"
/** Definitions of tools for the APIs of models: see its module. */
export * as ToolDefinition from "./agent/ToolDefinition.ts"
/** The memory tools, as the index has them, and their declarations. */
export * as MemoryTools from "./agent/MemoryTools.ts"
