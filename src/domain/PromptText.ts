/**
 * Makes stored text safe for a prompt. All stored text that this library puts into a prompt passes through `visible`. The result contains
 * no hidden text, and cannot end the memory block around it. The text in the store is not changed.
 *
 * `visible` takes linear time and is idempotent. Only the characters in this table are changed. The rows `joiners`, `U+FE0E, U+FE0F` and
 * `flags` are exceptions to the row `invisible`.
 *
 * ```text
 * line breaks      each becomes one line feed
 * controls         removed, except tabs and line feeds
 * invisible        default-ignorable code points are removed: bidi controls, tags, variation selectors, zero-width
 *                  characters, fillers, invisible operators; so are the interlinear annotation characters
 * joiners          ZWJ and ZWNJ stay after a virama, and between letters whose forms depend on their neighbours; ZWJ stays between emoji
 * U+FE0E, U+FE0F   stay after an emoji, and between a digit, `#` or `*` and U+20E3
 * flags            the tag sequences of England, Scotland and Wales stay
 * markers          the first character of a chat template's marker (`<|im_start|>`, `[INST]`) or of a memory block's tag
 *                  becomes an HTML entity
 * lone surrogates  each becomes U+FFFD
 * ```
 */

/**
 * The opening tag of a memory block. A memory block is the part of a prompt that contains memories. Each `<` in the memories is escaped.
 * Extraction skips memory blocks.
 */
export const open = "<memory>"
/** The closing tag of a memory block. */
export const close = "</memory>"

/**
 * Returns the text without its memory blocks. An opening tag without a closing tag does not begin a memory block, since this library always
 * writes both tags.
 */
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

/**
 * Makes stored text safe for a prompt. Normalises line breaks, removes invisible characters, and replaces lone surrogates. An HTML entity
 * replaces the first character of each chat-template marker and of each memory-block tag.
 */
export const visible = (text: string): string => disarm(reveal(text))

/**
 * Applies `visible` to every string of a JSON value, including the keys of objects. Two keys that become equal get different names: `key`
 * and `key (2)`. A value that is not JSON is returned unchanged.
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

/**
 * Encloses a text in a markdown fence that is longer than any run of backticks in the text. Apply `visible` before `fence`, never after.
 * `visible` may remove a character between two runs of backticks. The joined run could be as long as the fence.
 */
export const fence = (text: string): string => {
  let longest = 2
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length)
  const mark = "`".repeat(longest + 1)
  return `${mark}\n${text}\n${mark}`
}

/** Makes a text safe as `visible` does. Also replaces each `&`, `<` and `>` by an HTML entity. Meant for text between tags. */
export const escape = (text: string): string =>
  disarm(reveal(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"))

/** Applies `visible`, and puts the text on one line. Each run of white space becomes one space. */
export const oneLine = (text: string): string => visible(reveal(text).replace(/\s+/gu, " ").trim())

/** Applies `escape`, and puts the text on one line, for labels and summaries. Each run of white space becomes one space. */
export const line = (text: string): string => escape(reveal(text).replace(/\s+/gu, " ").trim())

/**
 * Replaces lone surrogates, makes each line break a line feed, and removes invisible characters. Lone surrogates must be replaced first.
 * Otherwise, the removal of a character between a high and a low surrogate would join the two into one character.
 */
export const reveal = (text: string): string =>
  text.toWellFormed().replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n").replace(hidden, "").replace(conditional, keep)

/**
 * Matches the characters that are always removed: control characters except tab and line feed, interlinear annotation characters, and the
 * default-ignorable code points that `conditional` does not match.
 */
const hidden =
  /[^\P{Cc}\t\n]|[^\P{Default_Ignorable_Code_Point}\ufe0e\ufe0f\u200c-\u200d\u{e0020}-\u{e007f}]|[\ufff9-\ufffb]/gu

/**
 * Matches runs of invisible code points that have a legitimate use in some texts. Some code points of a run may stay, depending on the
 * characters around the run; see `keep`.
 */
const conditional = /[\ufe0e\ufe0f\u200c-\u200d\u{e0020}-\u{e007f}]+/gu

/**
 * Returns the code points of `run` that stay. `run` is a match of `conditional` at `offset` in `text`. The result depends only on the run
 * and on the visible characters next to the run. So a second call of `visible` changes nothing.
 */
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
  if (!virama.test(before) && !(isJoining(before) && isJoining(after))) return ""
  return /[\u200c\u200d]/.exec(run)?.[0] ?? ""
}

const isSelector = (unit: string | undefined): boolean => unit === "\ufe0e" || unit === "\ufe0f"

const tagged = (region: string): string =>
  String.fromCodePoint(...Array.from(region, (letter) => 0xe0000 + letter.charCodeAt(0)), 0xe007f)

/** The tag sequences of three flags. Unicode recommends only these. Any other tag sequence could contain hidden text. */
const flags = ["gbeng", "gbsct", "gbwls"].map(tagged)

/** Matches the viramas of ten Indic scripts. A ZWJ or ZWNJ after a virama sets the form of a consonant, even at the end of a word. */
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

/** Whether a character is a letter, mark or digit of a script in which the form of a letter depends on its neighbours. */
const isJoining = (character: string): boolean => {
  joining ??= new RegExp(`(?=[\\p{L}\\p{M}\\p{Nd}])[${scripts.map((name) => `\\p{scx=${name}}`).join("")}]`, "u")
  return joining.test(character)
}
/** Pattern of `isJoining`. It is made at the first call, not when the package is imported. */
let joining: RegExp | undefined

const codePointBefore = (text: string, at: number): string => {
  const pair = at > 1 ? text.codePointAt(at - 2)! : 0 // `at - 2` is an index of the text, so there is a code point
  return pair > 0xffff ? String.fromCodePoint(pair) : text.charAt(at - 1)
}

const codePointAt = (text: string, at: number): string =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : "" // `at` is an index of the text, so there is a code point

/**
 * Replaces the first character of each chat-template marker and of each memory-block tag by an HTML entity. Models and parsers then read
 * the marker or tag as plain text.
 */
const disarm = (text: string): string =>
  text.replace(upToMarkerEnd, (line) => line.replace(markerStart, "&lt;"))
    .replace(tags, "&lt;")
    .replace(instructions, "&#91;")

/**
 * Matches the part of a line before the last `|>` (half or full width). A `|>` directly after `<` does not count. Markers such as
 * `<|im_start|>` can begin only in this part.
 */
const upToMarkerEnd = /^.+(?<!<)(?=[|｜￨│∣][>＞﹥])/gm
const markerStart = /[<＜﹤](?=[|｜￨│∣])/g

/** Matches the first character of a memory-block tag, or of a chat-template marker such as `<bos>` or `<<SYS>>`. */
const tags =
  /[<＜﹤](?=\s*(?:[/／]\s*)?(?:memory|entry)\b|[/／]?(?:(?:start|end)_of_turn|bos|eos|pad|unk|s)[>＞﹥]|<[/／]?sys>>)/gi

const instructions = /[[［](?=[/／]?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)[\]］])/g

