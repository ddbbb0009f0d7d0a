/**
 * Programs in `examples`, against the built package: `b-harness.ts` with a scripted model, the other programs as they are. `g-persona.ts`
 * also runs in a variant that prints its memory block. `c-test` and `e-own-store` are tests themselves.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { compile, elsewhere, folder, root, run } from "./programs.ts"

const path = folder("examples")
/** Returns the text of every file of a folder, hidden ones included. */
const read = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .map((entry) => entry.isFile() ? readFileSync(join(entry.parentPath, entry.name), "utf8") : "").join("\n")
const source = (name: string) => readFileSync(join(root, "examples", name), "utf8")

/** Returns b-harness.ts with a scripted model that makes one tool call. `call` is the code that runs the tool. */
const harness = (input: object, call = "tool.call(reply.input)") => {
  const [program, ...rest] = source("b-harness.ts").split("declare const model")
  assert.lengthOf(rest, 1, "the program declares a model once")
  assert.include(program, "yield* tool.call(reply.input)")
  const reply = { text: "Noted.", tool: "remember", input }
  return `${program!.replace("tool.call(reply.input)", call)}
function model(_: { system: string; messages: ReadonlyArray<Message.Message>; tools: ReadonlyArray<object> }):
  Effect.Effect<{ text: string; tool?: string; input?: unknown }> {
  return Effect.succeed(${JSON.stringify(reply)})
}
`
}

const frozen = {
  scope: "agent",
  kind: "project",
  summary: "Deploys are frozen on Fridays.",
  body: "No deploy on Fridays."
}
const secret = { ...frozen, body: "The key is sk-1234567890." }
/** Code that runs the tool in a fiber without the program's layers. */
const elsewhereCalled =
  "Effect.promise(() => Effect.runPromise(Effect.either(tool.call(reply.input)))).pipe(Effect.flatten)"

const problems = compile(path, {
  "a-first.ts": source("a-first.ts"),
  "b-harness.ts": harness(frozen),
  "b-secret.ts": harness(secret),
  "b-secret-elsewhere.ts": harness(secret, elsewhereCalled),
  "automatic.ts": source("automatic.ts"),
  "d-pipeline.ts": source("d-pipeline.ts"),
  "f-automatic.ts": source("f-automatic.ts"),
  "g-persona.ts": source("g-persona.ts"),
  "g-blocks.ts": source("g-persona.ts").replace("const reply =", "yield* Console.log(block)\n    const reply ="),
  "h-viewer.ts": source("h-viewer.ts"),
  "i-own-kind.ts": source("i-own-kind.ts"),
  "j-customers.ts": source("j-customers.ts"),
  "k-undo.ts": source("k-undo.ts"),
  "l-move.ts": source("l-move.ts"),
  "m-merge.ts": source("m-merge.ts")
})

