/** What stores tell of their changes, as one: of a record by its own store, of a copy by nobody. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { StoreChange } from "../../../domain/StoreChange.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import type { Copying } from "./Copying.ts"
import * as Members from "./Members.ts"

/** Of those that are there, and of each that comes, until it goes. In order store by store. */
export const changes = (
  members: Stream.Stream<Members.Members>,
  { isCopy }: Pick<Copying, "isCopy">,
  viewer: Viewer.Any
): Stream.Stream<StoreChange, MemoryError> => {
  const tenant = Viewer.tenantOf(viewer)

  const own = (all: Members.Members, member: Members.Member) => (change: StoreChange) => {
    if (change._tag === "Issue") return Effect.succeed(true)
    const id = change._tag === "Written" ? change.record.id : change.id
    const before = all.slice(0, all.indexOf(member))
    if (isCopy(member, tenant, id)) return Effect.succeed(false)
    // one that gives no answer says nothing against it: better told twice than not at all
    return Effect.map(
      Members.find(before, viewer, before.length === 0 ? [] : [id]),
      (held) => held(id).by === undefined
    )
  }

  return members.pipe(
    Stream.mapAccum(new Set<Members.Member>(), (known, all) => [
      new Set(all),
      all.filter((member) => !known.has(member)).map((member) => ({ all, member }))
    ]),
    Stream.mapConcat((fresh) => fresh),
    Stream.flatMap(({ all, member }) =>
      member.store.changes(viewer).pipe(
        Stream.interruptWhen(member.gone),
        Stream.filterEffect(own(all, member))
      ), { concurrency: "unbounded" })
  )
}
