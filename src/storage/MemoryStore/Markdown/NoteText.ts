/** Reads the text of a file: of ours all of it or none, of a note as much as can be read. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import type { Context } from "./Document.ts"
import * as Layout from "./Layout.ts"

/** Bytes of a file that are read: of a note the first so many, of a file of ours none where there are more. */
export const maxBytes = 4_194_304

export interface Text {
  readonly text: string
  /** Hash of the text; SHA-256, hex. */
  readonly hash: string
  /** Why the text is not all that the file has. */
  readonly loss?: ReadonlyArray<string>
}

/** Whether the file is read as a note of somebody else's. */
export const isNote = ({ notes }: Context, path: string): boolean => notes === "whole" && !Layout.placeOf(path).isOurs

/** Reads a file's text; of a note also where it is too long, or no UTF-8. `None` where there is no file. */
export const textOf = (
  disk: Disk,
  context: Context,
  path: string,
  size: number
): Effect.Effect<Option.Option<Text>, MemoryError.MemoryError> => {
  if (!isNote(context, path)) return disk.readHashed(path)
  if (size > maxBytes) {
    return Effect.map(disk.readHead(path, maxBytes), Option.map((text) => partly(text, "longer than 4 MiB")))
  }
  return disk.readHashed(path).pipe(
    Effect.map(Option.map((text): Text => text)),
    MemoryError.catchReason(
      "corrupt",
      () => Effect.map(disk.readLoose(path), Option.map((text) => partly(text, "no UTF-8: what is none is \ufffd")))
    )
  )
}

const partly = (text: string, loss: string): Text => ({ text, hash: sha256(text), loss: [loss] })