/**
 * The result of `visible` with a source map. For each UTF-16 unit of the result, the map has the range of the stored text that became this
 * unit.
 */
export interface Traced {
  /** The text that the model sees: the result of `visible`. */
  readonly text: string
  /** Start of the range of each unit of `text`: an index into the stored text. */
  readonly from: ReadonlyArray<number>
  /**
   * End (exclusive) of the range of each unit of `text`: an index into the stored text. An HTML entity such as `&lt;` replaces one
   * character. All units of the entity have the range of this character.
   */
  readonly to: ReadonlyArray<number>
}

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Returns the result of `visible` with a source map. Costs several times as much as `visible`. */
export const traced = (text: string): Traced => {
  const units = Array.from({ length: text.length }, (_, n) => n)
  let now: Traced = { text: text.toWellFormed(), from: units, to: units.map((n) => n + 1) }
  now = edited(now, matches(now.text, /\r\n?|[\v\f\u0085\u2028\u2029]/g, () => "\n"))
  now = edited(now, matches(now.text, hidden, () => ""))
  now = edited(
    now,
    matches(now.text, conditional, keep).flatMap(({ end, start, text: kept }) => {
      let at = 0
      return Array.from(now.text.slice(start, end)).reduce<{ readonly edits: Array<Edit>; readonly position: number }>(
        ({ edits, position }, character) => {
          const stays = kept.startsWith(character, at)
          if (stays) at += character.length
          else edits.push({ start: position, end: position + character.length, text: "" })
          return { edits, position: position + character.length }
        },
        { edits: [], position: start }
      ).edits
    })
  )
  now = edited(
    now,
    Array.from(now.text.matchAll(upToMarkerEnd)).flatMap(({ 0: line, index }) =>
      matches(line, markerStart, () => "&lt;").map((edit) => ({
        ...edit,
        start: index + edit.start,
        end: index + edit.end
      }))
    )
  )
  now = edited(now, matches(now.text, tags, () => "&lt;"))
  return edited(now, matches(now.text, instructions, () => "&#91;"))
}

/**
 * Applies a model's edit to the stored text, and returns the new stored text. The model saw `shown.text`, and replaced the units from
 * `start` to `end` by `text`. Only characters that differ between the replaced units and `text` change. Characters that were hidden from
 * the model are kept. Within a change, hidden characters are put after the inserted text. If the part from the first to the last difference
 * has n replaced and m new characters, and n · m exceeds 1,000,000, the whole part counts as one change.
 */
