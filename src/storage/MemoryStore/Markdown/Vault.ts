/**
 * A vault at work: opened, looked at, and written to by one process at a time. What `Markdown` makes a store of.
 *
 * A write appends its revisions to the history, which is the acknowledgement, and then replaces the `.md` files. Where a
 * process dies between the two, the next holder of the lock rolls forward each file that is absent, torn or as it was; any
 * other text is a hand's, and becomes the next revision.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sign } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import { hashOf } from "../../../domain/MemoryRecord.ts"
import type * as Analyzer from "../../../ranking/Analyzer.ts"
import { TenantEmbeddings } from "../../../ranking/VectorIndex.ts"
import * as Changes from "../../Changes.ts"
import type { Sidecar, Write } from "../../MemoryStore.ts"
import { type Disk, isFull } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Header from "./Header.ts"
import * as History from "./History.ts"
import * as Layout from "./Layout.ts"
import * as Lock from "./Lock.ts"
import * as Mirror from "./Mirror.ts"
import * as Plan from "./Plan.ts"
import * as Revisions from "./Revisions.ts"
import * as Snapshot from "./Snapshot.ts"
import * as VaultFile from "./VaultFile.ts"
import { type Entry, isNote, unsealed as unsealedIssue } from "./VaultFile.ts"
import * as VectorFile from "./VectorFile.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Vault {
  readonly context: Document.Context
  readonly mirror: Mirror.Mirror
  readonly history: History.History
  readonly changes: Changes.Changes
  readonly revisions: Revisions.Revisions
  readonly tenants: Io<ReadonlyArray<string>>
  readonly exclusive: <A>(self: Io<A>) => Io<A>
  readonly commit: (tenant: string, writes: ReadonlyArray<Write>) => Io<void>
  readonly sidecar: Sidecar
  /** Key of `MemoryStore.sign`, derived from the vault's key, so that signatures stay valid after a restart. */
  readonly secret: string
  /** An issue where the vault was opened without its hidden folder, until its records are adopted. */
  readonly unsealed: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
  /** Looks at every file. */
  readonly refresh: Io<void>
  /** Looks at what other processes say they wrote. */
  readonly follow: Io<void>
  /** Forces to disk the files that this process wrote since the last time. */
  readonly land: Io<void>
  /** Forces to disk what was written, and saves the snapshot. */
  readonly save: Io<void>
}

/** Number of revisions that may wait to be forced to disk as files. They are in the history, so none can be lost. */
const waiting = 256

