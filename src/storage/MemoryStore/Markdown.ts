/** One `.md` per record, made to be read, edited and put under git. The embedded default. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import * as Analyzer from "../../ranking/Analyzer.ts"
import { maintain, make as makeStore, MemoryStore, type Primitives } from "../MemoryStore.ts"
import * as DeuzVectors from "./Markdown/DeuzVectors.ts"
import * as Disk from "./Markdown/Disk.ts"
import * as Folder from "./Markdown/Vault.ts"
import * as Watch from "./Markdown/Watch.ts"

/** A file that is not a record, and why. */
export interface Issue {
  /** Relative to the root. */
  readonly path: string
  readonly error: MemoryError
}

/** The folder behind the store. */
export interface VaultService {
  /** Looks at the folder now: when it returns, every edit made before is seen. */
  readonly refresh: Effect.Effect<void, MemoryError>
  /** The files that are skipped at present. */
  readonly issues: Effect.Effect<ReadonlyArray<Issue>>
}
export class Vault extends Context.Tag("@memory/Markdown/Vault")<Vault, VaultService>() {}

export interface Options {
  /** Created where missing, mode 0700. */
  readonly root: string
  /**
   * How long what another process or a hand wrote may go unseen; of a large folder ten times as long as a look at it
   * takes, for hand edits. Another process is seen at once where the folder can be watched. Default 1 second; infinite =
   * only on demand, and not watched.
   */
  readonly poll?: Duration.DurationInput | undefined
  /** Without a heartbeat, until a lock is stolen. Default 3 seconds. */
  readonly lockTimeout?: Duration.DurationInput | undefined
}

/** Tenants, scopes and ids are folders and file names (`Markdown/Layout`); a record is a text (`Markdown/Document`). */
export const layer = (
  options: Options
): Layer.Layer<MemoryStore | Vault, MemoryError, FileSystem.FileSystem | Path.Path> =>
  Layer.scopedContext(Effect.gen(function*() {
    const kinds = yield* MemoryKind.Kinds
    const analyzer = yield* Analyzer.Analyzer
    const disk = yield* Disk.make(options.root)
    yield* disk.makeFolder("")
    const vault = yield* Folder.open(disk, { analyzer, kinds }, Duration.decode(options.lockTimeout ?? "3 seconds"))
    yield* Effect.addFinalizer(() => Effect.catchAll(vault.save, (error) => Effect.logDebug("no snapshot", error)))
    const ready = yield* keepCurrent(disk, vault, Duration.decode(options.poll ?? "1 second"))
    const sidecar = yield* DeuzVectors.make(disk, vault.mirror.entries, vault.sidecar)
    const store = yield* makeStore("markdown", {
      ...primitives(vault),
      sidecar,
      ready,
      outside: (viewer) => Stream.unwrap(Effect.as(ready, vault.changes.of(viewer)))
    })
    yield* maintain(store)

    return Context.make(MemoryStore, store).pipe(Context.add(Vault, {
      refresh: Effect.withSpan(vault.refresh, "markdown.refresh"),
      issues: Effect.sync(() => [...vault.mirror.issues(), ...sidecar.issues()])
    }))
  }))

const primitives = (vault: Folder.Vault): Primitives => ({
  capabilities: { durable: true, shared: true },
  read: (tenant, ids) => Effect.forEach(ids, (id) => vault.read(tenant, id)),
  tenants: vault.tenants,
  scan: (tenant) =>
    Stream.unwrap(Effect.map(vault.tombstones(tenant), (tombstones) =>
      Stream.fromIterable([
        ...vault.mirror.entries().flatMap((entry) => entry.tenant === tenant ? [entry.row] : []),
        ...tombstones
      ]))),
  revisions: (tenant, id, limit) => Effect.map(vault.revisions(tenant, id), (rows) => rows.slice(0, limit)),
  commit: vault.commit,
  exclusive: vault.exclusive,
  secret: vault.secret,
  catalog: (tenant) => Effect.sync(() => vault.mirror.catalog(tenant))
})

/** Number of polls without a call or a listener after which the vault stops polling. */
const patience = 60

/**
 * Keeps up with other processes: reads their log at every poll, or sooner on a hint of a file watch, and scans all files as
 * often as a tenth of the time allows. After `patience` polls without a call or a listener it stops polling; then the next
 * call, which runs the effect returned here, scans before it answers.
 */
const keepCurrent = (
  disk: Disk.Disk,
  vault: Folder.Vault,
  poll: Duration.Duration
): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function*() {
    if (!Duration.isFinite(poll)) return Effect.void
    const told = Effect.catchAll((error: MemoryError) => Effect.logWarning("the vault could not be looked at", error))
    let due = 0
    const look = Effect.gen(function*() {
      const start = yield* Clock.currentTimeMillis
      if (start < due) return yield* vault.follow
      yield* vault.refresh
      const end = yield* Clock.currentTimeMillis
      due = end + 10 * (end - start)
    })
    const waking = yield* Effect.makeSemaphore(1)
    const awake = yield* Effect.makeLatch(true)
    let isResting = false
    let quiet = 0

    const watch = Effect.gen(function*() {
      yield* Effect.sleep(poll)
      if (vault.changes.isHeard()) quiet = 0
      if (++quiet <= patience) return yield* told(look)
      isResting = true
      yield* awake.close
      yield* awake.await
    })
    yield* Effect.forkScoped(Effect.forever(watch))
    yield* Watch.hinted(disk, told(vault.follow))

    /** Scans if polling has stopped. Calls that come during the scan wait for its end. */
    const wake = waking.withPermits(1)(Effect.suspend(() =>
      isResting
        ? Effect.zipRight(
          told(look),
          Effect.suspend(() => {
            isResting = false
            return awake.open
          })
        )
        : Effect.void
    ))
    return Effect.suspend(() => {
      quiet = 0
      return isResting ? wake : Effect.void
    })
  })
