/**
 * Definitions of tools in the shapes that the APIs of models take, made from the tools that `MemoryTools` and `MemoryFileCommands`
 * return. The program answers a call with the `text` of the tool's `call`.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, Viewer } from "effect-memory"
 * import { MemoryTools, ToolDefinition } from "effect-memory/tools"
 *
 * const tools = await MemoryTools.make(Viewer.make({ userId: "ada" })).pipe(
 *   Effect.provide(MemoryService.layerTest()),
 *   Effect.runPromise
 * )
 *
 * ToolDefinition.anthropic(tools).map(({ name }) => name) // => ["remember", "recall"]
 * ```
 */
import type { MemoryTool } from "../host/MemoryTool.ts"

/** A tool as Anthropic's Messages API takes it. */
export interface Anthropic {
  readonly name: string
  readonly description: string
  /** JSON schema of the parameters, draft 7. */
  readonly input_schema: object
}

/** A tool as OpenAI's Chat Completions take it. */
export interface OpenAi {
  readonly type: "function"
  readonly function: {
    readonly name: string
    readonly description: string
    /** JSON schema of the parameters, draft 7. */
    readonly parameters: object
  }
}

/** A tool as OpenAI's Responses take it. */
export interface OpenAiResponses {
  readonly type: "function"
  readonly name: string
  readonly description: string
  /** JSON schema of the parameters, draft 7. */
  readonly parameters: object
  /** Whether arguments have to fit the schema by the API's own rules, which know no optional parameter. */
  readonly strict: false
}

/** Makes the `tools` of a request to Anthropic's Messages API. */
export const anthropic = (tools: ReadonlyArray<MemoryTool>): ReadonlyArray<Anthropic> =>
  tools.map(({ description, jsonSchema, name }) => ({ name, description, input_schema: jsonSchema }))

/** Makes the `tools` of a request to OpenAI's Chat Completions, and to the many APIs that take the same. */
export const openai = (tools: ReadonlyArray<MemoryTool>): ReadonlyArray<OpenAi> =>
  tools.map(({ description, jsonSchema, name }) => ({
    type: "function",
    function: { name, description, parameters: jsonSchema }
  }))

/** Makes the `tools` of a request to OpenAI's Responses. */
export const openaiResponses = (tools: ReadonlyArray<MemoryTool>): ReadonlyArray<OpenAiResponses> =>
  tools.map(({ description, jsonSchema, name }) => ({
    type: "function",
    name,
    description,
    parameters: jsonSchema,
    strict: false
  }))
