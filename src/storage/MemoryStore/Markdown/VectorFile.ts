/**
 * Stores the vectors of a vault (a folder of Markdown files). Each tenant has one file per model, with rows of a fixed size. A writer must
 * hold the vault's lock.
 *
 * ```text
 * {"tenant":"default","model":"glove-100d","dimensions":100}\n        spaces before \n pad the line to a multiple of 4 bytes
 * hash (32 bytes)  checksum (4)  vector (dimensions × 4, little-endian)        repeated
 * ```
 *
 * The files of the default tenant are in the folder `vectors`. Every other tenant has a folder below `vectors`. A file of an earlier
 * release contains a model's vectors of all tenants, and its header has no tenant. The first use of the model divides this file by tenant.
 *
 * A file is only a cache. A row that is incomplete or has a wrong checksum is skipped, and its vector is computed again.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { TenantEmbeddings } from "../../../ranking/VectorIndex.ts"
import type { VectorBackend } from "../../MemoryStore.ts"
import { fit } from "../../Vectors.ts"
import { hidden, segmentOf } from "./Layout.ts"
import type { Stat, VaultFileSystem } from "./VaultFileSystem.ts"

type Io<A> = Effect.Effect<A, MemoryError>
type Row = readonly [hash: string, vector: Float32Array]

const folder = `${hidden}/vectors`
const folderOf = (tenant: string) => tenant === defaultTenant ? folder : `${folder}/tenants/${segmentOf(tenant)}`
/**
 * Returns the path of the vector file of a tenant and model. `segmentOf` is used only for a short ASCII name of a model. Other names are
 * hashed here. Two such names may differ only in Unicode form, and `segmentOf` would then give both names the same file.
 */
const fileOf = (tenant: string, model: string) =>
  `${folderOf(tenant)}/${/^[A-Za-z0-9_-]{1,64}$/.test(model) ? segmentOf(model) : `~${sha256(model).slice(0, 32)}`}.vec`
const defaultTenant = "default"

const Header = Schema.parseJson(Schema.Struct({
  /** Absent in a file of an earlier release, which contains the vectors of all tenants. */
  tenant: Schema.optional(Schema.String),
  model: Schema.String,
  dimensions: Schema.Int.pipe(Schema.positive())
}))
const decodeHeader = Schema.decodeOption(Header)
const encodeHeader = Schema.encodeSync(Header)

/** Offset up to which this process has read a vector file, and the file's metadata at that time. */
interface Position extends Omit<Stat, "born"> {
  readonly offset: number
}

/**
 * Makes the vector backend of a vault. `exclusive` holds the vault's lock while an effect runs. `texts` returns the hashes of the texts of
 * each tenant. A caller of the backend's method `retain` must already hold the lock.
 */
