/** Memory that looks after itself, over three days, one of which ends with a crash: `node automatic.js` */
import { Command } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import {
  Completion, Embedder, ExtractionTrigger, Federated, Markdown, MemoryManager, MemoryService, Message, Viewer
} from "effect-memory"
import { argv, execPath, kill, pid } from "node:process"

const days: Record<string, ReadonlyArray<string>> = {
  monday: ["My daughter Mia is allergic to peanuts.", "I moved to Porto in May.", "(the power fails)"],
  tuesday: ["What should I not bake for Mia?", "My sister Rosa visits on Friday."],
  friday: ["Who visits me in Porto?"]
}

/** Stands in for a model: a fact is a line of the user's that tells of "my" or "I"; each is new. */
const model = Completion.layerScripted(({ system, user }) =>
  system.includes("\"facts\"")
    ? { facts: user.match(/(?<=^user: )(?:My|I) .+\.$/gm) ?? [] }
    : { memory: JSON.parse(user.slice(user.lastIndexOf("["), user.lastIndexOf("]") + 1)).map((text: string) => ({ event: "ADD", text })) }
)
/** And for the agent: it says what bears on the question. */
const reply = (memory: string) =>
  memory.split("\n").filter((line) => /^(?:My|I) /.test(line)).join(" ") || "I will keep that in mind."

const Memory = MemoryService.layer().pipe(
  Layer.provideMerge(MemoryManager.layer({ extraction: { notes: { trigger: ExtractionTrigger.interval(5) } } })),
  Layer.provide(Federated.layer({ notes: { layer: Markdown.layer({ root: "memory" }), writable: true } })),
  Layer.provide([model, Embedder.layerNone]),
  Layer.provide(NodeContext.layer)
)

const day = Effect.fn(function*(name: string) {
  const memory = yield* MemoryService.MemoryService
  const { outboxes } = yield* MemoryManager.MemoryManager
  const { waiting } = yield* outboxes.get("notes")!.status
  yield* Console.log(`\n${name}${waiting > 0 ? `, with ${waiting} messages left over from before` : ""}`)
  yield* memory.flush
  for (const said of days[name] ?? []) {
    yield* Console.log(`  Ada    ${said}`)
    if (said.startsWith("(")) kill(pid, "SIGKILL")
    const { text } = yield* memory.context([Message.user(said)])
    const answer = reply(text)
    yield* Console.log(`  agent  ${answer}`)
    yield* memory.turnEnd([Message.user(said), Message.assistant(answer)])
  }
})

const week = Effect.forEach(Object.keys(days), (name) =>
  Command.make(execPath, argv[1]!, name).pipe(Command.stdout("inherit"), Command.exitCode, Effect.catchAll(() => Console.log("  (dead)"))))

const program = argv[2] === undefined
  ? Effect.provide(week, NodeContext.layer)
  : day(argv[2]).pipe(MemoryService.as(Viewer.make({ userId: "ada", sessionId: argv[2] })), Effect.provide(Memory))

NodeRuntime.runMain(program)
