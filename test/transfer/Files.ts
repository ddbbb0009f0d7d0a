/** `MemoryJsonl` files as text, for the laws of import and export. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as MemoryJsonl from "../../src/transfer/MemoryJsonl.ts"
import { built } from "../storage/Copies.ts"
import { stores } from "../stores.ts"

export const sqlite = built(stores.sqlite)

/** Exports a store as a text. */
export const written = (store: MemoryStore.Service, options?: MemoryJsonl.WriteOptions) =>
  Effect.map(Stream.runCollect(MemoryJsonl.write(store, options)), (lines) => Chunk.toReadonlyArray(lines).join(""))

/** A text as bytes, in chunks of `size` bytes, whose boundaries can fall within lines and characters. */
export const bytes = (text: string, size = 1_000) => {
  const all = new TextEncoder().encode(text)
  return Stream.fromIterable(
    Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size))
  )
}

/** Imports a text into a store. */
export const read = (store: MemoryStore.Service, text: string, options?: MemoryJsonl.ReadOptions) =>
  MemoryJsonl.read(store, bytes(text), options)

/** The lines of a text, each with its line feed. */
export const linesOf = (text: string) => text.split("\n").slice(0, -1).map((line) => `${line}\n`)
