/** The commands about single records: `remember`, `list`, `show`, `history` and `restore`. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Page } from "../../domain/MemoryFilter.ts"
import { MemoryId } from "../../domain/MemoryId.ts"
import { MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { MemoryStore } from "../../storage/MemoryStore.ts"
import * as Cards from "../Cards.ts"
import { id as idOf, idArgument, make, print, type Shared, textArgument, valued } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Filters from "../Filters.ts"
import { iso, safe, safeLine, Screen, type Service } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

const absent = CommandError.make("notFound", "there is no such record, or this viewer does not see it")

/** Schema of the JSON output of `remember`. */
export const Remembered = Schema.Struct({
  outcome: Schema.Literal("created", "updated", "duplicate"),
  record: MemoryRecord
})

/** Largest size of a text on stdin, in bytes. It far exceeds the longest body, since white space at the end of the text is removed. */
const longestInput = 4_194_304
const tooLong = CommandError.make("refused", `remember: the text is longer than ${longestInput} bytes`)
const notUtf8 = CommandError.notUtf8("remember: the text")

/** `remember`: writes a record. */
export const remember = make({
  name: "remember",
  summary: "write a memory",
  description: [
    "Writes a record into the scope of the ids that are given: --user ada writes what ada's agents see, no id what everybody sees.",
    "Kinds that deduplicate, as the default kind does, write what a live record of the scope says already only once; the outcome is then duplicate.",
    "The text is the arguments, or stdin where there are none or the one argument is -."
  ],
  options: Options.all({
    kind: valued(Options.text("kind"), "KIND", "kind of the record; default user").pipe(Options.withDefault("user")),
    tag: valued(Options.text("tag"), "TAG", "a tag; may be given several times").pipe(Options.repeated),
    summary: valued(Options.text("summary"), "LINE", "one line in place of the one that is made of the text").pipe(
      Options.optional
    ),
    importance: valued(Options.float("importance"), "0..1", "importance; default that of the kind").pipe(
      Options.optional
    ),
    id: valued(Options.text("id"), "ID", "id of the record to create or replace; default a new one").pipe(
      Options.optional
    )
  }),
  args: textArgument("TEXT", "the text; - reads stdin"),
  examples: [
    ["remember \"Drinks tea, never coffee.\" --user ada --tag drinks", "writes a fact about ada"],
    ["remember \"Deploy on Tuesdays.\" --kind project", "writes what everybody sees"],
    ["remember --kind note < meeting.md", "writes what stdin says"]
  ],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const screen = yield* Screen
      const isPiped = args.length === 0 || args.length === 1 && args[0] === "-"
      if (args.length === 0 && screen.canAsk) return yield* CommandError.make("usage", "remember: expected a text")
      const body = isPiped
        ? (yield* Effect.mapError(screen.input(longestInput), (error) => error === "too long" ? tooLong : notUtf8))
          .trimEnd()
        : args.join(" ")
      if (body.trim() === "") return yield* CommandError.make("refused", "remember: the text is empty")
      const id = Option.isSome(options.id) ? { id: yield* idOf(options.id.value) } : {}
      const store = yield* MemoryStore
      const [put] = yield* store.put(shared.viewer, [{
        scope: Viewer.scopeOf(shared.viewer),
        kind: options.kind,
        body,
        ...id,
        ...(options.tag.length > 0 && { tags: options.tag }),
        ...Filters.field("summary", options.summary),
        ...Filters.field("importance", options.importance)
      }])
      yield* print(shared, Remembered, put!, ({ outcome, record }, { paint }) =>
        // `put` is defined, since the store returns one result per draft
        `${outcome}  ${paint("cyan", record.id)}`)
    }).pipe(Effect.provide(StoreAddress.layer(shared.store, { create: true })))
})

/** Schema of the JSON output of `list`. */
export const Listed = Page(MemoryRecord)