export const open = (
  disk: Disk,
  { analyzer, kinds, notes }: {
    readonly analyzer: Analyzer.Service
    readonly kinds: ReadonlyMap<string, MemoryKind>
    readonly notes?: "whole" | undefined
  },
  lockTimeout: Duration.Duration
): Effect.Effect<Vault, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    yield* disk.within(`${Layout.hidden}/history`) // written in place: no link either
    if (yield* disk.isLink(`${Layout.hidden}/history`)) {
      return yield* MemoryError.make("path_escape", { op: "open", message: "the history is a link" })
    }
    const lock = yield* Lock.make(disk, lockTimeout)
    const header = yield* Header.open(disk, lock, kinds)
    const { key } = header
    const history = History.make(disk)
    const sweep = Lock.eraseLeftovers(disk, lockTimeout)
    const context: Document.Context = { key, kinds, notes: header.notes === "whole" ? header.notes : notes }
    const embeddings = new TenantEmbeddings()
    const mirror = Mirror.make(disk, history, {
      ...context,
      analyzer,
      embeddings: (tenant) => embeddings.of(tenant),
      ahead: () => ahead.begin()
    })
    const ahead = VaultFile.makeAhead(history, { viewed: () => viewed, rowOf: mirror.rowOf })
    const changes = Changes.make()
    const { awaited } = history
    /** A batch that failed, and the files before it, until all of it could be taken back. */
    let failed: { readonly batch: History.Batch; readonly before: ReadonlyMap<string, Uint8Array | null> } | undefined
    /** Whether this process wrote files that may not have landed. */
    let isWritten = false
    /** Last batch whose files this process has seen or written. */
    let viewed = 0
    /** Generation of the history as which every file was looked at. */
    let followed = 0
    /** Batches whose purged texts could not be overwritten yet. */
    const littered = new Map<number, readonly [batch: History.Batch, isPurge: boolean]>()

    const guard = Effect.flatMap(lock.isOurs, (ours) => ours ? Effect.void : lost)
    const publish = (news: ReadonlyArray<Mirror.News>) =>
      Effect.forEach(news, ({ event, tenant }) => changes.publish(tenant, [event]), { discard: true })

    /** Appends the revisions that the history lacks of these records, as their files are once nobody else writes. */
    const complete = (about: Iterable<Revisions.Touched>, locked: boolean): Io<void> =>
      Effect.flatMap(Revisions.lacking(mirror, history, about), (parts) => {
        if (parts.length === 0) return Effect.void
        if (locked) return Effect.asVoid(history.append(parts))
        const paths = parts.flatMap(({ id, path, tenant }) => path ?? history.newest(tenant, id)?.path ?? [])
        const again = Effect.flatMap(mirror.lookAt(Array.from(new Set(paths))), publish)
        return exclusive(Effect.zipRight(again, complete(about, true)))
      })
    /** Records what hands did. What has been read is read, whether or not that succeeds. */
    const record = (news: ReadonlyArray<Mirror.News>, locked: boolean) =>
      Effect.gen(function*() {
        yield* Effect.catchAll(
          complete(Revisions.touched(news), locked),
          (error) => Effect.logWarning("an edit by hand is not in the history yet", error)
        )
      })
    const heard = (look: Io<ReadonlyArray<Mirror.News>>, locked: boolean): Io<void> =>
      Effect.gen(function*() {
        const news = yield* look
        yield* publish(news)
        yield* record(news, locked)
      })

    /** Reads what other processes appended, and looks at the files that they name. */
    const follow = (locked: boolean): Io<void> =>
      Effect.gen(function*() {
        yield* history.news(locked)
        const isRenewed = history.generation() !== followed
        if (isRenewed) {
          viewed = 0
          littered.clear() // the new file has no line that was erased
        }
        if (locked && !history.isThere()) yield* begin
        if (locked) yield* rollForward
        const generation = history.generation()
        const told = Array.from(awaited)
        const paths = told.map(([path]) => path).filter(Layout.isRecord)
        if (isRenewed) yield* heard(mirror.look, locked)
        else if (paths.length > 0) yield* heard(mirror.lookAt(paths), locked)
        // the history may have been replaced by an older one, which lacks what stands in files
        if (isRenewed && history.isThere()) yield* complete(unknown, locked)
        if (isRenewed) followed = generation
        for (const [path, batch] of told) {
          const isSeen = isRenewed ? !ahead.has(path) : !Layout.isRecord(path) || isAsTold(path)
          if (isSeen && awaited.get(path) === batch) awaited.delete(path)
        }
        const isAwaited = ({ gone, path }: History.Place) =>
          [...gone, path].some((one) => one !== null && awaited.has(one))
        for (const { number, places } of history.unlanded()) {
          if (number <= viewed) continue
          if (places.some(isAwaited)) break
          viewed = number
        }
      })
    /** Whether a file was found as the history has it. */
    const isAsTold = (path: string) => {
      if (ahead.has(path)) return false
      const place = history.at(path)
      return place === undefined || mirror.entry(place.tenant, place.id)?.hash === place.after
    }

    const print: Plan.Print = (path, tenant, kept) => Plan.print(context, path, tenant, kept)
    /** Writes the files of batches whose writer died. For the holder of the lock. */
    const rollForward: Io<void> = Effect.suspend(() =>
      Effect.forEach(history.unlanded().filter(({ number }) => number > viewed), (batch) =>
        Effect.gen(function*() {
          yield* Effect.forEach(batch.places, (place) => Plan.bring(disk, history, print, place, batch.litter), {
            discard: true
          })
          viewed = batch.number
          yield* cleaned(batch)
        }), { discard: true })
    )
    /** Forces to disk the files of every batch that did not land, and says so. For the holder of the lock. */
    const land: Io<void> = Effect.suspend(() => {
      const places = history.unlanded().flatMap((batch) => batch.places)
      if (places.length === 0 || littered.size > 0) return Effect.void
      const touched = places.flatMap(({ gone, path }) => path === null ? gone : [path, ...gone])
      return Effect.zipRight(disk.force(touched), history.land)
    })

    /** Brings the holder of the lock up to date. A step that fails because the lock was taken away fails with that. */
    const caughtUp: Io<void> = Effect.gen(function*() {
      if (failed) yield* takeBack(failed)
      yield* follow(true)
      yield* Effect.forEach(littered.values(), ([batch, isPurge]) => cleaned(batch, isPurge), { discard: true })
      yield* sweep(guard)
      if (history.unlanded().reduce((sum, { places }) => sum + places.length, 0) > waiting) yield* land
      const generation = history.generation()
      yield* history.compact
      if (history.generation() !== generation) {
        littered.clear()
        followed = history.generation()
      }
    }).pipe(Effect.tapError(() => guard))
    const exclusive = <A>(self: Io<A>): Io<A> =>
      lock.withLock(Effect.zipRight(caughtUp, self)).pipe(Effect.retry({ while: isLost })) // and again, from the start

    const takeBack = (attempt: NonNullable<typeof failed>): Io<void> =>
      Effect.gen(function*() {
        failed = attempt
        yield* Plan.takeBack(disk, attempt.batch.places, attempt.before)
        yield* history.undo(attempt.batch)
        failed = undefined
      })

    /** Files as the snapshot had them, by tenant and id, of records that changed while nothing ran. Empty once it is open. */
    const reopened = new Map<string, Entry | undefined>()
    /** Every record whose file is not what the history has last. */
    const unknown: Iterable<Revisions.Touched> = {
      *[Symbol.iterator]() {
        let known = 0
        for (const { hash, path, row: { record: { id } }, tenant } of mirror.entries()) {
          const place = history.at(path)
          if (place?.id === id && place.after === hash && place.tenant === tenant && !place.forgotten) known++
          else yield [tenant, id, reopened.get(`${tenant}/${id}`)]
        }
        if (known === history.records()) return // what most openings find
        for (const tenant of history.tenants()) {
          for (const { forgotten, id } of history.all(tenant)) {
            if (mirror.entry(tenant, id) === undefined && !forgotten) {
              yield [tenant, id, reopened.get(`${tenant}/${id}`)]
            }
          }
        }
      }
    }
    /** Begins a history where there is none: with what format 1 kept, and the records as they are. */
    const begin: Io<void> = Effect.gen(function*() {
      yield* history.renew(
        yield* Revisions.inherited(disk, mirror, yield* Revisions.lacking(mirror, history, unknown))
      )
      followed = history.generation()
      yield* Revisions.discardFormat1(disk)
    })

    const circumstances: Plan.Circumstances = { context, disk, history, mirror, heard: (look) => heard(look, true) }
    const commit = (tenant: string, writes: ReadonlyArray<Write>): Io<void> =>
      Effect.gen(function*() {
        const ids = Array.from(new Set(writes.map(({ id }) => id)))
        const plans = yield* Effect.forEach(
          ids,
          (id) => Plan.make(circumstances, tenant, id, writes.filter((write) => write.id === id))
        )
        yield* guard
        const view = Effect.forEach(plans, ({ content, parts }) => shown(parts.at(-1)!, content), { discard: true }) // one part at least
        const before = new Map(plans.flatMap(({ before }) => before))
        const isPurge = writes.every(({ next }) => next === undefined)
        const appended = yield* Effect.asSome(history.append(plans.flatMap(({ parts }) => parts))).pipe(
          Effect.catchIf((error) => isPurge && isFull(error), () => Effect.succeedNone)
        )
        if (Option.isNone(appended)) {
          // a full disk has no room for a line, and gives up the files and the lines that are there
          yield* Effect.zipRight(view, history.erase(ids.flatMap((id) => history.places(tenant, id)))).pipe(
            Effect.tapError(() => Effect.option(Plan.takeBack(disk, [], before)))
          )
          for (const { gone } of plans) for (const path of gone) mirror.set(path, undefined)
          isWritten = true
          return yield* snapshot.remove
        }
        const batch = appended.value
        yield* view.pipe(
          // whoever took the lock from us by mistake has ended our turn, too: it is ours again
          Effect.catchAll((error) =>
            Effect.flatMap(lock.isOurs, (ours) => ours ? Effect.zipRight(disk.begin, view) : Effect.fail(error))
          ),
          Effect.catchAll((error) =>
            Effect.flatMap(lock.isOurs, (ours) =>
              ours
                ? Effect.zipRight(Effect.option(takeBack({ batch, before })), error)
                : Effect.void) // the history has it: whoever has the lock writes the files
          )
        )
        viewed = Math.max(viewed, batch.number)
        isWritten = true
        for (const { entry, gone } of plans) {
          for (const path of gone) mirror.set(path, undefined)
          if (entry) mirror.set(entry.path, entry)
        }
        yield* cleaned(batch, Plan.isPurge(plans))
      }).pipe(Effect.uninterruptible)

    const shown = ({ gone, path }: History.Part, content: string | undefined) =>
      Effect.gen(function*() {
        if (path !== null && content !== undefined) {
          yield* disk.write(path, content, { force: false, isFenced: true })
        }
        yield* Effect.forEach(gone, (old) => disk.remove(old, { force: false, isFenced: true }), { discard: true })
      })

    /** Overwrites what a batch purged, `isPurge` a file; what cannot be overwritten now is when the lock is next taken. */
    const cleaned = (batch: History.Batch, isPurge = false) =>
      batch.litter.length === 0 && !isPurge
        ? Effect.void
        : Effect.matchEffect(erased(batch, isPurge), {
          onSuccess: () => Effect.sync(() => littered.delete(batch.number)),
          onFailure: (error) => {
            if (isLost(error)) return Effect.void // whoever has the lock overwrote it, and wrote the history anew
            littered.set(batch.number, [batch, isPurge])
            return Effect.logWarning("a purged text is still in the history", error)
          }
        })
    /** Overwrites the lines of what was purged; the snapshot may have the text, too. */
    const erased = ({ litter }: History.Batch, isPurge: boolean): Io<void> =>
      Effect.gen(function*() {
        const unlanded = new Set(history.unlanded().map(({ number }) => number))
        if (litter.some(({ batch, parts }) => parts > 1 && unlanded.has(batch))) yield* land
        yield* history.erase(litter)
        const rows = new Set(litter.flatMap(({ id, path }) => path !== null && Layout.isInternal(path) ? [id] : []))
        if (isPurge || litter.some(({ id }) => !rows.has(id))) yield* snapshot.remove // which has none of the library's rows
      })

    const revisions = Revisions.make(history, mirror)
    const snapshot = yield* Snapshot.load(
      disk,
      context,
      mirror,
      history,
      ({ path, row: { record: { id } }, tenant }) => isNote(context, path) && history.newest(tenant, id) === undefined
    )
    if (!snapshot.isSigned) yield* Header.confirm(disk, header, kinds) // else the snapshot speaks for the key
    yield* history.news(false)
    if (history.unlanded().length > 0 || (yield* Revisions.hasFormat1(disk))) {
      yield* lock.withLock(Effect.zipRight(
        Revisions.recoverFormat1(disk, key),
        Effect.zipRight(
          Effect.asVoid(history.news(true)),
          Effect.suspend(() => history.isThere() ? rollForward : Effect.void)
        )
      ))
    }
    followed = history.generation()
    for (const [tenant, id, was] of Revisions.touched(yield* mirror.look)) reopened.set(`${tenant}/${id}`, was)
    for (const path of awaited.keys()) if (!ahead.has(path)) awaited.delete(path) // it was seen just now
    const tenants = mirror.isTroubled() ? history.tenants() : []
    for (const place of tenants.flatMap((tenant) => Array.from(history.all(tenant)))) {
      const error = place.forgotten || place.path === null ? undefined : mirror.trouble(place.path)
      if (error === undefined || mirror.entry(place.tenant, place.id)) continue
      const kept = yield* mirror.lastGood(place, error)
      if (kept) mirror.set(kept.path, kept)
    }
    const isFresh = !history.isThere() && header.foreign === true &&
      mirror.entries().some(({ isSealed, signed }) => isSealed && !signed)
    if (!history.isThere()) yield* exclusive(Effect.void)
    else if (!snapshot.isUnchanged()) yield* complete(unknown, false)
    reopened.clear()

    return {
      context,
      mirror,
      history,
      changes,
      revisions,
      tenants: Effect.sync(() => Array.from(new Set([...mirror.tenants(), ...history.tenants()]))),
      exclusive,
      commit,
      unsealed: () => {
        const foreign = isFresh ? mirror.entries().filter(({ isSealed, signed }) => isSealed && !signed).length : 0
        return foreign === 0 ? [] : [unsealedIssue(foreign)]
      },
      secret: sign(key, "the secret of the store"), // a key of its own: no signature of a file is ever one of the store's
      sidecar: VectorFile.make(disk, embeddings, exclusive, () =>
        mirror.tenants().map((tenant) => [tenant, new Set(mirror.catalog(tenant).records().map(hashOf))])),
      refresh: Effect.zipRight(Effect.asVoid(follow(false)), heard(mirror.look, false)),
      follow: follow(false),
      land: Effect.suspend(() => {
        if (!isWritten) {
          return Effect.void
        }
        isWritten = false
        return exclusive(land)
      }),
      save: Effect.gen(function*() {
        if (history.unlanded().length > 0) {
          yield* exclusive(land)
        }
        yield* snapshot.save
      })
    }
  })

const lost = MemoryError.make("conflict", {
  op: "lock",
  message: "the lock was taken away",
  detail: { expected: 0, actual: 0 }
})
/** In a span, what is failed with is another object. */
const isLost = ({ op, reason }: MemoryError.MemoryError): boolean => op === lost.op && reason === lost.reason
