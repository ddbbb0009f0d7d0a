/**
 * Messages of a conversation, as the harness passes them to this library. The harness is the program that runs the agent.
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
