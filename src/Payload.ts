/**
 * Schemas and types of the field `data` of a record, by kind. `data` is JSON. Times are encoded as ISO dates, and decoded as epoch
 * milliseconds. A store checks the `data` of each draft against the schema of the kind. A program needs the schemas only for types, or to
 * check data without a store.
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
