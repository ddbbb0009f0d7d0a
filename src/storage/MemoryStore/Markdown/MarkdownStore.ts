/** Opens a vault's folder as a store, keeps it current with what other processes and hands write, and looks it over on demand. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as Validation from "../../../domain/Validation.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import * as Analyzer from "../../../ranking/Analyzer.ts"
import { maintain, make as makeStore, type Primitives, type Service } from "../../MemoryStore.ts"
import type { Finding, Options, Repair, VaultService } from "../Markdown.ts"
import * as Deuz from "./Deuz.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"
import { hidden } from "./Layout.ts"
import { partOf } from "./RevisionReader.ts"
import * as Snapshot from "./Snapshot.ts"
import * as Folder from "./Vault.ts"
import { type Entry, nowhere, textOf } from "./VaultFile.ts"
import * as VaultFileSystem from "./VaultFileSystem.ts"
import * as WritePlan from "./WritePlan.ts"

/**
 * Opens the folder: reads its files, or its snapshot and what changed since, and from then on polls or watches it. Saves a snapshot
 * when the scope closes. Fails with `invalid_draft` where an option is out of its range.
 */
export const make = (
  options: Options
): Effect.Effect<
  { readonly store: Service; readonly vault: VaultService },
  MemoryError.MemoryError,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> =>
  Effect.gen(function*() {
    yield* Validation.refuseOptions("Markdown.layer", [
      ...Validation.timeIssues("poll", options.poll, { least: 1, infinite: true }),
      ...Validation.timeIssues("lockTimeout", options.lockTimeout, { least: 1 })
    ])
    const kinds = yield* MemoryKind.Kinds
    const analyzer = yield* Analyzer.Analyzer
    const fs = yield* VaultFileSystem.make(options.root)
    yield* fs.makeFolder("")
    const vault = yield* Folder.open(
      fs,
      { analyzer, kinds, notes: options.notes },
      Duration.decode(options.lockTimeout ?? "3 seconds")
    )
    yield* Effect.addFinalizer(() => Effect.catchAll(vault.save, Snapshot.unsaved))
    const ready = yield* keepCurrent(fs, vault, Duration.decode(options.poll ?? "1 second"))
    const vectorBackend = yield* Deuz.vectors(fs, vault.state.entries, vault.vectorBackend, options.deuzModel)
    const store = yield* makeStore("markdown", {
      ...primitives(vault),
      trash: options.trash,
      vectorBackend,
      ready,
      outside: (viewer) => Stream.unwrap(Effect.as(ready, vault.changeFeed.of(viewer)))
    })
    yield* maintain(store)
    yield* Snapshot.keep(vault, store.activity)

    const service: VaultService = {
      refresh: Effect.withSpan(vault.refresh, "markdown.refresh"),
      issues: Effect.sync(() => [...vault.unsealed(), ...vault.state.issues(), ...vectorBackend.issues()]),
      verify: Effect.withSpan(verify(fs, vault), "markdown.verify"),
      repair: ({ write = false } = {}) => Effect.withSpan(repair(fs, vault, write), "markdown.repair"),
      adopt: Effect.withSpan(adopt(fs, vault), "markdown.adopt")
    }
    return { store, vault: service }
  })

const primitives = (vault: Folder.Vault): Primitives => ({
  capabilities: { durable: true, shared: true },
  read: (tenant, ids) => Effect.forEach(ids, (id) => vault.revisions.read(tenant, id)),
  tenants: vault.tenants,
  scan: (tenant) =>
    Stream.unwrap(Effect.map(vault.revisions.forgotten(tenant), (tombstones) =>
      Stream.fromIterable([
        // the list is made for one tenant at a time, since a compaction asks for one after the other
        ...vault.state.tenantIndex(tenant).rows(),
        ...tombstones
      ]))),
  lifetimes: vault.revisions.lifetimes,
  tombstones: (tenant) => Stream.fromIterableEffect(vault.revisions.forgotten(tenant)),
  revisions: vault.revisions.all,
  commit: vault.groupCommit,
  inTurn: vault.inTurn,
  exclusive: vault.exclusive,
  secret: vault.secret,
  tenantIndex: (tenant) => Effect.sync(() => vault.state.tenantIndex(tenant))
})

/* Keeps a vault current with what other processes and hands write, at a cost that shrinks while nobody asks. */

