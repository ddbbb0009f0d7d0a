/**
 * The Markdown vault, the embedded default store: one `.md` file per record, meant to be read, edited and kept under git. Under Node, the
 * code of the store and the YAML parser are loaded only when the layer is built (`#vault` in package.json).
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

/** A file that is not a record, or a note of which a part could not be read, with the reason, in at most 300 characters. */
export interface Issue {
  /** Path relative to the root. */
  readonly path: string
  readonly error: MemoryError.MemoryError
}

/** The vault's folder: checks, repairs, and trust. Records are read and written through `MemoryStore`. */
export interface VaultService {
  /** Scans the folder now; afterwards the store has seen every edit made before the call. */
  readonly refresh: Effect.Effect<void, MemoryError.MemoryError>
  /** The files currently skipped, and the notes of which a part could not be read. */
  readonly issues: Effect.Effect<ReadonlyArray<Issue>>
  /**
   * Reads every file, and lists those that are damaged, have changed since the store last read them, or are not records. Empty if all is
   * well.
   */
  readonly verify: Effect.Effect<ReadonlyArray<Finding>, MemoryError.MemoryError>
  /**
   * Restores damaged files from their last good revisions. Without `write` it only lists them. The damaged bytes are kept in
   * `.effect-memory/damaged`.
   */
  readonly repair: (
    options?: { readonly write?: boolean }
  ) => Effect.Effect<ReadonlyArray<Repair>, MemoryError.MemoryError>
  /**
   * Accepts the trust and origin that the files of a cloned vault claim, by signing them with this vault's key. Returns the number of files
   * signed. Only for folders whose texts are trusted.
   */
  readonly adopt: Effect.Effect<number, MemoryError.MemoryError>
}
/** The service tag of the vault's folder. */
export class Vault extends Context.Tag("@memory/Markdown/Vault")<Vault, VaultService>() {}

/** Options of a vault. */
export interface Options {
  /** Path of the folder, which is created with mode 0700 if missing. */
  readonly root: string
  /**
   * Longest time after which edits by hand and writes of other processes are noticed. Writes of another process are noticed at once if the
   * folder can be watched. In a large folder, edits by hand may take ten times as long as a scan of the folder; after ten polls without a
   * call, a hundred times as long; after sixty, if nothing listens to changes, until the next call, which then includes them. Default 1
   * second. With `Duration.infinity` the folder is scanned only on demand, and not watched.
   */
  readonly poll?: Duration.DurationInput | undefined
  /** Time without a heartbeat after which another process may take over a lock. Default 3 seconds. */
  readonly lockTimeout?: Duration.DurationInput | undefined
  /**
   * Shortest time for which a forgotten record can be restored, restarts included: compaction erases older tombstones. With zero, the next
   * compaction erases them. Default 30 days.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * Way of reading notes that the library did not write. With `whole`, each is a record, and its properties become metadata. Default:
   * `whole` in a vault made by this release or a later one. In a vault of an earlier release, a file whose frontmatter does not fit stays
   * an issue and not a record, so that results do not change.
   */
  readonly notes?: "whole" | undefined
  /** Embedding model of the vectors that Deuz stored for records without a model name. Default: such vectors are not used. */
  readonly deuzModel?: string | undefined
}

/** A file with a problem. */
export interface Finding {
  /** Path relative to the root. */
  readonly path: string
  /**
   * Kind of the problem. `damaged`: the file cannot be read, and the last good revision is served instead. `drifted`: the bytes have
   * changed since the store last read the file, or the file is gone. `partial`: a record of which a part could not be read. `ignored`: not
   * a record. The last two are in `issues` too.
   */
  readonly kind: "damaged" | "drifted" | "partial" | "ignored"
  readonly message: string
  /** Id of the record, if the vault knows it. */
  readonly id?: MemoryId | undefined
}

/** A file that `repair` restores. */
export interface Repair {
  readonly path: string
  readonly id: MemoryId
  /** Revision of the file after the repair. */
  readonly revision: number
}

/**
 * Makes a store of a folder. Tenants, scopes and ids become folders and file names (see `Markdown/Layout`), a record becomes the text of a
 * file (see `Markdown/Document`).
 */
export const layer = (
  options: Options
): Layer.Layer<MemoryStore | Vault, MemoryError.MemoryError, FileSystem.FileSystem | Path.Path> =>
  Layer.scopedContext(Effect.gen(function*() {
    const { make } = yield* load
    const { store, vault } = yield* make(options)
    return Context.make(MemoryStore, store).pipe(Context.add(Vault, vault))
  }))
