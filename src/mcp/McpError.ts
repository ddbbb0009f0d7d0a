/** Errors that are sent to an MCP client, with the error codes of JSON-RPC and MCP. */
import * as Schema from "effect/Schema"
import type { MemoryError } from "../domain/MemoryError.ts"
import { failureOf } from "../host/MemoryTool.ts"

/** The error codes, by name. */
export const codes = {
  parse: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  /** The server rejects the request, for example because of a missing token, a wrong HTTP method or too many requests. */
  refused: -32_000,
  /** There is no session with this id. */
  noSession: -32_001,
  /** There is no resource with this URI. */
  noResource: -32_002
} as const

/** An error response of JSON-RPC. Its message and data are sent to the client. */
export class McpError extends Schema.TaggedError<McpError>("@memory/McpError")("McpError", {
  code: Schema.Int,
  message: Schema.String,
  data: Schema.optional(Schema.Unknown)
}) {}

/** Makes an error from the name of its code, a message and optional data. */
export const make = (code: keyof typeof codes, message: string, data?: unknown): McpError =>
  new McpError({ code: codes[code], message, ...(data !== undefined && { data }) })

/** The error for a call that ended with a defect. It discloses nothing about the defect. */
export const internal: McpError = make("internal", "internal error")

/** The error for a call that was interrupted because the server stops or the session has ended. */
export const stopped: McpError = make("refused", "the call was stopped, since the session ends")

/**
 * Converts a `MemoryError` to an error for the client. The `data` of the new error holds the reason. `failureOf` makes a message that may
 * be shown to a model.
 */
export const ofMemory = (error: MemoryError): McpError => {
  const { message, reason } = failureOf(error)
  return make("internal", `${reason}: ${message}`, { reason })
}
