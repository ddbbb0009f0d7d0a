/**
 * Opens the folder of a vault as a store. The store reads what people edit by hand, and what other processes write. Files can also be
 * verified and repaired.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
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
 * Opens the folder `options.root` as a store. If there is a snapshot, reads the snapshot and the files that changed after it. Otherwise,
 * reads all files. The store follows changes in the folder until the Effect scope closes, unless `options.poll` is infinite. A snapshot is
 * saved during use and at the end, if enough has changed. Fails with `invalid_draft` if an option is out of range.
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
    const kinds = yield* MemoryKind.registered
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
    yield* Snapshot.keep(vault.save, store.activity)

    const service: VaultService = {
      refresh: Effect.withSpan(vault.refresh, "markdown.refresh"),
      issues: Effect.sync(() => [...vault.unsealed(), ...vault.state.issues(), ...vectorBackend.issues()]),
      verify: Effect.withSpan(verify(fs, vault), "markdown.verify"),
      repair: (options) => Effect.withSpan(repair(fs, vault, options), "markdown.repair"),
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
        // copies the rows of only one tenant at a time, since compaction scans one tenant after the other
        ...vault.state.tenantIndex(tenant).rows(),
        ...tombstones
      ]))),
  lifetimes: vault.revisions.lifetimes,
  tombstones: (tenant) => Stream.fromIterableEffect(vault.revisions.forgotten(tenant)),
  revisions: vault.revisions.all,
  commit: vault.groupCommit,
  inTurn: vault.enqueue,
  exclusive: vault.exclusive,
  secret: vault.secret,
  tenantIndex: (tenant) => Effect.sync(() => vault.state.tenantIndex(tenant))
})

/* Finds the changes that people and other processes make in a vault. Scans are rarer while the store is not used. */

/** Polling stops after this many polls without a call of the store and without an open stream of changes. */
const patience = 60
/** Scans of all files become rarer after this many polls without a call of the store. */
const attention = 10
/**
 * Shortest pause between two scans of all files, as a multiple of the duration of the last scan. `busy` is the usual multiple. `quiet`
 * applies after `attention` polls without a call of the store.
 */
const spacing = { busy: 10, quiet: 100 }

/**
 * Keeps a vault up to date. Each poll and each file event makes the vault read what other processes appended to the history. Some polls
 * also scan all files. These scans run for at most a tenth of the total time. The limit is a hundredth after ten polls without a call of
 * the store. Polling stops after `patience` polls without a call and without an open stream of changes. The returned effect must run before
 * each call of the store. If polling has stopped, the effect scans the vault and starts polling again.
 *
 * @internal
 */
