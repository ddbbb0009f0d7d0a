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
  /** Id of the speaker. Needed if several speakers have the same role. */
  actorId: Schema.optional(ScopeId),
  /**
   * Name of the speaker. Default: `actorId`. A message stored word for word has the first 1,024 characters of the name as `source.actor`.
   */
  name: Schema.optional(Schema.String),
  /** Id of the message in the harness. A message stored word for word has this id as `source.reference`. */
  id: Schema.optional(Schema.String),
  /** Time of the message, epoch ms. */
  at: Schema.optional(Schema.Number),
  /** Whether the message is a tool call or a tool result. Extraction skips such messages by default. Default false. */
  tool: Schema.optional(Schema.Boolean)
}) {}

/** Makes a message of the user. */
export const user = (content: string): Message => new Message({ role: "user", content })
/** Makes a message of the assistant. */
export const assistant = (content: string): Message => new Message({ role: "assistant", content })

/**
 * Removes the groups in square brackets at the start of a text, such as `[12:30]`. Groups may be nested. Unclosed groups and later groups
 * are kept. A text that consists only of groups is returned unchanged.
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
 * Prepares a message for storage. Memory blocks that this library put into the prompt are removed. Lone surrogates in the content are
 * replaced. An `at` that is not finite is left out. An `id` that is ill-formed or has more than 1,024 UTF-16 units is left out, too.
 */
export const sanitize = ({ at, id: given, ...message }: Message): Message => {
  const id = usableId({ id: given })
  return new Message({
    ...message,
    content: withoutMemory(message.content).toWellFormed(),
    ...(at !== undefined && Number.isFinite(at) && { at }),
    ...(id !== undefined && { id })
  }, { disableValidation: true })
}

/** Returns the id of a message; `undefined` if the id is ill-formed, or longer than a record's `source.reference` may be. */
export const usableId = ({ id }: Pick<Message, "id">): string | undefined =>
  id !== undefined && id.length <= 1_024 && id.isWellFormed() ? id : undefined
