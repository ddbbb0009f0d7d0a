/** What of a message is kept. */
import { Message } from "../../domain/Message.ts"
import { withoutMemory } from "../../domain/PromptText.ts"

/** What injection put there is no news, no file holds half a character, and no record a time or a name that is none. */
export const plain = ({ at, id, ...message }: Message): Message =>
  new Message({
    ...message,
    content: withoutMemory(message.content).toWellFormed(),
    ...(at !== undefined && Number.isFinite(at) && { at }),
    ...(id !== undefined && id.length <= 1_024 && id.isWellFormed() && { id })
  }, { disableValidation: true })

/** No tool calls, no tool results. */
export const isSpoken = ({ role, tool }: Message): boolean => role !== "tool" && tool !== true