export const keepCurrent = (
  fs: VaultFileSystem.VaultFileSystem,
  vault: Pick<Folder.Vault, "changeFeed" | "follow" | "checkpoint" | "refresh">,
  poll: Duration.Duration
): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function*() {
    if (!Duration.isFinite(poll)) return Effect.void
    const logFailure = Effect.catchAll((error: MemoryError.MemoryError) =>
      Effect.logWarning("the vault could not be looked at", error)
    )
    /** The last scan of all files: its end in epoch milliseconds, and its duration in milliseconds. */
    let last = { end: -Infinity, took: 0 }
    /**
     * `uncalled` is the number of polls since the last call of the store. `quiet` is the same number, but is also reset while a stream of
     * changes is open.
     */
    let uncalled = 0
    let quiet = 0
    const scan = Effect.gen(function*() {
      yield* vault.checkpoint
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
      if (vault.changeFeed.hasSubscribers()) quiet = 0
      if (++quiet <= patience) return yield* logFailure(scan)
      isResting = true
      yield* awake.close
      yield* awake.await
    })
    yield* Effect.forkScoped(Effect.forever(watch))
    yield* scanOnEvents(fs, logFailure(vault.follow))

    /** Starts polling again, after a scan of the vault. Does nothing if polling has not stopped. Calls of the store wait for this scan. */
    const wake = waking.withPermits(1)(Effect.suspend(() =>
      isResting
        ? Effect.zipRight(
          logFailure(vault.refresh),
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
 * Watches the hidden folder `.effect-memory`. Every writer changes the history and the lock file in this folder. An event only makes this
 * process read the history sooner than at the next poll. The vault's other folders are not watched, since a recursive watch on Linux needs
 * a watch for every entry.
 */

/**
 * Pause between an event of the file watch and the scan, so that one scan serves many events. The last event of a write is the release of
 * the vault's lock. The write is then complete. An event during the pause or the scan causes one more scan.
 */
const pause = Duration.millis(20)

/** Pause between the end of a watch and the next watch. A watch ends by itself or by an error. Polling continues during the pause. */
const pauseBetweenWatches = Duration.minutes(1)

/** Runs `scan` after each event, until the Effect scope closes. If the watch ends, starts a new watch a minute later. */
const scanOnEvents = (
  fs: VaultFileSystem.VaultFileSystem,
  scan: Effect.Effect<void>
): Effect.Effect<void, never, Scope.Scope> =>
  Stream.buffer(fs.watch(hidden), { capacity: 1, strategy: "sliding" }).pipe(
    Stream.runForEach(() => Effect.zipRight(Effect.sleep(pause), scan)),
    Effect.catchAll(unwatched),
    Effect.catchAllDefect(unwatched), // Node throws if the operating system has no watches left
    Effect.zipRight(Effect.sleep(pauseBetweenWatches)),
    Effect.forever,
    Effect.forkScoped,
    Effect.asVoid
  )

const unwatched = (why: unknown) => Effect.logDebug("the vault is polled, not watched", why)

/* Verifies and repairs files, and adopts the files of a cloned vault. */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/**
 * Returns the problems of the vault's files. Scans the vault first, and then reads the file of every undamaged record again. The scan may
 * append edits by hand to the history. Such an append takes the vault's lock, and first does overdue work of writers, such as completing
 * the batch of a dead process.
 */
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
        MemoryError.catchReason("corrupt", () => Effect.succeedSome({ text: "", hash: "" })) // the file is no longer valid UTF-8
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
 * Moves each damaged file to `.effect-memory/damaged`, where a purge of the record removes it. The last good revision of the record is written in its place. If `write` is false
 * (the default), the files to restore are only returned.
 */
const repair = (
  fs: VaultFileSystem.VaultFileSystem,
  { context, exclusive, history, state, refresh }: Folder.Vault,
  { onProgress = () => Effect.void, write = false }: Parameters<VaultService["repair"]>[0] = {}
): Io<ReadonlyArray<Repair>> => {
  const damaged = () => state.entries().filter(({ damage }) => damage !== undefined)
  const repairsOf = (all: ReadonlyArray<Entry>) =>
    all.map(({ path, row: { record: { id, revision } } }): Repair => ({ path, id, revision }))
  if (!write) return Effect.map(refresh, () => repairsOf(damaged()))
  return Effect.zipRight(
    refresh,
    exclusive(Effect.gen(function*() {
      const all = damaged()
      for (const [n, { damage: _, extra, row, ...entry }] of all.entries()) {
        const { frame, path, tenant } = entry
        const content = yield* WritePlan.print(context, path, tenant, { record: row.record, extra, frame })
        yield* fs.makeFolder(Layout.damaged)
        const hash = sha256(`${path}\0${entry.hash}\0${entry.stat.mtime}`)
        yield* fs.move(path, Layout.damagedOf(row.record.id, hash))
        yield* fs.write(path, content, { isFenced: true })
        const mended: Entry = { ...entry, row, extra, stat: nowhere, settled: false, hash: sha256(content) }
        if (history.newest(tenant, row.record.id)?.after !== mended.hash) yield* history.append([partOf(mended)])
        state.set(path, mended)
        yield* onProgress(n + 1)
      }
      return repairsOf(all)
    }))
  )
}

/**
 * Signs the records in files that are named by a record's id and have an invalid signature, such as the files of a cloned vault. A file of
 * this vault that a person has edited counts, too, if it still has its old signature. Each such record then has the trust and the origin
 * that its file states. Returns the number of signed records. Use this only for a folder whose texts you trust.
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
