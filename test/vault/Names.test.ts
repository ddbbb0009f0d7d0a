import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import type { MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { draft, listed, system } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"

const names = [
  ..."Bob bob BOB con CON Con aux nul com1 lpt9 con.md a@b.c +bob ~bob -x _x ß ss K k".split(" "),
  "ｂｏｂ",
  "ⓑob",
  "b\u200bob",
  " bob",
  "bob ",
  "bob.",
  "...",
  ".hidden",
  ".effect-memory",
  "global",
  "tenants",
  "İ",
  "i̇",
  "👩‍👩‍👧",
  "👩",
  "x".repeat(64),
  "x".repeat(65),
  "X".repeat(64),
  "x".repeat(255),
  "x".repeat(256),
  "💥".repeat(128),
  "*?:|<>\"",
  "%2e%2e",
  "a b",
  "org/ada",
  "AC/DC",
  "https://example.org/a?b=c",
  "../x",
  "/",
  "éa"
]

describe("the folders of a vault for users, agents, runs and tenants with unusual names, and the permissions of the vault's files", () => {
  it.scopedLive("each name of a tenant, user, agent or run has its own folder and its own records, even after reopening", () =>
    Effect.gen(function*() {
      const root = yield* place
      const scopes = names.flatMap((name): ReadonlyArray<MemoryScope> => [
        { agentId: name },
        { userId: name },
        { agentId: "a", runId: name }
      ])
      const check = (store: { readonly store: import("../../src/storage/MemoryStore.ts").Service }) =>
        Effect.forEach(scopes, (scope) =>
          Effect.gen(function*() {
            const viewer = Viewer.make({ ...(scope as object) })
            const own = (yield* listed(store.store, viewer, {})).filter((body) => body === JSON.stringify(scope))
            const foreign = (yield* store.store.list(viewer, { scope })).items.map(({ body }) => body)
            assert.deepStrictEqual(own, [JSON.stringify(scope)])
            assert.deepStrictEqual(foreign, [JSON.stringify(scope)])
          }))
      yield* Effect.scoped(Effect.gen(function*() {
        const { store, vault } = yield* opened(root)
        yield* store.put(system, scopes.map((scope) => draft(JSON.stringify(scope), { scope })))
        for (const tenant of names) yield* store.put(Viewer.system(tenant), [draft(tenant)])
        yield* vault.refresh
        assert.deepStrictEqual(yield* vault.issues, [])
        yield* check({ store })
      }))
      const paths = Object.keys(files(root))
      assert.lengthOf(paths, scopes.length + names.length)
      const folders = paths.map((file) => path.dirname(file))
      assert.strictEqual(new Set(folders.map((folder) => folder.normalize("NFKC").toLowerCase())).size, folders.length)
      for (const folder of folders) assert.match(folder, /^[a-z0-9_+~/-]+$/)
      for (const part of folders.flatMap((folder) => folder.split("/"))) {
        assert.notMatch(part, /^(con|prn|aux|nul|com[0-9]|lpt[0-9])$/)
        assert.isAtMost(part.length, 128)
      }
      yield* Effect.scoped(Effect.gen(function*() {
        const { store, vault } = yield* opened(root)
        assert.deepStrictEqual(yield* vault.issues, [])
        yield* check({ store })
        for (const tenant of names) assert.deepStrictEqual(yield* listed(store, Viewer.system(tenant)), [tenant])
        assert.sameMembers([...(yield* store.tenants)], ["default", ...names])
      }))
    }))

  it.scopedLive("names that are equal after Unicode normalisation to NFC are one name", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      const [nfc, nfd] = ["café".normalize("NFC"), "café".normalize("NFD")]
      yield* store.put(system, [draft("composed", { scope: { agentId: nfc } })])
      yield* store.put(system, [draft("decomposed", { scope: { agentId: nfd } })])
      for (const agentId of [nfc, nfd]) assert.lengthOf(yield* listed(store, Viewer.make({ agentId })), 2)
      assert.lengthOf(new Set(Object.keys(files(root)).map((file) => path.dirname(file))) as never, 1)
    }))

  it.scopedLive("the files and folders of a vault can be read only by the operating system user who owns them", () =>
    Effect.gen(function*() {
      const root = path.join(yield* place, "vault")
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        const [a, b] = yield* store.put(system, [draft("a"), draft("b", { scope: { agentId: "a", runId: "r" } })])
        yield* store.update(system, a!.record.id, { body: "c" })
        yield* store.forget(system, [b!.record.id])
      }))
      for (const name of ["", ...fs.readdirSync(root, { recursive: true, encoding: "utf8" })]) {
        const { mode } = fs.statSync(path.join(root, name))
        const isFolder = fs.statSync(path.join(root, name)).isDirectory()
        assert.strictEqual((mode & 0o777).toString(8), isFolder ? "700" : "600", name)
      }
    }))
})
