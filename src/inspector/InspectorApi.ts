/**
 * The JSON API of the inspector, a web page that shows the memories of a viewer. Each request acts on behalf of its `CurrentViewer`.
 *
 * ```text
 * GET  /api/session                the viewer whose memories are shown
 * POST /api/search                 { text?, kinds?, tags?, limit? }: hits with explanations
 * GET  /api/records                ?kind, ?after: a page of records, newest first
 * GET  /api/trash                  ?kind, ?after: a page of forgotten records
 * GET  /api/records/:id            a record, the records that it links to, and those that link to it
 * POST /api/records/:id            { revision, patch }: changes the record; 409 if the record has another revision by now
 * GET  /api/records/:id/history    the revisions of the record, each with its changes
 * GET  /api/records/:id/graph      ?depth: the records at most this many links away
 * POST /api/records/:id/forget     { revision }: moves the record to the trash
 * POST /api/records/:id/restore    { revision? }: restores a revision; default: the one that was forgotten
 * POST /api/prompt                 { text }: the memories that the next prompt would contain, and why
 * POST /api/why                    { id, text }: why a search for the text does not find the record
 * ```
 *
 * A POST must have the content type `application/json`. A page of another site can send such a POST only after a CORS preflight. The body
 * of a failure is `{ error: { reason, message, detail? } }`. A record that the viewer does not see is treated as absent.
 */
import { Size } from "@effect/platform/FileSystem"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { details, make as failure, MemoryError, type Reason } from "../domain/MemoryError.ts"
import { Absence, absences, Cursor, Hit, Page, SearchResult } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import { Name } from "../domain/MemoryKind.ts"
import { MemoryRecord, Patch, Revision, Tag } from "../domain/MemoryRecord.ts"
import * as Message from "../domain/Message.ts"
import { idsOf } from "../domain/Viewer.ts"
import * as Injection from "../harness/Injection.ts"
import * as MemoryService from "../harness/MemoryService.ts"
import { failureOf } from "../host/MemoryTool.ts"
import type { Linked } from "../storage/Links.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { headers } from "./InspectorPage.ts"
import * as RecordGraph from "./RecordGraph.ts"
import * as RevisionDiff from "./RevisionDiff.ts"

/** Schema of the response of `/api/session`. */
export const Session = Schema.Struct({
  tenant: Schema.String,
  reach: Schema.String,
  ids: Schema.Record({ key: Schema.String, value: Schema.String }),
  store: Schema.String,
  version: Schema.String,
  /** Time of the server, epoch milliseconds. */
  now: Schema.Number
})

/** Schema of a record at the other end of a link, with the type and weight of the link. */
export const End = Schema.Struct({
  id: MemoryId,
  type: Schema.String,
  weight: Schema.Number,
  summary: Schema.String,
  kind: Schema.String
})

/** Schema of the response of `/api/records/:id`. */
export const Shown = Schema.Struct({ record: MemoryRecord, to: Schema.Array(End), from: Schema.Array(End) })

/**
 * Schema of the response of `/api/records/:id/history`: revisions, newest first. `difference` compares the revision with the previous
 * revision, which is the next item. The last item has no `difference`.
 */
export const History = Schema.Struct({
  items: Schema.Array(Schema.Struct({
    record: MemoryRecord,
    difference: Schema.optional(RevisionDiff.Difference)
  }))
})

/** Schema of the response of `/api/records/:id/graph`. */
export const Graph = Schema.Struct({
  ...RecordGraph.Graph.fields,
  nodes: Schema.Array(Schema.Struct({
    id: MemoryId,
    depth: Schema.NonNegativeInt,
    summary: Schema.String,
    kind: Schema.String
  }))
})

const Block = Schema.Struct({ text: Schema.String, ids: Schema.Array(MemoryId), leftOut: Schema.Number })
/** Schema of the response of `/api/prompt`. */
export const Prompt = Schema.Struct({
  instructions: Schema.String,
  index: Block,
  context: Block,
  /** Text that was searched for, taken from the message; `null` if the message contains nothing to search for. */
  query: Schema.NullOr(Schema.String),
  /** Hits of the search for `query`, best first. `isShown` says whether the hit is in `context`. */
  hits: Schema.Array(Schema.Struct({ hit: Hit, isShown: Schema.Boolean }))
})

