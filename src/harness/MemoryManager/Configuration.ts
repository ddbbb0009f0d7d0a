/** Whether a configuration fits the stores, all that is wrong with it said at once. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import { Limit } from "../../domain/MemoryFilter.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import { MemoryScope } from "../../domain/MemoryScope.ts"
import { SharedWrites } from "../../domain/Sharing.ts"
import type * as Completion from "../../host/Completion.ts"
import type { Named } from "../../storage/MemoryStore/Federated.ts"
import type { InjectionConfig } from "../Injection.ts"
import type { Config } from "../MemoryManager.ts"
import { issuesOf, type Options } from "../Outbox.ts"

/** Of the stores that extract. */
export const extractions = ({ extraction = {} }: Config): ReadonlyArray<readonly [store: string, Options]> =>
  Object.entries(extraction).flatMap(([name, config]) => config ? [[name, config === true ? {} : config] as const] : [])

export const check = (
  config: Config,
  stores: ReadonlyArray<Named>,
  completion: Completion.Service
): Effect.Effect<void, MemoryError.MemoryError> => {
  const { injection } = config
  const issues = [
    ...extractions(config).flatMap(([name, extraction]) => {
      const store = stores.find((store) => store.name === name)
      const found = store === undefined
        ? [`there is no such store; there are ${stores.map(({ name }) => name).join(", ")}`]
        : [
          ...(store.writable ? [] : ["the store takes no writes"]),
          ...ofExtraction(extraction, store, completion)
        ]
      return found.map((issue) => `extraction.${name}: ${issue}`)
    }),
    ...(typeof injection === "object" ? ofInjection(injection) : []).map((issue) => `injection.${issue}`)
  ]
  const [first, ...rest] = issues
  return first === undefined ? Effect.void : MemoryError.make("invalid_draft", {
    op: "MemoryManager.layer",
    message: issues.join("; "),
    detail: { issues: [first, ...rest] }
  })
}

const ofExtraction = (
  extraction: Options,
  { store }: Named,
  completion: Completion.Service
): ReadonlyArray<string> => {
  const { about, extractor, options = {} } = extraction
  const asks = (extractor ?? (store.capabilities.messages ? "ingest" : "pipeline")) === "pipeline" &&
    options.customExtract === undefined && options.infer !== false
  return [
    ...issuesOf(extraction),
    ...(asks && completion.model === "none" ? ["there is no language model: provide a Completion"] : []),
    ...(about === undefined || about === "agent" ? [] : ["about: expected \"agent\", or nothing"]),
    ...(options.sharedWrites === undefined || isShared(options.sharedWrites)
      ? []
      : ["options.sharedWrites: expected a list of \"agent\" and \"global\""]),
    ...(options.scope === undefined || isScope(options.scope) ? [] : ["options.scope: a scope needs at least one id"]),
    ...(options.kind === undefined || isKind(options.kind) ? [] : ["options.kind: expected a name such as semantic"]),
    ...(options.ttl === undefined || Option.isSome(Duration.decodeUnknown(options.ttl))
      ? []
      : ["options.ttl: expected a duration"]),
    ...(options.topK === undefined || isLimit(options.topK) ? [] : ["options.topK: expected 1 to 1,000"])
  ]
}

const ofInjection = ({ budget, maxEntries }: InjectionConfig): ReadonlyArray<string> => [
  ...(maxEntries === undefined || isLimit(maxEntries) ? [] : ["maxEntries: expected 1 to 1,000"]),
  ...(budget === undefined || (Number.isInteger(budget) && budget > 0)
    ? []
    : ["budget: expected a whole number of tokens"])
]

const isShared = Schema.is(SharedWrites)
const isKind = Schema.is(MemoryKind.Name)
const isScope = Schema.is(MemoryScope)
const isLimit = Schema.is(Limit)
