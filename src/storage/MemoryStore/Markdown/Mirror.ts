/**
 * The vault as this process knows it: files, rows, indexes, and the files that are no record. A look at the folder makes
 * it current and says what has changed; nothing but a look, or a write of ours, takes a row away. Longer than other files,
 * since files, claims and catalogs change together or not at all.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { dedupeKey, MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Embeddings } from "../../../ranking/Embeddings.ts"
import * as Catalog from "../../Catalog.ts"
import type { Event } from "../../Changes.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Disk, Stat } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"
import type { Revisions } from "./Revisions.ts"
import * as Walk from "./Walk.ts"

interface Seen {
  readonly path: string
  readonly stat: Stat
  /** Read long enough after it was last changed that its `stat` tells the next change. */
  readonly settled: boolean
}
/** A file that is a record. */
export interface Entry extends Seen {
  readonly _tag: "Entry"
  /** Of the text. */
  readonly hash: string
  readonly tenant: string
  readonly signed: boolean
  readonly row: Stored
  readonly extra: Document.Extra
}
/** A file, folder or link that is none. */
interface Bad extends Seen {
  readonly _tag: "Bad"
  readonly error: MemoryError.MemoryError
}

export interface News {
  readonly tenant: string
  readonly event: Event
  /** By a hand: what the record was is kept nowhere yet. */
  readonly unkept?: Stored | undefined
}

