/**
 * Schemas of a record's field `data`, one for each kind. All of `data` is JSON, with times as ISO dates, which people can read in YAML. A
 * store checks the data of each draft against the schema of its kind, so a program needs these schemas only for types, or to check data
 * without a store.
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
