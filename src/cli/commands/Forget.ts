/** The command `forget`, which forgets single records or erases all data of one person. */
import { fs } from "#builtins"
import * as Options from "@effect/cli/Options"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { MemoryId, stableId } from "../../domain/MemoryId.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { sideOf } from "../../storage/Copy/Lineage.ts"
import { MemoryStore, type Service } from "../../storage/MemoryStore.ts"
import { pathOf } from "../../storage/MemoryStore/Markdown/Layout.ts"
import { id as idOf, make, print, type Shared, textArgument } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Erasure from "../Erasure.ts"
import * as Progress from "../Progress.ts"
import { counted, safeLine, Screen } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

/** Schema of the JSON output of `forget` with ids. */
export const Forgotten = Schema.Struct({
  isPurged: Schema.Boolean,
  /** The ids of records that the command forgot or, with `--purge`, erased. */
  forgotten: Schema.Array(MemoryId),
  /**
   * The ids of records that do not exist or are not visible to the viewer. Without `--purge`, also the ids of records that have expired or
   * were forgotten before.
   */
  absent: Schema.Array(MemoryId)
})

/** Schema of the JSON output of `forget --user --purge` without ids. */
export const Erased = Schema.Struct({
  user: Schema.String,
  tenant: Schema.String,
  erased: Schema.Struct({ records: Schema.Number, tombstones: Schema.Number, internal: Schema.Number }),
  scan: Erasure.Scan,
  /** Files that are left in the user's folder of a vault, by their paths in the vault, since they are no records. For example copies. */
  files: Schema.optional(Schema.Array(Schema.String))
})

/** `forget`: forgets or purges records, or erases all data of one person. */
export const forget = make({
  name: "forget",
  summary: "forget records, or erase everything of a person",
  description: [
    "Forgets the records of the ids. They are gone at once, and restore brings them back until the store empties its trash. With --purge no revision, vector or index entry is left.",
    "Without ids, --user ID --purge erases everything of that user: every record, tombstone and revision of a scope that holds the user, threads, and messages that wait to be extracted. The store is then opened anew, and every row of the tenant is read to show that nothing is left. What records of other scopes say about the person stays, and so do messages of a cluster that wait to be delivered. In a vault the name of the user's folder stays in the history until that is compacted; files of that folder that are no records, such as copies, are named and left.",
    "Erasing asks on a terminal, and needs --yes elsewhere. One that was interrupted is finished by the same command."
  ],
  options: Options.all({
    purge: Options.boolean("purge").pipe(Options.withDescription("leaves no trace, and nothing to restore")),
    yes: Options.boolean("yes").pipe(Options.withAlias("y"), Options.withDescription("does not ask"))
  }),
  args: textArgument("ID", "ids of records"),
  examples: [
    ["forget 01JB7Y9QZ3M4N5P6Q7R8S9T0AB --user ada", "forgets one record"],
    ["forget --user ada --purge --yes", "erases everything of ada"]
  ],
  run: ({ args, options: { purge, yes }, shared }) =>
    args.length === 0
      ? purge
        ? erase(shared, yes)
        : CommandError.make("usage", "forget: expected an id", "--user ID --purge erases a person")
      : forgetAll(shared, args, purge, yes)
})

const forgetAll = (shared: Shared, args: ReadonlyArray<string>, purge: boolean, yes: boolean) =>
  Effect.gen(function*() {
    const ids = Array.from(new Set(yield* Effect.forEach(args, idOf)))
    if (purge) yield* confirm(`Purge ${counted(ids.length, "record")}?`, yes)
    const store = yield* MemoryStore
    const erasable = purge ? yield* visibleRows(store, shared.viewer, ids) : new Set<MemoryId>()
    const was = yield* store.forget(shared.viewer, ids, purge ? { purge } : {})
    const isGone = (id: MemoryId, n: number) => was[n] === true || erasable.has(id)
    const answer = {
      isPurged: purge,
      forgotten: ids.filter(isGone),
      absent: ids.filter((id, n) => !isGone(id, n))
    }
    yield* print(
      shared,
      Forgotten,
      answer,
      ({ forgotten }, { paint }) =>
        forgotten.map((id) => `${purge ? "purged" : "forgotten"}  ${paint("cyan", id)}`).join("\n")
    )
    if (answer.absent.length > 0) {
      return yield* CommandError.make(
        "notFound",
        `not there, or not for this viewer: ${answer.absent.join(", ")}`
      )
    }
  }).pipe(Effect.provide(StoreAddress.layer(shared.store)))

/**
 * Returns the ids whose rows the viewer sees. The rows include those of expired and forgotten records, which a purge erases, although
 * `MemoryStore.forget` returns false for them.
 */
const visibleRows = (store: Service, viewer: Viewer.Viewer, ids: ReadonlyArray<MemoryId>) =>
  Effect.gen(function*() {
    const { reader } = yield* sideOf(store)
    const rows = yield* reader.read(Viewer.tenantOf(viewer), ids)
    // `read` returns one result per id
    return new Set(ids.filter((_, n) => Option.exists(rows[n]!, ({ record }) => Viewer.sees(viewer, record.scope))))
  })

