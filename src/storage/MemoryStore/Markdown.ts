/** One `.md` per record, made to be read, edited and put under git. The embedded default. */
import type { FileSystem, Path } from "@effect/platform"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryStore } from "../MemoryStore.ts"

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
  /** How long an edit from outside may go unseen, where the platform gives no hint. Default 1 second; infinite = only on demand. */
  readonly poll?: Duration.DurationInput | undefined
  /** Without a heartbeat, until a lock is stolen. Default 3 seconds. */
  readonly lockTimeout?: Duration.DurationInput | undefined
}

export declare const layer: (options: Options) => Layer.Layer<
  MemoryStore | Vault,
  MemoryError,
  FileSystem.FileSystem | Path.Path
>