/**
 * Schema of the response of `/api/why`. `reason` says why a search does not find the record, and `text` explains the reason. Both fields
 * are `null` if the search finds the record.
 */
export const Why = Schema.Struct({ reason: Schema.NullOr(Absence), text: Schema.NullOr(Schema.String) })

const Text = Schema.String.pipe(Schema.maxLength(4_000))
const Searched = Schema.Struct({
  text: Schema.optional(Text),
  kinds: Schema.optional(Schema.Array(Name).pipe(Schema.maxItems(32))),
  tags: Schema.optional(Schema.Array(Tag).pipe(Schema.maxItems(32))),
  limit: Schema.optional(Schema.Int.pipe(Schema.between(1, 100)))
})
const Listed = Schema.Struct({ after: Schema.optional(Cursor), kind: Schema.optional(Name) })
const Named = Schema.Struct({ id: MemoryId })
const Deep = Schema.Struct({
  depth: Schema.optional(Schema.NumberFromString.pipe(Schema.int(), Schema.between(1, RecordGraph.maxDepth)))
})
const Edited = Schema.Struct({
  revision: Revision,
  patch: Patch.pipe(Schema.pick("summary", "body", "tags", "importance", "confidence"))
})
const AtRevision = Schema.Struct({ revision: Revision })
const Restored = Schema.Struct({ revision: Schema.optional(Revision) })
const Prompted = Schema.Struct({ text: Text })
const Asked = Schema.Struct({ id: MemoryId, text: Text })

/** Largest size of a request body, in bytes. The longest text of a record fits, unless many characters are escaped as `\uXXXX`. */
const maxBytes = 4 * 1024 * 1024
const pageSize = 30
/** Number of hits that `/api/prompt` shows in addition to `contextSize` hits. */
const beyond = 5
/** Default of `maxEntries` in `Injection.InjectionConfig`, the largest number of records in a context. */
const contextSize = 5

/** Makes the API over the `MemoryService` of the Effect context. `version` is shown on the page. */
export const make = (options: { readonly version: string }): Effect.Effect<
  HttpApp.Default<never, MemoryService.CurrentViewer>,
  never,
  MemoryService.MemoryService | MemoryStore
