/** The commands that check and repair a store: `verify`, `repair` and `doctor`. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import { FileSystem } from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { MemoryId } from "../../domain/MemoryId.ts"
import * as Embedder from "../../host/Embedder.ts"
import * as EmbeddingSync from "../../storage/EmbeddingSync.ts"
import { MemoryStore, type Service } from "../../storage/MemoryStore.ts"
import type { VaultService } from "../../storage/MemoryStore/Markdown.ts"
import { make, print, type Shared } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Doctor from "../Doctor.ts"
import * as Progress from "../Progress.ts"
import { counted, safeLine, Screen, type Service as Streams } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

/** Schema of the JSON output of `verify`. */
export const Verified = Doctor.Report

const opened = (shared: Shared) =>
  Effect.map(Layer.build(Layer.fresh(StoreAddress.layer(shared.store))), (context) => ({
    store: Context.get(context, MemoryStore),
    vault: Context.get(context, StoreAddress.OpenStore).vault
  }))

const examined = (shared: Shared, options: Pick<Doctor.Options, "checks" | "model"> = {}) =>
  Effect.scoped(Effect.gen(function*() {
    const checked = yield* Effect.either(StoreAddress.verify(shared.store))
    if (Either.isLeft(checked) && checked.left._tag === "CommandError") return yield* checked.left
    const open = yield* Effect.either(opened(shared))
    if (Either.isLeft(open)) {
      const problems = Either.getOrElse(checked, () => [])
      return problems.length > 0 ? Doctor.reportUnopened([...problems, open.left.message]) : yield* open.left
    }
    const fileProblems = Either.getOrElse(checked, ({ message }) => [message])
    const progress = yield* Progress.make("rows")
    return yield* Doctor.examine({
      ...open.right,
      ...options,
      canReindex: StoreAddress.canReindex(shared.store),
      fileProblems,
      ...(Option.isSome(shared.tenant) && { tenants: [shared.tenant.value] }),
      onProgress: (rows) => progress.at(rows, "reading")
    }).pipe(Effect.ensuring(progress.end))
  }))

/** `verify`: checks all files, and reads the records of each tenant up to the first unreadable one. Lists what is damaged. */
export const verify = make({
  name: "verify",
  summary: "read every record and file, and list what is damaged",
  description: [
    "Reads the rows of the store and every file of a vault, runs SQLite's integrity check on a SQLite file, and lists every problem. Changes nothing.",
    "Exits with 7 where it found something. doctor looks further."
  ],
  options: Options.none,
  args: Args.none,
  examples: [["verify", "checks ./.memory"], ["verify --store sqlite:memory.db --json", "checks a file"]],
  run: ({ shared }) =>
    Effect.gen(function*() {
      const report = yield* examined(shared, { checks: ["files", "records"] })
      yield* print(shared, Verified, report, summaryOf)
      if (!report.isHealthy) return yield* CommandError.make("found", "")
    })
})

/** Schema of the JSON output of `repair`. */
export const Repaired = Schema.Struct({
  /** Whether the files were restored. If false, the files were only listed. */
  isWritten: Schema.Boolean,
  repairs: Schema.Array(Schema.Struct({ path: Schema.String, id: MemoryId, revision: Schema.Number }))
})

/** Returns the damaged files that can be restored. With `write`, the files are also restored, and the progress is shown. */
const repaired = (vault: VaultService, write: boolean) =>
  Effect.gen(function*() {
    const found = yield* vault.repair()
    if (!write || found.length === 0) return found
    const progress = yield* Progress.make("files", found.length)
    return yield* Effect.ensuring(
      vault.repair({ write, onProgress: (files) => progress.at(files, "restoring") }),
      progress.end
    )
  })

/** `repair`: restores damaged files of a vault. */
export const repair = make({
  name: "repair",
  summary: "restore the damaged files of a vault",
  description: [
    "Lists the damaged files of a vault that have a good revision; with --write it restores them. The damaged bytes are kept in .effect-memory/damaged.",
    "A database mends itself when it is opened: there this does nothing. doctor --repair makes indexes and vectors again, too."
  ],
  options: Options.all({
    write: Options.boolean("write").pipe(Options.withDescription("restores them, instead of listing them"))
  }),
  args: Args.none,
  examples: [["repair", "lists what it would restore"], ["repair --write", "restores it"]],
  run: ({ options: { write }, shared }) =>
    Effect.gen(function*() {
      const { vault } = yield* opened(shared)
      const repairs = Option.isSome(vault) ? yield* repaired(vault.value, write) : []
      yield* print(shared, Repaired, { isWritten: write, repairs }, ({ repairs }, { paint }) =>
        repairs.length === 0
          ? "nothing to restore"
          : [
            ...repairs.map(({ id, path, revision }) => `${safeLine(path)}  ${paint("cyan", id)} revision ${revision}`),
            write
              ? `${counted(repairs.length, "file")} restored`
              : `${counted(repairs.length, "file")} to restore; --write restores them`
          ].join("\n"))
    })
})

/** Schema of the JSON output of `doctor`. */
export const Examined = Schema.Struct({
  ...Doctor.Report.fields,
  /**
   * The repairs that `--repair` made: the numbers of restored files and computed vectors, and whether the index was rebuilt. Absent without
   * `--repair`, or if it can repair no problem.
   */
  mended: Schema.optional(Schema.Struct({
    files: Schema.Number,
    vectors: Schema.Number,
    isReindexed: Schema.Boolean,
    /** Number of problems that remain after the repairs. */
    left: Schema.Number
  }))
})

