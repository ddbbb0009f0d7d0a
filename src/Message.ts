/**
 * Messages of a conversation. The harness, which is the program that runs the agent, passes messages to this library.
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
