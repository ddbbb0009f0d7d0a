/** Converts the declarations of memory tools, and the results of their calls, to the format of MCP. */
import * as Effect from "effect/Effect"
import * as JSONSchema from "effect/JSONSchema"
import * as Predicate from "effect/Predicate"
import * as MemoryTool from "../host/MemoryTool.ts"

/** A tool, as `tools/list` declares it. */
export interface Declaration {
  readonly name: string
  readonly description: string
  readonly inputSchema: object
  readonly outputSchema: object
  readonly annotations: {
    readonly readOnlyHint: boolean
    readonly destructiveHint: boolean
    readonly idempotentHint: boolean
    readonly openWorldHint: boolean
  }
}

/** The result of a call, as `tools/call` returns it. */
export interface Result {
  readonly content: ReadonlyArray<{ readonly type: "text"; readonly text: string }>
  readonly structuredContent?: object
  readonly isError?: true
  readonly _meta?: object
}

/** The key in `_meta` that holds the failure of a call as an object. Clients need not parse the text of the result. */
export const failureKey = "effect-memory/failure"

/**
 * Returns the declaration of a tool. The protocol requires an object as output. Any other output is therefore declared as the field
 * `result` of an object.
 */
export const declarationOf = (tool: MemoryTool.MemoryTool): Declaration => {
  const output = MemoryTool.jsonSchemaOf(tool.output)
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: tool.jsonSchema,
    outputSchema: isObject(output)
      ? output
      : { type: "object", properties: { result: output }, required: ["result"] },
    annotations: {
      readOnlyHint: !tool.writes,
      destructiveHint: tool.destructive ?? tool.writes,
      idempotentHint: tool.idempotent ?? !tool.writes,
      openWorldHint: tool.openWorld ?? false
    }
  }
}

/**
 * Calls a tool. A failure becomes a result with `isError`. The text of this result, which the model reads, is `reason: message`. The field
 * `_meta` contains the failure as an object.
 */
export const call = (tool: MemoryTool.MemoryTool, input: unknown): Effect.Effect<Result> =>
  Effect.match(tool.call(input), {
    onSuccess: ({ data, text }): Result => ({
      content: [{ type: "text", text }],
      structuredContent: Predicate.isReadonlyRecord(data) && isObject(MemoryTool.jsonSchemaOf(tool.output))
        ? data
        : { result: data }
    }),
    onFailure: (failure): Result => ({
      content: [{ type: "text", text: `${failure.reason}: ${failure.message}` }],
      isError: true,
      _meta: { [failureKey]: failure }
    })
  })

const isObject = (schema: JSONSchema.JsonSchema7Root): boolean => "type" in schema && schema.type === "object"
