/** Generators of a model's answers, well-formed and malformed, for fuzzing the parsers. */
import * as FastCheck from "effect/FastCheck"

const scalar = FastCheck.oneof(
  FastCheck.constantFrom<unknown>(null, true, 0, 1, -1, 1e300, "", " ", "0", "1", "01", "9", "ADD", "update", "DELETE"),
  FastCheck.constantFrom("NOOP", "NONE", "Ada moved to Porto", "\ud800", "```", "}", "[x]", "__proto__"),
  FastCheck.fullUnicodeString({ maxLength: 12 })
)
const item = FastCheck.oneof(
  scalar,
  FastCheck.record({ text: scalar, kind: scalar, importance: scalar, event: scalar, id: scalar, old_memory: scalar }, {
    requiredKeys: []
  }),
  FastCheck.array(scalar, { maxLength: 3 })
)
const noise = FastCheck.oneof(
  FastCheck.constantFrom(
    "",
    "Sure! ",
    "[note] ",
    "```json\n",
    "\n```",
    " trailing [x]",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "<think>{}</think>"
  ),
  FastCheck.fullUnicodeString({ maxLength: 8 })
)

/** Generates JSON in which the field `name` may occur, amid prose, fences and other JSON, truncated at any length. */
export const answers = (name: string): FastCheck.Arbitrary<string> => {
  const json = FastCheck.oneof(
    { weight: 4, arbitrary: FastCheck.array(item, { maxLength: 5 }).map((items) => ({ [name]: items })) },
    FastCheck.array(item, { maxLength: 5 }),
    item,
    FastCheck.record({ [name]: item })
  ).map((value) => JSON.stringify(value) ?? "undefined")
  return FastCheck.tuple(
    FastCheck.array(FastCheck.oneof(json, noise), { minLength: 1, maxLength: 6 }).map((parts) => parts.join("")),
    FastCheck.oneof({ weight: 3, arbitrary: FastCheck.constant(1) }, FastCheck.double({ min: 0, max: 1, noNaN: true }))
  ).map(([text, share]) => text.slice(0, Math.ceil(text.length * share)))
}
