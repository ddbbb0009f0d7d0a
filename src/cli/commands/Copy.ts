/** The command `copy`, which copies all records of a store, or of one of its tenants, into another store. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { MemoryStore, type Service } from "../../storage/MemoryStore.ts"
import * as Copying from "../../transfer/Copy.ts"
import { make, print, valued } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Progress from "../Progress.ts"
import * as Rows from "../Rows.ts"
import { counted, number, safeLine, Screen } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

/** Schema of the JSON output of `copy`. */
export const Copied = Schema.Struct({
  tenants: Schema.Number,
  records: Schema.Number,
  tombstones: Schema.Number,
  revisions: Schema.Number,
  vectors: Schema.Number,
  uses: Schema.Number,
  /** Number of revisions, vectors and use counts that were written; 0 if the target already had everything. */
  written: Schema.Number,
  verified: Schema.Boolean,
  differing: Schema.Number,
  checksums: Schema.Struct({ from: Schema.String, to: Schema.String }),
  omitted: Schema.Array(Schema.Literal("history", "vectors", "uses"))
})

/** `copy`: copies a store into another one, and then compares the two stores. */
export const copy = make({
  name: "copy",
  summary: "copy the store into another one, and verify it",
  description: [
    "Copies every record of --store with its revisions, tombstones, vectors and uses into another store, then reads both sides again and compares them. Without --tenant it copies all tenants.",
    "Nothing in the target is overwritten. A copy that was stopped goes on when it is run again, and one that is complete writes nothing.",
    "Exits with 7 where the two sides differ at the end because one of them was written to meanwhile."
  ],
  options: Options.all({
    batch: valued(Options.integer("batch"), "N", "records of a transaction, 1..1,000; default 100").pipe(
      Options.optional
    )
  }),
  args: Args.text({ name: "TO" }).pipe(Args.withDescription("the store to copy into, as --store names one")),
  examples: [
    ["copy sqlite:memory.db", "copies ./.memory into a SQLite file"],
    ["--store sqlite:memory.db copy postgres://localhost/memory", "moves on to a server"]
  ],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const screen = yield* Screen
      const address = yield* StoreAddress.parse(args)
      const from = yield* open(shared.store, {})
      const to = yield* open(address, { create: true })
      const tenants = Option.isSome(shared.tenant) ? { tenants: [shared.tenant.value] } : {}
      const total = screen.isErrorTerminal ? yield* Rows.count(from, tenants.tenants) : undefined
      const progress = yield* Progress.make("records", total)
      let last: Copying.Progress | undefined
      const copied = yield* Copying.copy(from, to, {
        ...tenants,
        ...(Option.isSome(options.batch) && { batch: options.batch.value }),
        onProgress: (now) => {
          last = now
          return progress.at(now.records, doing[now.phase])
        }
      }).pipe(
        Effect.ensuring(progress.end),
        Effect.onInterrupt(() => screen.err(`${stopped(last)}\n`))
      )
      // a vault has use counts only in RAM, so the copied use counts are lost when this process ends
      const areUsesLost = copied.uses > 0 && address._tag === "Vault"
      const report = { ...copied, omitted: [...copied.omitted, ...(areUsesLost ? ["uses" as const] : [])] }
      yield* print(shared, Copied, report, (report) =>
        [
          `${counted(report.records, "record")} in ${counted(report.tenants, "tenant")}: ${
            number(report.written)
          } written`,
          report.verified ? "verified: both sides are equal" : `not verified: ${number(report.differing)} differ`,
          ...report.omitted.map((part) => `left out, since the target cannot keep it: ${part}`)
        ].join("\n"))
      if (!report.verified) {
        return yield* CommandError.make("found", "the two stores differ", "one was written to meanwhile: copy again")
      }
    })
})

const doing = { check: "looking for conflicts", copy: "copying", verify: "comparing" } as const

const stopped = (last: Copying.Progress | undefined): string =>
  last === undefined
    ? "stopped before anything was written; the same command begins again"
    : `stopped while ${doing[last.phase]} tenant ${safeLine(last.tenant)}, after ${counted(last.records, "record")}; ${
      number(last.written)
    } written. The same command goes on from there`

const open = (
  address: StoreAddress.StoreAddress,
  options: StoreAddress.OpenOptions
): Effect.Effect<
  Service,
  Effect.Effect.Error<ReturnType<typeof built>>,
  Effect.Effect.Context<ReturnType<typeof built>>
> => Effect.map(built(address, options), Context.get(MemoryStore))

const built = (address: StoreAddress.StoreAddress, options: StoreAddress.OpenOptions) =>
  Layer.build(Layer.fresh(StoreAddress.layer(address, options)))