export interface Mirror {
  readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
  readonly entries: () => ReadonlyArray<Entry>
  /** Every path that claims the id. */
  readonly paths: (tenant: string, id: MemoryId) => ReadonlyArray<string>
  readonly catalog: (tenant: string) => Catalog.Catalog
  readonly tenants: () => ReadonlyArray<string>
  /** Why what lies there is no record. */
  readonly issue: (path: string) => MemoryError.MemoryError | undefined
  readonly issues: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
  /** What we wrote, or knew before: the next look holds it against its file. `undefined`: no file. */
  readonly set: (path: string, entry: Entry | undefined) => void
  readonly rowOf: (tenant: string, record: MemoryRecord) => Stored
  /** Looks at every file. Cost: a `stat` each, and a read of those that changed. */
  readonly look: Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
  /** Looks at these. */
  readonly lookAt: (paths: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
}

/** Milliseconds in which two changes of a file may share an mtime. */
const racy = 2_000
const maxBytes = 1_048_576
const concurrency = 32

export interface Options extends Document.Context, Omit<Catalog.Options, "embeddings"> {
  /** Returns the vectors of a tenant. */
  readonly embeddings: (tenant: string) => Embeddings
}

export const make = (disk: Disk, revisions: Revisions, context: Options): Mirror => {
  const files = new Map<string, Entry | Bad>()
  const claims = new Map<string, ReadonlyArray<Entry>>() // of one id, the best first
  const catalogs = new Map<string, Catalog.Catalog>()
  const troubles = new Map<string, MemoryError.MemoryError>()
  const touched = new Map<string, number>()
  let epoch = 0

  const claim = (tenant: string, id: MemoryId) => `${tenant}/${id}`
  const entry = (tenant: string, id: MemoryId): Entry | undefined => claims.get(claim(tenant, id))?.[0]
  const made = (tenant: string) => Catalog.make({ ...context, embeddings: context.embeddings(tenant) })
  const catalog = (tenant: string): Catalog.Catalog => {
    const known = catalogs.get(tenant)
    if (known) return known
    const fresh = made(tenant)
    catalogs.set(tenant, fresh)
    return fresh
  }
  const rowOf = (tenant: string, record: MemoryRecord): Stored => ({
    record,
    forgotten: false,
    ...(MemoryKind.find(context.kinds, record.kind).dedupe && { dedupeKey: dedupeKey(tenant, record) })
  })

  const set = (path: string, next: Entry | Bad | undefined, at = ++epoch): ReadonlyArray<News> => {
    touched.set(path, at)
    const last = files.get(path)
    if (next === last) return []
    if (next) files.set(path, next)
    else files.delete(path)
    if (last?._tag === "Entry" && next?._tag === "Entry" && last.row === next.row) {
      reclaim(next, path, next)
      return []
    }
    if (last?._tag === "Bad" && next?._tag === "Bad" && last.error === next.error) return []
    if (last === undefined && next?._tag === "Entry") return settle(next, path, next)
    const news = [last, next].flatMap((one) => one?._tag === "Entry" ? [one] : [])
      .filter((one, i, all) => i === 0 || all[0]!.tenant !== one.tenant || all[0]!.row.record.id !== one.row.record.id)
      .flatMap((one) => settle(one, path, next))
    return next?._tag === "Bad" ? [...news, { tenant: tenantOf(path), event: { issue: next.error } }] : news
  }
  /** The best of those who claim the id of `one`, now that `path` is `next`. */
  const reclaim = (one: Entry, path: string, next: Entry | Bad | undefined): Entry | undefined => {
    const { id } = one.row.record
    const key = claim(one.tenant, id)
    const others = claims.get(key)?.filter((other) => other.path !== path) ?? none
    const isMine = next?._tag === "Entry" && next.tenant === one.tenant && next.row.record.id === id
    const all = isMine ? others.length === 0 ? [next] : [...others, next].sort(better) : others
    if (all.length > 0) claims.set(key, all)
    else claims.delete(key)
    return all[0]
  }
  const settle = (one: Entry, path: string, next: Entry | Bad | undefined): ReadonlyArray<News> => {
    const { tenant, row: { record: { id } } } = one
    const before = entry(tenant, id)
    const after = reclaim(one, path, next)
    if (before?.row === after?.row) return []
    catalog(tenant).set(id, after?.row)
    const event: Event = { id, before: before?.row.record, after: after?.row.record, by: "there" }
    const byHand = after ? !after.signed : next?._tag === "Bad"
    return [{ tenant, event, unkept: byHand ? before?.row : undefined }]
  }

  /** `walked`: come by from the root, with no link on the way. What most files are at most looks is as they were. */
  const inspect = (path: string, walked: boolean, kept: Kept, found: Map<string, Entry | Bad | undefined>) => {
    const known = files.get(path)
    const anew = () => Effect.map(examine(path, walked, kept), (file) => void found.set(path, file))
    if (!walked || !known?.settled || troubles.has(path)) return anew()
    return Effect.matchEffect(disk.stat(path), {
      onFailure: anew,
      onSuccess: (stat) => {
        if (Option.isNone(stat) || !same(known.stat, stat.value)) return anew()
        found.set(path, known)
        return Effect.void
      }
    })
  }
  const examine = (path: string, walked: boolean, kept: Kept): Effect.Effect<Entry | Bad | undefined> =>
    Effect.gen(function*() {
      if (!walked && Option.isSome(yield* disk.linkAbove(path))) return undefined
      const found = yield* disk.stat(path)
      const known = files.get(path)
      const bad = (stat: Stat, settled: boolean, error: MemoryError.MemoryError): Bad =>
        known?._tag === "Bad" && known.error.message === error.message
          ? { ...known, stat, settled }
          : { _tag: "Bad", path, stat, settled, error }
      if (Option.isNone(found) || found.value.type === "Directory") {
        return (yield* disk.isLink(path)) ? bad(nowhere, false, corrupt(path, "a link")) : undefined
      }
      const { type, ...stat } = found.value
      if (known?.settled && same(known.stat, stat)) return known
      const settled = stat.mtime < (yield* Clock.currentTimeMillis) - racy
      const no = (message: string) => bad(stat, settled, corrupt(path, message))
      if (yield* disk.isLink(path)) return no("a link")
      if (type !== "File") return no("no file")
      if (stat.size > maxBytes) return no("too large")
      const read = yield* Effect.either(disk.read(path))
      if (Either.isLeft(read)) {
        return read.left.reason === "corrupt" ? bad(stat, settled, read.left) : yield* read.left
      }
      if (Option.isNone(read.right)) return undefined
      const text = read.right.value
      const hash = sha256(text)
      if (known?._tag === "Entry" && known.hash === hash) return { ...known, stat, settled }
      const parsed = Document.parse(context, path, text, stat.mtime)
      if (Either.isLeft(parsed)) return no(parsed.left)
      const { extra, tenant } = parsed.right
      const { record, signed } = yield* counted(parsed.right, stat.mtime, kept)
      return { _tag: "Entry" as const, path, stat, settled, hash, tenant, signed, row: rowOf(tenant, record), extra }
    }).pipe(
      Effect.tap(() => Effect.sync(() => troubles.delete(path))),
      Effect.catchAll((error) => {
        // a file that cannot be read now is not a file that is gone
        troubles.set(path, error)
        return Effect.succeed(files.get(path))
      })
    )

  /**
   * What a text counts as. What we wrote is what it says, if it is not behind what was; what a hand wrote, or brought back,
   * is the next revision.
   */
  const counted = ({ record, signed, tenant }: Document.Parsed, mtime: number, kept: Kept) =>
    Effect.gen(function*() {
      const last = entry(tenant, record.id)?.row.record.revision ?? 0
      if (signed && last > 0 && record.revision > last) return { record, signed }
      const [newest] = kept(tenant, record.id) ? yield* revisions.read(tenant, record.id) : []
      const before = newest?.record.revision ?? 0
      const stands = before < record.revision ||
        (before === record.revision && !newest!.forgotten && last <= before) // a death between the two writes of an update
      if (signed ? stands : last + before === 0) return { record, signed }
      const updatedAt = Math.max(Math.floor(mtime), record.createdAt)
      const revision = Math.max(last, before) + 1
      return {
        record: new MemoryRecord({ ...record, updatedAt, revision }, { disableValidation: true }),
        signed: false
      }
    })

  const lookAt = (paths: ReadonlyArray<string>, walked: ReadonlySet<string> = new Set(), kept: Kept = () => true) =>
    Effect.suspend(() => {
      const at = ++epoch // of two looks at a file, the one that began later counts
      const found = new Map<string, Entry | Bad | undefined>()
      // lanes: a fiber for every path would cost more than its stat
      const lanes = Array.from({ length: concurrency }, (_, lane) => paths.filter((_, i) => i % concurrency === lane))
      return Effect.map(
        Effect.forEach(
          lanes,
          (lane) => Effect.forEach(lane, (path) => inspect(path, walked.has(path), kept, found), { discard: true }),
          { concurrency, discard: true }
        ),
        () => paths.flatMap((path) => (touched.get(path) ?? 0) > at ? [] : set(path, found.get(path), at))
      )
    })

  const walk = Walk.make(disk, (folder, error) => {
    troubles.set(folder, error)
    return Array.from(files.keys()).filter((known) => known.startsWith(`${folder}/`))
  })

  return {
    entry,
    entries: () => Array.from(files.values()).flatMap((file) => file._tag === "Entry" ? [file] : []),
    paths: (tenant, id) => (claims.get(claim(tenant, id)) ?? []).map(({ path }) => path),
    catalog: (tenant) => catalogs.get(tenant) ?? made(tenant),
    tenants: () => Array.from(catalogs).flatMap(([tenant, { size }]) => size() > 0 ? [tenant] : []),
    issue: (path) => {
      const file = files.get(path)
      return file?._tag === "Bad" ? file.error : undefined
    },
    issues: () =>
      [
        ...Array.from(files.values()).flatMap((file) => file._tag === "Bad" ? [file] : []),
        ...Array.from(claims.values()).flatMap(([best, ...rest]) =>
          rest.map(({ path }) => ({ path, error: corrupt(path, `the same id as ${best!.path}`) }))
        ),
        ...Array.from(troubles, ([path, error]) => ({ path, error }))
      ].map(({ error, path }) => ({ path, error })),
    set,
    rowOf,
    look: Effect.gen(function*() {
      troubles.clear()
      const known = Array.from(files.keys())
      // of a vault that nothing is known of, most records have no history: one list tells
      const ids = known.length === 0 ? new Set(yield* revisions.all) : undefined
      const walked = new Set(yield* walk)
      const kept: Kept = (tenant, id) => ids === undefined || ids.has(revisions.path(tenant, id))
      return yield* lookAt(Array.from(new Set([...walked, ...known])), walked, kept)
    }),
    lookAt: (paths) => lookAt(paths)
  }
}

const none: ReadonlyArray<Entry> = []

/** Whether a record may have earlier revisions. */
type Kept = (tenant: string, id: MemoryId) => boolean

/** Of two files with one id, which are of one scope: the canonical place, then what we wrote, then the later revision. */
const better = (a: Entry, b: Entry): number =>
  Number(isCanonical(b)) - Number(isCanonical(a)) || Number(b.signed) - Number(a.signed) ||
  b.row.record.revision - a.row.record.revision || (a.path < b.path ? -1 : 1)
const isCanonical = ({ path, row, tenant }: Entry): boolean =>
  path === Layout.pathOf(tenant, row.record.scope, row.record.id)

/** Of a file that nobody has looked at. */
export const nowhere: Stat = { mtime: -1, size: -1, ino: -1 }

const same = (a: Stat, b: Stat): boolean => a.mtime === b.mtime && a.size === b.size && a.ino === b.ino

/** Whose folder a file lies in, whatever it says. */
const tenantOf = (path: string): string => Layout.idOf(Layout.placeOf(path).tenant ?? "default") ?? "default"

const corrupt = (location: string, message: string): MemoryError.MemoryError =>
  MemoryError.make("corrupt", { op: "read", message: `${location}: ${message}`, detail: { location } })