describe("examples", () => {
  it("the programs that this test lists compile, and code that passes no viewer does not compile", () =>
    assert.deepStrictEqual(problems, []))

  it("a-first.ts prints a record with its score, and prints the same when it is run again", async () => {
    const cwd = elsewhere()
    const first = await run(join(path, "a-first.js"), cwd)
    assert.deepStrictEqual(first, { code: 0, output: "1.00 Drinks tea, never coffee.\n" })
    assert.deepStrictEqual(await run(join(path, "a-first.js"), cwd), first)
  })

  it("b-harness.ts stores a memory, and continues with the next turn when it is run again", async () => {
    const cwd = elsewhere()
    const checkpoint = () => JSON.parse(readFileSync(join(cwd, ".memory/runs/run-run-7.json"), "utf8"))
    const first = await run(join(path, "b-harness.js"), cwd)
    assert.strictEqual(first.code, 0, first.output)
    assert.include(first.output, "memory_written")
    assert.notInclude(first.output, "Deploys are frozen on Fridays.") // events carry no texts
    assert.deepInclude(checkpoint(), { runId: "run-7", turn: 0, cursor: 1 })
    const second = await run(join(path, "b-harness.js"), cwd)
    assert.strictEqual(second.code, 0, second.output)
    assert.deepInclude(checkpoint(), { runId: "run-7", turn: 1, cursor: 1 })
  })

  it.each(["b-secret.js", "b-secret-elsewhere.js"])(
    "%s: a plugin denies a tool call that contains a secret key, whatever fiber makes the call",
    async (program) => {
      const { code, output } = await run(join(path, program), elsewhere())
      assert.notStrictEqual(code, 0)
      assert.include(output, "that looks like a key")
      assert.notInclude(output, "memory_written")
    }
  )

  it("d-pipeline.ts prints how many records would change, then stores and prints the records", async () => {
    const { code, output } = await run(join(path, "d-pipeline.js"), elsewhere())
    assert.strictEqual(code, 0, output)
    const [plan, open, ...block] = output.trim().split("\n")
    assert.deepStrictEqual([plan, open, block.at(-1)], ["would change 1", "<memory>", "</memory>"])
    assert.include(block, "Ada moved to Lisbon")
  })

  it("f-automatic.ts serves three users at once, and exits without waiting for its idle trigger", async () => {
    const cwd = elsewhere()
    const asked = "2 tools, 0 left out\nWhat did I plan for Friday?\n\n\n"
    for (let again = 0; again < 2; again++) {
      assert.deepStrictEqual(await run(join(path, "f-automatic.js"), cwd), { code: 0, output: asked.repeat(3) })
    }
    assert.notInclude(read(join(cwd, "notes")), "Friday")
  })

  it("automatic.ts has at most sixty lines, and its agent remembers across a crash", async () => {
    assert.isAtMost(source("automatic.ts").split("\n").length, 60)
    const { code, output } = await run(join(path, "automatic.js"), elsewhere())
    assert.strictEqual(code, 0)
    assert.include(output, "(dead)\n\ntuesday, with 4 messages left over from before\n")
    assert.include(output, "What should I not bake for Mia?\n  agent  My daughter Mia is allergic to peanuts.\n")
    assert.include(output, "Who visits me in Porto?\n  agent  ")
    assert.match(output.split("in Porto?")[1]!, /My sister Rosa visits on Friday\./)
    assert.match(output.split("in Porto?")[1]!, /I moved to Porto in May\./)
  })

  it("the example g-persona.ts tells the model in the second turn what was said in the first", async () => {
    const replies = ["Back already! How was the lake?", "You swam across? Ada!"]
    assert.deepStrictEqual(await run(join(path, "g-persona.js"), elsewhere()), {
      code: 0,
      output: `${replies.join("\n")}\n`
    })
    const { code, output } = await run(join(path, "g-blocks.js"), elsewhere())
    assert.strictEqual(code, 0, output)
    const [before, after] = output.split(replies[0]!, 2).length === 2 ? output.split(/^Back already.*\n/m) : []
    assert.strictEqual(before?.trim(), "")
    assert.match(
      after ?? "",
      /^<memory>\nRecent conversations:\n- .* ada: Ada: I am back from the lake\. Mira: Back already/
    )
  })

  it("i-own-kind.ts stores, queries and changes records of its own kind", async () => {
    assert.deepStrictEqual(await run(join(path, "i-own-kind.js"), elsewhere()), { code: 0, output: "4\n5\n" })
  })

  it("j-customers.ts hides each customer's records from other customers, and makes no viewer from a missing id", async () => {
    const { code, output } = await run(join(path, "j-customers.js"), elsewhere())
    assert.strictEqual(code, 0, output)
    assert.deepStrictEqual(output.trim().split("\n"), [
      "alice may write to \"enum\":[\"user\"]",
      "a single-user agent to \"enum\":[\"global\",\"agent\",\"run\"]",
      "own true shared false",
      "bob sees false",
      "no id, no viewer true the whole tenant 1"
    ])
  })

  it("k-undo.ts restores a forgotten record and its history after a restart", async () => {
    const { code, output } = await run(join(path, "k-undo.js"), elsewhere())
    assert.strictEqual(code, 0, output)
    assert.deepStrictEqual(output.trim().split("\n"), ["[ 'The key lies with the neighbour.' ]", "true", "0"])
  })

  it("l-move.ts copies a vault with its history to a SQLite file; a second copy writes nothing", async () => {
    const { code, output } = await run(join(path, "l-move.js"), elsewhere())
    assert.strictEqual(code, 0, output)
    assert.deepStrictEqual(output.trim().split("\n"), ["1 2 true", "0", "Drinks tea, never coffee. 2"])
  })
  it("m-merge.ts merges the memory tools with the tool `weather` into one toolkit, calls `remember`, and reads back the messages of a thread", async () => {
    const { code, output } = await run(join(path, "m-merge.js"), elsewhere())
    assert.strictEqual(code, 0, output)
    assert.deepStrictEqual(output.trim().split("\n"), [
      "weather remember recall",
      "false",
      "[ 'Hello', 'Hello, Ada' ]"
    ])
  })
})
