/**
 * Schemas of the `data` of each kind. All of it is JSON, and reads well as YAML.
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
