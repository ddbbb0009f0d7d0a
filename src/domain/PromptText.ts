/**
 * Sanitises text that a model reads. Everything that this library shows a model passes through `visible`, so that stored
 * text can neither hide anything from the people who read it nor end the block that it stands in. The stored text itself
 * is not changed.
 *
 * `visible` is linear in the length of its input and idempotent, and leaves text without such characters unchanged:
 *
 * ```text
 * line breaks      each becomes one line feed
 * controls         removed, tabs and line feeds apart
 * invisible        default-ignorable code points are removed: bidi controls, tags, variation selectors, zero-width
 *                  characters, fillers, invisible operators; so are the interlinear annotation characters
 * joiners          ZWJ and ZWNJ stay between letters of scripts that join, and after a virama; ZWJ stays between emoji
 * U+FE0E, U+FE0F   stay after an emoji, and between a keycap's digit and U+20E3
 * flags            the tag sequences of England, Scotland and Wales stay
 * markers          `<|im_start|>`, `[INST]` and the like, and the tags of our own blocks: the first character becomes an
 *                  entity
 * lone surrogates  each becomes U+FFFD
 * ```
 */

/** The opening tag of a memory block. Extraction skips such blocks; text within them has `<` escaped. */
export const open = "<memory>"
/** The closing tag of a memory block. */
export const close = "</memory>"

/** Returns the text without memory blocks. A block without a closing tag is not one of this library, and stays. */
export const withoutMemory = (text: string): string => {
  let kept = ""
  let from = 0
  for (;;) {
    const start = text.indexOf(open, from)
    const end = start < 0 ? -1 : text.indexOf(close, start)
    if (end < 0) return kept + text.slice(from)
    kept += text.slice(from, start)
    from = end + close.length
  }
}

/** Removes invisible characters, and disarms chat-template markers and the tags of our own blocks. */
export const visible = (text: string): string => disarm(reveal(text))

/**
 * Applies `visible` to every string of a JSON value: object keys and values, at every depth. Two keys that become equal
 * get a number: `key`, `key (2)`. Values that are not JSON are returned as they are.
 */
export const visibleJson = (value: unknown): unknown => {
  if (typeof value === "string") return visible(value)
  if (Array.isArray(value)) return value.map(visibleJson)
  if (typeof value !== "object" || value === null) return value
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  const entries = new Map<string, unknown>()
  const uses = new Map<string, number>()
  for (const [key, child] of Object.entries(value)) {
    const name = visible(key)
    let n = uses.get(name) ?? 0
    let unique: string
    do {
      n++
      unique = n === 1 ? name : `${name} (${n})`
    } while (entries.has(unique))
    uses.set(name, n)
    entries.set(unique, visibleJson(child))
  }
  return Object.fromEntries(entries)
}

/** Fences a text with more backticks than any run in it. Apply `visible` first: removing a character may join two runs. */
export const fence = (text: string): string => {
  let longest = 2
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length)
  const mark = "`".repeat(longest + 1)
  return `${mark}\n${text}\n${mark}`
}

