/**
 * Reads the graph of Zep or Graphiti. The file is an array of edges, or an object with the optional lists `edges`, `facts` (also edges),
 * `nodes` and `episodes` (skipped). The fact of an edge becomes a semantic record with the edge's times of validity. A node becomes an
 * entity of `GraphMemory`. An edge between two nodes also becomes a link between their entities.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { foreign } from "../domain/MemoryId.ts"
import * as Payload from "../domain/Payload.ts"
import { attributesOf, type Decoder, type Item, json, record, skip, timeOf } from "./Foreign.ts"

const system = "zep"

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const Edge = Schema.Struct({
  uuid: Schema.NonEmptyString,
  fact: Schema.String,
  name: maybe(Schema.String),
  source_node_uuid: maybe(Schema.String),
  target_node_uuid: maybe(Schema.String),
  created_at: maybe(Schema.String),
  valid_at: maybe(Schema.String),
  invalid_at: maybe(Schema.String),
  expired_at: maybe(Schema.String),
  attributes: maybe(Schema.Unknown)
})
const Node = Schema.Struct({
  uuid: Schema.NonEmptyString,
  name: Schema.NonEmptyString,
  labels: maybe(Schema.Array(Schema.String)),
  summary: maybe(Schema.String),
  attributes: maybe(Schema.Unknown),
  created_at: maybe(Schema.String)
})
const List = Schema.optional(Schema.Array(Schema.Unknown))
const File = Schema.Struct({ edges: List, facts: List, nodes: List, episodes: List })
const read = json(
  Schema.Union(Schema.Array(Schema.Unknown), File),
  "this is no graph of Zep: expected edges, facts or nodes"
)
const readEdge = Schema.decodeUnknownEither(Edge)
const readNode = Schema.decodeUnknownEither(Node)

/** Decodes the file. `validAt` is `valid_at`, or else `created_at`. `invalidAt` is `invalid_at`, or else `expired_at`. */
export const decode: Decoder = (text, context) =>
  Either.flatMap(read(text), (file) => {
    const all = "length" in file ? { edges: file } : file
    const edges = [...all.edges ?? [], ...("facts" in all ? all.facts ?? [] : [])]
    const found = ("nodes" in all ? all.nodes ?? [] : []).map((node) => readNode(node))
    const nodes = new Map(found.flatMap((node) => Either.isRight(node) ? [[node.right.uuid, node.right] as const] : []))
    const links = new Map<string, Map<string, { to: ReturnType<typeof foreign>; type: string; weight: number }>>()
    const items: Array<Item> = found.flatMap((node, n) =>
      Either.isLeft(node) ? [skip("no node of Zep", `node ${n + 1}`)] : []
    )

    for (const [n, value] of edges.entries()) {
      const edge = readEdge(value)
      if (Either.isLeft(edge) || edge.right.fact.trim() === "") {
        items.push(skip("no edge of Zep with a fact", `edge ${n + 1}`))
        continue
      }
      const { attributes, created_at, expired_at, fact, invalid_at, uuid, valid_at } = edge.right
      const predicate = (edge.right.name ?? "").trim().slice(0, 1_024).toWellFormed()
      const source = nodes.get(edge.right.source_node_uuid ?? "")
      const target = nodes.get(edge.right.target_node_uuid ?? "")
      const type = predicate === "" ? "related_to" : predicate
      if (source && target && source !== target) {
        const known = links.get(source.uuid) ?? new Map()
        links.set(source.uuid, known.set(`${target.uuid} ${type}`, { to: idOf(target.uuid), type, weight: 1 }))
      }
      const { lost, own } = attributesOf(attributes)
      items.push(record({
        system,
        lost,
        reference: uuid,
        kind: "semantic",
        body: fact.toWellFormed(),
        data: source && target ? { subject: source.name, predicate: type, object: target.name } : {},
        links: [source, target].flatMap((node) => node ? [{ to: idOf(node.uuid), type: "about", weight: 1 }] : []),
        validAt: timeOf(valid_at) ?? timeOf(created_at),
        invalidAt: timeOf(invalid_at) ?? timeOf(expired_at),
        ...(own && { metadata: own })
      }, context))
    }
    for (const { attributes, created_at, labels, name, summary, uuid } of nodes.values()) {
      const { lost, own: properties } = attributesOf(attributes)
      items.push(record({
        system,
        lost,
        reference: uuid,
        kind: "entity",
        summary: name.slice(0, 200),
        body: (summary ?? "").toWellFormed(),
        tags: labels ?? [],
        data: Payload.definedFields({
          name,
          type: labels?.find((label) => label !== "Entity") ?? "Entity",
          properties
        }),
        links: Array.from(links.get(uuid)?.values() ?? []),
        validAt: timeOf(created_at)
      }, context))
    }
    for (const [n] of ("episodes" in all ? all.episodes ?? [] : []).entries()) {
      items.push(skip("an episode", `episode ${n + 1}`))
    }
    return items.length === 0
      ? Either.left("this is no graph of Zep, or an empty one")
      : Either.right(items)
  })

const idOf = (uuid: string) => foreign(system, uuid)
