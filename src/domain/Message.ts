/** One turn of a conversation, as the harness hands it over. */
import * as Schema from "effect/Schema"
import { ScopeId } from "./MemoryScope.ts"
import { withoutMemory } from "./PromptText.ts"

export const Role = Schema.Literal("system", "user", "assistant", "tool")

export class Message extends Schema.Class<Message>("@memory/Message")({
  role: Role,
  content: Schema.String,
  /** Who spoke, where a role holds several. */
  actorId: Schema.optional(ScopeId),
  /** What others call the speaker, at most 1,024 characters; kept in `source.actor`. Default: `actorId`. */
  name: Schema.optional(Schema.String),
  /** The harness's own id; kept in `source.reference`. */
  id: Schema.optional(Schema.String),
  /** Epoch ms. */
  at: Schema.optional(Schema.Number),
  /** Tool calls and results; default false. Excluded from extraction by default. */
  tool: Schema.optional(Schema.Boolean)
}) {}

export const user = (content: string): Message => new Message({ role: "user", content })
export const assistant = (content: string): Message => new Message({ role: "assistant", content })

/**
 * Seed 0: cuts the leading run of `[…]` groups, nested ones whole, and no other bracket. A text that is nothing else stays
 * as it is, and so does a bracket that nobody closes.
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
