/**
 * The Markdown vault is the embedded default store: a folder with one `.md` file per record. People can read and edit the files, and keep
 * them in git. Under Node, the code of the store and the YAML parser are loaded only when the layer is built (`#vault` in package.json).
 */
import { load } from "#vault"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { MemoryStore } from "../MemoryStore.ts"

/** A problem of the vault, such as a file that is damaged or not a record. `error` gives the reason in at most 300 characters. */
export interface Issue {
  /** Path of the file, relative to the vault's folder. */
  readonly path: string
  readonly error: MemoryError.MemoryError
}

/** Maintenance of a vault's files. Records are read and written through `MemoryStore`. */
export interface VaultService {
  /** Scans the folder now. Afterwards the store has read every edit that was made before the call. */
  readonly refresh: Effect.Effect<void, MemoryError.MemoryError>
  /**
   * The current problems: files that are damaged, unreadable, duplicates or not records, and a cloned vault until it is adopted or
   * reopened.
   */
  readonly issues: Effect.Effect<ReadonlyArray<Issue>>
  /** Scans the folder, reads the undamaged files of records again, and returns the problems found (see `Finding.kind`). */
  readonly verify: Effect.Effect<ReadonlyArray<Finding>, MemoryError.MemoryError>
  /**
   * Restores damaged files from their last good revisions, and returns the restored files. Without `write`, only returns the files that can
   * be restored. The damaged files are moved to `.effect-memory/damaged`. `onProgress` is called after each restored file, with the number
   * of files restored so far.
   */
  readonly repair: (
    options?: { readonly write?: boolean; readonly onProgress?: (files: number) => Effect.Effect<void> }
  ) => Effect.Effect<ReadonlyArray<Repair>, MemoryError.MemoryError>
  /**
   * Signs each file that has an invalid signature, such as a file of a cloned vault or one edited by hand, with the key of this vault. The
   * records then have the trust and origin that the files state. Returns the number of signed files. Call `adopt` only for a folder whose
   * texts you trust.
   */
  readonly adopt: Effect.Effect<number, MemoryError.MemoryError>
}
/** The service tag of the maintenance service. */
export class Vault extends Context.Tag("@memory/Markdown/Vault")<Vault, VaultService>() {}

/** Options of a vault. */
export interface Options {
  /** Path of the folder, which is created with mode 0700 if missing. */
  readonly root: string
  /**
   * Interval at which the vault polls. Default 1 second. Each poll looks for writes of other processes, and some polls also scan all files
   * for edits by hand. The pause between two scans is at least ten times the duration of the last scan. After ten polls without a call of
   * the store, it is at least a hundred times this duration. Polling stops after sixty polls without a call and without an open stream of
   * changes. The next call then scans before it returns a result. If the operating system can watch the folder, writes of other processes
   * are noticed at once. With `Duration.infinity`, the folder is neither polled nor watched. `refresh`, `verify`, `repair` and `adopt` then
   * scan it, and each write first reads the writes of other processes.
   */
  readonly poll?: Duration.DurationInput | undefined
  /** Time after which another process may take over a lock that the holder has not renewed. Default 3 seconds. */
  readonly lockTimeout?: Duration.DurationInput | undefined
  /**
   * Time for which a forgotten record is kept, so that it can be restored, even after a restart. The next compaction after this time erases
   * the record. With zero, the next compaction erases all forgotten records. Default 30 days.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * Way in which the vault reads Markdown files that the library did not write. With `whole`, each such file is one record, and properties
   * that are not fields of a record become metadata. This is always so in a vault made by this release or a later one. By default, an older
   * vault ignores such properties, and reports a file with unreadable frontmatter or an invalid field as an issue.
   */
  readonly notes?: "whole" | undefined
  /** Model of the vectors that Deuz (another memory library) stored without a model name. Default: these vectors are not used. */
  readonly deuzModel?: string | undefined
}

/** A file with a problem. */
export interface Finding {
  /** Path of the file, relative to the vault's folder. */
  readonly path: string
  /**
   * Kind of the problem. `damaged`: the file cannot be read, so the store returns the last good revision instead. `drifted`: the bytes have
   * changed since the store last read the file, or the file is gone. `partial`: the file is a record, but a part of it could not be read.
   * `ignored`: the file is not a record, cannot be read at present, or has the id of another file. `VaultService.issues` reports all kinds
   * except `drifted`.
   */
  readonly kind: "damaged" | "drifted" | "partial" | "ignored"
  readonly message: string
  /** Id of the file's record, if the id is known. */
  readonly id?: MemoryId | undefined
}

/** A file that `repair` restores. */
export interface Repair {
  readonly path: string
  readonly id: MemoryId
  /** Revision number of the record after the repair. */
  readonly revision: number
}

/**
 * Makes a store that keeps each record as a file in a folder. The tenant, scope and id of the record determine the path of its file (see
 * `Markdown/Layout`). The record itself becomes the text of the file (see `Markdown/Document`).
 */
export const layer = (
  options: Options
): Layer.Layer<MemoryStore | Vault, MemoryError.MemoryError, FileSystem.FileSystem | Path.Path> =>
  Layer.scopedContext(Effect.gen(function*() {
    const { make } = yield* load
    const { store, vault } = yield* make(options)
    return Context.make(MemoryStore, store).pipe(Context.add(Vault, vault))
  }))
