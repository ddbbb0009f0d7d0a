/** The formats of `import` and `export`, by name. */
import type * as Effect from "effect/Effect"
import type { Failure, Services, Shared } from "./Command.ts"

/** A format of files. */
export interface Format {
  readonly name: string
  /** Reads a file or folder into the store; `-` is stdin. Absent: the format is written only. */
  readonly read?:
    | ((job: { readonly path: string; readonly shared: Shared }) => Effect.Effect<void, Failure, Services>)
    | undefined
  /** Writes the store to a file; without a path to stdout. Absent: the format is read only. */
  readonly write?:
    | ((job: { readonly path: string | undefined; readonly shared: Shared }) => Effect.Effect<void, Failure, Services>)
    | undefined
}

/** All formats. */
export const all: ReadonlyArray<Format> = []
