/**
 * Reads `conversations.json`, an export of ChatGPT or Claude. A conversation with messages becomes a thread. The thread's name contains the
 * conversation's id, or its place in the file if it has no id.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Message } from "../domain/Message.ts"
import { type Decoder, type Item, json, message, skip, timeOf } from "./Foreign.ts"

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const Said = Schema.Struct({
  id: maybe(Schema.String),
  author: Schema.Struct({ role: Schema.String, name: maybe(Schema.String) }),
  create_time: maybe(Schema.Number),
  content: maybe(Schema.Struct({
    content_type: maybe(Schema.String),
    parts: maybe(Schema.Array(Schema.Unknown)),
    text: maybe(Schema.String)
  }))
})
const Node = Schema.Struct({ message: maybe(Said), parent: maybe(Schema.String) })
const Chat = Schema.Struct({
  id: maybe(Schema.String),
  conversation_id: maybe(Schema.String),
  current_node: maybe(Schema.String),
  mapping: Schema.Record({ key: Schema.String, value: Schema.Unknown })
})
const List = Schema.Array(Schema.Unknown)
const readChats = json(List, "this is no conversations.json of ChatGPT: expected an array")
const readChat = Schema.decodeUnknownEither(Chat)
const readNode = Schema.decodeUnknownEither(Node)

const roles: ReadonlySet<string> = new Set(["system", "user", "assistant", "tool"])
const isRole = (role: string): role is Message["role"] => roles.has(role)

/** Decodes an export of ChatGPT. A conversation may have branches. Only the branch that the user saw last is read. */
export const decodeChatGpt: Decoder = (text) =>
  Either.flatMap(readChats(text), (chats) => {
    const items = chats.flatMap((value, n): ReadonlyArray<Item> => {
      const place = `conversation ${n + 1}`
      const chat = readChat(value)
      if (Either.isLeft(chat)) return [skip("no conversation of ChatGPT", place)]
      const { conversation_id, current_node, id, mapping } = chat.right
      const nodes = new Map(Object.entries(mapping))
      const left: Array<Item> = []
      const messages: Array<Message> = []
      const passed = new Set<string>()
      let at: string | null | undefined = current_node ?? Array.from(nodes.keys()).at(-1)
      while (typeof at === "string" && !passed.has(at)) {
        passed.add(at)
        const node = readNode(nodes.get(at))
        if (Either.isLeft(node)) {
          left.push(skip("a message that cannot be read", place))
          break
        }
        const stored = node.right.message
        const content = stored ? contentOf(stored) : ""
        if (stored && content.trim() !== "") {
          const { role } = stored.author
          if (isRole(role)) {
            messages.push(message(role, content, {
              at: timeOf(stored.create_time),
              id: stored.id ?? undefined,
              tool: role === "tool"
            }))
          } else left.push(skip("a message with an unknown role", place))
        }
        const lost = stored?.content?.parts?.filter((part) => typeof part !== "string").length ?? 0
        for (let part = 0; part < lost; part++) left.push(skip("a part of a message that is no text", place))
        at = node.right.parent
      }
      for (const [key, node] of nodes) {
        if (passed.has(key)) continue
        const other = readNode(node)
        if (Either.isLeft(other)) left.push(skip("a message that cannot be read", place))
        else if (other.right.message && contentOf(other.right.message).trim() !== "") {
          left.push(skip("a message of another branch", place))
        }
      }
      return [...thread(`chatgpt:${conversation_id ?? id ?? place}`, place, messages.reverse()), ...left]
    })
    return known(items, "this is no conversations.json of ChatGPT")
  })

const contentOf = ({ content }: typeof Said.Type): string =>
  [...content?.parts?.filter((part) => typeof part === "string") ?? [], content?.text ?? ""]
    .filter((part) => part !== "").join("\n")

const Block = Schema.Struct({ type: maybe(Schema.String), text: maybe(Schema.String) })
const Answer = Schema.Struct({
  uuid: maybe(Schema.String),
  sender: Schema.Literal("human", "assistant"),
  text: maybe(Schema.String),
  content: maybe(Schema.Array(Block)),
  created_at: maybe(Schema.String),
  attachments: maybe(List),
  files: maybe(List)
})
const Conversation = Schema.Struct({ uuid: Schema.NonEmptyString, chat_messages: List })
const readConversations = json(List, "this is no conversations.json of Claude: expected an array")
const readConversation = Schema.decodeUnknownEither(Conversation)
const readAnswer = Schema.decodeUnknownEither(Answer)

/** Decodes an export of Claude. Attached files, tool calls and thinking are left out. */
export const decodeClaude: Decoder = (text) =>
  Either.flatMap(readConversations(text), (conversations) => {
    const items = conversations.flatMap((value, n): ReadonlyArray<Item> => {
      const place = `conversation ${n + 1}`
      const conversation = readConversation(value)
      if (Either.isLeft(conversation)) return [skip("no conversation of Claude", place)]
      const left: Array<Item> = []
      const messages = conversation.right.chat_messages.flatMap((value): ReadonlyArray<Message> => {
        const answer = readAnswer(value)
        if (Either.isLeft(answer)) {
          left.push(skip("a message that cannot be read", place))
          return []
        }
        const { attachments, content, created_at, files, sender, uuid } = answer.right
        const blocks = content?.filter(({ type }) => type === "text").map(({ text }) => text ?? "") ?? []
        const text = blocks.some((block) => block.trim() !== "") ? blocks.join("\n") : answer.right.text ?? ""
        const others = content?.filter(({ type }) => type !== "text").length ?? 0
        for (let n = 0; n < others; n++) left.push(skip("a part of a message that is no text", place))
        const attached = (attachments?.length ?? 0) + (files?.length ?? 0)
        for (let n = 0; n < attached; n++) left.push(skip("an attached file", place))
        return text.trim() === ""
          ? []
          : [
            message(sender === "human" ? "user" : "assistant", text, { at: timeOf(created_at), id: uuid ?? undefined })
          ]
      })
      return [...thread(`claude:${conversation.right.uuid}`, place, messages), ...left]
    })
    return known(items, "this is no conversations.json of Claude")
  })

const thread = (name: string, place: string, messages: ReadonlyArray<Message>): ReadonlyArray<Item> =>
  messages.length === 0
    ? [skip("a conversation without messages", place)]
    : [{
      _tag: "Thread",
      place,
      name: name.replace(/[\p{Cc}\\]/gu, " ").slice(0, 256).toWellFormed(),
      messages
    }]

/** Returns the items. Fails with the error `otherwise` if there are items, but none of them is a conversation. */
const known = (items: ReadonlyArray<Item>, otherwise: string): Either.Either<ReadonlyArray<Item>, string> =>
  items.length > 0 && items.every((item) => item._tag === "Skip" && item.reason.startsWith("no conversation"))
    ? Either.left(otherwise)
    : Either.right(items)
