/** Decodes memories of mem0, from an export or from `get_all`. The file is an array, or an object with `results` or `memories`. */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { MemoryScope } from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import { attributesOf, type Decoder, type Item, json, record, skip, timeOf } from "./Foreign.ts"

const system = "mem0"

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const Memory = Schema.Struct({
  id: Schema.NonEmptyString,
  memory: maybe(Schema.String),
  text: maybe(Schema.String),
  hash: maybe(Schema.String),
  metadata: maybe(Schema.Unknown),
  categories: maybe(Schema.Array(Schema.String)),
  created_at: maybe(Schema.String),
  updated_at: maybe(Schema.String),
  expiration_date: maybe(Schema.String),
  user_id: maybe(Schema.String),
  agent_id: maybe(Schema.String),
  run_id: maybe(Schema.String),
  actor_id: maybe(Schema.String)
})
const List = Schema.Array(Schema.Unknown)
const readFile = json(
  Schema.Union(
    List,
    Schema.Struct({ results: List, relations: Schema.optional(List) }),
    Schema.Struct({ memories: List })
  ),
  "this is no export of mem0: expected an array of memories, or an object with results or memories"
)
const readMemory = Schema.decodeUnknownEither(Memory)
const isScope = Schema.is(MemoryScope)

/**
 * Decodes the file. The ids of a memory's user, agent and run become the scope of the record, unless `Context.overrules` is set.
 * `created_at` becomes `validAt`; `expiration_date` becomes `expiresAt`.
 */
export const decode: Decoder = (text, context) =>
  Either.map(readFile(text), (file) => {
    const memories = "results" in file ? file.results : "memories" in file ? file.memories : file
    const items = memories.map((value, n): Item => {
      const memory = readMemory(value)
      if (Either.isLeft(memory)) return skip("no memory of mem0", `item ${n + 1}`)
      const { agent_id, categories, created_at, expiration_date, hash, id, metadata, run_id, updated_at, user_id } =
        memory.right
      const body = memory.right.memory ?? memory.right.text ?? ""
      if (body.trim() === "") return skip("a memory without text", id)
      const named = Payload.definedFields({
        userId: user_id ?? undefined,
        agentId: agent_id ?? undefined,
        runId: run_id ?? undefined
      })
      const isNamed = Object.keys(named).length > 0 && context.overrules !== true
      if (isNamed && !isScope(named)) return skip("an id of a user, agent or run that is not legal here", id)
      const { lost, own } = attributesOf(metadata)
      return record({
        system,
        lost,
        reference: id,
        kind: "semantic",
        body: body.toWellFormed(),
        scope: isNamed ? named : context.scope,
        tags: categories ?? [],
        metadata: {
          ...own,
          mem0: Payload.definedFields({ hash: hash ?? undefined, updated_at: updated_at ?? undefined })
        },
        validAt: timeOf(created_at),
        expiresAt: timeOf(expiration_date)
      }, context)
    })
    const relations = "relations" in file ? file.relations ?? [] : []
    return [...items, ...relations.map((_, n) => skip("a relation of mem0's graph", `relation ${n + 1}`))]
  })
