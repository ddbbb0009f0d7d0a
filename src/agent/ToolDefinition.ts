/**
 * Converts the tools of `MemoryTools` and `MemoryFileCommands` to the formats of model providers' APIs. If the model calls a tool, the
 * program runs the tool's `call`. The program then sends the `text` of the result to the model.
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

/** A tool in the format of Anthropic's Messages API. */
export interface Anthropic {
  readonly name: string
  readonly description: string
  /** JSON schema of the parameters, draft 7. */
  readonly input_schema: object
}

/** A tool in the format of OpenAI's Chat Completions API. */
export interface OpenAi {
  readonly type: "function"
  readonly function: {
    readonly name: string
    readonly description: string
    /** JSON schema of the parameters, draft 7. */
    readonly parameters: object
  }
}

/** A tool in the format of OpenAI's Responses API. */
export interface OpenAiResponses {
  readonly type: "function"
  readonly name: string
  readonly description: string
  /** JSON schema of the parameters, draft 7. */
  readonly parameters: object
  /** Whether the API enforces the schema. Always false, since the API's strict mode does not support optional parameters. */
  readonly strict: false
}

/** Makes the `tools` of a request to Anthropic's Messages API. */
export const anthropic = (tools: ReadonlyArray<MemoryTool>): ReadonlyArray<Anthropic> =>
  tools.map(({ description, jsonSchema, name }) => ({ name, description, input_schema: jsonSchema }))

/** Makes the `tools` of a request to OpenAI's Chat Completions API, or to an API that is compatible with it. */
export const openai = (tools: ReadonlyArray<MemoryTool>): ReadonlyArray<OpenAi> =>
  tools.map(({ description, jsonSchema, name }) => ({
    type: "function",
    function: { name, description, parameters: jsonSchema }
  }))

/** Makes the `tools` of a request to OpenAI's Responses API. */
export const openaiResponses = (tools: ReadonlyArray<MemoryTool>): ReadonlyArray<OpenAiResponses> =>
  tools.map(({ description, jsonSchema, name }) => ({
    type: "function",
    name,
    description,
    parameters: jsonSchema,
    strict: false
  }))
