/**
 * Offers the memory of one viewer as MCP resources. `memory://index` contains the summaries of memories. `memory://record/{id}` contains
 * one memory and its origin. The text of each resource is marked as data, as in a prompt.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Cursor } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import { kindInWords } from "../domain/Payload.ts"
import { oneLine } from "../domain/PromptText.ts"
import type { CurrentViewer, Service } from "../harness/MemoryService.ts"
import * as PromptBlock from "../harness/PromptBlock.ts"
import * as McpError from "./McpError.ts"

/** The URI of the memory index. */
export const indexUri = "memory://index"
const recordUri = "memory://record/"

/** Number of records on one page of `list`. */
const pageSize = 100

/** The URI templates, as `resources/templates/list` returns them. */
export const templates = [{
  uriTemplate: `${recordUri}{id}`,
  name: "record",
  title: "A memory by its id",
  description: "One memory, with its kind, scope, origin and trust.",
  mimeType: "text/plain"
}]

const index = {
  uri: indexUri,
  name: "index",
  title: "Memory index",
  description: "The summaries and ids of what is remembered, the most relevant first.",
  mimeType: "text/plain"
}

/** Returns a page of resources. The memory index comes first, then the records that the viewer sees, newest first. */
export const list = (
  memory: Service,
  cursor: string | undefined
): Effect.Effect<object, McpError.McpError, CurrentViewer> =>
  Effect.gen(function*() {
    const after = cursor === undefined ? undefined : yield* Effect.mapError(
      Schema.decode(Cursor)(cursor),
      () => noCursor
    )
    const { items, next } = yield* Effect.mapError(
      memory.list({ limit: pageSize, ...(after !== undefined && { after }) }),
      (error) => after !== undefined && error.reason === "invalid_draft" ? noCursor : McpError.ofMemory(error)
    )
    const records = items.map(declarationOf)
    return { resources: after === undefined ? [index, ...records] : records, ...(next && { nextCursor: next }) }
  })

/** Returns the text of a resource. Fails with `noResource` if the viewer sees no such resource. */
export const read = (memory: Service, uri: string): Effect.Effect<object, McpError.McpError, CurrentViewer> =>
  Effect.gen(function*() {
    if (uri === indexUri) return contents(uri, (yield* memory.index).text || "(nothing is remembered yet)")
    const id = uri.startsWith(recordUri) ? decodeId(uri.slice(recordUri.length)) : Option.none()
    const found = Option.isNone(id)
      ? Option.none<MemoryRecord>()
      : yield* Effect.mapError(memory.get(id.value), McpError.ofMemory)
    if (Option.isNone(found)) return yield* McpError.make("noResource", "there is no such resource")
    const leftOut = { limit: 0, budget: 0, folded: 0 }
    const result = { hits: [{ record: found.value, score: 1 }], leftOut, failures: [] }
    return contents(uri, PromptBlock.render(result, { header: "A memory:" }).text)
  })

const declarationOf = (record: MemoryRecord) => ({
  uri: `${recordUri}${record.id}`,
  name: record.id,
  title: oneLine(record.summary),
  description: `${kindInWords(record)}, from ${record.source.origin}`,
  mimeType: "text/plain",
  annotations: {
    priority: record.importance,
    lastModified: DateTime.formatIso(DateTime.unsafeMake(recencyOf(record)))
  }
})

const contents = (uri: string, text: string) => ({ contents: [{ uri, mimeType: "text/plain", text }] })
const decodeId = Schema.decodeUnknownOption(MemoryId)
const noCursor = McpError.make("invalidParams", "cursor: expected one that resources/list returned")
