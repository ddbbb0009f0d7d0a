/**
 * Reads the items of a LangGraph store: a JSON array, or one item per line. An item has a `namespace`, a `key` and a `value`, and becomes
 * an entry of `KeyValueMemory`. The parts of the item's namespace are joined by `/`.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { Json } from "../domain/Payload.ts"
import * as KeyValueMemory from "../kinds/KeyValueMemory.ts"
import { type Decoder, type Item, json, record, skip, timeOf } from "./Foreign.ts"

const Entry = Schema.Struct({
  namespace: Schema.Union(Schema.Array(Schema.String), Schema.String),
  key: Schema.NonEmptyString,
  value: Json,
  created_at: Schema.optional(Schema.NullOr(Schema.String))
})
const readArray = json(Schema.Array(Schema.Unknown), "no array")
const readValue = json(Schema.Unknown, "no JSON")
const readEntry = Schema.decodeUnknownEither(Entry)

/** Decodes the file. The field `created_at` of an item becomes `validAt` of the record. */
export const decode: Decoder = (text, context) => {
  const array = readArray(text)
  const values: ReadonlyArray<Either.Either<unknown, string>> = Either.isRight(array)
    ? array.right.map((value) => Either.right(value))
    : text.split("\n").filter((line) => line.trim() !== "").map(readValue)
  const items = values.map((value, n): Item => {
    const entry = Either.flatMap(value, readEntry)
    if (Either.isLeft(entry)) return skip("no item of a store of LangGraph", `item ${n + 1}`)
    const { created_at, key, namespace: path, value: content } = entry.right
    const namespace = typeof path === "string" ? path.replaceAll(".", "/") : path.join("/")
    return record({
      system: "langgraph",
      reference: `${namespace}/${key}`,
      place: `item ${n + 1}`,
      id: KeyValueMemory.idOf(context.scope, namespace, key),
      kind: "entry",
      summary: key.slice(0, 200),
      body: typeof content === "string" ? content : JSON.stringify(content),
      data: { namespace, key, ...(typeof content !== "string" && { value: content }) },
      validAt: timeOf(created_at)
    }, context)
  })
  return items.length > 0 && items.every(({ _tag }) => _tag === "Skip")
    ? Either.left("this is no list of items of a store of LangGraph: each has namespace, key and value")
    : Either.right(items)
}
