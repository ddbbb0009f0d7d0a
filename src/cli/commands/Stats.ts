/** The command `stats`, which counts the contents of a store. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { isExpired } from "../../domain/MemoryRecord.ts"
import { isInternal, key as scopeKey } from "../../domain/MemoryScope.ts"
import * as OutboxState from "../../harness/Outbox/OutboxState.ts"
import * as OutboxWorkers from "../../harness/Outbox/OutboxWorkers.ts"
import { MemoryStore } from "../../storage/MemoryStore.ts"
import * as Cards from "../Cards.ts"
import { make, print } from "../Command.ts"
import * as Rows from "../Rows.ts"
import { age, counted, number, safeLine } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

const Counts = Schema.Record({ key: Schema.String, value: Schema.Number })
const Tenant = Schema.Struct({
  tenant: Schema.String,
  /** Number of records, without tombstones and expired records. */
  records: Schema.Number,
  expired: Schema.Number,
  tombstones: Schema.Number,
  scopes: Schema.Number,
  /** Total length, in UTF-16 units, of the bodies of the records that `records` counts. */
  characters: Schema.Number,
  kinds: Counts,
  /** Number of texts without a vector, by model. The keys are all models for which the tenant has vectors. */
  awaiting: Counts,
  /**
   * Numbers of messages. `waiting`: messages of batches that wait for extraction. `parked`: messages of batches that were set aside after
   * failures. Messages that were not selected for extraction count, too.
   */
  messages: Schema.Struct({ waiting: Schema.Number, parked: Schema.Number }),
  /** Time of the last change of one of the records that `records` counts, epoch milliseconds. Absent if there are none. */
  changedAt: Schema.optional(Schema.Number)
})
/** Schema of the JSON output of `stats`. */
export const Stats = Schema.Struct({ store: Schema.String, tenants: Schema.Array(Tenant) })

/** `stats`: counts the contents of a store. */
export const stats = make({
  name: "stats",
  summary: "count what the store holds",
  description: [
    "Counts the records, tombstones, scopes, kinds, vectors and waiting messages of every tenant, or of the one that is named. Reads every row."
  ],
  options: Options.none,
  args: Args.none,
  examples: [["stats", "what ./.memory holds"], [
    "stats --store sqlite:memory.db --json",
    "the same of a file, for a program"
  ]],
  run: ({ shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const now = yield* Clock.currentTimeMillis
      const named = Option.isSome(shared.tenant) ? [shared.tenant.value] : undefined
      const tenants = yield* Effect.forEach(
        yield* Rows.tenantsOf(store, named),
        (tenant) => tenantOf(store, tenant, now)
      )
      yield* print(
        shared,
        Stats,
        { store: StoreAddress.shown(shared.store), tenants },
        ({ store, tenants }, { paint }) =>
          [
            paint("bold", safeLine(store)),
            ...tenants.map(
              ({ awaiting, characters, expired, kinds, messages, records, scopes, tenant, tombstones, ...rest }) => {
                const all = Object.entries(kinds).sort(([, a], [, b]) => b - a)
                return [
                  `${paint("bold", `tenant ${safeLine(tenant)}`)}: ${counted(records, "record")} in ${
                    counted(scopes, "scope")
                  }, ${number(characters)} characters`,
                  ...all.map(([kind, count]) => `  ${safeLine(kind).padEnd(14)} ${number(count).padStart(9)}`),
                  `  expired ${number(expired)}, in the trash ${number(tombstones)}`,
                  ...Object.entries(awaiting).map(([model, count]) =>
                    `  vectors of ${safeLine(model)}: ${number(count)} awaiting`
                  ),
                  ...(messages.waiting + messages.parked === 0
                    ? []
                    : [`  messages: ${number(messages.waiting)} waiting, ${number(messages.parked)} given up on`]),
                  ...(rest.changedAt === undefined ? [] : [`  last change ${age(rest.changedAt, now)}`])
                ].join("\n")
              }
            )
          ].join("\n")
      )
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})

const tenantOf = (store: typeof MemoryStore.Service, tenant: string, now: number) =>
  Effect.gen(function*() {
    const kinds: Record<string, number> = {}
    const scopes = new Set<string>()
    const sums = { records: 0, expired: 0, tombstones: 0, characters: 0 }
    let last = -1
    yield* Stream.runForEach(Rows.of(store, tenant), ({ forgotten, record }) =>
      Effect.sync(() => {
        if (isInternal(record.scope)) return
        if (forgotten) return void sums.tombstones++
        if (isExpired(record, now)) return void sums.expired++
        sums.records++
        sums.characters += record.body.length
        kinds[record.kind] = (kinds[record.kind] ?? 0) + 1
        scopes.add(scopeKey(record.scope))
        last = Math.max(last, Cards.changedAt(record))
      }))
    const states = yield* OutboxState.all(store, tenant)
    const awaiting: Record<string, number> = {}
    if (Option.isSome(store.vectors)) {
      const { models, pending } = store.vectors.value
      for (const model of yield* models(tenant)) awaiting[model] = (yield* pending(tenant, model)).length
    }
    return {
      tenant,
      ...sums,
      scopes: scopes.size,
      kinds,
      awaiting,
      messages: {
        waiting: states.reduce((sum, state) => sum + OutboxWorkers.waitingOf(state), 0),
        parked: states.flatMap(OutboxWorkers.deadLettersOf).reduce((sum, { from, to }) => sum + to - from, 0)
      },
      ...(last >= 0 && { changedAt: last })
    }
  })
