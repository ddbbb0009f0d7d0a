/**
 * A vault at work: opened, looked at, written to by one process at a time. What `Markdown` makes a store of. Longer than
 * other files, since a look, a write and what is read in between hold the same lock.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256, sign } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import type * as Analyzer from "../../../ranking/Analyzer.ts"
import { hashOf, TenantEmbeddings } from "../../../ranking/Embeddings.ts"
import * as Changes from "../../Changes.ts"
import { invalid } from "../../Check.ts"
import type { Sidecar, Stored, Write } from "../../MemoryStore.ts"
import type { Disk } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Header from "./Header.ts"
import * as Journal from "./Journal.ts"
import * as Layout from "./Layout.ts"
import * as Leftovers from "./Leftovers.ts"
import * as Lock from "./Lock.ts"
import * as Log from "./Log.ts"
import * as Mirror from "./Mirror.ts"
import * as Revisions from "./Revisions.ts"
import * as Snapshot from "./Snapshot.ts"
import * as VectorFile from "./VectorFile.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Vault {
  readonly mirror: Mirror.Mirror
  readonly changes: Changes.Changes
  readonly read: (tenant: string, id: MemoryId) => Io<Option.Option<Stored>>
  /** Newest first, the current one among them. */
  readonly revisions: (tenant: string, id: MemoryId) => Io<ReadonlyArray<Stored>>
  readonly tombstones: (tenant: string) => Io<ReadonlyArray<Stored>>
  readonly tenants: Io<ReadonlyArray<string>>
  readonly exclusive: <A>(self: Io<A>) => Io<A>
  readonly commit: (tenant: string, writes: ReadonlyArray<Write>) => Io<void>
  readonly sidecar: Sidecar
  /** Key of `MemoryStore.sign`, derived from the vault's key, so that signatures stay valid after a restart. */
  readonly secret: string
  /** Looks at every file. */
  readonly refresh: Io<void>
  /** Looks at what other processes say they wrote. */
  readonly follow: Io<void>
  readonly save: Io<void>
}