/** `doctor`: makes all checks of a store. With `--repair`, also repairs what can be repaired without loss of data. */
export const doctor = make({
  name: "doctor",
  summary: "check the store in every way, and mend what is safe",
  description: [
    "Looks for unreadable files, damaged records, links to nowhere, texts that await vectors, duplicates, records that their own words do not find, and conversations whose extraction was given up on.",
    "With --repair it first prints what it found, then restores damaged files from their last good revisions, makes the index of a database again, and makes the vectors of the word-vector model. It removes no record and no link. A terminal is asked before; elsewhere --repair is enough. --dry-run, the default, changes nothing.",
    "Exits with 7 where something is left to mend."
  ],
  options: Options.all({
    repair: Options.boolean("repair").pipe(Options.withDescription("mends what is safe")),
    dryRun: Options.boolean("dry-run").pipe(Options.withDescription("changes nothing; the default")),
    yes: Options.boolean("yes").pipe(Options.withAlias("y"), Options.withDescription("does not ask"))
  }),
  args: Args.none,
  examples: [["doctor", "checks ./.memory"], ["doctor --repair", "shows what it would do, then does it"]],
  run: ({ options: { dryRun, repair, yes }, shared }) =>
    Effect.gen(function*() {
      if (repair && dryRun) {
        return yield* CommandError.make("usage", "doctor: --repair and --dry-run exclude each other")
      }
      const screen = yield* Screen
      const embedder = yield* wordVectors
      const model = Option.getOrUndefined(Option.map(embedder, ({ model }) => model))
      const report = yield* examined(shared, { model })
      const due = report.findings.filter(({ isMendable }) => isMendable)
      if (!repair || due.length === 0) {
        yield* print(shared, Examined, report, summaryOf)
        if (!report.isHealthy) return yield* CommandError.make("found", "")
        return
      }
      if (!shared.json) yield* screen.out(`${summaryOf(report, screen)}\n`)
      if (screen.canAsk && !yes && !(yield* screen.ask(`Mend ${counted(due.length, "finding")}? [y/N] `))) {
        return yield* CommandError.make("failed", "nothing was done")
      }
      const files = yield* mendFiles(shared)
      const isReindexed = due.some(({ check }) => check === "index") && (yield* StoreAddress.reindex(shared.store))
      const vectors = Option.isSome(embedder) && due.some(({ check }) => check === "vectors")
        ? yield* embedMissing(shared, embedder.value)
        : 0
      const after = yield* examined(shared, { model })
      const mended = { files, vectors, isReindexed, left: after.findings.length }
      yield* print(shared, Examined, { ...report, mended }, () =>
        [
          `mended: ${counted(files, "file")} restored, ${counted(vectors, "vector")} made${
            isReindexed ? ", index made again" : ""
          }`,
          after.isHealthy ? "nothing is left" : summaryOf(after, screen)
        ].join("\n"))
      if (!after.isHealthy) return yield* CommandError.make("found", "")
    })
})

const mendFiles = (shared: Shared) =>
  Effect.scoped(Effect.gen(function*() {
    const { vault } = yield* opened(shared)
    return Option.isSome(vault) ? (yield* vault.value.repair({ write: true })).length : 0
  }))

/** The embedder of the bundled word vectors. `None` if the files of the vectors are missing or cannot be read. */
const wordVectors: Effect.Effect<Option.Option<Embedder.Service>, never, FileSystem> = Effect.scoped(
  Effect.option(Effect.map(Layer.build(Embedder.layerWordVectors), Context.get(Embedder.Embedder)))
)

const embedMissing = (shared: Shared, embedder: Embedder.Service) =>
  Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(shared)
    const total = yield* pendingOf(store, embedder.model)
    const progress = yield* Progress.make("texts", total)
    let done = 0
    const counting: Embedder.Service = {
      ...embedder,
      embed: (texts, purpose) =>
        Effect.tap(embedder.embed(texts, purpose), () => progress.at(done += texts.length, "making vectors"))
    }
    return yield* Effect.ensuring(EmbeddingSync.make(store, counting).missing, progress.end)
  }))

const pendingOf = (store: Service, model: string) =>
  Option.match(store.vectors, {
    onNone: () => Effect.succeed(0),
    onSome: ({ pending }) =>
      Effect.flatMap(store.tenants, (tenants) =>
        Effect.reduce(tenants, 0, (sum, tenant) =>
          Effect.map(pending(tenant, model), ({ length }) => sum + length)))
  })

/** Largest number of printed problems per check. */
const most = 20

const summaryOf = (report: Doctor.Report, { paint }: Streams): string =>
  report.isHealthy ? `${paint("green", "healthy")}: ${counted(report.rows, "row")} read` : [
    ...Doctor.Check.literals.flatMap((check) => {
      const findings = report.findings.filter((finding) => finding.check === check)
      if (findings.length === 0) return []
      const more = findings.length - most
      return [
        paint("bold", `${check}: ${findings.length}`),
        ...findings.slice(0, most).map(({ id, isMendable, message, path, tenant }) => {
          const place = [tenant === undefined || tenant === "default" ? "" : `tenant ${tenant}`, path ?? "", id ?? ""]
          return `  ${isMendable ? paint("yellow", "mendable") : paint("red", "for you ")}  ${
            safeLine(place.filter((part) => part !== "").join(" "))
          }  ${safeLine(message)}`
        }),
        ...(more > 0 ? [`  … and ${more} more; --json lists all`] : [])
      ]
    }),
    `${counted(report.findings.length, "finding")} in ${counted(report.rows, "row")}`
  ].join("\n")
