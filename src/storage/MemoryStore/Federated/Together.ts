/** The federation as one store. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as SubscriptionRef from "effect/SubscriptionRef"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import { defaultLimit } from "../../../ranking/MemoryIndex.ts"
import * as Activity from "../../Activity.ts"
import type { Capabilities, Service } from "../../MemoryStore.ts"
import * as ViewerCheck from "../../ViewerCheck.ts"
import type { Copying } from "./Copying.ts"
import * as Members from "./Members.ts"
import * as Reading from "./Reading.ts"
import * as Telling from "./Telling.ts"
import * as Vectors from "./Vectors.ts"

/** `first`: those it begins with. */
export const make = (
  members: SubscriptionRef.SubscriptionRef<Members.Members>,
  first: Members.Members,
  primary: Service | undefined,
  copying: Copying,
  writes: Pick<Service, "apply" | "put" | "update" | "forget">
): Service => {
  const all = Effect.map(members, Members.ranked)
  const observed = <A>(
    op: string,
    ask: (members: Members.Members) => Effect.Effect<A, MemoryError.MemoryError>
  ): Effect.Effect<A, MemoryError.MemoryError> => Effect.withSpan(Effect.flatMap(all, ask), `Federated.${op}`)

  return ViewerCheck.make({
    name: "federated",
    capabilities: capabilities(first, primary),
    ...writes,
    get: (viewer, ids) =>
      observed("get", (all) => Members.each(all, viewer, ids, (store, ids) => store.get(viewer, ids))),
    search: (viewer, query) =>
      observed("search", (all) => {
        const { limit = defaultLimit } = query
        return Effect.map(Reading.search(all, viewer, { ...query, limit }, () => limit), ({ result }) => result)
      }),
    list: (viewer, filter) => observed("list", (all) => Reading.list(all, viewer, filter)),
    stream: (viewer, filter) => Stream.withSpan(Reading.stream(all, viewer, filter), "Federated.stream"),
    history: (viewer, id, limit) =>
      observed(
        "history",
        (all) => Effect.flatMap(Members.holder(all, viewer, id), (store) => store.history(viewer, id, limit))
      ),
    changes: (viewer) => Telling.changes(Stream.map(members.changes, Members.ranked), copying, viewer),
    whyNot: (viewer, id, query) => observed("whyNot", (all) => Reading.whyNot(all, viewer, id, query)),
    links: (viewer, id) => observed("links", (all) => Reading.links(all, viewer, id)),
    touch: (viewer, ids) =>
      observed("touch", (all) =>
        Effect.asVoid(
          Members.each(all, viewer, ids, (store, ids) => Effect.as(store.touch(viewer, ids), ids))
        )),
    uses: (viewer, ids) =>
      observed("uses", (all) => Members.each(all, viewer, ids, (store, ids) => store.uses(viewer, ids))),
    tenants: observed("tenants", (all) =>
      Effect.map(
        Effect.forEach(all, ({ store }) => store.tenants, { concurrency: "unbounded" }),
        (tenants) => Array.from(new Set(tenants.flat()))
      )),
    // those that mirror come first, so that no copy outlives what it is of, and are not counted
    compact: observed("compact", (all) =>
      Effect.map(
        Effect.forEach(all.slice().reverse(), ({ mirror, store }) =>
          Effect.map(store.compact, (count) => mirror ? 0 : count)),
        (counts) =>
          counts.reduce((sum, count) => sum + count, 0)
      )),
    activity: Activity.together(Effect.map(all, (members) => members.map(({ store }) => store.activity))),
    vectors: first.some(({ store }) => Option.isSome(store.vectors))
      ? Option.some(Vectors.make(all))
      : Option.none(),
    reader: Option.none(), // an id may be in several stores
    sign: (primary ?? first[0]!.store).sign, // a federation has at least one store
    ingest: primary?.ingest ?? Option.none(),
    tools: (viewer) => first.flatMap(({ store }) => store.tools(viewer))
  })
}

/** What can be promised of all that take writes. */
const capabilities = (members: Members.Members, primary: Service | undefined): Capabilities => {
  const stores = members.map(({ store }) => store.capabilities)
  const written = members.filter(({ writable }) => writable).map(({ store }) => store.capabilities)
  return {
    writable: written.length > 0,
    vector: stores.some(({ vector }) => vector),
    durable: written.length > 0 && written.every(({ durable }) => durable),
    shared: written.length > 0 && written.every(({ shared }) => shared),
    history: stores.every(({ history }) => history),
    messages: primary?.capabilities.messages ?? false
  }
}
