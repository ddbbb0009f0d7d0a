/**
 * Schemas of the `data` of each kind. All of it is JSON, and reads well as YAML. A store checks the data of a draft by the schema of its
 * kind, so a program needs them for types, and to check data before it has a store.
 *
 * ```ts
 * import { Either, Schema } from "effect"
 * import { Payload } from "effect-memory"
 *
 * const check = Schema.decodeUnknownEither(Payload.Reflection)
 * const results = [{ trigger: "a quiet week" }, { trigger: 7 }].map((data) => Either.isRight(check(data)))
 *
 * results // => [true, false]
 * ```
 */
export { Episode, Reflection } from "./domain/Payload.ts"
export type {
  Audited,
  Belief,
  Counterfactual,
  Entity,
  Fact,
  Hindsight,
  Identity,
  Json,
  JsonObject,
  Learning,
  Level,
  Note,
  Procedure,
  Resource,
  VaultEntry
} from "./domain/Payload.ts"
