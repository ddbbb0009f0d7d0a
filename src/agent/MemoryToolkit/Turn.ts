/** Messages of @effect/ai as ours. */
import type * as Prompt from "@effect/ai/Prompt"
import * as Inspectable from "effect/Inspectable"
import { Message } from "../../domain/Message.ts"

/** Returns what a message says; what tools were asked and answered is marked as such. */
export const turnOf = (message: Prompt.Message): Message => {
  if (message.role === "system") return new Message({ role: "system", content: message.content })
  const parts: ReadonlyArray<Prompt.Part> = message.content
  const content = parts.flatMap((part) =>
    part.type === "text"
      ? [part.text]
      : message.role === "tool" && part.type === "tool-result"
      ? [Inspectable.toStringUnknown(part.result, 0)]
      : []
  ).join("\n")
  const tool = message.role === "tool" || (content === "" && parts.some(({ type }) => type.startsWith("tool-")))
  return new Message({ role: message.role, content, ...(tool && { tool }) })
}
