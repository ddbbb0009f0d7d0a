/** Messages of a conversation, as the harness passes them to this library. The harness is the program that runs the agent. */
import * as Schema from "effect/Schema"
import { ScopeId } from "./MemoryScope.ts"
import { withoutMemory } from "./PromptText.ts"

/** Schema of the role of a message. */
export const Role = Schema.Literal("system", "user", "assistant", "tool")

/** A message of a conversation. The constructor checks the fields and throws if one is invalid. */
export class Message extends Schema.Class<Message>("@memory/Message")({
  role: Role,
  content: Schema.String,
  /** Id of the speaker, needed if several speakers have the same role. */
  actorId: Schema.optional(ScopeId),
  /** Name of the speaker, at most 1,024 characters. Records made from the message have it as `source.actor`. Default: `actorId`. */
  name: Schema.optional(Schema.String),
  /** Id of the message in the harness. Records made from the message have it as `source.reference`. */
  id: Schema.optional(Schema.String),
  /** Time of the message, epoch ms. */
  at: Schema.optional(Schema.Number),
  /** Whether the message is a call of a tool or the result of such a call. Extraction skips such messages by default. Default false. */
  tool: Schema.optional(Schema.Boolean)
}) {}

/** Makes a message of the user. */
export const user = (content: string): Message => new Message({ role: "user", content })
/** Makes a message of the assistant. */
export const assistant = (content: string): Message => new Message({ role: "assistant", content })

/**
 * Removes all groups in square brackets, such as `[12:30]`, from the start of a text. A group may contain other groups. An unclosed group,
 * and groups elsewhere in the text, are kept. Returns the text unchanged if it consists of such groups only.
 */
export const stripMetaTags = (content: string): string => {
  let end = 0
  let depth = 0
  for (let at = 0; at < content.length; at++) {
    const mark = content[at]!
    if (mark === "[") depth++
    else if (depth === 0) {
      if (/\S/.test(mark)) break
    } else if (mark === "]" && --depth === 0) end = at + 1
  }
  const rest = content.slice(end).trimStart()
  return end === 0 || rest === "" ? content : rest
}

/**
 * Prepares a message for storage: removes memory blocks that this library put into the prompt, replaces lone surrogates, and drops an `at`
 * or `id` that is invalid.
 */
export const sanitize = ({ at, id, ...message }: Message): Message =>
  new Message({
    ...message,
    content: withoutMemory(message.content).toWellFormed(),
    ...(at !== undefined && Number.isFinite(at) && { at }),
    ...(id !== undefined && id.length <= 1_024 && id.isWellFormed() && { id })
  }, { disableValidation: true })