> =>
  Effect.gen(function*() {
    const memory = yield* MemoryService.MemoryService
    const store = yield* MemoryStore
    const { CurrentViewer } = MemoryService

    /** Returns a Map from id to record. Leaves out the records that the viewer does not see. */
    const recordsOf = (ids: ReadonlyArray<MemoryId>) =>
      Effect.gen(function*() {
        const found = yield* store.get(yield* CurrentViewer, ids)
        return new Map(found.flatMap(Option.toArray).map((record) => [record.id, record]))
      })

    const recordOf = (id: MemoryId) =>
      Effect.flatMap(memory.get(id), (found) =>
        Effect.mapError(found, () =>
          failure("not_found", { op: "inspector", id, message: "there is no such record" })))

    const ends = (linked: ReadonlyArray<Linked>) =>
      Effect.map(
        recordsOf(linked.map(({ id }) =>
          id
        )),
        (records) =>
          linked.flatMap((end) => {
            const record = records.get(end.id)
            return record === undefined ? [] : [{ ...end, summary: record.summary, kind: record.kind }]
          })
      )

    const session = Effect.gen(function*() {
      const viewer = yield* CurrentViewer
      const { reach, tenant } = viewer
      const ids = Object.fromEntries(Object.entries(idsOf(viewer)).map(([name, id]) => [name, String(id)]))
      const now = yield* Clock.currentTimeMillis
      return yield* answer(Session, { tenant, reach, ids, store: store.name, version: options.version, now })
    })

    const search = Effect.gen(function*() {
      const query = yield* HttpServerRequest.schemaBodyJson(Searched)
      return yield* answer(SearchResult, yield* memory.recall({ ...query, explain: true }))
    })

    const list = (forgotten: boolean) =>
      Effect.gen(function*() {
        const { after, kind } = yield* HttpServerRequest.schemaSearchParams(Listed)
        const kinds = kind === undefined ? undefined : [kind]
        return yield* answer(Page(MemoryRecord), yield* memory.list({ forgotten, after, kinds, limit: pageSize }))
      })

    const show = Effect.gen(function*() {
      const { id } = yield* HttpRouter.schemaPathParams(Named)
      const record = yield* recordOf(id)
      const links = yield* memory.links(id)
      return yield* answer(Shown, { record, to: yield* ends(links.to), from: yield* ends(links.from) })
    })

    const history = Effect.gen(function*() {
      const { id } = yield* HttpRouter.schemaPathParams(Named)
      yield* recordOf(id)
      const revisions = yield* memory.history(id)
      const items = revisions.map((record, n) => {
        const before = revisions[n + 1]
        return before === undefined ? { record } : { record, difference: RevisionDiff.between(before, record) }
      })
      return yield* answer(History, { items })
    })

    const graph = Effect.gen(function*() {
      const { id } = yield* HttpRouter.schemaPathParams(Named)
      const { depth = 2 } = yield* HttpServerRequest.schemaSearchParams(Deep)
      yield* recordOf(id)
      const viewer = yield* CurrentViewer
      const links = (id: MemoryId) => store.links(viewer, id)
      const found = yield* RecordGraph.around(links, id, depth)
      const records = yield* recordsOf(found.nodes.map(({ id }) => id))
      const nodes = found.nodes.flatMap((node) => {
        const record = records.get(node.id)
        return record === undefined ? [] : [{ ...node, summary: record.summary, kind: record.kind }]
      })
      return yield* answer(Graph, { ...found, nodes })
    })

    const edit = Effect.gen(function*() {
      const { id } = yield* HttpRouter.schemaPathParams(Named)
      const { patch, revision } = yield* HttpServerRequest.schemaBodyJson(Edited)
      return yield* answer(MemoryRecord, yield* memory.update(id, patch, { ifRevision: revision }))
    })

    const forget = Effect.gen(function*() {
      const { id } = yield* HttpRouter.schemaPathParams(Named)
      const { revision } = yield* HttpServerRequest.schemaBodyJson(AtRevision)
      yield* recordOf(id)
      yield* memory.apply([{ _tag: "Forget", id, ifRevision: revision }])
      return yield* answer(Named, { id })
    })

    const restore = Effect.gen(function*() {
      const { id } = yield* HttpRouter.schemaPathParams(Named)
      const { revision: named } = yield* HttpServerRequest.schemaBodyJson(Restored)
      const { items: [forgotten] } = yield* memory.list({ forgotten: true, ids: [id], limit: 1 })
      const revision = named ?? forgotten?.revision
      if (revision === undefined) return yield* recordOf(id).pipe(Effect.zipRight(nothingToRestore(id)))
      yield* memory.apply([{ _tag: "Restore", id, revision }])
      return yield* answer(MemoryRecord, yield* recordOf(id))
    })

    const prompt = Effect.gen(function*() {
      const { text } = yield* HttpServerRequest.schemaBodyJson(Prompted)
      const turn = [Message.user(text)]
      const query = Injection.queryOf(turn)
      const context = yield* memory.context(turn)
      const shown = new Set(context.ids)
      const limit = contextSize + beyond
      const found = query === undefined
        ? []
        : (yield* memory.recall({ text: query, limit, explain: true })).hits
      return yield* answer(Prompt, {
        instructions: yield* memory.instructions,
        index: yield* memory.index,
        context,
        query: query ?? null,
        hits: found.map((hit) => ({ hit, isShown: shown.has(hit.record.id) }))
      })
    })

    const why = Effect.gen(function*() {
      const asked = yield* HttpServerRequest.schemaBodyJson(Asked)
      const reason = yield* store.whyNot(yield* CurrentViewer, asked.id, { text: asked.text })
      const text = Option.map(reason, (reason) => absences[reason])
      return yield* answer(Why, { reason: Option.getOrNull(reason), text: Option.getOrNull(text) })
    })

    return HttpRouter.empty.pipe(
      HttpRouter.get("/api/session", session),
      HttpRouter.post("/api/search", search),
      HttpRouter.get("/api/records", list(false)),
      HttpRouter.get("/api/trash", list(true)),
      HttpRouter.get("/api/records/:id", show),
      HttpRouter.post("/api/records/:id", edit),
      HttpRouter.get("/api/records/:id/history", history),
      HttpRouter.get("/api/records/:id/graph", graph),
      HttpRouter.post("/api/records/:id/forget", forget),
      HttpRouter.post("/api/records/:id/restore", restore),
      HttpRouter.post("/api/prompt", prompt),
      HttpRouter.post("/api/why", why),
      checked,
      Effect.catchTags({
        MemoryError: (error) => Effect.succeed(failed(statusOf(error.reason), error)),
        ParseError: () =>
          Effect.succeed(refused(400, "invalid_draft", "the request does not have the fields it needs")),
        RequestError: () => Effect.succeed(refused(400, "invalid_draft", "the body is no JSON, or too long")),
        RouteNotFound: () => Effect.succeed(refused(404, "not_found", "there is nothing here"))
      }),
      Effect.catchAllDefect(() =>
        Effect.as(Effect.logError("a route of the inspector died"), refused(500, "unavailable", "internal error"))
      ),
      HttpServerRequest.withMaxBodySize(Option.some(Size(maxBytes)))
    )
  })

