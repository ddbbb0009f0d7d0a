/** Messages of a conversation, in the form in which the harness passes them to this library. */
import * as Schema from "effect/Schema"
import { ScopeId } from "./MemoryScope.ts"
import { withoutMemory } from "./PromptText.ts"

/** Schema of the role of a message. */
export const Role = Schema.Literal("system", "user", "assistant", "tool")

/** A message of a conversation. The constructor checks its fields and throws if one is invalid. */
export class Message extends Schema.Class<Message>("@memory/Message")({
  role: Role,
  content: Schema.String,
  /** Id of the speaker, if several speakers share a role. */
  actorId: Schema.optional(ScopeId),
  /** Name of the speaker, at most 1,024 characters; kept in `source.actor`. Default: `actorId`. */
  name: Schema.optional(Schema.String),
  /** The id that the harness gave the message; kept in `source.reference`. */
  id: Schema.optional(Schema.String),
  /** Time of the message, epoch ms. */
  at: Schema.optional(Schema.Number),
  /** Whether the message is a tool call or result, which extraction skips by default. Default false. */
  tool: Schema.optional(Schema.Boolean)
}) {}

/** Makes a message of the user. */
export const user = (content: string): Message => new Message({ role: "user", content })
/** Makes a message of the assistant. */
export const assistant = (content: string): Message => new Message({ role: "assistant", content })

/**
 * Removes the `[…]` groups at the start of a text, with the groups nested in them. Keeps brackets elsewhere and an unclosed bracket.
 * Returns a text unchanged if it consists of such groups only.
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

/** Prepares a message for storage: strips injected memory, repairs lone surrogates, drops an invalid `at` or `id`. */
export const sanitize = ({ at, id, ...message }: Message): Message =>
  new Message({
    ...message,
    content: withoutMemory(message.content).toWellFormed(),
    ...(at !== undefined && Number.isFinite(at) && { at }),
    ...(id !== undefined && id.length <= 1_024 && id.isWellFormed() && { id })
  }, { disableValidation: true })
