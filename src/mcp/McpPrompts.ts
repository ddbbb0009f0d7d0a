/**
 * The MCP prompts, which a person selects in the client. `recall` adds the memories on a topic to the chat. `review` asks the model to
 * review the newest memories.
 */
import * as Effect from "effect/Effect"
import type { Hit, MemoryFilter } from "../domain/MemoryFilter.ts"
import * as PromptText from "../domain/PromptText.ts"
import type { CurrentViewer, Service } from "../harness/MemoryService.ts"
import * as PromptBlock from "../harness/PromptBlock.ts"
import { report } from "../host/MemoryTool.ts"
import * as McpError from "./McpError.ts"

/** The prompts, as `prompts/list` returns them. */
export const declarations = [
  {
    name: "recall",
    title: "Recall a topic",
    description: "Puts what is remembered about a topic into the conversation.",
    arguments: [{ name: "topic", description: "A few words, or a question.", required: true }]
  },
  {
    name: "review",
    title: "Review memory",
    description: "Lists the newest memories and asks which of them are outdated, doubled or wrong.",
    arguments: [{ name: "limit", description: "Number of memories, 1 to 200; default 50.", required: false }]
  }
]

/** Returns the messages of a prompt. Fails with `invalidParams` if the prompt is unknown or an argument is invalid. */
export const get = (
  memory: Service,
  name: string,
  input: Readonly<Record<string, string>>
): Effect.Effect<object, McpError.McpError, CurrentViewer> => {
  const known = declarations.find((declaration) => declaration.name === name)
  if (known === undefined) return McpError.make("invalidParams", "there is no such prompt")
  const strange = Object.keys(input).some((key) => known.arguments.every(({ name }) => name !== key))
  if (strange) return McpError.make("invalidParams", `arguments of ${known.name}: expected ${namesOf(known)}`)
  return name === "recall" ? recall(memory, input) : review(memory, input)
}

const recall = (memory: Service, { topic = "" }: Readonly<Record<string, string>>) =>
  Effect.gen(function*() {
    const text = topic.trim()
    if (text === "" || text.length > 500) {
      return yield* McpError.make("invalidParams", "topic: expected 1 to 500 characters")
    }
    const result = yield* Effect.mapError(memory.recall({ text, limit: 10 }), McpError.ofMemory)
    const { text: found } = PromptBlock.render(result)
    const about = PromptText.oneLine(text)
    return messages(
      `What is remembered about ${about}`,
      found === ""
        ? `Nothing is remembered about: ${about}. Say so, and go on without it.`
        : `This is what is remembered about: ${about}\n\n${found}\n\nSay in a few sentences what of it bears on the topic, and name what seems outdated or contradictory.`
    )
  })

/** Number of memories that are read at a time. */
const pageSize = 50

const review = (memory: Service, { limit = "50" }: Readonly<Record<string, string>>) =>
  Effect.gen(function*() {
    const total = /^\d{1,3}$/.test(limit) ? Number(limit) : 0
    if (total < 1 || total > 200) {
      return yield* McpError.make("invalidParams", "limit: expected a whole number, 1 to 200")
    }
    const hits: Array<Hit> = []
    let after: MemoryFilter["after"]
    do {
      const page = yield* Effect.mapError(
        memory.list({ limit: Math.min(pageSize, total - hits.length), ...(after !== undefined && { after }) }),
        McpError.ofMemory
      )
      for (const record of page.items) hits.push({ record, score: 1 })
      after = page.next
      yield* report({ done: hits.length, total, message: "read" })
    } while (after !== undefined && hits.length < total)
    const leftOut = { limit: 0, budget: 0, folded: 0 }
    const { text } = PromptBlock.render({ hits, leftOut, failures: [] }, { header: "The newest memories:" })
    return messages(
      "A review of memory",
      text === ""
        ? "Nothing is remembered yet. Say so."
        : `${text}\n\n${
          after === undefined ? "" : "There are older ones. "
        }Review these memories. Name, by id, those that are outdated, say the same as another, contradict one another or hold a secret, and propose for each what to do: correct it, merge it or forget it. Change nothing before I agree.`
    )
  })

const namesOf = ({ arguments: all }: typeof declarations[number]) => all.map(({ name }) => name).join(", ")

const messages = (description: string, text: string) => ({
  description,
  messages: [{ role: "user", content: { type: "text", text } }]
})
