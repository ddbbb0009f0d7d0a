/**
 * Reads agent files of Letta (`.af`), of one agent or several. Blocks of core memory become notes, tagged with the block's label; archival
 * passages become semantic records; the messages of an agent become a thread. The agent's id becomes the scope, unless the import sets one.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { MemoryScope } from "../domain/MemoryScope.ts"
import type { Role } from "../domain/Message.ts"
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
  created_at: maybe(Schema.String)
})
const Agent = Schema.Struct({
  id: maybe(Schema.String),
  name: maybe(Schema.String),
  block_ids: list(Schema.String),
  core_memory: list(Block),
  memory_blocks: list(Block),
  archival_memory: list(Passage),
  passages: list(Passage),
  messages: list(Said),
  system: maybe(Schema.String),
  tools: list(Schema.Unknown)
})
const File = Schema.Struct({
  ...Agent.fields,
  agents: list(Agent),
  blocks: list(Block),
  sources: list(Schema.Unknown),
  files: list(Schema.Unknown)
})
const read = json(File, "this is no agent file of Letta")

/** Decodes the file. */
export const decode: Decoder = (text, context) =>
  Either.flatMap(read(text), (file) => {
    const agents = file.agents ?? [file]
    const shared = new Map((file.blocks ?? []).flatMap((block) => block.id ? [[block.id, block] as const] : []))
    const used = new Set<string>()
    const items: Array<Item> = agents.flatMap((agent, n) => {
      for (const id of agent.block_ids ?? []) used.add(id)
      const named = (agent.block_ids ?? []).flatMap((id) => shared.get(id) ?? [])
      return ofAgent(agent, `agent ${n + 1}`, named, context)
    })
    for (const [n, block] of (file.blocks ?? []).entries()) {
      if (!used.has(block.id ?? "")) items.push(ofBlock(block, "", `block ${n + 1}`, context))
    }
    const rest = [
      ["the system prompt of an agent", agents.filter((agent) => agent.system).length],
      [
        "a tool",
        (file.agents ? file.tools?.length ?? 0 : 0) + agents.reduce((sum, { tools }) => sum + (tools?.length ?? 0), 0)
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
  const own: Context = context.overrules === true || !Schema.is(MemoryScope)(scope) ? context : { ...context, scope }
  const said = (agent.messages ?? []).map(toMessage)
  const messages = said.flatMap((one) => one === undefined ? [] : [one])
  return [
    ...[...agent.core_memory ?? [], ...agent.memory_blocks ?? [], ...shared].map((block, n) =>
      ofBlock(block, name, `${place}, block ${n + 1}`, own)
    ),
    ...[...agent.archival_memory ?? [], ...agent.passages ?? []].map(({ created_at, id, tags, text }, n) =>
      text.trim() === ""
        ? skip("an empty passage", `${place}, passage ${n + 1}`)
        : record({
          system,
          reference: id ?? `${name}/passage/${text}`,
          kind: "semantic",
          body: text.toWellFormed(),
          tags: tags ?? [],
          validAt: timeOf(created_at)
        }, own)
    ),
    ...(messages.length === 0 ? [] : [{ _tag: "Thread" as const, place, name: threadOf(name), messages }]),
    ...said.flatMap((one, n) => one === undefined ? [skip("a message without text", `${place}, message ${n + 1}`)] : [])
  ]
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

const toMessage = ({ content, created_at, id, role, text }: typeof Said.Type) => {
  const known = roles.get(role)
  const all = typeof content === "string" ? content : content?.map(({ text }) => text ?? "").join("\n") ?? text ?? ""
  return known === undefined || all.trim() === ""
    ? undefined
    : message(known, all, { at: timeOf(created_at), id: id ?? undefined, tool: known === "tool" })
}
