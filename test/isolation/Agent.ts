/**
 * Calls of an agent's harness as plain data: tools, the memory index, the context of a turn, extraction, automatic memory. The scripted
 * language model computes its answer from the prompt alone, so a record of another viewer that reaches a prompt changes the answer.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { sha256 } from "../../src/domain/Digest.ts"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import { Global, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import { type Message, user } from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import type { Failure, MemoryTool } from "../../src/host/MemoryTool.ts"
import type * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { never } from "../harness/Outboxes.ts"
import type { Dice } from "./Dice.ts"
import type { Name } from "./Operation.ts"

export type Call =
  | {
    readonly ask: "tool"
    readonly tool: string
    readonly input: Readonly<Record<string, unknown>>
    readonly id?: Name
  }
  | { readonly ask: "index" }
  | { readonly ask: "context"; readonly text: string }
  | { readonly ask: "recall"; readonly text: string; readonly limit: number }
  | {
    readonly ask: "remember" | "plan"
    readonly texts: ReadonlyArray<string>
    readonly scope: MemoryScope
    readonly infer: boolean
  }
  /** Undoes the latest `remember` of the viewer, by its receipt. */
  | { readonly ask: "undo" }
  | { readonly ask: "forgetAll"; readonly kinds: ReadonlyArray<string>; readonly purge: boolean }
  | { readonly ask: "turn"; readonly texts: ReadonlyArray<string>; readonly isRead: boolean }

export interface Agent {
  /** Runs a call. Returns its answer and, except for a `turn`, the prompts that the model was given. */
  readonly ask: (
    viewer: Viewer.Viewer,
    call: Call,
    id: (name: Name) => MemoryId
  ) => Effect.Effect<unknown, MemoryError | Failure>
  readonly events: MemoryService.Service["events"]
}

/** Functions that choose random arguments for calls. */
export interface Author {
  readonly scope: () => MemoryScope
  readonly name: () => Name
  readonly text: () => string
  readonly isForeign: boolean
}

const scopes = ["global", "user", "agent", "session", "run"] as const
const questions = ["tea", "green tea", "what about coffee?", "the sea", "treatise on water", "drinks"] as const

export const make = (dice: Dice, { isForeign, name, scope, text }: Author): Call => {
  const said = () => {
    const body = text()
    return body.trim() === "" ? "tea" : body
  }
  const tool = (tool: string, input: Readonly<Record<string, unknown>>, id?: Name): Call =>
    id === undefined ? { ask: "tool", tool, input } : { ask: "tool", tool, input, id }
  switch (
    dice.weighted({
      remember: 4,
      recall: 4,
      forget: 2,
      append: 3,
      search: 3,
      update: 2,
      delete: 1,
      view: 3,
      stores: 3,
      add: 2,
      index: 4,
      context: 4,
      inferred: 4,
      planned: 2,
      undo: 2,
      asked: 2,
      all: isForeign ? 0 : 1, // foreign viewers never call `forgetAll`, since it could forget records that the group sees
      turn: 6
    })
  ) {
    case "remember":
      return tool(
        "remember",
        {
          scope: dice.pick(scopes),
          kind: dice.pick(["user", "feedback", "project", "reference"]),
          summary: dice.pick(["Tea", "Drinks", "the sea"]),
          body: said()
        },
        dice.maybe(0.3, name)
      )
    case "recall":
      return tool("recall", {
        query: dice.pick(questions),
        ...(dice.chance(0.2) && { scopes: [dice.pick(scopes)] }),
        ...(dice.chance(0.5) && { limit: 1 + dice.below(4) })
      })
    case "forget":
      return tool("forget", {}, name())
    case "append":
      return tool("memory_append", { text: said() })
    case "search":
      return tool("memory_search", { query: dice.pick(questions), topK: 1 + dice.below(5) })
    case "update":
      return tool("memory_update", { text: said() }, name())
    case "delete":
      return tool("memory_delete", {}, name())
    case "view":
      return tool("memory_view", { limit: 1 + dice.below(6) })
    case "stores":
      return tool("search_memory", { query: dice.pick(questions) })
    case "add":
      return tool("add_memory", { entries: dice.many(1, 2, said) })
    case "index":
      return { ask: "index" }
    case "context":
      return { ask: "context", text: dice.pick(questions) }
    case "inferred":
    case "planned":
      return {
        ask: dice.chance(0.6) ? "remember" : "plan",
        texts: dice.many(1, 3, said),
        scope: scope(),
        infer: dice.chance(0.75)
      }
    case "undo":
      return { ask: "undo" }
    case "asked":
      return { ask: "recall", text: dice.pick(questions), limit: 1 + dice.below(4) }
    case "all":
      return { ask: "forgetAll", kinds: [dice.pick(["user", "reference", "semantic"])], purge: dice.chance(0.5) }
    case "turn":
      return { ask: "turn", texts: dice.many(1, 3, said), isRead: !isForeign }
  }
}