export const open = (
  disk: Disk,
  { analyzer, kinds }: { readonly analyzer: Analyzer.Service; readonly kinds: ReadonlyMap<string, MemoryKind> },
  lockTimeout: Duration.Duration
): Effect.Effect<Vault, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    yield* disk.within(`${Layout.hidden}/log/`) // written in place: no link either
    const lock = yield* Lock.make(disk, lockTimeout)
    const log = Log.make(disk)
    const { key } = yield* Header.open(disk, lock)
    const journal = Journal.make(disk, key)
    const revisions = Revisions.make(disk)
    const sweep = Leftovers.make(disk, lockTimeout)
    const context: Document.Context = { key, kinds }
    const embeddings = new TenantEmbeddings()
    const mirror = Mirror.make(disk, revisions, {
      ...context,
      analyzer,
      embeddings: (tenant) => embeddings.of(tenant)
    })
    const changes = Changes.make()
    let dirty = false

    const guard = Effect.flatMap(lock.isOurs, (ours) => ours ? Effect.void : lost)
    const publish = (news: ReadonlyArray<Mirror.News>) =>
      Effect.forEach(news, ({ event, tenant }) => changes.publish(tenant, [event]), { discard: true })
    const keep = (news: ReadonlyArray<Mirror.News>) =>
      Effect.forEach(news, ({ tenant, unkept }) =>
        unkept
          ? Effect.flatMap(revisions.read(tenant, unkept.record.id), (rows) => {
            const { revision } = unkept.record
            if (rows.some(({ record }) => record.revision === revision)) return Effect.void
            const later = rows.filter(({ record }) => record.revision > revision)
            const { content, path } = revisions.step(tenant, unkept.record.id, [
              ...later,
              unkept,
              ...rows.slice(later.length)
            ])
            return disk.write(path, content!, { guard }) // of one row at least
          })
          : Effect.void, { discard: true })
    const heard = (look: Io<ReadonlyArray<Mirror.News>>, locked: boolean) =>
      Effect.gen(function*() {
        const news = yield* look
        yield* publish(news)
        if (!news.some(({ unkept }) => unkept !== undefined)) return
        // what is read is read, whether or not the revision before it can be kept
        yield* Effect.catchAll(
          locked ? keep(news) : lock.withLock(keep(news)),
          (error) => Effect.logWarning("an edited record's earlier revision is not kept", error)
        )
      })
    const follow = (locked: boolean) =>
      Effect.gen(function*() {
        const { paths, seen } = yield* log.news(locked)
        const wasDirty = dirty
        const look = wasDirty || Option.isNone(paths) ? mirror.look : mirror.lookAt(Array.from(new Set(paths.value)))
        yield* heard(look, locked)
        yield* seen
        if (wasDirty) dirty = false // and not where a commit has failed meanwhile
      })

    const exclusive = <A>(self: Io<A>): Io<A> =>
      lock.withLock(Effect.gen(function*() {
        const recovered = yield* journal.recover(guard)
        if (recovered.length > 0) {
          yield* log.append(recovered.filter((path) => path.endsWith(".md")))
          yield* heard(mirror.lookAt(recovered), true)
        }
        yield* follow(true)
        yield* sweep(guard)
        return yield* self
      })).pipe(Effect.retry({ while: isLost })) // and again, from the start

    const commit = (tenant: string, writes: ReadonlyArray<Write>): Io<void> =>
      Effect.gen(function*() {
        const ids = Array.from(new Set(writes.map(({ id }) => id)))
        const plans = yield* Effect.forEach(ids, (id) => planned(tenant, id, writes.filter((write) => write.id === id)))
        const steps = plans.flatMap((plan) => plan.steps)
        yield* Effect.forEach(steps, ({ path }) => disk.within(path), { discard: true })
        yield* guard
        yield* log.append(steps.flatMap(({ path }) => path.endsWith(".md") ? [path] : []))
        yield* Effect.tapError(
          journal.run(steps, { alone: plans.length === 1, guard }),
          () => Effect.sync(() => dirty = true)
        )
        for (const { entry, gone } of plans) {
          for (const path of gone) mirror.set(path, undefined)
          if (entry) mirror.set(entry.path, entry)
        }
      })

    /** One record's files, after its file has been held against what we know of it. */
    const planned = (tenant: string, id: MemoryId, writes: ReadonlyArray<Write>) =>
      Effect.gen(function*() {
        const current = mirror.entry(tenant, id)
        const paths = mirror.paths(tenant, id)
        const expected = writes[0]!.revision // of one write at least
        const text = current ? yield* disk.read(current.path) : Option.none()
        if (current && Option.map(text, sha256).pipe(Option.getOrUndefined) !== current.hash) {
          yield* heard(mirror.lookAt([current.path]), true)
          return yield* conflict("the file was edited", expected, mirror.entry(tenant, id)?.row.record.revision ?? 0)
        }
        const earlier = yield* revisions.read(tenant, id)
        const revision = (current?.row ?? earlier[0])?.record.revision ?? 0
        if (revision !== expected) return yield* conflict("the record moved on", expected, revision)

        let row = current?.row
        let kept = row ? earlier.filter((old) => old.record.revision < row!.record.revision) : earlier
        for (const { next } of writes) {
          if (row && !row.forgotten && next) kept = [row, ...kept]
          if (next?.forgotten) kept = [next, ...kept]
          if (next === undefined) kept = []
          row = next
        }
        const last = row && !row.forgotten ? row : undefined
        const path = last && (current && id === Layout.noteId(current.path) && sameScope(current, last)
          ? current.path // a note keeps the name that its owner gave it
          : Layout.pathOf(tenant, last.record.scope, id))
        if (path !== undefined && !paths.includes(path) && (yield* taken(path))) {
          yield* heard(mirror.lookAt([path]), true)
          const issue = mirror.issue(path)
          if (issue) return yield* issue
          return yield* conflict(
            "a file is there already",
            expected,
            mirror.entry(tenant, id)?.row.record.revision ?? 0
          )
        }
        const content = last && path !== undefined
          ? yield* Either.mapLeft(
            Document.print(context, path, tenant, last.record, current?.extra),
            (issue) => invalid("commit", issue)
          )
          : undefined
        const gone = paths.filter((old) => old !== path)
        const history = kept.length === 0 && earlier.length === 0 ? [] : [revisions.step(tenant, id, kept)]
        // what it was, then what it is, then away with where it stood: a death between leaves all of it readable
        const steps: ReadonlyArray<Journal.Step> = [
          ...(kept.length > 0 ? history : []),
          ...(content !== undefined && path !== undefined ? [{ path, content }] : []),
          ...gone.map((old) => ({ path: old, content: null })),
          ...(kept.length > 0 ? [] : history)
        ]
        const entry: Mirror.Entry | undefined = content !== undefined && path !== undefined && last
          ? {
            _tag: "Entry",
            path,
            stat: Mirror.nowhere,
            settled: false,
            hash: sha256(content),
            tenant,
            signed: true,
            row: last,
            extra: current?.extra ?? {}
          }
          : undefined
        return { steps, entry, gone }
      })

    const taken = (path: string) =>
      Effect.flatMap(disk.stat(path), (stat) => Option.isSome(stat) ? Effect.succeed(true) : disk.isLink(path))

    const sameScope = (current: Mirror.Entry, row: Stored) =>
      Layout.pathOf("default", current.row.record.scope, row.record.id) ===
        Layout.pathOf("default", row.record.scope, row.record.id)

    const past = (tenant: string, id: MemoryId) =>
      Effect.map(revisions.read(tenant, id), (earlier) => {
        const current = mirror.entry(tenant, id)?.row
        return current ? [current, ...earlier.filter((row) => row.record.revision < current.record.revision)] : earlier
      })

    const read = (tenant: string, id: MemoryId): Io<Option.Option<Stored>> => {
      const current = mirror.entry(tenant, id)
      if (current) return Effect.succeedSome(current.row)
      // what has a past and no file is forgotten, be it by a hand
      return Effect.map(
        revisions.read(tenant, id),
        ([last]) => last ? Option.some({ ...last, forgotten: true }) : Option.none()
      )
    }

    const last = yield* Snapshot.load(disk, context)
    for (const entry of last.entries) mirror.set(entry.path, entry)
    for (const [tenant, encoded] of last.indexes) mirror.catalog(tenant).restore(encoded)
    const loaded = new Set(mirror.entries())
    const { seen } = yield* log.news(false)
    if (yield* journal.isLeft) yield* exclusive(Effect.void)
    yield* mirror.look
    yield* seen

    return {
      mirror,
      changes,
      read,
      revisions: past,
      tombstones: (tenant) =>
        Effect.flatMap(revisions.ids(tenant), (ids) =>
          Effect.map(
            Effect.forEach(ids.filter((id) => !mirror.entry(tenant, id)), (id) => revisions.read(tenant, id)),
            (all) => all.flatMap(([last]) => last ? [{ ...last, forgotten: true }] : [])
          )),
      tenants: Effect.map(revisions.tenants, (segments) =>
        Array.from(
          new Set([
            ...mirror.tenants(),
            ...segments.flatMap((segment) => Layout.idOf(segment) ?? [])
          ])
        )),
      exclusive,
      commit,
      secret: sign(key, "the secret of the store"), // a key of its own: no signature of a file is ever one of the store's
      sidecar: VectorFile.make(disk, embeddings, exclusive, () =>
        mirror.tenants().map((tenant) => [tenant, new Set(mirror.catalog(tenant).records().map(hashOf))])),
      refresh: Effect.flatMap(log.news(false), ({ seen }) =>
        Effect.zipRight(heard(mirror.look, false), seen)),
      follow: follow(false),
      save: Effect.suspend(() => {
        const entries = mirror.entries()
        const catalogs = mirror.tenants().map((tenant) =>
          [tenant, mirror.catalog(tenant)] as const
        )
        const built = catalogs.reduce((sum, [, catalog]) => catalog.isBuilt() ? sum + catalog.size() : sum, 0)
        const stale = entries.length - entries.filter((entry) => loaded.has(entry)).length
        return built + stale + Math.abs(loaded.size - entries.length) > Math.max(20, entries.length / 50)
          ? Snapshot.save(disk, context, {
            entries,
            indexes: catalogs.flatMap(([tenant, catalog]) => {
              const encoded = catalog.encoded()
              return encoded === undefined ? [] : [[tenant, encoded] as const]
            })
          })
          : Effect.void
      })
    }
  })

const conflict = (message: string, expected: number, actual: number) =>
  MemoryError.make("conflict", { op: "commit", message, detail: { expected, actual } })

const lost = MemoryError.make("conflict", {
  op: "lock",
  message: "the lock was taken away",
  detail: { expected: 0, actual: 0 }
})
/** In a span, what is failed with is another object. */
const isLost = ({ op, reason }: MemoryError.MemoryError): boolean => op === lost.op && reason === lost.reason
