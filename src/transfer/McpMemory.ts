/**
 * Reads the memory file of MCP's reference memory server. Each line is an entity or a relation, in JSON. An entity becomes an entity of
 * `GraphMemory`, with its observations as the body. A relation becomes a link.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { foreign } from "../domain/MemoryId.ts"
import type { Draft } from "../domain/MemoryRecord.ts"
import { type Decoder, type Item, json, record, skip } from "./Foreign.ts"

const system = "mcp-memory"

const Entity = Schema.Struct({
  type: Schema.Literal("entity"),
  name: Schema.NonEmptyString,
  entityType: Schema.optionalWith(Schema.String, { default: () => "" }),
  observations: Schema.optionalWith(Schema.Array(Schema.String), { default: () => [] })
})
const Relation = Schema.Struct({
  type: Schema.Literal("relation"),
  from: Schema.String,
  to: Schema.String,
  relationType: Schema.NonEmptyString.pipe(Schema.maxLength(1_024))
})
const read = json(Schema.Union(Entity, Relation), "neither an entity nor a relation")

/** Decodes the file. If several lines have the same entity, the observations of these lines are joined. */
export const decode: Decoder = (text, context) => {
  const items: Array<Item> = []
  const entities = new Map<
    string,
    { type: string; readonly observations: Set<string>; readonly links: Map<string, Link> }
  >()
  const relations: Array<readonly [place: string, relation: typeof Relation.Type]> = []
  for (const [n, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue
    const place = `line ${n + 1}`
    const value = read(line)
    if (Either.isLeft(value)) items.push(skip(value.left, place))
    else if (value.right.type === "relation") relations.push([place, value.right])
    else {
      const { entityType, name, observations } = value.right
      const known = entities.get(name) ?? { type: entityType, observations: new Set(), links: new Map() }
      for (const observation of observations) known.observations.add(observation)
      entities.set(name, known)
    }
  }
  if (entities.size === 0 && items.length > 0) {
    return Either.left("no line is an entity of the reference server's memory")
  }
  for (const [place, { from, relationType, to }] of relations) {
    const source = entities.get(from)
    if (source === undefined || !entities.has(to)) items.push(skip("a relation whose end is missing", place))
    else if (from === to) items.push(skip("a relation to itself", place))
    else {source.links.set(JSON.stringify([to, relationType]), {
        to: foreign(system, to),
        type: relationType,
        weight: 1
      })}
  }
  for (const [name, { links, observations, type }] of entities) {
    items.push(record({
      system,
      reference: name,
      place: `entity ${items.length + 1}`,
      kind: "entity",
      summary: name.slice(0, 200),
      body: Array.from(observations, (observation) => `- ${observation}`).join("\n").toWellFormed(),
      data: { name: name.toWellFormed(), type },
      links: Array.from(links.values())
    }, context))
  }
  return Either.right(items)
}

type Link = NonNullable<Draft["links"]>[number]