/** `list`: prints a page of records. */
export const list = make({
  name: "list",
  summary: "list records, newest first",
  description: [
    "Prints the records that the viewer sees. Where there are more, the last line, or next of the JSON, has the cursor for --after.",
    "With --forgotten it lists the trash: what was forgotten and can be restored."
  ],
  options: Options.all({
    ...Filters.options,
    after: valued(Options.text("after"), "CURSOR", "goes on where the page before ended").pipe(Options.optional),
    forgotten: Options.boolean("forgotten").pipe(Options.withDescription("lists the trash"))
  }),
  args: Args.none,
  examples: [
    ["list --user ada --kind user", "lists the facts about ada"],
    ["list --reach everyone --limit 100 --json", "the newest hundred of the tenant"],
    ["list --user ada --forgotten", "what can be restored"]
  ],
  run: ({ options: { after, forgotten, ...options }, shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const cursor = Option.map(after, (text) => text as NonNullable<Page<unknown>["next"]>) // the store refuses an invalid cursor
      const page = yield* store.list(shared.viewer, {
        ...Filters.filterOf(options),
        ...Filters.field("after", cursor),
        ...(forgotten && { forgotten })
      })
      const now = yield* Clock.currentTimeMillis
      yield* print(shared, Listed, page, ({ items, next }, screen) =>
        [
          ...items.map((record) => Cards.row(record, now, screen)),
          ...(next === undefined ? [] : [screen.paint("dim", `more: --after ${next}`)])
        ].join("\n"))
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})

const Ends = Schema.Array(Schema.Struct({ id: MemoryId, type: Schema.String, weight: Schema.Number }))
/** Schema of the JSON output of `show`. */
export const Shown = Schema.Struct({
  record: MemoryRecord,
  /** Links of the record. `to` has the records to which this record links. `from` has the records that link to this record. */
  links: Schema.Struct({ to: Ends, from: Ends }),
  uses: Schema.Struct({ count: Schema.Number, accessedAt: Schema.optional(Schema.Number) })
})

/** Reads a record. Fails with the error `notFound` if the record does not exist or the viewer does not see it. */
const recordOf = (shared: Shared, id: MemoryId) =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const [found = Option.none<MemoryRecord>()] = yield* store.get(shared.viewer, [id])
    return Option.isSome(found) ? found.value : yield* absent
  })

