/** Makes the exported functions of the modules `Postgres` and `Sqlite`. Each module passes a function that opens its database. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Engine } from "../../Engine.ts"
import * as MemoryStore from "../../MemoryStore.ts"
import type { Database } from "./Database.ts"
import * as SqlEngine from "./SqlEngine.ts"

/** Makes the exported functions of one kind of database. `name` is used in errors, spans and metrics. */
export const over = <Options extends SqlEngine.Options>(
  name: string,
  open: (options: Options) => Effect.Effect<Database, MemoryError, Scope.Scope>
) => {
  const engine = (options: Options): Effect.Effect<Engine, MemoryError, Scope.Scope> =>
    Effect.flatMap(open(options), (database) => SqlEngine.make(name, database, options))
  const make = (options: Options): Effect.Effect<MemoryStore.Service, MemoryError, Scope.Scope> =>
    Effect.flatMap(engine(options), (engine) => MemoryStore.make(name, engine)).pipe(Effect.tap(MemoryStore.maintain))
  const layer = (options: Options): Layer.Layer<MemoryStore.MemoryStore, MemoryError> =>
    Layer.scoped(MemoryStore.MemoryStore, make(options))
  const reindex = (options: Options): Effect.Effect<void, MemoryError> =>
    Effect.scoped(Effect.flatMap(engine(options), MemoryStore.reindex))
  return { engine, layer, make, reindex }
}
