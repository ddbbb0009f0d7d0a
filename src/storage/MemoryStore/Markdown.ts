/**
 * The Markdown vault, the embedded default store: one `.md` file per record, made to be read, edited and put under git. Under Node,
 * the code of the store and the YAML parser are loaded when the layer is built (`#vault` in package.json).
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

/** A file that is no record, or a note whose record lacks a part of it, and the reason: at most 300 characters. */
export interface Issue {
  /** Path relative to the root. */
  readonly path: string
  readonly error: MemoryError.MemoryError
}

/** The folder behind the store. */
export interface VaultService {
  /** Looks at the folder now: when it returns, every edit made before is seen. */
  readonly refresh: Effect.Effect<void, MemoryError.MemoryError>
  /** The files that are skipped at present, and the notes of which a part is not understood. */
  readonly issues: Effect.Effect<ReadonlyArray<Issue>>
  /** Reads every file and lists what is damaged, differs from what was last seen, or is no record. Empty: all is well. */
  readonly verify: Effect.Effect<ReadonlyArray<Finding>, MemoryError.MemoryError>
  /**
   * Restores damaged files from their last good revisions. Without `write` it only lists them. The damaged bytes are kept
   * in `.effect-memory/damaged`.
   */
  readonly repair: (
    options?: { readonly write?: boolean }
  ) => Effect.Effect<ReadonlyArray<Repair>, MemoryError.MemoryError>
  /**
   * Accepts what the files of a clone claim of trust and origin, and seals them with this vault's key. Returns how many.
   * Only for folders whose texts are trusted.
   */
  readonly adopt: Effect.Effect<number, MemoryError.MemoryError>
}
/** The service tag of the folder behind the store. */
export class Vault extends Context.Tag("@memory/Markdown/Vault")<Vault, VaultService>() {}

/** Options of a vault. */
export interface Options {
  /** Path of the folder, created where missing with mode 0700. */
  readonly root: string
  /**
   * Time for which a write of another process or by hand may go unseen. Another process is seen at once where the folder can be
   * watched. Hand edits of a large folder may go unseen for ten times as long as a scan of it takes; after ten polls
   * without a call for a hundred times as long, and after sixty, if nothing listens to changes, until the next call,
   * which answers with them. Default 1 second; `Duration.infinity` = only on demand, and not watched.
   */
  readonly poll?: Duration.DurationInput | undefined
  /** Time without a heartbeat after which a lock is stolen. Default 3 seconds. */
  readonly lockTimeout?: Duration.DurationInput | undefined
  /**
   * Least time that a forgotten record can be restored, also after a restart: compaction erases tombstones that are
   * older. Zero: the next compaction erases them. Default 30 days.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * Way in which notes that the library did not write are read. `whole`: each is a record, and its properties are metadata. Default:
   * `whole` in a vault that this release made or a later one; one of an earlier release keeps the answers it had, where a
   * file whose frontmatter does not fit is an issue and no record.
   */
  readonly notes?: "whole" | undefined
  /** Model of the vectors that Deuz left for records that name none. Default: such vectors are not used. */
  readonly deuzModel?: string | undefined
}

/** A file that is not as it should be. */
export interface Finding {
  /** Path relative to the root. */
  readonly path: string
  /**
   * Kind of the finding. `damaged`: cannot be read, and the last good revision is served instead. `drifted`: other bytes than were last
   * seen, or gone. `partial`: a record, part of whose text has no meaning. `ignored`: no record. `issues` has the last two as well.
   */
  readonly kind: "damaged" | "drifted" | "partial" | "ignored"
  readonly message: string
  /** The record, where the vault knows it. */
  readonly id?: MemoryId | undefined
}

/** A file that `repair` restores. */
export interface Repair {
  readonly path: string
  readonly id: MemoryId
  /** Revision that the file has afterwards. */
  readonly revision: number
}

/**
 * Makes a store of a folder. Tenants, scopes and ids are folders and file names (`Markdown/Layout`), a record is a text
 * (`Markdown/Document`).
 */
export const layer = (
  options: Options
): Layer.Layer<MemoryStore | Vault, MemoryError.MemoryError, FileSystem.FileSystem | Path.Path> =>
  Layer.scopedContext(Effect.gen(function*() {
    const { make } = yield* load
    const { store, vault } = yield* make(options)
    return Context.make(MemoryStore, store).pipe(Context.add(Vault, vault))
  }))
