/**
 * The vault as this process knows it: files, rows, indexes, and the files that are no record. A look at the folder makes
 * it current and says what has changed; nothing but a look, or a write of ours, takes a row away. Files, claims and catalogs
 * change together or not at all.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { canonicalJson } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { dedupeKey, MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { pacer } from "../../../host/EventLoop.ts"
import type { Embeddings } from "../../../ranking/Embeddings.ts"
import * as Catalog from "../../Catalog.ts"
import type { Event } from "../../Changes.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Ahead } from "./Ahead.ts"
import * as Damage from "./Damage.ts"
import type { Disk, Stat } from "./Disk.ts"
import * as Document from "./Document.ts"
import type { History, Place } from "./History.ts"
import * as Layout from "./Layout.ts"
import { isNote, maxBytes, textOf } from "./NoteText.ts"
import * as Sampling from "./Sampling.ts"
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
  /** Whether the text has a seal, be it ours or another vault's. Default false. */
  readonly isSealed?: boolean | undefined
  readonly row: Stored
  readonly extra: Document.Extra
  /** Why the file cannot be read, where the row is its last good revision. */
  readonly damage?: MemoryError.MemoryError | undefined
  /** Parts of the text that lost their meaning. Absent: none. */
  readonly issues?: ReadonlyArray<string> | undefined
  /** Whether the file has more than the record, and is not written to. Default false. */
  readonly isPartial?: boolean | undefined
}
/** A file, folder or link that is none. */
interface Bad extends Seen {
  readonly _tag: "Bad"
  readonly error: MemoryError.MemoryError
}
/** What lies at a path; `undefined`: nothing that is or could be a record. */
export type Found = Entry | Bad | undefined

export interface News {
  readonly tenant: string
  readonly event: Event
}