/**
 * Rejects requests that a browser marks as cross-origin, a `content-length` above `maxBytes`, and any method but GET without the content
 * type `application/json`.
 */
const checked = <E, R>(app: HttpApp.Default<E, R>): HttpApp.Default<E, R> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers, method }): HttpApp.Default<E, R> => {
    const site = headers["sec-fetch-site"]
    if (site !== undefined && site !== "same-origin" && site !== "none") {
      return Effect.succeed(refused(403, "not_owned", "the request is from another site"))
    }
    if (Number(headers["content-length"] ?? 0) > maxBytes) {
      return Effect.succeed(refused(413, "invalid_draft", "the body is too long"))
    }
    return method === "GET" || /^application\/json *(?:;|$)/i.test(headers["content-type"] ?? "")
      ? app
      : Effect.succeed(refused(415, "invalid_draft", "expected the content type application/json"))
  })

const answer = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Effect.orDie(HttpServerResponse.schemaJson(schema)(value, { headers })) // the type guarantees that the value encodes

const nothingToRestore = (id: MemoryId) =>
  failure("conflict", {
    op: "inspector",
    id,
    message: "the record is not in the trash",
    detail: { expected: 0, actual: 1 }
  })

/** Schema of a failure. */
export const Failure = Schema.Struct({
  error: Schema.Struct({
    reason: Schema.String,
    message: Schema.String,
    detail: Schema.optional(Schema.Union(details.conflict, details.invalid_draft))
  })
})

const refused = (status: number, reason: Reason, message: string) =>
  HttpServerResponse.unsafeJson({ error: { reason, message } }, { status, headers })

const failed = (status: number, error: MemoryError) => {
  const { message, reason } = failureOf(error)
  const isTold = error.reason === "conflict" || error.reason === "invalid_draft"
  const detail = isTold && error.detail !== undefined ? { detail: error.detail } : {}
  return HttpServerResponse.unsafeJson({ error: { reason, message, ...detail } }, { status, headers })
}

const statusOf = (reason: Reason): number => statuses[reason] ?? 503
const statuses: Partial<Readonly<Record<Reason, number>>> = {
  not_found: 404,
  conflict: 409,
  not_owned: 403,
  read_only: 403,
  rate_limited: 429,
  invalid_scope: 400,
  invalid_id: 400,
  invalid_draft: 400,
  path_escape: 400,
  unsupported: 400
}
