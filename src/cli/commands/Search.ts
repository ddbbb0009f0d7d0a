/** The commands that search: `recall`, which finds records, and `why`, which explains why a record was not found. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Absence, absences, excerptOf, type Hit, type MemoryQuery, SearchResult } from "../../domain/MemoryFilter.ts"
import { MemoryId } from "../../domain/MemoryId.ts"
import { scopeOf } from "../../domain/Viewer.ts"
import * as Analyzer from "../../ranking/Analyzer.ts"
import { MemoryStore } from "../../storage/MemoryStore.ts"
import * as Cards from "../Cards.ts"
import { id as idOf, idArgument, make, print, textArgument, valued } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Filters from "../Filters.ts"
import { counted, safeLine, Screen, type Service } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

const searchOptions = {
  ...Filters.options,
  minScore: valued(Options.float("min-score"), "0..1", "leaves out hits below this score").pipe(Options.optional)
}

const queryOf = (
  options: Filters.Values & { readonly minScore: Option.Option<number> },
  words: ReadonlyArray<string>
): MemoryQuery => ({
  ...Filters.filterOf(options),
  ...(words.length > 0 && { text: words.join(" ") }),
  ...(Option.isSome(options.minScore) && { minScore: options.minScore.value })
})

/** `recall`: searches records by words. */
export const recall = make({
  name: "recall",
  summary: "search memories by words, best first",
  description: [
    "Prints the records that answer the question, ranked by BM25 and what the kind of a record counts for, in the scopes that the viewer sees.",
    "A terminal is shown cards: score, passage with the words of the question, age, scope, tags and id. A pipe gets one block of plain lines a hit; --json gets everything.",
    "Searching counts no use and writes nothing."
  ],
  options: Options.all({
    ...searchOptions,
    explain: Options.boolean("explain").pipe(Options.withDescription("shows what each score is made of"))
  }),
  args: textArgument("QUESTION", "words to search for; without any, the newest records"),
  examples: [
    ["recall tea or coffee", "searches what is Global"],
    ["recall --user ada \"what does she drink?\" --limit 3", "searches what ada's agents see"],
    ["recall --reach everyone rocket --explain", "searches the whole tenant, and explains scores"],
    ["recall tea --json | jq -r '.hits[].record.body'", "hands the texts to another program"]
  ],
  run: ({ args, options: { explain, ...options }, shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const query = { ...queryOf(options, args), ...(explain && { explain }) }
      const result = yield* store.search(shared.viewer, query)
      const now = yield* Clock.currentTimeMillis
      const analyzer = yield* Analyzer.Analyzer
      yield* print(shared, SearchResult, result, ({ hits, leftOut }, screen) => {
        const isAsked = Cards.asked(analyzer, args.join(" "))
        const more = leftOut.limit + leftOut.budget
        const note = more === 0 || !screen.isTerminal
          ? []
          : [screen.paint("dim", `${counted(more, "more hit")}; --limit shows them`)]
        return [...hits.map((hit, n) => card(hit, n, isAsked, now, screen)), ...note].join(
          screen.isTerminal ? "\n\n" : "\n"
        )
      })
      if (result.hits.length === 0 && !shared.json) yield* nothingFound(shared)
      const screen = yield* Screen
      for (const { error, leg } of result.failures) {
        yield* screen.err(`effect-memory: no ${safeLine(leg)}: ${safeLine(error.message)}\n`)
      }
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})

const nothingFound = ({ viewer }: { readonly viewer: Parameters<typeof scopeOf>[0] }) =>
  Effect.flatMap(Screen, (screen) =>
    screen.err(
      scopeOf(viewer) === "global" && !("reach" in viewer && viewer.reach === "everyone")
        ? "nothing found among Global records; --user ID shows a user's, --reach everyone all\n"
        : "nothing found\n"
    ))

const card = (hit: Hit, n: number, isAsked: Cards.IsAsked, now: number, screen: Service): string => {
  const { paint } = screen
  const { explanation, record, score } = hit
  const text = excerptOf(hit)
  const isTold = text.trim() === record.summary.trim() || text.trim() === ""
  const passage = Cards.highlight(Cards.excerpt(text, isAsked, 320), isAsked, screen)
  const why = explanation === undefined ? [] : [
    Object.entries(explanation)
      .sort(([, a], [, b]) => Math.abs(b) - Math.abs(a))
      .map(([name, share]) => `${safeLine(name)} ${share.toFixed(3)}`)
      .join(" · ")
  ]
  const head = screen.isTerminal
    ? `${paint("bold", `${n + 1}.`)} ${paint("green", Cards.bar(score))} ${score.toFixed(2)}  ${
      Cards.highlight(safeLine(record.summary), isAsked, screen)
    }`
    : `${score.toFixed(3)}  ${safeLine(record.summary)}`
  return [
    head,
    `    ${Cards.facts(record, now, screen)}`,
    ...(isTold ? [] : [Cards.indented(passage, screen)]),
    ...why.map((line) => Cards.indented(paint("dim", line), screen))
  ].join("\n")
}

/** Schema of the JSON output of `why`. */
export const Why = Schema.Struct({
  id: MemoryId,
  question: Schema.String,
  /** Whether the record is among the hits. */
  isFound: Schema.Boolean,
  /** The reason why the record is not among the hits; absent if `isFound`. */
  reason: Schema.optional(Absence)
})

/** `why`: explains why a record is not among the hits of a query. */
export const why = make({
  name: "why",
  summary: "explain why a record is not found by a question",
  description: [
    "Asks the store the question as recall does, and says why the record is not among the hits. Where it is among them, says so.",
    "The options have to be those of the recall that is explained."
  ],
  options: Options.all(searchOptions),
  args: Args.all({ id: idArgument, question: textArgument("QUESTION", "the question, as recall was asked") }),
  examples: [["why 01JB7Y9QZ3M4N5P6Q7R8S9T0AB tea or coffee", "says for example: it has none of the words"]],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const id = yield* idOf(args.id)
      if (args.question.length === 0) return yield* CommandError.make("usage", "why: expected an id and a question")
      const reason = yield* store.whyNot(shared.viewer, id, queryOf(options, args.question))
      const answer = {
        id,
        question: args.question.join(" "),
        isFound: Option.isNone(reason),
        ...(Option.isSome(reason) && { reason: reason.value })
      }
      yield* print(shared, Why, answer, () =>
        Option.match(reason, {
          onNone: () => "it is found",
          onSome: (reason) => `${reason}: ${absences[reason]}`
        }))
    }).pipe(Effect.provide(StoreAddress.layer(shared.store)))
})