export const make = (
  fs: VaultFileSystem,
  all: TenantEmbeddings,
  exclusive: <A>(self: Io<A>) => Io<A>,
  texts: () => ReadonlyArray<readonly [tenant: string, hashes: ReadonlySet<string>]>
): VectorBackend => {
  const positions = new Map<string, Position>()
  /** Names of models whose file was written by an earlier release, and still contains the vectors of all tenants. */
  const undivided = new Set<string>()
  const looked = new Set<string>()
  /** Fails if the file or folder at the path, or a folder above it, is a symbolic link. */
  const within = (path: string) => fs.within(`${path}/`)

  const catchUp = (tenant: string, model: string): Io<void> =>
    Effect.gen(function*() {
      const embeddings = all.of(tenant)
      const path = fileOf(tenant, model)
      const known = positions.get(path)
      const stat = Option.getOrUndefined(yield* fs.stat(path))
      if (stat === undefined) {
        if (known !== undefined) embeddings.retain(() => false, model) // another process or a person deleted the file
        positions.delete(path)
        return
      }
      const { ino, mtime, size } = stat
      if (known?.ino === ino && known.size === size && known.mtime === mtime) return
      yield* within(path)
      const isGrown = known?.ino === ino && known.size < size && known.offset > 0
      const from = isGrown ? known.offset : 0
      const bytes = yield* fs.bytesFrom(path, from)
      if (!isGrown && tenant === defaultTenant && isUndivided(bytes, model)) {
        undivided.add(model)
        return
      }
      const dimensions = isGrown ? embeddings.dimensions(model) : dimensionsIn(bytes, tenant, model)
      const { end, rows } = dimensions === undefined
        ? { end: 0, rows: [] }
        : rowsIn(bytes, dimensions, isGrown ? 0 : headOf({ tenant, model, dimensions }).length)
      if (!isGrown) {
        // the file is new to this process or was rewritten: removes from RAM the vectors that the file does not have
        const left = new Set(embeddings.dimensions(model) === dimensions ? rows.map(([hash]) => hash) : [])
        embeddings.retain((hash) => left.has(hash), model)
      }
      for (const [hash, vector] of rows) embeddings.set(model, hash, vector)
      positions.set(path, { ino, mtime, size, offset: from + end })
    })

  const rewrite = (tenant: string, model: string, rows: ReadonlyArray<Row>): Io<void> =>
    rows.length === 0
      ? fs.remove(fileOf(tenant, model), { force: false })
      : fs.write(fileOf(tenant, model), print(tenant, model, rows), { force: false })

  /** Divides a file with the vectors of all tenants into one file per tenant. Replaces the old file last, so a crash loses no vector. */
  const divide = (model: string): Io<void> =>
    Effect.gen(function*() {
      const path = fileOf(defaultTenant, model)
      yield* within(path)
      if (Option.isNone(yield* fs.stat(path))) return
      const bytes = yield* fs.bytesFrom(path, 0)
      const header = Option.getOrUndefined(headerOf(bytes))
      if (header === undefined || !isUndivided(bytes, model)) return // another process has already divided the file
      const { rows } = rowsIn(bytes, header.dimensions, headOf(header).length)
      const current = new Map(texts())
      for (const [tenant, hashes] of current) {
        if (tenant === defaultTenant) continue
        yield* within(fileOf(tenant, model))
        yield* catchUp(tenant, model)
        const embeddings = all.of(tenant)
        const fresh = rows.filter(([hash]) => hashes.has(hash) && embeddings.get(model, hash) === undefined)
        const fits = (embeddings.dimensions(model) ?? header.dimensions) === header.dimensions
        if (fresh.length > 0 && fits) yield* rewrite(tenant, model, [...embeddings.all(model), ...fresh])
      }
      yield* rewrite(defaultTenant, model, rows.filter(([hash]) => current.get(defaultTenant)?.has(hash)))
    })

  const follow = (tenant: string, model: string): Io<void> =>
    Effect.gen(function*() {
      if (tenant === defaultTenant || !looked.has(model)) yield* catchUp(defaultTenant, model)
      if (undivided.has(model)) {
        yield* exclusive(divide(model))
        undivided.delete(model)
        yield* catchUp(defaultTenant, model)
      }
      if (all.of(tenant).dimensions(model) !== undefined || positions.has(fileOf(defaultTenant, model))) {
        looked.add(model)
      }
      if (tenant !== defaultTenant) yield* catchUp(tenant, model)
    })

  return {
    embeddings: (tenant) => all.of(tenant),
    models: (tenant) =>
      Effect.gen(function*() {
        const found = new Set(all.of(tenant).models)
        for (const at of new Set([folder, folderOf(tenant)])) {
          yield* within(at)
          for (const name of yield* fs.list(at)) {
            const path = `${at}/${name}`
            if (!name.endsWith(".vec")) continue
            yield* within(path)
            const header = Option.getOrUndefined(headerOf(yield* fs.bytesFrom(path, 0, headerSize)))
            // a file whose header has no tenant contains the vectors of all tenants, until `follow` divides it
            if (header !== undefined && (header.tenant ?? tenant) === tenant) found.add(header.model)
          }
        }
        return Array.from(found)
      }),
    follow,
    append: (tenant, model, rows) =>
      Effect.zipRight(
        follow(tenant, model),
        exclusive(Effect.gen(function*() {
          const embeddings = all.of(tenant)
          yield* catchUp(tenant, model)
          yield* fit(embeddings, model, rows)
          const fresh = Array.from(new Map(rows)).filter(([hash]) => embeddings.get(model, hash) === undefined)
          if (fresh.length === 0) return
          const path = fileOf(tenant, model)
          yield* within(path)
          const known = positions.get(path)
          if (known !== undefined && known.offset > 0 && known.offset === known.size) {
            yield* fs.append(path, body(fresh))
          } else {
            // nothing can be appended: the file is missing, has another format or ends with an incomplete row
            yield* rewrite(tenant, model, [...embeddings.all(model), ...fresh])
          }
          yield* catchUp(tenant, model)
        }))
      ),
    retain: (tenant, hashes) =>
      Effect.gen(function*() {
        let count = 0
        for (const at of new Set([folder, folderOf(tenant)])) {
          yield* within(at)
          for (const name of yield* fs.list(at)) {
            const path = `${at}/${name}`
            if (!/\.vec(?:\.(?:~[0-9a-z]+\.)?tmp)?$/.test(name)) continue
            yield* within(path)
            let bytes = yield* fs.bytesFrom(path, 0)
            let header = Option.getOrUndefined(headerOf(bytes))
            if (header?.tenant === undefined && header && fileOf(defaultTenant, header.model) === path) {
              yield* divide(header.model)
              undivided.delete(header.model)
              if (Option.isNone(yield* fs.stat(path))) continue
              bytes = yield* fs.bytesFrom(path, 0)
              header = Option.getOrUndefined(headerOf(bytes))
            }
            const owner = header?.tenant
            if (header === undefined || owner === undefined || fileOf(owner, header.model) !== path) {
              yield* fs.remove(path, { force: false }) // an unreadable or temporary file may also contain vectors to be erased
              continue
            }
            if (owner !== tenant) continue
            const { dimensions, model } = header
            const { rows } = rowsIn(bytes, dimensions, headOf(header).length)
            const kept = rows.filter(([hash]) => hashes.has(hash))
            if (bytes.length === sizeOf({ tenant, model, dimensions }, kept.length)) continue
            count += rows.length - kept.length
            yield* rewrite(tenant, model, kept)
          }
        }
        return Math.max(count, all.of(tenant).retain((hash) => hashes.has(hash)))
      })
  }
}

