/** One `.md` per record, made to be read, edited and put under git. The embedded default. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import * as Analyzer from "../../ranking/Analyzer.ts"
import { maintain, make as makeStore, MemoryStore, type Primitives } from "../MemoryStore.ts"
import * as Deuz from "./Markdown/Deuz.ts"
import * as Disk from "./Markdown/Disk.ts"
import * as Inspection from "./Markdown/Inspection.ts"
import * as Polling from "./Markdown/Polling.ts"
import * as SnapshotKeeper from "./Markdown/SnapshotKeeper.ts"
import * as Folder from "./Markdown/Vault.ts"

/** A file that `verify` reports. */
export type Finding = Inspection.Finding
/** A file that `repair` restores. */
export type Repair = Inspection.Repair

/** A file that is no record, or a note of which the record has not everything, and why: at most 300 characters. */
export interface Issue {
  /** Relative to the root. */
  readonly path: string
  readonly error: MemoryError
}

/** The folder behind the store. */
export interface VaultService {
  /** Looks at the folder now: when it returns, every edit made before is seen. */
  readonly refresh: Effect.Effect<void, MemoryError>
  /** The files that are skipped at present, and the notes of which something is not understood. */
  readonly issues: Effect.Effect<ReadonlyArray<Issue>>
  /** Reads every file and lists what is damaged, differs from what was last seen, or is no record. Empty: all is well. */
  readonly verify: Effect.Effect<ReadonlyArray<Finding>, MemoryError>
  /**
   * Restores damaged files from their last good revisions. Without `write` it only lists them. The damaged bytes are kept
   * in `.effect-memory/damaged`.
   */
  readonly repair: (options?: { readonly write?: boolean }) => Effect.Effect<ReadonlyArray<Repair>, MemoryError>
  /**
   * Accepts what the files of a clone claim of trust and origin, and seals them with this vault's key. Returns how many.
   * Only for folders whose texts are trusted.
   */
  readonly adopt: Effect.Effect<number, MemoryError>
}
export class Vault extends Context.Tag("@memory/Markdown/Vault")<Vault, VaultService>() {}

export interface Options {
  /** Created where missing, mode 0700. */
  readonly root: string
  /**
   * How long what another process or a hand wrote may go unseen. Another process is seen at once where the folder can be
   * watched. Of a large folder hand edits may go unseen for ten times as long as a look at it takes; after ten polls
   * without a call for a hundred times as long, and after sixty, where nobody listens to changes, until the next call,
   * which answers with them. Default 1 second; infinite = only on demand, and not watched.
   */
  readonly poll?: Duration.DurationInput | undefined
  /** Without a heartbeat, until a lock is stolen. Default 3 seconds. */
  readonly lockTimeout?: Duration.DurationInput | undefined
  /**
   * How long a forgotten record can be restored, at least, also after a restart: compaction erases tombstones that are
   * older. Zero: the next compaction erases them. Default 30 days.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * How notes that the library did not write are read. `whole`: each is a record, and its properties are metadata. Default:
   * `whole` in a vault that this release made or a later one; one of an earlier release keeps the answers it had, where a
   * file whose frontmatter does not fit is an issue and no record.
   */
  readonly notes?: "whole" | undefined
  /** Model of the vectors that Deuz left for records that name none. Default: such vectors are not used. */
  readonly deuzModel?: string | undefined
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
    const vault = yield* Folder.open(
      disk,
      { analyzer, kinds, notes: options.notes },
      Duration.decode(options.lockTimeout ?? "3 seconds")
    )
    yield* Effect.addFinalizer(() => Effect.catchAll(vault.save, SnapshotKeeper.unsaved))
    const ready = yield* Polling.keepCurrent(disk, vault, Duration.decode(options.poll ?? "1 second"))
    const sidecar = yield* Deuz.vectors(disk, vault.mirror.entries, vault.sidecar, options.deuzModel)
    const store = yield* makeStore("markdown", {
      ...primitives(vault),
      trash: options.trash,
      sidecar,
      ready,
      outside: (viewer) => Stream.unwrap(Effect.as(ready, vault.changes.of(viewer)))
    })
    yield* maintain(store)
    yield* SnapshotKeeper.keep(vault, store.activity)

    return Context.make(MemoryStore, store).pipe(Context.add(Vault, {
      refresh: Effect.withSpan(vault.refresh, "markdown.refresh"),
      issues: Effect.sync(() => [...vault.unsealed(), ...vault.mirror.issues(), ...sidecar.issues()]),
      verify: Effect.withSpan(Inspection.verify(disk, vault), "markdown.verify"),
      repair: ({ write = false } = {}) => Effect.withSpan(Inspection.repair(disk, vault, write), "markdown.repair"),
      adopt: Effect.withSpan(Inspection.adopt(disk, vault), "markdown.adopt")
    }))
  }))

const primitives = (vault: Folder.Vault): Primitives => ({
  capabilities: { durable: true, shared: true },
  read: (tenant, ids) => Effect.forEach(ids, (id) => vault.revisions.read(tenant, id)),
  tenants: vault.tenants,
  scan: (tenant) =>
    Stream.unwrap(Effect.map(vault.revisions.forgotten(tenant), (tombstones) =>
      Stream.fromIterable([
        // not every entry of every tenant: a compaction asks for one tenant after the other
        ...vault.mirror.catalog(tenant).rows(),
        ...tombstones
      ]))),
  tombstones: (tenant) => Stream.fromIterableEffect(vault.revisions.forgotten(tenant)),
  revisions: vault.revisions.all,
  commit: vault.commit,
  exclusive: vault.exclusive,
  secret: vault.secret,
  catalog: (tenant) => Effect.sync(() => vault.mirror.catalog(tenant))
})