export const replaceShown = (stored: string, shown: Traced, start: number, end: number, text: string): string => {
  const { from, to } = shown
  const isInside = (n: number) => n > 0 && n < from.length && from[n] === from[n - 1] && to[n] === to[n - 1]
  let [at, last] = [start, end]
  while (isInside(at)) at--
  while (isInside(last)) last++
  const before = charactersOf(shown.text.slice(at, last))
  const after = charactersOf(shown.text.slice(at, start) + text + shown.text.slice(end, last))

  let position = at > 0 ? to[at - 1]! : from[0] ?? stored.length // `at - 1` is a unit of `shown`
  let result = stored.slice(0, position)
  let hiddenText = "" // hidden characters found so far within the current change
  const pass = (units: number, isKept: boolean) => {
    for (let n = 0; n < units; n++, at++) {
      const [unitStart, unitEnd] = [Math.max(position, from[at]!), Math.max(position, to[at]!)] // `at` is a replaced unit
      if (isKept) result += stored.slice(position, unitEnd)
      else hiddenText += stored.slice(position, unitStart)
      position = unitEnd
    }
  }
  const kept = common(before, after)
  let [b, a] = [0, 0]
  for (const [nextB, nextA] of [...kept, [before.length, after.length] as const]) {
    if (nextB > b) {
      const start = Math.max(position, from[at]!) // `at` is the first removed unit
      result += stored.slice(position, start)
      position = start
    }
    result += after.slice(a, nextA).join("")
    pass(before.slice(b, nextB).join("").length, false)
    result += hiddenText
    hiddenText = ""
    pass(before[nextB]?.length ?? 0, true)
    b = nextB + 1
    a = nextA + 1
  }
  return result + stored.slice(position)
}

/** Splits shown text into characters. The entities that `visible` writes, `&lt;` and `&#91;`, count as one character each. */
const charactersOf = (text: string): ReadonlyArray<string> => text.match(/&lt;|&#91;|[^]/gu) ?? []

/**
 * Returns a longest common subsequence of `a` and `b`, as pairs of indices. A middle part is the part between the common start and the
 * common end. If the product of the lengths of both middle parts exceeds 1,000,000, returns only the common start and end.
 */
const common = (
  a: ReadonlyArray<string>,
  b: ReadonlyArray<string>
): ReadonlyArray<readonly [number, number]> => {
  const maxLength = Math.min(a.length, b.length)
  let head = 0
  while (head < maxLength && a[head] === b[head]) head++
  let tail = 0
  while (tail < maxLength - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  const [rows, columns] = [a.length - head - tail, b.length - head - tail]
  const found: Array<readonly [number, number]> = Array.from({ length: head }, (_, n) => [n, n] as const)
  if (rows * columns > 0 && rows * columns <= 1_000_000) {
    const width = columns + 1
    // cell (i, j): length of a longest common subsequence of `a`'s middle part from element i and `b`'s middle part from element j
    const lengths = new Uint16Array((rows + 1) * width)
    for (let i = rows - 1; i >= 0; i--) {
      for (let j = columns - 1; j >= 0; j--) {
        lengths[i * width + j] = a[head + i] === b[head + j]
          ? lengths[(i + 1) * width + j + 1]! + 1 // the index is within `lengths`
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!) // the index is within `lengths`
      }
    }
    for (let i = 0, j = 0; i < rows && j < columns;) {
      if (a[head + i] === b[head + j]) found.push([head + i++, head + j++])
      else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i++ // the index is within `lengths`
      else j++
    }
  }
  for (let n = tail; n > 0; n--) found.push([a.length - n, b.length - n])
  return found
}

/** Returns one edit for each match of the pattern. The edit replaces the match by the result of `by`. */
const matches = (
  text: string,
  pattern: RegExp,
  by: (match: string, offset: number, text: string) => string
): ReadonlyArray<Edit> =>
  Array.from(text.matchAll(pattern), ({ 0: match, index }) => ({
    start: index,
    end: index + match.length,
    text: by(match, index, text)
  }))

/** Applies edits to a text and to its source map. The edits must be in order and must not overlap. */
const edited = (before: Traced, edits: ReadonlyArray<Edit>): Traced => {
  if (edits.length === 0) return before
  const from: Array<number> = []
  const to: Array<number> = []
  let text = ""
  let at = 0
  const copy = (end: number) => {
    text += before.text.slice(at, end)
    for (; at < end; at++) {
      from.push(before.from[at]!) // `at` is a unit of the text
      to.push(before.to[at]!) // `at` is a unit of the text
    }
  }
  for (const edit of edits) {
    copy(edit.start)
    for (let n = 0; n < edit.text.length; n++) {
      from.push(before.from[edit.start]!) // every edit replaces at least one unit
      to.push(before.to[edit.end - 1]!) // every edit replaces at least one unit
    }
    text += edit.text
    at = edit.end
  }
  copy(before.text.length)
  return { text, from, to }
}

/** Estimates the number of tokens of a text from its number of characters: four characters per token. */
export const tokensIn = (characters: number): number => Math.ceil(characters / 4)