/** Returns the scopes in which a call by this viewer could create records. */
export const targets = (viewer: Viewer.Viewer, call: Call): ReadonlyArray<MemoryScope> => {
  const { agentId, runId, sessionId, userId } = viewer
  const of = (...wanted: ReadonlyArray<Readonly<Record<string, string | undefined>>>) =>
    wanted.flatMap((ids): ReadonlyArray<MemoryScope> => {
      const there = Object.entries(ids).filter(([, id]) => id !== undefined)
      return there.length === 0 ? [Global] : [Object.fromEntries(there)]
    })
  const own = Viewer.scopeOf(viewer)
  const subjects = [own, ...of({ userId }, { agentId }, { agentId, runId })]
  if (call.ask === "remember") return [call.scope]
  if (call.ask === "turn") return subjects
  if (call.ask !== "tool") return []
  switch (call.tool) {
    case "memory_append":
      return [own]
    case "add_memory":
      return subjects
    case "remember":
      switch (call.input["scope"]) {
        case "user":
          return [own, ...of({ userId })]
        case "session":
          return [own, ...of({ userId, sessionId }, { sessionId })]
        case "run":
          return [own, ...of({ userId, runId }, { agentId, runId }, { runId })]
        case "agent":
          return [own, ...of({ agentId })]
        default:
          return [Global]
      }
    default:
      return []
  }
}

/** Answers a prompt like a model: each line `user: …` is a fact, and the prompt's hash picks ADD, UPDATE, DELETE or NOOP for each fact. */
const model = ({ system, user }: Completion.Prompt): unknown => {
  if (system.includes("\"facts\"")) {
    return { facts: Array.from(user.matchAll(/^user: (.*)$/gm), ([, text]) => text) }
  }
  const last = user.split("\n").findLast((line) => line.startsWith("[")) ?? "[]" // the facts come last in the prompt
  const facts = JSON.parse(last) as ReadonlyArray<string> // the prompt ends with a JSON array of the facts
  const events = ["ADD", "ADD", "UPDATE", "DELETE", "NOOP"] as const
  return {
    memory: facts.map((text, n) => {
      const event = events[Number.parseInt(sha256(`${user}${n}`).slice(0, 2), 16) % events.length]
      return event === "ADD" ? { event, text } : { event, id: String(n), text }
    })
  }
}

/** Makes an agent over a store. The agent embeds texts only if `vectors` is true. */
export const over = (store: MemoryStore.Service, vectors: boolean) =>
  Effect.gen(function*() {
    const prompts: Array<string> = []
    const completion = Completion.layerScripted((prompt) => {
      prompts.push(`${prompt.system}\n${prompt.user}`)
      return model(prompt)
    })
    const context = yield* Layer.build(
      MemoryService.layer({ allowForget: true, writesPerTurn: 4 }).pipe(
        Layer.provideMerge(MemoryManager.layer({ extraction: { main: { trigger: never } } })),
        Layer.provideMerge(Layer.mergeAll(
          Federated.layer({
            main: { layer: Layer.succeed(MemoryStore.MemoryStore, store), writable: true, maxResults: 5 }
          }),
          completion,
          vectors ? Embedder.layerHash({ dimensions: 16 }) : Embedder.layerNone,
          MemoryEvents.layer({ capacity: 100_000 })
        ))
      )
    )
    const memory = Context.get(context, MemoryService.MemoryService)
    const receipts = new Map<string, MemoryPipeline.Receipt>()
    const made = new Map<string, ReadonlyArray<MemoryTool>>()
    const toolsOf = (viewer: Viewer.Viewer) =>
      Effect.gen(function*() {
        const key = JSON.stringify(viewer)
        const tools = made.get(key) ?? [
          ...yield* MemoryTools.make(viewer),
          ...yield* MemoryTools.makeRecords(viewer),
          ...yield* MemoryTools.makeStores(viewer, { add: true })
        ]
        made.set(key, tools)
        return tools
      }).pipe(Effect.provide(context))
    const messages = (texts: ReadonlyArray<string>): ReadonlyArray<Message> => texts.map(user)

    const answer = (viewer: Viewer.Viewer, call: Call, id: (name: Name) => MemoryId) =>
      Effect.gen(function*() {
        switch (call.ask) {
          case "tool": {
            const tools = yield* toolsOf(viewer)
            const tool = tools.find(({ name }) => name === call.tool)
            const input = call.id === undefined ? call.input : { ...call.input, id: id(call.id) }
            // an agent receives text and data, or on failure a reason and a message
            return tool === undefined ? "there is no such tool" : yield* Effect.merge(tool.call(input))
          }
          case "index":
            return yield* memory.index
          case "context":
            return yield* memory.context(messages([call.text]))
          case "recall":
            return yield* memory.recall({ text: call.text, limit: call.limit })
          case "remember":
          case "plan": {
            const receipt = yield* memory[call.ask](messages(call.texts), { scope: call.scope, infer: call.infer })
            if (call.ask === "remember") receipts.set(JSON.stringify(viewer), receipt)
            // the seal of a receipt signs the ids in it, which may differ between the stores, so it is left out of the comparison
            const { seal: _, ...said } = receipt as MemoryPipeline.Receipt & { readonly seal?: unknown }
            return said
          }
          case "undo": {
            const receipt = receipts.get(JSON.stringify(viewer))
            receipts.delete(JSON.stringify(viewer))
            return receipt && (yield* memory.undo(receipt))
          }
          case "forgetAll":
            return yield* memory.forgetAll({ kinds: call.kinds }, { purge: call.purge })
          case "turn":
            yield* memory.turnStart
            yield* memory.turnEnd(messages(call.texts))
            if (call.isRead) yield* Effect.either(memory.flush) // the result is about the messages of all viewers, so it is not returned
            return undefined
        }
      }).pipe(MemoryService.as(viewer))

    return {
      ask: (viewer, call, id) =>
        Effect.suspend(() => {
          prompts.length = 0
          return Effect.map(answer(viewer, call, id), (value) => ({
            answer: value,
            // the prompts of a flush contain the messages of all viewers, so they are not compared
            prompts: call.ask === "turn" ? [] : prompts.slice()
          }))
        }),
      events: memory.events
    } satisfies Agent
  })