/** Returns visible text with `&`, `<` and `>` as entities, for use between tags. */
export const escape = (text: string): string =>
  disarm(reveal(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"))

/** Returns visible text on one line, each run of white space as one space. */
export const oneLine = (text: string): string => visible(reveal(text).replace(/\s+/gu, " ").trim())

/** Returns escaped, visible text on one line, for labels and summaries. */
export const line = (text: string): string => escape(reveal(text).replace(/\s+/gu, " ").trim())

/**
 * Repairs surrogates, unifies line breaks and removes invisible characters. Surrogates come first: otherwise two lone ones
 * would form a character once the text between them is removed.
 */
const reveal = (text: string): string =>
  text.toWellFormed().replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n").replace(hidden, "").replace(conditional, keep)

/** Matches controls, and every default-ignorable code point that no context makes legitimate. */
const hidden =
  /[^\P{Cc}\t\n]|[^\P{Default_Ignorable_Code_Point}\ufe0e\ufe0f\u200c-\u200d\u{e0020}-\u{e007f}]|[\ufff9-\ufffb]/gu

/** Matches runs of code points that stay only where their neighbours need them. */
const conditional = /[\ufe0e\ufe0f\u200c-\u200d\u{e0020}-\u{e007f}]+/gu

/** Returns the part of such a run that stays. Both neighbours are visible, so a second pass decides the same. */
const keep = (run: string, offset: number, text: string): string => {
  const before = codePointBefore(text, offset)
  const after = codePointAt(text, offset + run.length)
  if (/[0-9#*]/.test(before)) return after === "\u20e3" && isSelector(run[0]) ? `${run[0]}` : ""
  if (before === "\u{1f3f4}") {
    const flag = flags.find((tags) => run.startsWith(tags))
    if (flag !== undefined) return flag
  }
  const isPictograph = /\p{Extended_Pictographic}/u.test(before)
  if (isPictograph || /\p{Emoji_Modifier}/u.test(before)) {
    const selector = isPictograph && isSelector(run[0]) ? run[0] : ""
    return `${selector}${run.includes("\u200d") && /\p{Extended_Pictographic}/u.test(after) ? "\u200d" : ""}`
  }
  if (!virama.test(before) && !(joining.test(before) && joining.test(after))) return ""
  return /[\u200c\u200d]/.exec(run)?.[0] ?? ""
}

const isSelector = (unit: string | undefined): boolean => unit === "\ufe0e" || unit === "\ufe0f"

const tagged = (region: string): string =>
  String.fromCodePoint(...Array.from(region, (letter) => 0xe0000 + letter.charCodeAt(0)), 0xe007f)

/** The three flags that Unicode recommends for interchange; any other sequence would be hidden text behind a flag. */
const flags = ["gbeng", "gbsct", "gbwls"].map(tagged)

/** The viramas of Indic scripts. After one, ZWJ and ZWNJ choose the form of a consonant even at the end of a word. */
const virama = /[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca]/

const scripts = [
  ...[
    "Adlam",
    "Arabic",
    "Hanifi_Rohingya",
    "Mandaic",
    "Manichaean",
    "Mongolian",
    "Nko",
    "Phags_Pa",
    "Sogdian",
    "Syriac"
  ],
  ...["Balinese", "Bengali", "Brahmi", "Chakma", "Devanagari", "Grantha", "Gujarati", "Gurmukhi", "Javanese", "Kaithi"],
  ...["Kannada", "Khmer", "Malayalam", "Meetei_Mayek", "Modi", "Myanmar", "Oriya", "Sharada", "Sinhala", "Sundanese"],
  ...["Tamil", "Telugu", "Tibetan", "Tirhuta"]
]

/** Matches a letter, mark or digit of a script whose letters change form beside each other. */
const joining = new RegExp(`(?=[\\p{L}\\p{M}\\p{Nd}])[${scripts.map((name) => `\\p{scx=${name}}`).join("")}]`, "u")

const codePointBefore = (text: string, at: number): string => {
  const pair = at > 1 ? text.codePointAt(at - 2)! : 0 // an index inside the text
  return pair > 0xffff ? String.fromCodePoint(pair) : text.charAt(at - 1)
}

const codePointAt = (text: string, at: number): string =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : "" // an index inside the text

/** Replaces the first character of anything that a model or a parser of our blocks may take for markup by an entity. */
const disarm = (text: string): string =>
  text.replace(upToMarkerEnd, (line) => line.replace(markerStart, "&lt;"))
    .replace(tags, "&lt;")
    .replace(instructions, "&#91;")

/** Matches each line up to its last `|>`. A marker such as `<|im_start|>` stands on one line, in half or full width. */
const upToMarkerEnd = /^.+(?<!<)(?=[|｜￨│∣][>＞﹥])/gm
const markerStart = /[<＜﹤](?=[|｜￨│∣])/g

/** Matches the tags of our own blocks, and chat-template markers that have angle brackets only. */
const tags =
  /[<＜﹤](?=\s*(?:[/／]\s*)?(?:memory|entry)\b|[/／]?(?:(?:start|end)_of_turn|bos|eos|pad|unk|s)[>＞﹥]|<[/／]?sys>>)/gi

const instructions = /[[［](?=[/／]?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)[\]］])/g

/** Estimates the tokens of a text by the number of its characters: four to a token. */
export const tokensIn = (characters: number): number => Math.ceil(characters / 4)
