/** The inspector's API and the files of its page, requested from a real server. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { request } from "node:http"
import { bobs, idOf, served } from "./Inspected.ts"

/** Sends a request with headers that fetch does not let a program set; returns the status. */
const raw = (url: string, path: string, headers: Readonly<Record<string, string>>, method = "GET", body?: string) =>
  Effect.promise(() =>
    new Promise<number>((resolve) => {
      const sent = request(`${url}${path}`, { agent: false, method, headers }, (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0))
      })
      sent.on("error", () => resolve(0))
      sent.end(body)
    })
  )

const record = (n: number, rest = "") => `/api/records/${idOf(n)}${rest}`

describe("the inspector's API", () => {
  it.scopedLive("a search returns the matching record first, with an explanation of the score", () =>
    Effect.gen(function*() {
      const { post } = yield* served()
      const { json, status } = yield* post("/api/search", { text: "tea or coffee" })
      assert.strictEqual(status, 200)
      assert.strictEqual(json.hits[0].record.id, idOf(1))
      assert.isAbove(Object.keys(json.hits[0].explanation).length, 0)
    }))

  it.scopedLive("a request for a record returns the record, its link targets, and the records that link to it", () =>
    Effect.gen(function*() {
      const { ask } = yield* served()
      const { json } = yield* ask(record(2))
      assert.strictEqual(json.record.summary, "Kettle")
      assert.deepStrictEqual(json.to.map(({ summary }: { summary: string }) => summary), ["Stove"])
      assert.deepStrictEqual(json.from.map(({ summary }: { summary: string }) => summary), ["Tea"])
    }))

  it.scopedLive("`/graph` returns the records around a record up to the given depth, and refuses a depth over 3", () =>
    Effect.gen(function*() {
      const { ask } = yield* served()
      for (const [depth, count] of [[1, 2], [2, 3], [3, 4]]) {
        const { json } = yield* ask(record(1, `/graph?depth=${depth}`))
        assert.strictEqual(json.nodes.length, count)
        assert.strictEqual(json.edges.length, count! - 1)
        assert.isFalse(json.isCut)
      }
      assert.strictEqual((yield* ask(record(1, "/graph?depth=4"))).status, 400)
    }))

  it.scopedLive("`/history` shows the edits of a record, and an edit of an outdated revision fails with 409", () =>
    Effect.gen(function*() {
      const { ask, post } = yield* served()
      const edited = yield* post(record(1), { revision: 1, patch: { body: "Drinks tea.\nNo milk.", importance: 0.9 } })
      assert.deepStrictEqual([edited.status, edited.json.revision], [200, 2])
      const late = yield* post(record(1), { revision: 1, patch: { body: "Drinks coffee." } })
      assert.strictEqual(late.status, 409)
      assert.deepStrictEqual(late.json.error.detail, { expected: 1, actual: 2 })
      const { json } = yield* ask(record(1, "/history"))
      assert.deepStrictEqual(json.items.map((item: any) => item.record.revision), [2, 1])
      assert.deepStrictEqual(json.items[0].difference.lines, [
        { change: "removed", text: "Drinks tea, never coffee. See [[Kettle]]." },
        { change: "added", text: "Drinks tea." },
        { change: "added", text: "No milk." }
      ])
      assert.deepStrictEqual(json.items[0].difference.fields.map(({ field }: { field: string }) => field), [
        "importance"
      ])
      const back = yield* post(record(1, "/restore"), { revision: 1 })
      assert.include(back.json.body, "never coffee")
    }))

  it.scopedLive("`/forget` moves a record to the trash, and `/restore` brings the record back", () =>
    Effect.gen(function*() {
      const { ask, post } = yield* served()
      assert.strictEqual((yield* post(record(4, "/forget"), { revision: 7 })).status, 409)
      assert.strictEqual((yield* post(record(4, "/forget"), { revision: 1 })).status, 200)
      assert.strictEqual((yield* ask(record(4))).status, 404)
      const { json } = yield* ask("/api/trash")
      assert.deepStrictEqual(json.items.map(({ id }: { id: string }) => id), [idOf(4)])
      assert.strictEqual((yield* post(record(4, "/restore"), {})).json.summary, "Matches")
      assert.strictEqual((yield* ask(record(4))).status, 200)
      assert.strictEqual((yield* post(record(4, "/restore"), {})).status, 409)
    }))

  it.scopedLive("`/api/prompt` explains the memories in the next prompt, and `/api/why` explains why a record is not found", () =>
    Effect.gen(function*() {
      const { post } = yield* served()
      const { json } = yield* post("/api/prompt", { text: "Would she like tea?" })
      assert.include(json.context.text, "Drinks tea, never coffee.")
      assert.include(json.index.text, "Matches")
      assert.deepInclude(json.hits[0], { isShown: true })
      assert.isAbove(Object.keys(json.hits[0].hit.explanation).length, 0)
      assert.deepStrictEqual((yield* post("/api/why", { id: idOf(4), text: "tea" })).json, {
        reason: "no_match",
        text: "it has none of the words"
      })
      assert.deepStrictEqual((yield* post("/api/why", { id: idOf(1), text: "tea" })).json, { reason: null, text: null })
    }))

  it.scopedLive("`/api/records` filters by `kind` and refuses an invalid `after`; `/api/search` refuses a limit of 1,000", () =>
    Effect.gen(function*() {
      const { ask, post } = yield* served()
      assert.strictEqual((yield* ask("/api/records")).json.items.length, 4)
      assert.strictEqual((yield* ask("/api/records?kind=project")).json.items.length, 0)
      assert.strictEqual((yield* ask("/api/records?after=rubbish")).status, 400)
      assert.strictEqual((yield* post("/api/search", { text: "tea", limit: 1_000 })).status, 400)
    }))

  it.scopedLive("every route answers a request for another viewer's record as if the record did not exist", () =>
    Effect.gen(function*() {
      const { ask, post } = yield* served()
      const absent = idOf(50)
      for (const rest of ["", "/history", "/graph"]) {
        const [his, none] = yield* Effect.all([
          ask(`/api/records/${bobs}${rest}`),
          ask(`/api/records/${absent}${rest}`)
        ])
        assert.strictEqual(his.status, 404)
        assert.strictEqual(his.text, none.text)
      }
      const writes: ReadonlyArray<readonly [string, unknown]> = [
        ["", { revision: 1, patch: { body: "Mine." } }],
        ["/forget", { revision: 1 }],
        ["/restore", {}],
        ["/restore", { revision: 1 }]
      ]
      for (const [rest, body] of writes) {
        const [his, none] = yield* Effect.all([
          post(`/api/records/${bobs}${rest}`, body),
          post(`/api/records/${absent}${rest}`, body)
        ])
        assert.strictEqual(his.status, 404, rest)
        assert.strictEqual(his.text, none.text, rest)
      }
      assert.deepStrictEqual((yield* post("/api/why", { id: bobs, text: "tea" })).json, {
        reason: "absent",
        text: "there is no such record, or this viewer does not see it"
      })
      for (const path of ["/api/records", "/api/trash"]) assert.notInclude((yield* ask(path)).text, "4711")
      for (const path of ["/api/search", "/api/prompt"]) {
        const { status, text } = yield* post(path, { text: "safe tea" })
        assert.strictEqual(status, 200)
        assert.notInclude(text, "4711")
      }
    }))

  it.scopedLive("an API request acts for the viewer of its token, or gets status 401 if it has no valid token", () =>
    Effect.gen(function*() {
      const { ask, post, tokens } = yield* served({ tokens: true })
      for (const authorization of ["", "Bearer wrong", `Basic ${tokens.ada}`]) {
        const { headers, status } = yield* ask("/api/records", { headers: { authorization } })
        assert.strictEqual(status, 401)
        assert.match(headers.get("www-authenticate") ?? "", /^Bearer/)
        assert.strictEqual((yield* post(record(1, "/forget"), { revision: 1 }, { authorization })).status, 401)
      }
      const his = { authorization: `Bearer ${tokens.bob}` }
      assert.deepStrictEqual((yield* ask("/api/session?userId=ada", { headers: his })).json.ids, { userId: "bob" })
      assert.strictEqual((yield* ask(record(1), { headers: his })).status, 404)
      assert.include((yield* ask(`/api/records/${bobs}`, { headers: his })).text, "4711")
      const asAda = { text: "tea", viewer: { userId: "ada" }, scope: { userId: "ada" } }
      assert.notInclude((yield* post("/api/search", asAda, his)).text, "never coffee")
      assert.strictEqual((yield* ask("/")).status, 200)
    }))

  it.scopedLive("the inspector refuses requests that a page of another site could send", () =>
    Effect.gen(function*() {
      const { url } = yield* served()
      const own = new URL(url).host
      const forget = JSON.stringify({ revision: 1 })
      const json = { "content-type": "application/json", host: own }
      assert.strictEqual(yield* raw(url, "/api/records", { host: "evil.example" }), 403)
      assert.strictEqual(yield* raw(url, "/", { host: "evil.example" }), 403)
      for (const origin of ["https://evil.example", "null", "http://localhost:1"]) {
        assert.strictEqual(yield* raw(url, record(4, "/forget"), { ...json, origin }, "POST", forget), 403, origin)
      }
      for (const site of ["cross-site", "same-site"]) {
        assert.strictEqual(
          yield* raw(url, record(4, "/forget"), { ...json, "sec-fetch-site": site }, "POST", forget),
          403
        )
        assert.strictEqual(yield* raw(url, "/api/records", { host: own, "sec-fetch-site": site }), 403)
      }
      for (
        const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"]
      ) {
        assert.strictEqual(
          yield* raw(url, record(4, "/forget"), { host: own, "content-type": type }, "POST", forget),
          415,
          type
        )
      }
      assert.strictEqual(yield* raw(url, record(4, "/forget"), { host: own }, "POST", forget), 415)
      assert.strictEqual(yield* raw(url, record(4), { host: own }), 200)
      const same = { ...json, origin: url, "sec-fetch-site": "same-origin" }
      assert.strictEqual(yield* raw(url, record(4, "/forget"), same, "POST", forget), 200)
    }))

  it.scopedLive("the inspector answers an invalid request with an error that quotes no part of the request", () =>
    Effect.gen(function*() {
      const { ask, post, url } = yield* served()
      const marker = "sk-marker"
      for (const body of [{}, { revision: 0 }, { revision: 1, patch: { importance: 7, body: marker } }, marker]) {
        const { status, text } = yield* post(record(1), body)
        assert.strictEqual(status, 400)
        assert.notInclude(text, marker)
      }
      for (const path of ["/api/records/rubbish", "/api/records/../x", `/api/${marker}`]) {
        const { status, text } = yield* ask(path)
        assert.include([400, 404], status)
        assert.notInclude(text, marker)
      }
      const broken = yield* ask(record(1), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: `{"${marker}`
      })
      assert.strictEqual(broken.status, 400)
      assert.notInclude(broken.text, marker)
      const long = { "content-type": "application/json", "content-length": `${5 * 1024 * 1024}` }
      assert.strictEqual(yield* raw(url, record(1), long, "POST"), 413)
    }))

  it.scopedLive("the inspector serves only the files of its page, and forbids scripts of other origins", () =>
    Effect.gen(function*() {
      const { ask } = yield* served()
      for (const [path, type] of [["/", "text/html"], ["/main.js", "text/javascript"], ["/style.css", "text/css"]]) {
        const { headers, status, text } = yield* ask(path!)
        assert.strictEqual(status, 200)
        assert.include(headers.get("content-type"), type!)
        const policy = headers.get("content-security-policy") ?? ""
        assert.match(policy, /default-src 'none'; script-src 'self'/)
        assert.notInclude(policy, "unsafe")
        assert.strictEqual(headers.get("x-content-type-options"), "nosniff")
        assert.strictEqual(headers.get("referrer-policy"), "no-referrer")
        assert.isNull(headers.get("set-cookie"))
        assert.notMatch(
          text,
          /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|<script>|\son\w+="|https?:\/\/(?!www\.w3\.org\/2000\/svg)/
        )
      }
      for (const path of ["/../package.json", "/%2e%2e/package.json", "/constructor", "/__proto__", "/main.ts"]) {
        assert.strictEqual((yield* ask(path)).status, 404, path)
      }
    }))
})