export interface Mirror {
  readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
  readonly entries: () => ReadonlyArray<Entry>
  /** Every path that claims the id. */
  readonly paths: (tenant: string, id: MemoryId) => ReadonlyArray<string>
  readonly catalog: (tenant: string) => Catalog.Catalog
  readonly tenants: () => ReadonlyArray<string>
  /** Why a path, or a folder above it, cannot be looked at at present. */
  readonly trouble: (path: string) => MemoryError.MemoryError | undefined
  /** Why what lies there is no record. */
  readonly issue: (path: string) => MemoryError.MemoryError | undefined
  readonly issues: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
  /** What we wrote, or knew before: the next look holds it against its file. `undefined`: no file. */
  readonly set: (path: string, entry: Entry | undefined) => void
  readonly rowOf: (tenant: string, record: MemoryRecord) => Stored
  /** Looks at every file. Cost: a `stat` each, and a read of those that changed and of a sample of the others. */
  readonly look: Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
  /** The last good revision of a file that cannot be looked at; `undefined` where the history lost it, too. */
  readonly lastGood: (
    place: Place,
    damage: MemoryError.MemoryError
  ) => Effect.Effect<Entry | undefined, MemoryError.MemoryError>
  /** Reads these. */
  readonly lookAt: (paths: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
}

/** Milliseconds in which two changes of a file may share an mtime. */
const racy = 2_000
const concurrency = 32

export interface Options extends Document.Context, Omit<Catalog.Options, "embeddings"> {
  /** Returns the vectors of a tenant. */
  readonly embeddings: (tenant: string) => Embeddings
  /** Begins a look, and completes what it found. */
  readonly ahead: Ahead["begin"]
}

export const make = (disk: Disk, history: History, context: Options): Mirror => {
  const files = new Map<string, Entry | Bad>()
  const claims = new Map<string, Map<MemoryId, ReadonlyArray<Entry>>>() // of one id of a tenant, the best first
  const catalogs = new Map<string, Catalog.Catalog>()
  const troubles = new Map<string, MemoryError.MemoryError>()
  const touched = new Map<string, number>()
  const sampling = Sampling.make()
  let hasLooked = false
  let epoch = 0

  const entry = (tenant: string, id: MemoryId): Entry | undefined => claims.get(tenant)?.get(id)?.[0]
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

  const set = (path: string, next: Found, at = ++epoch): ReadonlyArray<News> => {
    touched.set(path, at)
    const last = files.get(path)
    if (next === last) return []
    if (next) files.set(path, next)
    else files.delete(path)
    if (last?._tag === "Entry" && next?._tag === "Entry" && last.row === next.row) {
      reclaim(next, path, next)
      return next.damage && next.damage.message !== last.damage?.message
        ? [{ tenant: next.tenant, event: { issue: next.damage } }]
        : []
    }
    if (last?._tag === "Bad" && next?._tag === "Bad" && last.error === next.error) return []
    if (last === undefined && next?._tag === "Entry") return settle(next, path, next)
    const news = [last, next].flatMap((one) => one?._tag === "Entry" ? [one] : [])
      .filter((one, i, all) => i === 0 || all[0]!.tenant !== one.tenant || all[0]!.row.record.id !== one.row.record.id)
      .flatMap((one) => settle(one, path, next))
    return next?._tag === "Bad" ? [...news, { tenant: tenantOf(path), event: { issue: next.error } }] : news
  }
  /** The best of those who claim the id of `one`, now that `path` is `next`. */
  const reclaim = (one: Entry, path: string, next: Found): Entry | undefined => {
    const { id } = one.row.record
    const ids = claims.get(one.tenant) ?? new Map<MemoryId, ReadonlyArray<Entry>>()
    const others = ids.get(id)?.filter((other) => other.path !== path) ?? none
    const isMine = next?._tag === "Entry" && next.tenant === one.tenant && next.row.record.id === id
    const all = isMine ? others.length === 0 ? [next] : [...others, next].sort(better) : others
    if (all.length > 0) claims.set(one.tenant, ids.set(id, all))
    else ids.delete(id)
    return all[0]
  }
  const settle = (one: Entry, path: string, next: Found): ReadonlyArray<News> => {
    const { tenant, row: { record: { id } } } = one
    const before = entry(tenant, id)
    const after = reclaim(one, path, next)
    if (before?.row === after?.row) return []
    catalog(tenant).set(id, after?.row)
    const event: Event = { id, before: before?.row.record, after: after?.row.record, by: "there" }
    return [{ tenant, event }]
  }

  /**
   * `walked`: come by from the root, with no link on the way. What most files are at most looks is as they were; what
   * nobody walked by was named by one who knows better.
   */
  const inspect = (path: string, { sampled, walked }: Look, found: Map<string, Found>) => {
    const known = files.get(path)
    const wasWalked = walked.has(path)
    const anew = () => Effect.map(examine(path, wasWalked), (file) => void found.set(path, file))
    if (!wasWalked || !known?.settled || troubles.has(path) || sampled.has(path)) return anew()
    return Effect.matchEffect(disk.stat(path), {
      onFailure: anew,
      onSuccess: (stat) => {
        if (Option.isNone(stat) || !same(known.stat, stat.value)) return anew()
        found.set(path, known)
        return Effect.void
      }
    })
  }
  const examine = (path: string, walked: boolean): Effect.Effect<Entry | Bad | undefined> =>
    Effect.gen(function*() {
      if (!walked && Option.isSome(yield* disk.linkAbove(path))) return undefined
      const found = yield* disk.stat(path)
      const known = files.get(path)
      /** A file that the history knows keeps its last good revision; any other is no record. */
      const bad = (stat: Stat, settled: boolean, error: MemoryError.MemoryError, hash = "") =>
        Effect.gen(function*() {
          const damage = known?._tag === "Entry" && known.damage?.message === error.message ? known.damage : error
          const place = history.at(path)
          if (known?._tag === "Entry" && place && place.id === known.row.record.id) {
            return { ...known, stat, settled, hash, damage }
          }
          const last = place ? yield* lastGood(path, place, { stat, settled, hash, damage }) : undefined
          if (last) return last
          return known?._tag === "Bad" && known.error.message === error.message
            ? { ...known, stat, settled }
            : { _tag: "Bad" as const, path, stat, settled, error }
        })
      if (Option.isNone(found) || found.value.type === "Directory") {
        if (yield* disk.isLink(path)) return yield* bad(nowhere, false, Damage.corrupt(path, "a link"))
        return Option.isSome(found) && path.endsWith(".md")
          ? yield* bad(nowhere, false, Damage.corrupt(path, "a folder"))
          : undefined
      }
      const { type, ...stat } = found.value
      const settled = stat.mtime < (yield* Clock.currentTimeMillis) - racy
      const no = (message: string, hash = "") => bad(stat, settled, Damage.corrupt(path, message), hash)
      if (yield* disk.isLink(path)) return yield* no("a link")
      if (type !== "File") return yield* no("no file")
      if (stat.size > maxBytes && !isNote(context, path)) return yield* no("too large")
      const read = yield* Effect.either(textOf(disk, context, path, stat.size))
      if (Either.isLeft(read)) {
        return yield* read.left.reason === "corrupt" ? bad(stat, settled, read.left) : read.left
      }
      if (Option.isNone(read.right)) return undefined
      const { hash, loss, text } = read.right.value
      if (known?._tag === "Entry" && known.hash === hash) {
        return known.settled && same(known.stat, stat) ? known : { ...known, stat, settled }
      }
      const damage = history.at(path) ? Damage.find(text) : undefined
      if (damage !== undefined) return yield* no(damage, hash)
      const parsed = Document.parse(context, path, text, stat.mtime)
      if (Either.isLeft(parsed)) return yield* no(parsed.left, hash)
      const { extra, tenant } = parsed.right
      const { record, signed } = yield* counted(parsed.right, stat.mtime, hash)
      const { isPartial, isSealed } = parsed.right
      const row = rowOf(tenant, record)
      const issues = [...(loss ?? []), ...(parsed.right.issues ?? [])]
      return {
        ...{ _tag: "Entry" as const, path, stat, settled, hash, tenant, signed, isSealed, row, extra },
        ...(issues.length > 0 && { issues }),
        ...((isPartial === true || loss !== undefined) && { isPartial: true })
      }
    }).pipe(
      Effect.tap(() => Effect.sync(() => troubles.delete(path))),
      Effect.catchAll((error) => {
        // a file that cannot be read now is not a file that is gone
        troubles.set(path, error)
        return Effect.succeed(files.get(path))
      })
    )

  /** The last revision that the history has of a file that cannot be read. */
  const lastGood = (
    path: string,
    place: Place,
    seen: Pick<Entry, "stat" | "settled" | "hash" | "damage">
  ): Effect.Effect<Entry | undefined, MemoryError.MemoryError> =>
    Effect.map(history.read(place), (kept) =>
      Option.match(kept, {
        onNone: () => undefined,
        onSome: ({ extra, record }) => ({
          _tag: "Entry" as const,
          path,
          tenant: place.tenant,
          signed: true,
          row: rowOf(place.tenant, record),
          extra,
          ...seen
        })
      }))

  /**
   * The revision that a text counts as. What the history has is what it has; what we wrote and it does not know counts as
   * it says, if it is newer; anything else a hand wrote, or brought back: the next revision.
   */
  const counted = ({ record, signed, tenant }: Document.Parsed, mtime: number, hash: string) =>
    Effect.gen(function*() {
      const last = entry(tenant, record.id)?.row.record.revision ?? 0
      const newest = history.newest(tenant, record.id)
      if (newest && !newest.forgotten && newest.after === hash) {
        if (signed && record.revision === newest.revision) return { record, signed }
        const kept = yield* history.read(newest)
        if (Option.isSome(kept)) return { record: kept.value.record, signed: true }
      }
      const known = Math.max(last, newest?.revision ?? 0)
      if (signed && (record.revision > known || (newest === undefined && record.revision === last))) {
        return { record, signed }
      }
      if (signed && newest?.revision === record.revision && !newest.forgotten && last <= record.revision) {
        const kept = yield* history.read(newest)
        // the same revision with keys of nobody's, or in other words of YAML
        if (Option.exists(kept, (old) => canonicalJson(old.record) === canonicalJson(record))) return { record, signed }
      }
      if (!signed && known === 0) return { record, signed }
      const updatedAt = Math.max(Math.floor(mtime), record.createdAt)
      return {
        record: new MemoryRecord({ ...record, updatedAt, revision: known + 1 }, { disableValidation: true }),
        signed: false
      }
    })

  const lookAt = (paths: ReadonlyArray<string>, look: Look = named): ReturnType<Mirror["lookAt"]> =>
    Effect.gen(function*() {
      const at = ++epoch // of two looks at a file, the one that began later counts
      const found = new Map<string, Found>()
      const complete = context.ahead()
      // lanes: a fiber for every path would cost more than its stat
      const lanes = Array.from({ length: concurrency }, (_, lane) => paths.filter((_, i) => i % concurrency === lane))
      yield* Effect.forEach(
        lanes,
        (lane) => Effect.forEach(lane, (path) => inspect(path, look, found), { discard: true }),
        { concurrency, discard: true }
      )
      if (!(yield* complete(found, (path) => files.get(path)))) return yield* lookAt(paths, look)
      const all = Array.from(new Set([...paths, ...found.keys()]))
      const settled = (path: string) => (touched.get(path) ?? 0) > at ? [] : set(path, found.get(path), at)
      if (!look.isFirst) return all.flatMap(settled) // readers see all of it at once
      const pause = pacer(1_024)
      return (yield* Effect.forEach(all, (path) => Effect.as(pause(1), settled(path)))).flat()
    })

  const walk = Walk.make(disk, (folder, error) => {
    troubles.set(folder, error)
    return Array.from(files.keys()).filter((known) => known.startsWith(`${folder}/`))
  })

  return {
    entry,
    entries: () => Array.from(files.values()).flatMap((file) => file._tag === "Entry" ? [file] : []),
    paths: (tenant, id) => (claims.get(tenant)?.get(id) ?? none).map(({ path }) => path),
    catalog: (tenant) => catalogs.get(tenant) ?? made(tenant),
    tenants: () => Array.from(catalogs).flatMap(([tenant, { size }]) => size() > 0 ? [tenant] : []),
    trouble: (path) => {
      for (const [at, error] of troubles) if (path === at || path.startsWith(`${at}/`)) return error
      return undefined
    },
    issue: (path) => {
      const file = files.get(path)
      return file?._tag === "Bad" ? file.error : file?.damage
    },
    issues: () =>
      [
        ...Array.from(files.values()).flatMap((file) => {
          const error = file._tag === "Bad"
            ? file.error
            : file.damage ?? (file.issues && Damage.corrupt(file.path, file.issues.join("; ")))
          return error ? [{ path: file.path, error }] : []
        }),
        ...Array.from(claims.values()).flatMap((ids) => Array.from(ids.values())).flatMap(([best, ...rest]) =>
          rest.map(({ path }) => ({ path, error: Damage.corrupt(path, `the same id as ${best!.path}`) }))
        ),
        ...Array.from(troubles, ([path, error]) => ({ path, error }))
      ].map(({ error, path }) => ({ path, error })),
    set,
    rowOf,
    look: Effect.gen(function*() {
      troubles.clear()
      const known = Array.from(files.keys())
      const walked = new Set(yield* walk)
      const sampled = sampling.next(known, yield* Clock.currentTimeMillis)
      const isFirst = !hasLooked
      hasLooked = true
      return yield* lookAt(Array.from(new Set([...walked, ...known])), { isFirst, sampled, walked })
    }),
    lastGood: (place, damage) =>
      place.path === null
        ? Effect.succeed(undefined)
        : lastGood(place.path, place, { stat: nowhere, settled: false, hash: "", damage }),
    lookAt: (paths) => lookAt(paths)
  }
}

const none: ReadonlyArray<Entry> = []

/** A look at files. */
interface Look {
  /** Files that were come by from the root, with no link on the way. */
  readonly walked: ReadonlySet<string>
  /** Files that are read though they seem to be as they were. */
  readonly sampled: ReadonlySet<string>
  /** Nobody reads yet: what was found may be taken in with pauses. */
  readonly isFirst: boolean
}
const named: Look = { walked: new Set(), sampled: new Set(), isFirst: false }

/** Of two files with one id, which are of one scope: the canonical place, then what we wrote, then the later revision. */
const better = (a: Entry, b: Entry): number =>
  Number(isCanonical(b)) - Number(isCanonical(a)) || Number(b.signed) - Number(a.signed) ||
  b.row.record.revision - a.row.record.revision || (a.path < b.path ? -1 : 1)
const isCanonical = ({ path, row, tenant }: Entry): boolean =>
  path === Layout.pathOf(tenant, row.record.scope, row.record.id)

/** Of a file that nobody has looked at. */
export const nowhere: Stat = { mtime: -1, size: -1, ino: -1, born: -1 }

const same = (a: Stat, b: Stat): boolean =>
  a.mtime === b.mtime && a.size === b.size && a.ino === b.ino && a.born === b.born

/** Whose folder a file lies in, whatever it says. */
const tenantOf = (path: string): string => Layout.idOf(Layout.placeOf(path).tenant ?? "default") ?? "default"
