/** The stores that the contract, the naughty strings and the kinds are tested on, by name. Each build of a layer is a new, empty store. */
import { NodeContext } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as WritePolicy from "../src/harness/WritePolicy.ts"
import * as Redaction from "../src/host/Redaction.ts"
import * as MemoryStore from "../src/storage/MemoryStore.ts"
import * as Faulty from "../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../src/storage/MemoryStore/Federated.ts"
import * as Transaction from "../src/storage/MemoryStore/internal/Transaction.ts"
import * as Markdown from "../src/storage/MemoryStore/Markdown.ts"
import * as Overlay from "../src/storage/MemoryStore/Overlay.ts"
import * as Sqlite from "../src/storage/MemoryStore/Sqlite.ts"
import { postgres } from "./postgres/Server.ts"
import { counting, inexact, layerOf } from "./storage/engines.ts"
import { isLong, times } from "./vault/Program.ts"

/** A minimal store of a third party: only the required primitives. */
const shelf = Layer.effect(
  MemoryStore.MemoryStore,
  Effect.gen(function*() {
    const shelf = yield* Ref.make(HashMap.empty<string, MemoryStore.Stored>())
    const key = (tenant: string, id: string) => JSON.stringify([tenant, id])
    return yield* MemoryStore.make("shelf", {
      read: (tenant, ids) => Effect.map(Ref.get(shelf), (all) => ids.map((id) => HashMap.get(all, key(tenant, id)))),
      tenants: Effect.map(
        Ref.get(shelf),
        (all) => Array.from(new Set(Array.from(HashMap.keys(all), (at) => String(JSON.parse(at)[0]))))
      ),
      scan: (tenant) =>
        Stream.fromIterableEffect(Ref.get(shelf)).pipe(
          Stream.filterMap(([at, stored]) => JSON.parse(at)[0] === tenant ? Option.some(stored) : Option.none())
        ),
      commit: (tenant, writes) =>
        Ref.update(
          shelf,
          (all) =>
            writes.reduce((all, { id, next }) =>
              next ? HashMap.set(all, key(tenant, id), next) : HashMap.remove(all, key(tenant, id)), all)
        )
    })
  })
)

const markdown = Layer.unwrapScoped(
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const root = yield* fs.makeTempDirectoryScoped()
    return Markdown.layer({ root })
  })
).pipe(Layer.provide(NodeContext.layer))

/** Poll interval of stores that no other process writes to. It is long, since some laws advance the clock by days. */
const rarely = "1 hour"

const sqlite = Layer.unwrapScoped(
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped()
    return Sqlite.layer({ filename: `${folder}/memory.db`, poll: rarely })
  })
).pipe(Layer.provide(NodeContext.layer))

/** A SQLite store in memory. Its engine, made by `counting`, dies if it returns more rows than allowed. */
const counted = Layer.scoped(
  MemoryStore.MemoryStore,
  Effect.gen(function*() {
    const engine = counting(yield* Sqlite.engine({ filename: ":memory:", poll: rarely }), [])
    const store = yield* MemoryStore.make("counted", engine)
    yield* MemoryStore.maintain(store)
    return store
  })
)

/** Stores that keep their rows in a database. */
export const databases = { sqlite, postgres } satisfies Record<string, Layer.Layer<MemoryStore.MemoryStore, unknown>>

export const stores = {
  memory: MemoryStore.layerInMemory,
  markdown,
  shelf,
  ...databases,
  "overlay on memory": Overlay.layer.pipe(Layer.provide(MemoryStore.layerInMemory)),
  federated: Federated.layer({
    copies: { layer: MemoryStore.layerInMemory, mirror: () => true },
    empty: { layer: MemoryStore.layerInMemory },
    main: { layer: MemoryStore.layerInMemory, writable: true }
  })
} satisfies Record<string, Layer.Layer<MemoryStore.MemoryStore, unknown>>

/**
 * The stores that get more random sequences of calls per property than the others, which are slower. The soak tries more sequences on
 * every store, and with `--long` equally many on each store.
 */
const thorough: ReadonlySet<string> = new Set(["memory", "markdown"])
export const coursesOfComposed = times(5, isLong ? 40 : 20)

/** Number of random sequences of calls per property for a store. */
export const coursesOf = (name: string): number => thorough.has(name) ? times(12, 40) : coursesOfComposed

/**
 * A branch (`Overlay`) over a store. The first `writes` calls that write go to the store below, all later ones to the branch. `compact`
 * compacts both, and both make ids by one generator, as a single store does.
 */
export const overPast = (writes: number): Layer.Layer<MemoryStore.MemoryStore, unknown> =>
  Layer.scoped(
    MemoryStore.MemoryStore,
    Effect.gen(function*() {
      const below = yield* MemoryStore.MemoryStore
      const branch = Context.get(yield* Layer.build(Overlay.layer), MemoryStore.MemoryStore)
      let left = writes
      const next = <A, E>(write: (store: MemoryStore.Service) => Effect.Effect<A, E>) =>
        Effect.suspend(() => write(left-- > 0 ? below : branch))
      return {
        ...branch,
        apply: (...args) => next((store) => store.apply(...args)),
        put: (...args) => next((store) => store.put(...args)),
        update: (...args) => next((store) => store.update(...args)),
        forget: (...args) => next((store) => store.forget(...args)),
        compact: Effect.zipWith(branch.compact, below.compact, (ours, theirs) => ours + theirs)
      } satisfies MemoryStore.Service
    })
  ).pipe(
    Layer.provide(MemoryStore.layerInMemory),
    Layer.provide(Layer.effect(Transaction.SharedIdGenerator, Transaction.makeIdGenerator))
  )

/** Further variants and wrappers of these stores, which only the contract is tested on. */
export const others = {
  "sqlite, counted": counted,
  "engine that is not exact": layerOf(inexact),
  "overlay on shelf": Overlay.layer.pipe(Layer.provide(shelf)),
  "faulty, without faults": Faulty.layer().pipe(Layer.provide(MemoryStore.layerInMemory)),
  "memory, redacted": MemoryStore.layerInMemory.pipe(Layer.provide(Redaction.layer())),
  "write policy, without rules": WritePolicy.layer({ globalWrites: "allow" }).pipe(
    Layer.provide(MemoryStore.layerInMemory)
  )
}