const erase = (shared: Shared, yes: boolean) =>
  Effect.gen(function*() {
    const { agentId, runId, sessionId, tenant, userId } = shared.viewer
    if (userId === undefined || [agentId, runId, sessionId].some((id) => id !== undefined)) {
      return yield* CommandError.make(
        "usage",
        "forget: a person is named by --user ID alone; else name the ids of records"
      )
    }
    const screen = yield* Screen
    const person = { tenant, userId }
    const open = Effect.map(Layer.build(Layer.fresh(StoreAddress.layer(shared.store))), Context.get(MemoryStore))
    const using = <A, E, R>(use: (store: Service) => Effect.Effect<A, E, R>) => Effect.scoped(Effect.flatMap(open, use))
    const { ids, ...erased } = yield* using((store) =>
      Effect.gen(function*() {
        const found = yield* Erasure.find(store, person)
        if (found.ids.length === 0) return found
        yield* confirm(
          `Erase ${counted(found.records, "record")}, ${counted(found.tombstones, "tombstone")} and ${
            counted(found.internal, "row")
          } of conversations of user ${safeLine(userId)}, for good?`,
          yes
        )
        const progress = yield* Progress.make("rows", found.ids.length)
        let done = 0
        yield* Erasure.purge(store, person, found.ids, (count) => {
          done = count
          return progress.at(count, "erasing")
        }).pipe(
          Effect.ensuring(progress.end),
          Effect.onInterrupt(() =>
            screen.err(
              `stopped after ${done} of ${counted(found.ids.length, "row")}; the same command erases the rest\n`
            )
          )
        )
        return found
      })
    )
    const files = shared.store._tag === "Vault" ? yield* removeFolders(shared.store.root, person) : []
    // `using` opens the store anew, so the scan reads from the disk and not from a cache
    const scan = yield* using((store) => Erasure.scan(store, person, ids))
    const answer = { user: userId, tenant, erased, scan, ...(files.length > 0 && { files }) }
    yield* print(shared, Erased, answer, () =>
      [
        `erased ${counted(erased.records, "record")}, ${counted(erased.tombstones, "tombstone")} and ${
          counted(erased.internal, "row")
        } of conversations of user ${safeLine(userId)}`,
        `read ${counted(scan.rows, "row")} of the tenant again: ${
          scan.remaining === 0 ? "nothing" : scan.remaining
        } left`,
        ...files.map((file) => `left in the user's folder: ${safeLine(file)}`)
      ].join("\n"))
    if (scan.remaining > 0) {
      return yield* CommandError.make("found", "something is left", "it was written meanwhile: run the command again")
    }
    if (files.length > 0) {
      return yield* CommandError.make("found", "files are left in the user's folder", "read and delete them by hand")
    }
  })

/**
 * Removes the empty folders of an erased person from a vault. A folder with a file or a link, at any depth, stays. Returns the paths of
 * these files, relative to the vault.
 */
const removeFolders = (root: string, { tenant, userId }: Erasure.Person) =>
  Effect.gen(function*() {
    const left: Array<string> = []
    const remove = (folder: string): Effect.Effect<void> =>
      Effect.gen(function*() {
        const read = Effect.tryPromise(() => fs.promises.readdir(`${root}/${folder}`, { withFileTypes: true }))
        for (const entry of yield* Effect.orElseSucceed(read, () => [])) {
          if (entry.isDirectory()) yield* remove(`${folder}/${entry.name}`)
          else if (entry.isFile()) left.push(`${folder}/${entry.name}`)
        }
        // `rmdir` fails for a folder that is not empty. Any failure is ignored, since an empty folder discloses only its name
        yield* Effect.orElseSucceed(Effect.tryPromise(() => fs.promises.rmdir(`${root}/${folder}`)), () => undefined)
      })
    const folder = pathOf(tenant, { userId }, stableId("")).split("/").slice(0, -1).join("/")
    const real = (at: string) =>
      Effect.tryPromise(async () => (await fs.promises.realpath(at)).replaceAll("\\", "/")).pipe(
        Effect.orElseSucceed(() => undefined)
      )
    const own = yield* real(`${root}/${folder}`)
    // a folder behind a link has another real path
    if (own !== undefined && own === `${yield* real(root)}/${folder}`) yield* remove(folder)
    return left.sort()
  })

const confirm = (question: string, yes: boolean) =>
  Effect.gen(function*() {
    if (yes) return
    const screen = yield* Screen
    if (!screen.canAsk) {
      return yield* CommandError.make("usage", "forget: this cannot be undone", "--yes does it without asking")
    }
    if (!(yield* screen.ask(`${question} [y/N] `))) {
      return yield* CommandError.make("failed", "nothing was done")
    }
  })
