/**
 * Messages of a conversation, as the harness hands them over.
 *
 * ```ts
 * import { Message } from "effect-memory"
 *
 * const said = [Message.user("Hello"), Message.assistant("Hello, Ada")]
 *
 * said.map(({ role }) => role) // => ["user", "assistant"]
 * ```
 */
export { assistant, Message, stripMetaTags, user } from "./domain/Message.ts"
