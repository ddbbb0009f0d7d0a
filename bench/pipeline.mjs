/**
 * Measures how long `MemoryPipeline` blocks the event loop at a stretch, on inputs at its documented bounds: 64 facts,
 * answers of 262,144 characters, 1,000 neighbours, 10,000 records in scope, hostile answers. The model is a script that
 * answers at once, so only the pipeline and the store are measured. Prints the longest time between two turns of the event
 * loop: the median of `runs`, after one to warm up. A stretch counts by the clock or by CPU time, whichever says less:
 * the clock counts other processes too, and the CPU time of the process has the threads that collect garbage and compile.
 *
 * With `--most 50` it exits with 1 if a median is above 50 ms. `--only TEXT` runs the cases whose names contain the text.
 */
import { NodeContext } from "@effect/platform-node"
import { Context, Effect, Layer, Logger } from "effect"
import { setImmediate, setTimeout } from "node:timers"
import { Completion, Embedder, MemoryPipeline, MemoryStore, Message, Viewer } from "../dist/index.js"
import { notes } from "./corpus.mjs"
import { cpu, median, watch } from "./measure.mjs"

const runs = 5
const limit = 262_144
const scope = { userId: "ada" }
const ada = Viewer.make(scope)
const corpus = notes(11_000).map(({ body }) => body)
const others = corpus.slice(0, 10_000)
const fresh = corpus.slice(10_000)
const turns = [Message.user("We talked for a long time.")]

/** Runs `self`; returns the longest stall of the event loop meanwhile and the total, by the clock and in CPU time. */
const stalled = (self) =>
  Effect.gen(function*() {
    yield* Effect.async((resume) => void setTimeout(() => resume(Effect.void), 20)) // lets earlier work finish
    globalThis.gc?.()
    const before = cpu()
    const longest = watch()
    const outcome = yield* Effect.either(self)
    const took = cpu() - before
    yield* Effect.async((resume) => void setImmediate(() => setImmediate(() => resume(Effect.void))))
    return { longest: longest(), took, outcome }
  })

const sentence = (length, n) => {
  const body = fresh[(n * 13) % fresh.length]
  return `${n} ${body.repeat(Math.ceil(length / body.length))}`.slice(0, length).trim()
}
/** Makes 64 facts that fill an answer to its limit. */
const long = Array.from({ length: 64 }, (_, n) => sentence(Math.floor((limit - 4_000) / 64) - 60, n))
const short = Array.from({ length: 64 }, (_, n) => sentence(90, n + 100))
const isDecision = (prompt) => prompt.user.startsWith("EXISTING:")
const factsIn = (user) => JSON.parse(user.split("\n")[3])
const existingIn = (user) => JSON.parse(user.split("\n")[1])
const full = (piece) => piece.repeat(Math.floor(limit / piece.length))

const adds = ({ user }) => ({ memory: factsIn(user).map((text) => ({ event: "ADD", text })) })
const deletes = ({ user }) => ({ memory: existingIn(user).map(({ id }) => ({ event: "DELETE", id })) })
const rewords = ({ user }) => ({
  memory: existingIn(user).map(({ id }, n) => ({ event: "UPDATE", id, text: `${n} ${sentence(200, n + 300)}` }))
})
const script = (facts, decide) => (prompt) => isDecision(prompt) ? decide(prompt) : { facts }
/** Makes a model that extracts one fact and gives this answer as its decision. */
const decision = (answer) => script([short[0]], () => answer)
const inAnswer = (items) => {
  let all = ""
  for (let n = 0; all.length < limit - 200; n++) all += `${n === 0 ? "" : ","}${items(n)}`
  return all
}

const many = `{"facts":[${inAnswer((n) => `"fact ${n} of many"`)}]}`

