/** Who hears of a change, and in which words: each viewer is told of what it sees, and of nothing else. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Mailbox from "effect/Mailbox"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { Forgotten, Issue, type StoreChange, Written } from "../domain/StoreChange.ts"
import * as Viewer from "../domain/Viewer.ts"

/** A row before and after; `undefined`: it was, or is, not there. */
export interface Change {
  readonly id: MemoryId
  readonly before: MemoryRecord | undefined
  readonly after: MemoryRecord | undefined
  readonly by: "here" | "there"
}
/** A change, or a place that could not be read. */
export type Event = Change | { readonly issue: MemoryError.MemoryError }

export interface Changes {
  /** Passes each event to the viewers that may see it, in order. Never waits. Cost per event: the listeners of the tenant. */
  readonly publish: (tenant: string, events: ReadonlyArray<Event>) => Effect.Effect<void>
  /**
   * Streams the changes that the viewer may see, from the moment the stream is run. Other changes do not enter its buffer,
   * however many there are. A stream that falls more than 65,536 of its own changes behind fails with `unavailable`.
   */
  readonly of: (viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError.MemoryError>
  /** Whether any stream is running. */
  readonly isHeard: () => boolean
}

const capacity = 65_536

export const make = (): Changes => {
  const listeners = new Map<Mailbox.Mailbox<StoreChange, MemoryError.MemoryError>, Viewer.Any>()

  return {
    isHeard: () => listeners.size > 0,
    publish: (tenant, events) =>
      listeners.size === 0 || events.length === 0
        ? Effect.void
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
          Effect.forEach(listeners, ([mailbox, viewer]) =>
            Viewer.tenantOf(viewer) === tenant && !events.every((event) =>
                offered(mailbox, said(viewer, event, now))
              )
              ? mailbox.fail(behind)
              : Effect.void, { discard: true })),
    of: (viewer) =>
      Stream.unwrapScoped(
        Effect.map(
          Effect.acquireRelease(
            Effect.tap(
              Mailbox.make<StoreChange, MemoryError.MemoryError>({ capacity, strategy: "dropping" }),
              (mailbox) => Effect.sync(() => listeners.set(mailbox, viewer))
            ),
            (mailbox) => Effect.sync(() => listeners.delete(mailbox))
          ),
          (mailbox) => Mailbox.toStream(mailbox)
        )
      )
  }
}

/** Offers a change and returns whether there was room. A change that the viewer may not see (`undefined`) needs none. */
const offered = (mailbox: Mailbox.Mailbox<StoreChange, MemoryError.MemoryError>, change: StoreChange | undefined) =>
  change === undefined || mailbox.unsafeOffer(change)

/** Returns the change that a viewer sees of an event, if any. A record that becomes invisible to it appears as forgotten. */
const said = (viewer: Viewer.Any, event: Event, now: number): StoreChange | undefined => {
  const isSystem = Viewer.isSystem(viewer)
  if ("issue" in event) return isSystem ? Issue.make({ error: event.issue }) : undefined
  const seen = (record: MemoryRecord | undefined): record is MemoryRecord =>
    record !== undefined && Viewer.sees(viewer, record.scope) && (isSystem || !isExpired(record, now))
  const { after, before, by, id } = event
  if (seen(after)) return Written.make({ record: after, by })
  return seen(before) ? Forgotten.make({ id, by }) : undefined
}

const behind = MemoryError.make("unavailable", {
  op: "changes",
  message: "this listener fell too far behind; list, and listen again"
})
