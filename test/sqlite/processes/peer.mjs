// Executes commands from stdin, one JSON line each: [op, ...arguments]. Answers each with a line: ok, failed or died.
import "@effect/sql-sqlite-node/SqliteClient" // loaded now, since after `nobody` the process may not read it
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { createRequire, register } from "node:module"
import { createInterface } from "node:readline"
import { MemoryStore } from "../../../dist/index.js"
import { Sqlite } from "../../../dist/sqlite.js"
import { say, viewer } from "../../vault/processes/vault.mjs"

let scope
let store
const heard = []
const ops = {
  /** Closes the open file, and opens another. */
  open: (filename, options = {}) =>
    Effect.gen(function*() {
      yield* ops.close()
      scope = yield* Scope.make()
      store = Context.get(yield* Layer.buildWithScope(Sqlite.layer({ filename, ...options }), scope), MemoryStore.MemoryStore)
    }),
  close: () => Effect.suspend(() => scope === undefined ? Effect.void : Scope.close(scope, Exit.void)),
  /** Calls a method of the store as Bob. */
  call: (method, ...args) => Effect.suspend(() => store[method](viewer, ...args)),
  /** Puts numbered records, one after another. */
  count: (word, from, to) =>
    Effect.forEach(
      Array.from({ length: to - from }, (_, n) => from + n),
      (n) => store.put(viewer, [{ scope: { agentId: "Bob" }, kind: "reference", body: `${word} ${n}` }]),
      { discard: true }
    ),
  /** Subscribes to changes. */
  listen: () =>
    Effect.forkDaemon(Stream.runForEach(store.changes(viewer), (change) => Effect.sync(() => heard.push(change)))),
  /** Waits for the changes of other processes from the `from`-th on, and returns them. */
  heard: (count, from = 0) =>
    Effect.repeat(
      Effect.map(Effect.sleep("5 millis"), () =>
        heard.filter(({ by }) => by === "there").slice(from).map(({ _tag, id, record }) =>
          _tag === "Written" ? [_tag, record.id, record.revision, record.body] : [_tag, id])),
      { until: ({ length }) => length >= count }
    ),
  /** Becomes an unprivileged user if it runs as root. */
  nobody: () =>
    Effect.sync(() => {
      if (process.getuid() !== 0) return
      process.setgid(65_534)
      process.setuid(65_534)
    }),
  /** Limits the file to a number of pages. */
  room: (pages) =>
    Effect.sync(() => {
      const { prototype } = createRequire(import.meta.url)("better-sqlite3")
      const prepare = (ops.prepare ??= prototype.prepare)
      prototype.prepare = function(sql) {
        prepare.call(this, `PRAGMA max_page_count = ${pages}`).get()
        return prepare.call(this, sql)
      }
    }),
  /** Makes imports of a package fail as if it were not installed. */
  without: (name) =>
    Effect.sync(() => {
      const source = `export const resolve = (specifier, context, next) => {
        if (!specifier.startsWith(${JSON.stringify(name)})) return next(specifier, context)
        throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" })
      }`
      register(`data:text/javascript,${encodeURIComponent(source)}`)
    })
}

for await (const line of createInterface({ input: process.stdin })) {
  const [op, ...args] = JSON.parse(line)
  const exit = await Effect.runPromiseExit(ops[op](...args))
  const failure = Exit.isFailure(exit) ? Option.getOrUndefined(Cause.failureOption(exit.cause)) : undefined
  await Effect.runPromise(say(
    Exit.isSuccess(exit)
      ? { ok: exit.value !== null && typeof exit.value === "object" && !("_op" in exit.value) ? exit.value : null }
      : failure === undefined
      ? { died: Cause.pretty(exit.cause) }
      : { failed: { op: failure.op, reason: failure.reason, message: failure.message } }
  ))
}
