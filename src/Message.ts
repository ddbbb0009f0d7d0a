/**
 * Messages of a conversation, in the form in which the harness passes them to this library.
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