const cases = [
  ["1 fact, added", script(short.slice(0, 1), adds)],
  ["64 facts, added", script(short, adds)],
  ["64 facts, 1,000 neighbours deleted", script(short, deletes), { topK: 1_000 }],
  ["64 facts, 1,000 neighbours reworded", script(short, rewords), { topK: 1_000 }],
  ["64 facts, neighbours more trusted: widened to 1,000", script(short, adds), { trust: 3 }],
  ["64 facts of 4,000 characters, added", script(long, adds)],
  ["64 facts of 4,000 characters, words and vectors", script(long, adds), {}, Embedder.layerWordVectors],
  ["10,000 facts in an answer", (prompt) => isDecision(prompt) ? adds(prompt) : many],
  ["9,000 additions in a decision", decision(`[${inAnswer((n) => `{"event":"ADD","text":"${n}"}`)}]`)],
  ["9,000 NOOPs in a decision", decision(`[${inAnswer(() => "{\"event\":\"NOOP\",\"id\":\"0\"}")}]`)],
  ...["[", "{", "\"", "\\", "[\"", "[]", "[[1],", "{\"a\":", "\"[", "{\"facts\":[]", "[\"a\\n\","].map((piece) => [
    `an answer of ${piece} over and over`,
    () => full(piece)
  ]),
  ["an answer of 1 MB", () => "x".repeat(1_000_000)],
  ["4,096 turns, 1 MB", script([short[0]], adds), {
    turns: Array.from({ length: 4_096 }, (_, n) => Message.user(sentence(250, n)))
  }],
  ["100 turns as said", () => "", {
    infer: false,
    turns: Array.from({ length: 100 }, (_, n) => Message.user(sentence(400, n)))
  }]
]

const measure = (answer, { turns: said = turns, ...options } = {}, embedder = Embedder.layerNone) =>
  Effect.gen(function*() {
    const context = yield* Layer.build(
      MemoryPipeline.layer.pipe(
        Layer.provide([Completion.layerScripted(answer), embedder]),
        Layer.provideMerge(MemoryStore.layerInMemory)
      )
    )
    const store = Context.get(context, MemoryStore.MemoryStore)
    const pipeline = Context.get(context, MemoryPipeline.MemoryPipeline)
    for (let n = 0; n < others.length; n += 500) {
      yield* store.put(ada, others.slice(n, n + 500).map((body) => ({ scope, kind: "semantic", body })))
    }
    yield* store.search(ada, { text: "what is where" })
    const all = { plan: [], remember: [] }
    for (let n = 0; n <= runs; n++) {
      for (const op of ["plan", "remember"]) {
        const one = yield* stalled(pipeline[op](ada, said, { scope, ...options }))
        if (n > 0) all[op].push(one)
        if (op === "remember" && one.outcome._tag === "Right") yield* pipeline.undo(one.outcome.right)
      }
    }
    const middle = (values) => median(values, (value) => value)
    const row = (op) => ({
      longest: middle(all[op].map(({ longest }) => longest)),
      took: middle(all[op].map(({ took }) => took))
    })
    const { outcome } = all.remember[0]
    return {
      plan: row("plan"),
      remember: row("remember"),
      outcome: outcome._tag === "Left" ? outcome.left.reason : `${outcome.right.applied.length} written`
    }
  }).pipe(Effect.scoped, Effect.provide([NodeContext.layer, Logger.remove(Logger.defaultLogger)]))

const most = Number(process.argv[process.argv.indexOf("--most") + 1] || Infinity)
const only = process.argv.includes("--only") ? process.argv[process.argv.indexOf("--only") + 1] : ""
console.log(`Node ${process.version}; longest stretch of the event loop, ms; 10,000 records in scope, in memory`)
console.log("| | plan | remember | CPU of the whole | |")
console.log("| --- | ---: | ---: | ---: | --- |")
let isOver = false
for (const [name, ...rest] of cases.filter(([name]) => name.includes(only))) {
  const { outcome, plan, remember } = await Effect.runPromise(measure(...rest))
  const cells = [plan.longest, remember.longest, remember.took].map((ms) => ms.toFixed(1))
  isOver ||= Math.max(plan.longest, remember.longest) > most
  console.log(`| ${name} | ${cells.join(" | ")} | ${outcome} |`)
}
if (isOver) process.exitCode = 1
