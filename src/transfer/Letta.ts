/**
 * Reads agent files of Letta (`.af`), with one or more agents. A block of core memory becomes a note, tagged with the block's label. An
 * archival passage becomes a semantic record. The messages of an agent become a thread. The records of an agent are in the agent's scope.
 * They are in `Context.scope` if `Context.overrules` is set, or if the agent's id is not a legal id of a scope.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { MemoryScope } from "../domain/MemoryScope.ts"
import type { Message, Role } from "../domain/Message.ts"
import { type Context, type Decoder, type Item, json, message, record, skip, timeOf } from "./Foreign.ts"

const system = "letta"

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))
const list = <A, I>(schema: Schema.Schema<A, I>) => maybe(Schema.Array(schema))

const Block = Schema.Struct({
  id: maybe(Schema.String),
  label: Schema.NonEmptyString,
  value: Schema.String,
  description: maybe(Schema.String)
})
const Passage = Schema.Struct({
  id: maybe(Schema.String),
  text: Schema.String,
  tags: list(Schema.String),
  created_at: maybe(Schema.String)
})
const Part = Schema.Struct({ type: maybe(Schema.String), text: maybe(Schema.String) })
const Said = Schema.Struct({
  id: maybe(Schema.String),
  role: Schema.String,
  content: maybe(Schema.Union(Schema.String, Schema.Array(Part))),
  text: maybe(Schema.String),
  tool_calls: list(Schema.Unknown),
  created_at: maybe(Schema.String)
})
const Agent = Schema.Struct({
  id: maybe(Schema.String),
  name: maybe(Schema.String),
  block_ids: list(Schema.String),
  core_memory: list(Schema.Unknown),
  memory_blocks: list(Schema.Unknown),
  archival_memory: list(Schema.Unknown),
  passages: list(Schema.Unknown),
  messages: list(Schema.Unknown),
  system: maybe(Schema.String),
  tools: list(Schema.Unknown)
})
const File = Schema.Struct({
  ...Agent.fields,
  agents: list(Schema.Unknown),
  blocks: list(Schema.Unknown),
  sources: list(Schema.Unknown),
  files: list(Schema.Unknown)
})
const read = json(File, "this is no agent file of Letta")
const readAgent = Schema.decodeUnknownEither(Agent)
const readBlock = Schema.decodeUnknownEither(Block)
const readPassage = Schema.decodeUnknownEither(Passage)
const decodeMessage = Schema.decodeUnknownEither(Said)

/** Decodes the file. */
export const decode: Decoder = (text, context) =>
  Either.flatMap(read(text), (file) => {
    const agents = file.agents?.map((agent) => readAgent(agent)) ?? [Either.right(file)]
    const blocks = (file.blocks ?? []).map((block) => readBlock(block))
    const shared = new Map(
      blocks.flatMap((block) => Either.isRight(block) && block.right.id ? [[block.right.id, block.right] as const] : [])
    )
    const used = new Set<string>()
    const items: Array<Item> = agents.flatMap((agent, n) => {
      const place = `agent ${n + 1}`
      if (Either.isLeft(agent)) return [skip("an agent that cannot be read", place)]
      const ids = agent.right.block_ids ?? []
      for (const id of ids) used.add(id)
      return ofAgent(agent.right, place, ids.flatMap((id) => shared.get(id) ?? []), context)
    })
    for (const [n, block] of blocks.entries()) {
      const place = `block ${n + 1}`
      if (Either.isLeft(block)) items.push(skip("a block that cannot be read", place))
      else if (!used.has(block.right.id ?? "")) items.push(ofBlock(block.right, "", place, context))
    }
    const read = agents.flatMap((agent) => Either.isRight(agent) ? [agent.right] : [])
    const rest = [
      ["the system prompt of an agent", read.filter((agent) => agent.system).length],
      [
        "a tool",
        (file.agents ? file.tools?.length ?? 0 : 0) + read.reduce((sum, { tools }) => sum + (tools?.length ?? 0), 0)
      ],
      ["a source or a file", (file.sources?.length ?? 0) + (file.files?.length ?? 0)]
    ] as const
    for (const [reason, count] of rest) for (let n = 1; n <= count; n++) items.push(skip(reason, `number ${n}`))
    return items.length === 0 ? Either.left("this is no agent file of Letta, or an empty one") : Either.right(items)
  })

