/** Run 2, a new process: resumes under the saved spec, recalls, and is refused under another spec. */
import { NodeRuntime } from "@effect/platform-node"
import { type MemoryFilter, MemoryService, MemorySpec, Resume } from "effect-memory"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { layer, pilot, runId, spec } from "./Harness.ts"
import { bar, bold, dim, green, heading, line, red, said, short } from "./Stage.ts"

const resuming = Effect.gen(function*() {
  const { resume } = yield* Resume.Resume
  yield* heading("Run 2", `process ${process.pid}, the same vault`)
  const { hash, turn } = yield* Effect.flatMap(
    resume(runId, spec),
    Option.match({
      onNone: () => Effect.fail("there is nothing to resume"),
      onSome: Effect.succeed
    })
  )
  yield* line(`${green("✓")} resumed after turn ${turn}: the spec's hash is the saved one, ${dim(short(hash, 17))}`)
})

const questions = [
  "When should I open a pull request?",
  "Which command checks types, lint and format?",
  "staging-2?"
]

const recalling = Effect.gen(function*() {
  const memory = yield* MemoryService.MemoryService
  yield* heading("What it remembers", "score = lexical + recency + importance; lexical from the terms' BM25")
  for (const text of questions) {
    const { hits, leftOut } = yield* memory.search({
      text,
      limit: 2,
      weights: { lexical: 0.7, recency: 0.2, importance: 0.1 },
      explain: true
    })
    yield* line("")
    yield* said("question", bold(text))
    if (hits.length === 0) yield* said("", "nothing is known of it")
    yield* Effect.forEach(hits, explain)
    if (leftOut.limit > 0) yield* said("", dim(`and ${leftOut.limit} more, not shown`))
  }
})

const explain = ({ explanation = {}, record, score }: MemoryFilter.Hit) =>
  Effect.gen(function*() {
    const number = (name: string) => (explanation[name] ?? 0).toFixed(2)
    const terms = Object.entries(explanation).filter(([name]) => /^(?:term|tag):/.test(name))
      .map(([name, value]) => `${name.replace(/^term:/, "")} ${value.toFixed(2)}`)
    yield* said(`   ${score.toFixed(2)}`, `${bar(score)} ${short(record.summary, 60)} ${dim(`[${record.kind}]`)}`)
    yield* said(
      "",
      dim(`lexical ${number("lexical")} + recency ${number("recency")} + importance ${number("importance")}`)
    )
    yield* said("", dim(`BM25 ${number("bm25")} = ${short(terms.join(" + "))}`))
  })

/** What somebody edited between two runs. */
const drifted = { ...spec, memory: MemorySpec.make({ ...spec.memory, writesPerTurn: 3, globalWrites: "deny" }) }

const refusing = Effect.gen(function*() {
  const { resume } = yield* Resume.Resume
  yield* heading("The same run under another spec")
  const refused = yield* Effect.flip(resume(runId, drifted))
  if (refused._tag !== "ResumeError") return yield* refused
  yield* line(red("✗ not resumed, for what changed:"))
  for (const { after, before, field } of refused.changed) {
    yield* line(`  ${bold(field)}  ${JSON.stringify(before)} → ${JSON.stringify(after)}`)
  }
  yield* resume(runId, drifted).pipe(Resume.accept(refused.changed.map(({ field }) => field)))
  yield* line(`${green("✓")} resumed once these fields, and no others, are accepted by name`)
})

Effect.all([resuming, recalling, refusing], { discard: true }).pipe(
  Effect.zipRight(line("")),
  MemoryService.as(pilot),
  Effect.provide(layer),
  NodeRuntime.runMain
)
