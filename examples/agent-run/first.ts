/** Run 1: reads the instruction files of a tree, works through four turns, and leaves a vault behind. */
import { NodeRuntime } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { InstructionFiles, MemoryService, MemoryTools, Message, Resume, Viewer } from "effect-memory"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { dirname, join, relative } from "node:path"
import { cwd, layer, pilot, runId, spec, vault } from "./Harness.ts"
import { type Call, turns } from "./Script.ts"
import { bold, dim, green, heading, line, quoted, red, said, short } from "./Stage.ts"

const beginning = Effect.gen(function*() {
  const { resume } = yield* Resume.Resume
  yield* heading("Run 1", `process ${process.pid}, vault ${relative(dirname(vault), vault)}`)
  const before = yield* resume(runId, spec).pipe(
    Effect.catchTag(
      "ResumeError",
      ({ message }) =>
        Effect.zipRight(line(`the spec is another than last time (${message}): begins anew`), Effect.succeedNone)
    )
  )
  yield* line(Option.match(before, {
    onNone: () => "nothing saved of this run: it begins",
    onSome: ({ turn }) => `was here before, and goes on after turn ${turn}`
  }))
  return Option.match(before, { onNone: () => 0, onSome: ({ turn }) => turn })
})

const reading = Effect.gen(function*() {
  const memory = yield* MemoryService.MemoryService
  const { load, seed } = yield* InstructionFiles.InstructionFiles
  const { files, issues } = yield* load
  const seeded = yield* seed(Viewer.system())

  yield* heading("Instruction files", `from the root of the tree down to ${relative(".", cwd) || "."}`)
  if (files.length === 0) yield* line("none")
  for (const { content, label, path } of files) {
    const applied = seeded.find(({ record }) => record?.source.reference === path)
    const outcome = applied?.outcome === "duplicate"
      ? "already in the vault"
      : `${applied?.outcome ?? "not"} in the vault`
    yield* line(
      `${label.padEnd(14)} ${bold(path.slice(dirname(path).length + 1))}  ${content.length} characters, ${outcome}`
    )
  }
  for (const issue of issues) yield* line(red(issue.message))
  yield* line(dim(`rendered for the system prompt: ${(yield* memory.instructions).length} characters`))
})

/** One call of the scripted agent, as it is answered. Gives the id that a later turn may speak of. */
const perform = ({ input, tool: name }: Call, known: ReadonlySet<string>) =>
  Effect.gen(function*() {
    const tools = yield* MemoryTools.make(pilot)
    const tool = yield* Effect.fromNullable(tools.find((tool) => tool.name === name))
    yield* said("  calls", `${bold(name)} ${dim(short(JSON.stringify(input)))}`)
    return yield* Effect.matchEffect(tool.call(input), {
      onFailure: ({ message, reason }) => Effect.as(said("", `${red(`✗ ${reason}`)} ${message}`), undefined),
      onSuccess: ({ data, text }) =>
        Effect.gen(function*() {
          const id = data !== null && typeof data === "object" && "id" in data ? String(data.id) : undefined
          const again = name === "remember" && id !== undefined && known.has(id)
          const [first = "", ...rest] = text.split("\n")
          yield* said("", `${green("✓")} ${first}${again ? dim(" (it was there already)") : ""}`)
          if (rest.length > 0) yield* quoted(rest.join("\n").trim())
          return id
        })
    })
  })

const working = (turnsBefore: number) =>
  Effect.gen(function*() {
    const memory = yield* MemoryService.MemoryService
    const { save } = yield* Resume.Resume
    const known = new Set<string>((yield* memory.list({ limit: 1_000 })).items.map(({ id }) => id))
    let last = ""
    for (const [i, { calls, reply, user }] of turns.entries()) {
      const turn = turnsBefore + i + 1
      yield* heading(`Turn ${turn}`)
      yield* memory.turnStart
      yield* said("user", user)
      for (const call of calls(last)) last = (yield* perform(call, known)) ?? last
      yield* said("pilot", reply)
      yield* memory.turnEnd([Message.user(user), Message.assistant(reply)])
      yield* save(runId, spec, { turn, cursor: 2 * turn })
    }
  })

const leaving = Effect.gen(function*() {
  const memory = yield* MemoryService.MemoryService
  const fs = yield* FileSystem.FileSystem
  yield* heading("What the next system prompt shows", "the memory index")
  yield* quoted((yield* memory.index).text)

  const files = (yield* fs.readDirectory(vault, { recursive: true })).filter((file) =>
    file.endsWith(".md") && !file.startsWith(".")
  ).sort()
  yield* heading("What lies on the disk", "made to be read, edited and put under git")
  for (const file of files) yield* line(`${file}  ${dim(`${(yield* fs.stat(join(vault, file))).size} bytes`)}`)

  const [mine] = files.filter((file) => file.startsWith("agents"))
  if (mine === undefined) return
  yield* heading(mine.slice(mine.lastIndexOf("/") + 1))
  yield* quoted(yield* fs.readFileString(join(vault, mine)))
})

Effect.flatMap(Effect.zipLeft(beginning, reading), working).pipe(
  Effect.zipRight(leaving),
  Effect.zipRight(heading("The process ends here", "what it knows is in the vault")),
  MemoryService.as(pilot),
  Effect.provide(layer),
  NodeRuntime.runMain
)