const ofAgent = (
  agent: typeof Agent.Type,
  place: string,
  shared: ReadonlyArray<typeof Block.Type>,
  context: Context
): ReadonlyArray<Item> => {
  const name = agent.id ?? agent.name ?? place
  const scope = { agentId: name }
  const scoped: Context = context.overrules === true || !Schema.is(MemoryScope)(scope) ? context : { ...context, scope }
  const blocks = [...agent.core_memory ?? [], ...agent.memory_blocks ?? []].map((block) => readBlock(block))
  const passages = [...agent.archival_memory ?? [], ...agent.passages ?? []]
  const decoded = (agent.messages ?? []).map((message) => decodeMessage(message))
  const messages = decoded.flatMap((one) => Option.toArray(Either.getRight(Either.flatMap(one, toMessage))))
  return [
    ...[...blocks, ...shared.map((block) => Either.right(block))].map((block, n) => {
      const at = `${place}, block ${n + 1}`
      return Either.isLeft(block) ? skip("a block that cannot be read", at) : ofBlock(block.right, name, at, scoped)
    }),
    ...passages.map((passage, n) => ofPassage(passage, name, `${place}, passage ${n + 1}`, scoped)),
    ...(messages.length === 0 ? [] : [{ _tag: "Thread" as const, place, name: threadOf(name), messages }]),
    ...decoded.flatMap((one, n) => lostOf(one).map((reason) => skip(reason, `${place}, message ${n + 1}`)))
  ]
}

const ofPassage = (value: unknown, agent: string, place: string, context: Context): Item => {
  const passage = readPassage(value)
  if (Either.isLeft(passage)) return skip("a passage that cannot be read", place)
  const { created_at, id, tags, text } = passage.right
  return text.trim() === ""
    ? skip("an empty passage", place)
    : record({
      system,
      reference: id ?? `${agent}/passage/${text}`,
      place,
      kind: "semantic",
      body: text.toWellFormed(),
      tags: tags ?? [],
      validAt: timeOf(created_at)
    }, context)
}

const threadOf = (name: string): string => `${system}:${name.replace(/[\p{Cc}\\]/gu, " ")}`.slice(0, 256).toWellFormed()

const ofBlock = (
  { description, id, label, value }: typeof Block.Type,
  agent: string,
  place: string,
  context: Context
): Item =>
  value.trim() === ""
    ? skip("an empty block", place)
    : record({
      system,
      reference: id ?? `${agent}/block/${label}`,
      place,
      kind: "note",
      summary: label.slice(0, 200),
      body: value.toWellFormed(),
      tags: ["core memory", label],
      ...(description && { metadata: { description: description.toWellFormed() } })
    }, context)

const roles: ReadonlyMap<string, typeof Role.Type> = new Map([
  ["user", "user"],
  ["assistant", "assistant"],
  ["system", "system"],
  ["tool", "tool"]
])

type Read = ReturnType<typeof decodeMessage>

/** Returns the reasons why parts of a message cannot be imported. The list is empty if the whole message can be imported. */
const lostOf = (decoded: Read): ReadonlyArray<string> => {
  if (Either.isLeft(decoded)) return ["a message that cannot be read"]
  const said = toMessage(decoded.right)
  if (Either.isLeft(said)) return [said.left]
  const { content, tool_calls } = decoded.right
  const parts = typeof content === "string" ? [] : content ?? []
  const lost = parts.filter(({ text }) => typeof text !== "string").length + (tool_calls?.length ?? 0)
  return Array.from({ length: lost }, () => "a part of a message that is no text")
}

/** Converts a message. The error is the reason why the message cannot be imported. */
const toMessage = ({ content, created_at, id, role, text }: typeof Said.Type): Either.Either<Message, string> => {
  const known = roles.get(role)
  const all = typeof content === "string" ? content : content?.map(({ text }) => text ?? "").join("\n") ?? text ?? ""
  if (all.trim() === "") return Either.left("a message without text")
  return known === undefined
    ? Either.left("a message with an unknown role")
    : Either.right(message(known, all, { at: timeOf(created_at), id: id ?? undefined, tool: known === "tool" }))
}