/** Number of polls without a call or a listener after which the vault stops polling. */
const patience = 60
/** Number of polls without a call after which scans of every file become rare. */
const attention = 10
/** Pause before the next scan, as a multiple of the time that a scan takes: while calls come, and when none has come for a while. */
const spacing = { busy: 10, quiet: 100 }

/**
 * Keeps up with other processes: reads their log at every poll, or sooner on a hint of a file watch, and scans all files as
 * often as a tenth of the time allows, or a hundredth once ten polls have passed without a call. After `patience` polls
 * without a call or a listener it stops polling; then the next call, which runs the effect returned here, scans before it
 * answers.
 *
 * @internal
 */
export const keepCurrent = (
  fs: VaultFileSystem.VaultFileSystem,
  vault: Pick<Folder.Vault, "changeFeed" | "follow" | "land" | "refresh">,
  poll: Duration.Duration
): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function*() {
    if (!Duration.isFinite(poll)) return Effect.void
    const told = Effect.catchAll((error: MemoryError.MemoryError) =>
      Effect.logWarning("the vault could not be looked at", error)
    )
    /** The last scan, in epoch milliseconds. */
    let last = { end: -Infinity, took: 0 }
    /** Polls since the last call, and since the last call or listener. */
    let uncalled = 0
    let quiet = 0
    const scan = Effect.gen(function*() {
      yield* vault.land
      const start = yield* Clock.currentTimeMillis
      const share = uncalled > attention ? spacing.quiet : spacing.busy
      if (start >= last.end && start < last.end + share * last.took) return yield* vault.follow
      yield* vault.refresh
      const end = yield* Clock.currentTimeMillis
      last = { end, took: end - start }
    })
    const waking = yield* Effect.makeSemaphore(1)
    const awake = yield* Effect.makeLatch(true)
    let isResting = false

    const watch = Effect.gen(function*() {
      yield* Effect.sleep(poll)
      uncalled++
      if (vault.changeFeed.isHeard()) quiet = 0
      if (++quiet <= patience) return yield* told(scan)
      isResting = true
      yield* awake.close
      yield* awake.await
    })
    yield* Effect.forkScoped(Effect.forever(watch))
    yield* hinted(fs, told(vault.follow))

    /** Scans if polling has stopped. Calls that come during the scan wait for its end. */
    const wake = waking.withPermits(1)(Effect.suspend(() =>
      isResting
        ? Effect.zipRight(
          told(vault.refresh),
          Effect.suspend(() => {
            isResting = false
            return awake.open
          })
        )
        : Effect.void
    ))
    return Effect.suspend(() => {
      uncalled = 0
      quiet = 0
      return isResting ? wake : Effect.void
    })
  })

/*
 * A file watch gives a hint that there may be something to look at, from the folder that every writer's log and lock lie in. It only
 * finds sooner what a poll would find. It watches one folder, not the tree: on Linux a recursive watch is a watch per entry.
 */

/** Pause between a hint and the scan, since a write gives many hints. The last is the lock's end, so the scan finds it whole. */
const pause = Duration.millis(20)

/** Scans after each hint until the scope closes. A folder that cannot be watched gives none, which is logged at debug level. */
const hinted = (
  fs: VaultFileSystem.VaultFileSystem,
  scan: Effect.Effect<void>
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function*() {
    const hints = yield* Queue.sliding<void>(1)
    yield* Stream.runForEach(fs.watch(hidden), () => Queue.offer(hints, undefined)).pipe(
      Effect.catchAll(unwatched),
      Effect.catchAllDefect(unwatched), // Node throws where there are no watches left
      Effect.forkScoped
    )
    yield* Queue.take(hints).pipe(
      Effect.zipRight(Effect.sleep(pause)),
      Effect.zipRight(Queue.takeAll(hints)),
      Effect.zipRight(scan),
      Effect.forever,
      Effect.forkScoped
    )
  })

const unwatched = (why: unknown) => Effect.logDebug("the vault is polled, not watched", why)

