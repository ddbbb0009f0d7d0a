/** AGENTS.md and its like, from the root of the tree down to where the agent works. */
import type { FileSystem, Path } from "@effect/platform"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import type { InstructionFilesConfig } from "./MemorySpec.ts"

export interface InstructionFile {
  readonly path: string
  /** `(repo root)`, or the directory relative to it. */
  readonly label: string
  readonly content: string
  readonly truncated: boolean
}

export interface Service {
  /** Root first. A file that cannot be read is an issue, and the rest is there. */
  readonly load: Effect.Effect<
    { readonly files: ReadonlyArray<InstructionFile>; readonly issues: ReadonlyArray<MemoryError> }
  >
  /** `""` without files. */
  readonly render: Effect.Effect<string>
  /** Puts them in the tenant's Global scope, read-only, and forgets those that vanished. */
  readonly seed: (system: Viewer.System) => Effect.Effect<ReadonlyArray<Applied>, MemoryError>
}

export class InstructionFiles extends Context.Tag("@memory/InstructionFiles")<InstructionFiles, Service>() {}

export declare const layer: (
  config?: ConstructorParameters<typeof InstructionFilesConfig>[0],
  /** Default: the process's. Not part of the spec. */
  options?: { readonly cwd?: string | undefined }
) => Layer.Layer<InstructionFiles, never, MemoryStore | FileSystem.FileSystem | Path.Path>

export declare const loadInstructionFiles: (
  cwd: string,
  config?: InstructionFilesConfig
) => Effect.Effect<ReadonlyArray<InstructionFile>, MemoryError, FileSystem.FileSystem | Path.Path>
export declare const renderInstructionFiles: (files: ReadonlyArray<InstructionFile>) => string
