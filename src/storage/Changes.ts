/** Who hears of a change, and in which words: each viewer is told of what it sees, and of nothing else. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
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
  /** In order; never waits. */
  readonly publish: (tenant: string, events: ReadonlyArray<Event>) => Effect.Effect<void>
  /** From the moment it is run. A listener more than 65,536 events behind ends with `unavailable`. */
  readonly events: (tenant: string) => Stream.Stream<Event, MemoryError.MemoryError>
}

const capacity = 65_536

export const make = (): Changes => {
  const listeners = new Map<Mailbox.Mailbox<Event, MemoryError.MemoryError>, string>()

  return {
    publish: (tenant, events) =>
      Effect.forEach(listeners, ([mailbox, listensTo]) =>
        listensTo !== tenant
          ? Effect.void
          : Effect.suspend(() =>
            events.every((event) => mailbox.unsafeOffer(event)) ? Effect.void : mailbox.fail(behind)
          ), {
        discard: true
      }),
    events: (tenant) =>
      Stream.unwrapScoped(
        Effect.map(
          Effect.acquireRelease(
            Effect.tap(Mailbox.make<Event, MemoryError.MemoryError>({ capacity, strategy: "dropping" }), (mailbox) =>
              Effect.sync(() => listeners.set(mailbox, tenant))),
            (mailbox) =>
              Effect.sync(() => listeners.delete(mailbox))
          ),
          (mailbox) => Mailbox.toStream(mailbox)
        )
      )
  }
}

/** What a viewer is told of them. */
export const tell =
  (viewer: Viewer.Any) => <E, R>(events: Stream.Stream<Event, E, R>): Stream.Stream<StoreChange, E, R> =>
    events.pipe(Stream.mapEffect((event) => said(viewer, event)), Stream.filterMap((change) => change))

/** A record that leaves a viewer's sight is forgotten as far as it can tell. */
const said = (viewer: Viewer.Any, event: Event): Effect.Effect<Option.Option<StoreChange>> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    if ("issue" in event) {
      return Viewer.isSystem(viewer)
        ? Option.some(Issue.make({ error: event.issue }))
        : Option.none()
    }
    const seen = (record: MemoryRecord | undefined): record is MemoryRecord =>
      record !== undefined && Viewer.sees(viewer, record.scope) && (Viewer.isSystem(viewer) || !isExpired(record, now))
    const { after, before, by, id } = event
    if (seen(after)) return Option.some(Written.make({ record: after, by }))
    return seen(before) ? Option.some(Forgotten.make({ id, by })) : Option.none()
  })

const behind = MemoryError.make("unavailable", {
  op: "changes",
  message: "this listener fell too far behind; list, and listen again"
})
