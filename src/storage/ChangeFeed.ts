/** Publishes the changes of a store to subscribers. Each subscriber receives only the changes that its viewer may see. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Mailbox from "effect/Mailbox"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { Forgotten, Issue, type StoreChange, Written } from "../domain/MemoryMutation.ts"
import { isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as Engine from "./internal/EngineContract.ts"

/** A record before and after a change. `before` is absent if the old row is missing or a tombstone; `after` is absent if the new row is. */
export interface Change {
  readonly id: MemoryId
  readonly before: MemoryRecord | undefined
  readonly after: MemoryRecord | undefined
  readonly by: "here" | "there"
}
/** A change, or an error about a file or other source that could not be read. */
export type Event = Change | { readonly issue: MemoryError.MemoryError }

/** The publisher of a store's changes, with its subscribers. */
export interface ChangeFeed {
  /** Publishes events, in order, to subscribers that may see them. Never waits. Cost: one step per event and subscriber of the tenant. */
  readonly publish: (tenant: string, events: ReadonlyArray<Engine.Event>) => Effect.Effect<void>
  /** Publishes like `publish`, but synchronously; `now` is in epoch milliseconds. */
  readonly unsafePublish: (tenant: string, events: ReadonlyArray<Engine.Event>, now: number) => void
  /**
   * Returns a stream of the changes that are made after the stream starts. Changes that the viewer may not see are left out, and take no
   * room in the stream's buffer. The stream fails with `unavailable` when it has more than `ChangeFeedCapacity` unread changes.
   */
  readonly of: (viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError.MemoryError>
  /**
   * Returns a stream of a tenant's events, each converted by `convert`. If `convert` returns `undefined` for an event, the event is skipped
   * and takes no room in the buffer.
   */
  readonly stream: Engine.Engine["changes"]
  /** Whether any stream is subscribed. */
  readonly hasSubscribers: () => boolean
}

/** Largest number of unread changes of a stream. The stream fails if it has more. A new value holds for streams that start later. */
export class ChangeFeedCapacity
  extends Context.Reference<ChangeFeedCapacity>()("@memory/ChangesCapacity", { defaultValue: () => 65_536 })
{}

/** A running stream of changes. */
interface Listener {
  readonly tenant: string
  /** Adds an event to the buffer of the stream; returns false if the buffer is full. */
  readonly hear: (event: Engine.Event, now: number) => boolean
  readonly fail: () => void
}

/** Makes a feed without listeners. */
export const make = (): ChangeFeed => {
  const listeners = new Set<Listener>()

  const unsafePublish: ChangeFeed["unsafePublish"] = (tenant, events, now) => {
    for (const listener of listeners) {
      if (listener.tenant === tenant && !events.every((event) => listener.hear(event, now))) listener.fail()
    }
  }
  const stream: ChangeFeed["stream"] = <A>(
    tenant: string,
    convert: (event: Engine.Event, now: number) => A | undefined
  ) =>
    Stream.unwrapScoped(Effect.gen(function*() {
      const capacity = yield* ChangeFeedCapacity
      const mailbox = yield* Mailbox.make<A, MemoryError.MemoryError>({ capacity, strategy: "dropping" })
      const listener: Listener = {
        tenant,
        hear: (event, now) => {
          const change = convert(event, now)
          return change === undefined || mailbox.unsafeOffer(change)
        },
        fail: () => void mailbox.unsafeDone(Exit.fail(behind()))
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => listeners.add(listener)),
        () => Effect.sync(() => listeners.delete(listener))
      )
      return Mailbox.toStream(mailbox)
    }))

  return {
    hasSubscribers: () => listeners.size > 0,
    unsafePublish,
    publish: (tenant, events) =>
      listeners.size === 0 || events.length === 0
        ? Effect.void
        : Effect.map(Clock.currentTimeMillis, (now) => unsafePublish(tenant, events, now)),
    of: (viewer) => stream(Viewer.tenantOf(viewer), visibleChange(viewer)),
    stream
  }
}

/**
 * Converts an event to the change that a viewer sees. Returns `undefined` if the viewer sees neither the old nor the new record. A record
 * that becomes invisible to the viewer is reported as forgotten. Only the viewer `System` sees errors about files or other sources.
 */
export const visibleChange = (viewer: Viewer.Any) => (event: Engine.Event, now: number): StoreChange | undefined => {
  const isSystem = Viewer.isSystem(viewer)
  if ("issue" in event) return isSystem ? Issue.make({ error: event.issue }) : undefined
  const seen = (record: Pick<MemoryRecord, "scope" | "expiresAt"> | undefined): boolean =>
    record !== undefined && Viewer.sees(viewer, record.scope) && (isSystem || !isExpired(record, now))
  const { after, before, by, id } = event
  if (after && seen(after)) return Written.make({ record: after, by })
  return seen(before) ? Forgotten.make({ id, by }) : undefined
}

/** Returns the changes that writes cause, in the order of the writes. */
export const changesOf = (
  rows: ReadonlyMap<MemoryId, Engine.Stored>,
  writes: ReadonlyArray<Engine.Write>
): ReadonlyArray<Engine.Change> => {
  const current = new Map<MemoryId, Engine.Stored | undefined>(rows)
  return writes.map(({ id, next }) => {
    const before = current.get(id)
    current.set(id, next?.stored)
    return { id, before: recordOf(before), after: recordOf(next?.stored), by: "here" }
  })
}

const recordOf = (row: Engine.Stored | undefined): MemoryRecord | undefined =>
  row && !row.forgotten ? row.record : undefined

const behind = () =>
  MemoryError.make("unavailable", {
    op: "changes",
    message: "this listener fell too far behind; list, and listen again"
  })