/* Looks a vault over: what is damaged or differs from the history, what can be restored, and what a clone brought along. */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Reads every file, and reports what is wrong. Writes nothing itself; the scan that it begins with records edits by hand. */
const verify = (
  fs: VaultFileSystem.VaultFileSystem,
  { context, state, refresh }: Folder.Vault
): Io<ReadonlyArray<Finding>> =>
  Effect.gen(function*() {
    yield* refresh
    const paced = EventLoop.pacer()
    const found: Array<Finding> = []
    const kinds = new Map<string, "damaged" | "partial">()
    for (const { damage, hash, issues, path, row: { record: { id } }, stat } of state.entries()) {
      if (damage !== undefined) kinds.set(path, "damaged")
      else if (issues !== undefined) kinds.set(path, "partial")
      if (damage !== undefined) continue
      const text = yield* textOf(fs, context, path, stat.size).pipe(
        MemoryError.catchReason("corrupt", () => Effect.succeedSome({ text: "", hash: "" })) // no longer UTF-8
      )
      yield* paced(Option.match(text, { onNone: () => 0, onSome: ({ text }) => text.length }))
      if (Option.exists(text, (now) => now.hash === hash)) continue
      const message = Option.isNone(text) ? "the file is gone" : "its bytes changed, and its size and time did not"
      found.push({ path, kind: "drifted", message, id })
    }
    const ids = new Map(state.entries().map(({ path, row: { record: { id } } }) => [path, id]))
    return [
      ...found,
      ...state.issues().map(({ error: { message }, path }): Finding => {
        const kind = kinds.get(path)
        return kind ? { path, kind, message, id: ids.get(path) } : { path, kind: "ignored", message }
      })
    ]
  })

/**
 * Restores each damaged file from its last good revision, and moves the damaged bytes into a folder of the hidden one.
 * Without `write` it only lists what it would do.
 */
const repair = (
  fs: VaultFileSystem.VaultFileSystem,
  { context, exclusive, history, state, refresh }: Folder.Vault,
  write: boolean
): Io<ReadonlyArray<Repair>> => {
  const damaged = () => state.entries().filter(({ damage }) => damage !== undefined)
  const told = (all: ReadonlyArray<Entry>) =>
    all.map(({ path, row: { record: { id, revision } } }): Repair => ({ path, id, revision }))
  if (!write) return Effect.map(refresh, () => told(damaged()))
  return Effect.zipRight(
    refresh,
    exclusive(Effect.gen(function*() {
      const all = damaged()
      for (const { damage: _, extra, row, ...entry } of all) {
        const { frame, path, tenant } = entry
        const content = yield* WritePlan.print(context, path, tenant, { record: row.record, extra, frame })
        yield* fs.makeFolder(`${Layout.hidden}/damaged`)
        yield* fs.move(
          path,
          `${Layout.hidden}/damaged/${sha256(`${path}\0${entry.hash}\0${entry.stat.mtime}`).slice(0, 16)}`
        )
        yield* fs.write(path, content, { isFenced: true })
        const mended: Entry = { ...entry, row, extra, stat: nowhere, settled: false, hash: sha256(content) }
        if (history.newest(tenant, row.record.id)?.after !== mended.hash) yield* history.append([partOf(mended)])
        state.set(path, mended)
      }
      return told(all)
    }))
  )
}

/**
 * Seals the records that this vault did not write itself, as those of a clone: from now on each has the trust and origin that its
 * text claims. Returns their number. Only for folders whose texts are trusted.
 */
const adopt = (
  fs: VaultFileSystem.VaultFileSystem,
  { commit, context, exclusive, state, refresh }: Folder.Vault
): Io<number> =>
  Effect.zipRight(
    refresh,
    exclusive(Effect.gen(function*() {
      let count = 0
      for (const entry of state.entries()) {
        const { damage, path, row: { record: { id, revision } }, tenant } = entry
        if (damage !== undefined || Layout.parsePath(path).id === undefined) continue
        const text = yield* fs.readLoose(path)
        if (Option.isNone(text)) continue
        const claimed = Document.parse({ ...context, isAdopting: true }, path, text.value, 0)
        const sealed = Document.parse(context, path, text.value, 0)
        if (Either.isLeft(claimed) || !claimed.right.signed || (Either.isRight(sealed) && sealed.right.signed)) continue
        const { record } = claimed.right
        const next = new MemoryRecord({ ...record, revision: Math.max(record.revision, revision + 1) }, {
          disableValidation: true
        })
        yield* commit(tenant, [{ id, revision, next: state.rowOf(tenant, next) }])
        count++
      }
      return count
    }))
  )