/** Largest size of a header, in bytes. Only this part of a file is searched for the end of the header. */
const headerSize = 8_192

const headerOf = (bytes: Uint8Array) => {
  const end = bytes.subarray(0, headerSize).indexOf(10)
  return end < 0 ? Option.none() : decodeHeader(new TextDecoder().decode(bytes.subarray(0, end)))
}

/** Whether an earlier release wrote this vector file of the model. The header of such a file has no tenant. */
const isUndivided = (bytes: Uint8Array, model: string): boolean =>
  Option.exists(headerOf(bytes), (header) => header.tenant === undefined && header.model === model)

const headOf = ({ dimensions, model, tenant }: typeof Header.Type): Uint8Array => {
  const text = new TextEncoder().encode(encodeHeader({ tenant, model, dimensions }))
  const head = new Uint8Array(Math.ceil((text.length + 1) / 4) * 4).fill(32)
  head.set(text)
  head[head.length - 1] = 10
  return head
}

const body = (rows: ReadonlyArray<Row>): Uint8Array => {
  const words = 9 + rows[0]![1].length // there is at least one row
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

const print = (tenant: string, model: string, rows: ReadonlyArray<Row>): Uint8Array => {
  const head = headOf({ tenant, model, dimensions: rows[0]![1].length })
  const tail = body(rows)
  const all = new Uint8Array(head.length + tail.length)
  all.set(head)
  all.set(tail, head.length)
  return all
}

const sizeOf = (header: typeof Header.Type, rows: number) => headOf(header).length + rows * (9 + header.dimensions) * 4

/** Returns the dimensions in the header; `undefined` if the header is unreadable, or is of another tenant or model. */
const dimensionsIn = (bytes: Uint8Array, tenant: string, model: string): number | undefined =>
  Option.match(headerOf(bytes), {
    onNone: () => undefined,
    onSome: (header) => header.tenant === tenant && header.model === model ? header.dimensions : undefined
  })

/** Returns the rows from the offset `from` on. Skips rows with a wrong checksum. `end` is the end of the last complete row. */
const rowsIn = (bytes: Uint8Array, dimensions: number, from: number) => {
  const rows: Array<Row> = []
  const words = 9 + dimensions
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = from
  for (; at + words * 4 <= bytes.length; at += words * 4) {
    if (view.getInt32(at + 32, true) !== checksum(view, at, words)) continue
    const hash = Array.from(bytes.subarray(at, at + 32), (byte) => byte.toString(16).padStart(2, "0")).join("")
    rows.push([hash, Float32Array.from({ length: dimensions }, (_, n) => view.getFloat32(at + 36 + n * 4, true))])
  }
  return { rows, end: at }
}

/** FNV-1a hash (Fowler, Noll, Vo) over the 32-bit words of a row, except the checksum itself. */
const checksum = (view: DataView, at: number, words: number): number => {
  let hash = 0x811c9dc5 | 0
  for (let n = 0; n < words; n++) if (n !== 8) hash = Math.imul(hash ^ view.getInt32(at + n * 4, true), 0x01000193)
  return hash
}
