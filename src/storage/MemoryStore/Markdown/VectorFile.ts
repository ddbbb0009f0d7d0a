/**
 * A model's vectors in one file: rows of a fixed size, added at the end by who holds the lock.
 *
 * ```text
 * {"model":"glove-100d","dimensions":100}\n        padded with spaces to 4 bytes
 * hash (32 bytes)  checksum (4)  vector (dimensions × 4, little-endian)        again and again
 * ```
 *
 * A cache: a row that is torn or whose checksum does not hold is passed over, and its text is embedded again.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Embeddings } from "../../../ranking/Embeddings.ts"
import type { Sidecar } from "../../MemoryStore.ts"
import type { Disk } from "./Disk.ts"
import { hidden, segmentOf } from "./Layout.ts"

type Io<A> = Effect.Effect<A, MemoryError>
type Row = readonly [hash: string, vector: Float32Array]

const folder = `${hidden}/vectors`
const fileOf = (model: string) => `${folder}/${segmentOf(model)}.vec`

const Header = Schema.parseJson(Schema.Struct({ model: Schema.String, dimensions: Schema.Int.pipe(Schema.positive()) }))
const decodeHeader = Schema.decodeOption(Header)
const encodeHeader = Schema.encodeSync(Header)

/** `exclusive` shuts other writers out; whoever asks to `retain` has done so. */
export const make = (disk: Disk, embeddings: Embeddings, exclusive: <A>(self: Io<A>) => Io<A>): Sidecar => {
  const positions = new Map<string, { readonly ino: number; readonly offset: number }>()

  const follow = (model: string): Io<void> =>
    Effect.gen(function*() {
      const path = fileOf(model)
      const { ino, size } = Option.getOrElse(yield* disk.stat(path), () => ({ ino: 0, size: 0 }))
      const known = positions.get(model)
      if (size === 0 || (known?.ino === ino && known.offset === size)) return
      const bytes = yield* disk.bytesFrom(path, 0)
      const { end, rows } = parse(bytes, model, known?.ino === ino ? known.offset : 0)
      for (const [hash, vector] of rows) embeddings.set(model, hash, vector)
      positions.set(model, { ino, offset: end })
    })

  const rewrite = (model: string, rows: ReadonlyArray<Row>): Io<void> =>
    rows.length === 0
      ? disk.remove(fileOf(model), { force: false })
      : disk.write(fileOf(model), print(model, rows), { force: false })

  return {
    embeddings,
    follow,
    append: (model, rows) =>
      exclusive(Effect.gen(function*() {
        if (rows.length === 0) return
        yield* follow(model)
        const path = fileOf(model)
        const { ino, size } = Option.getOrElse(yield* disk.stat(path), () => ({ ino: 0, size: 0 }))
        if (size > 0 && positions.get(model)?.offset === size) {
          const tail = body(rows)
          yield* disk.append(path, tail)
          positions.set(model, { ino, offset: size + tail.length })
          for (const [hash, vector] of rows) embeddings.set(model, hash, vector)
        } else {
          // a torn row, or a file of another sort: begun anew with what is known
          yield* rewrite(model, [...embeddings.all(model), ...rows])
          yield* follow(model)
        }
      })),
    retain: (hashes) =>
      Effect.gen(function*() {
        let count = 0
        for (const name of yield* disk.list(folder)) {
          const bytes = yield* disk.bytesFrom(`${folder}/${name}`, 0)
          const model = Option.map(headerOf(bytes), ({ model }) => model)
          if (Option.isNone(model) || fileOf(model.value) !== `${folder}/${name}`) continue
          const { rows } = parse(bytes, model.value, 0)
          const kept = rows.filter(([hash]) => hashes.has(hash))
          if (kept.length === rows.length) continue
          count += rows.length - kept.length
          yield* rewrite(model.value, kept)
        }
        return Math.max(count, embeddings.retain((hash) => hashes.has(hash)))
      })
  }
}

const headerOf = (bytes: Uint8Array) => {
  const end = bytes.subarray(0, 4_096).indexOf(10)
  return end < 0 ? Option.none() : decodeHeader(new TextDecoder().decode(bytes.subarray(0, end)))
}

const headOf = (model: string, dimensions: number): Uint8Array => {
  const text = new TextEncoder().encode(encodeHeader({ model, dimensions }))
  const head = new Uint8Array(Math.ceil((text.length + 1) / 4) * 4).fill(32)
  head.set(text)
  head[head.length - 1] = 10
  return head
}

const body = (rows: ReadonlyArray<Row>): Uint8Array => {
  const words = 9 + rows[0]![1].length // of one row at least
  const all = new Uint8Array(rows.length * words * 4)
  const view = new DataView(all.buffer)
  rows.forEach(([hash, vector], i) => {
    const at = i * words * 4
    for (let b = 0; b < 32; b++) all[at + b] = Number.parseInt(hash.slice(2 * b, 2 * b + 2), 16)
    vector.forEach((value, n) => view.setFloat32(at + 36 + n * 4, value, true))
    view.setInt32(at + 32, checksum(view, at, words), true)
  })
  return all
}

const print = (model: string, rows: ReadonlyArray<Row>): Uint8Array => {
  const head = headOf(model, rows[0]![1].length)
  const tail = body(rows)
  const all = new Uint8Array(head.length + tail.length)
  all.set(head)
  all.set(tail, head.length)
  return all
}

/** `end`: the last byte that is understood; at `from` a row begins, or the file. */
const parse = (bytes: Uint8Array, model: string, from: number) => {
  const header = headerOf(bytes)
  const rows: Array<Row> = []
  if (Option.isNone(header) || header.value.model !== model) return { rows, end: -1 }
  const { dimensions } = header.value
  const words = 9 + dimensions
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = Math.max(from, headOf(model, dimensions).length)
  for (; at + words * 4 <= bytes.length; at += words * 4) {
    if (view.getInt32(at + 32, true) !== checksum(view, at, words)) continue
    const hash = Array.from(bytes.subarray(at, at + 32), (byte) => byte.toString(16).padStart(2, "0")).join("")
    rows.push([hash, Float32Array.from({ length: dimensions }, (_, n) => view.getFloat32(at + 36 + n * 4, true))])
  }
  return { rows, end: at }
}

/** FNV-1a over the row's 32-bit words but its own (Fowler, Noll, Vo). */
const checksum = (view: DataView, at: number, words: number): number => {
  let hash = 0x811c9dc5 | 0
  for (let n = 0; n < words; n++) if (n !== 8) hash = Math.imul(hash ^ view.getInt32(at + n * 4, true), 0x01000193)
  return hash
}