/** `show`: prints one record, its links, and how often it was used. */
export const show = make({
  name: "show",
  summary: "show a record, its links and its uses",
  description: ["Prints everything that a record says, the records that it links to, and those that link to it."],
  options: Options.none,
  args: idArgument,
  examples: [["show 01JB7Y9QZ3M4N5P6Q7R8S9T0AB --user ada", "one record of ada's"]],
  run: ({ args, shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const id = yield* idOf(args)
      const record = yield* recordOf(shared, id)
      const links = yield* store.links(shared.viewer, id)
      const [uses = { count: 0 }] = yield* store.uses(shared.viewer, [id])
      yield* print(shared, Shown, { record, links, uses }, shownAs)
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})

const shownAs = ({ links, record, uses }: typeof Shown.Type, { paint }: Service): string => {
  const { source } = record
  const fields: ReadonlyArray<readonly [string, string]> = [
    ["id", record.id],
    ["kind", record.kind],
    ["scope", Cards.scopeIn(record.scope)],
    ["tags", record.tags.join(", ")],
    ["revision", String(record.revision)],
    ["importance", String(record.importance)],
    ["confidence", String(record.confidence ?? "")],
    ["created", iso(record.createdAt)],
    ["updated", record.updatedAt === undefined ? "" : iso(record.updatedAt)],
    ["valid", `${iso(record.validAt)} – ${record.invalidAt === undefined ? "" : iso(record.invalidAt)}`],
    ["expires", record.expiresAt === undefined ? "" : iso(record.expiresAt)],
    ["origin", `${source.origin}, trust ${source.trust}`],
    ["session", source.session ?? ""],
    ["uses", uses.count === 0 ? "" : String(uses.count)],
    ["replaced by", record.supersededBy ?? ""],
    ["data", Object.keys(record.data).length === 0 ? "" : JSON.stringify(record.data)],
    ["metadata", Object.keys(record.metadata).length === 0 ? "" : JSON.stringify(record.metadata)],
    ...links.to.map(({ id, type }) => ["links to", `${id} (${type})`] as const),
    ...links.from.map(({ id, type }) => ["linked from", `${id} (${type})`] as const)
  ]
  return [
    paint("bold", safeLine(record.summary)),
    ...fields.flatMap(([name, value]) => value === "" ? [] : [`${paint("dim", name.padEnd(12))} ${safeLine(value)}`]),
    "",
    safe(record.body)
  ].join("\n")
}

/** Schema of the JSON output of `history`. */
export const Revisions = Schema.Struct({ items: Schema.Array(MemoryRecord) })

/** `history`: lists the revisions of a record. */
export const history = make({
  name: "history",
  summary: "list the revisions of a record, newest first",
  description: ["Prints the revisions that the store keeps, twenty of a record, and what each changed."],
  options: Options.all({ limit: Filters.options.limit }),
  args: idArgument,
  examples: [["history 01JB7Y9QZ3M4N5P6Q7R8S9T0AB", "what became of a record"]],
  run: ({ args, options: { limit }, shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const items = yield* store.history(shared.viewer, yield* idOf(args), limit)
      if (items.length === 0) return yield* absent
      yield* print(shared, Revisions, { items }, ({ items }, { paint }) =>
        items.map((record, n) => {
          const before = items[n + 1]
          const changed = before === undefined ? "" : `  ${changes(before, record).join(", ")}`
          return `${paint("bold", String(record.revision).padStart(4))}  ${iso(Cards.changedAt(record))}  ${
            safeLine(record.summary)
          }${paint("dim", changed)}`
        }).join("\n"))
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})

const compared = [
  "summary",
  "body",
  "tags",
  "importance",
  "confidence",
  "links",
  "data",
  "metadata",
  "invalidAt",
  "expiresAt",
  "supersededBy"
] as const
const changes = (before: MemoryRecord, after: MemoryRecord): ReadonlyArray<string> =>
  compared.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))

/** Schema of the JSON output of `restore`. */
export const Restored = Schema.Struct({ record: MemoryRecord })

/** `restore`: brings back a forgotten record, or an earlier revision. */
export const restore = make({
  name: "restore",
  summary: "bring back a forgotten record, or an earlier revision",
  description: [
    "Writes what an earlier revision said as the next revision. Without --revision a forgotten record comes back as it was, and a live one as it was before its last change.",
    "What was forgotten can be restored as long as the store keeps its trash, thirty days by default; what was purged cannot."
  ],
  options: Options.all({
    revision: valued(Options.integer("revision"), "N", "the revision to bring back").pipe(Options.optional)
  }),
  args: idArgument,
  examples: [
    ["restore 01JB7Y9QZ3M4N5P6Q7R8S9T0AB --user ada", "brings back what was forgotten"],
    ["restore 01JB7Y9QZ3M4N5P6Q7R8S9T0AB --revision 2", "brings back its second revision"]
  ],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const id = yield* idOf(args)
      const revision = Option.isSome(options.revision) ? options.revision.value : yield* previous(shared, id)
      if (revision < 1) return yield* CommandError.make("refused", "--revision: expected a number of at least 1")
      yield* store.apply(shared.viewer, [{ _tag: "Restore", id, revision }])
      const record = yield* recordOf(shared, id)
      yield* print(shared, Restored, { record }, ({ record }, { paint }) =>
        `restored  ${paint("cyan", record.id)}  revision ${record.revision}`)
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})

/**
 * Returns the number of the revision that `restore` uses by default. For a forgotten record, this is the newest revision, which has the
 * forgotten content. For any other record, it is the revision before the newest one.
 */
const previous = ({ viewer }: Shared, id: MemoryId) =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const { items: [forgotten] } = yield* store.list(viewer, { forgotten: true, ids: [id], limit: 1 })
    if (forgotten !== undefined) return forgotten.revision
    const [current, before] = yield* store.history(viewer, id, 2)
    if (current === undefined) return yield* absent
    return before === undefined
      ? yield* CommandError.make("refused", "the record has no earlier revision")
      : before.revision
  })
