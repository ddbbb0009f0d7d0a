/**
 * Finds JSON in a model's answer. The answer may contain prose, fences and several JSON values, and may be cut off at the end.
 *
 * ```text
 * Sure [see below]: {"facts": ["a", "b",]}      → {"facts": ["a", "b"]}
 * {"facts": ["a", "b"], "more": ["c", "d        → {"facts": ["a", "b"], "more": ["c"]}
 * ```
 *
 * Parsing never throws, and takes time linear in the length of the text. A valid object or array of at most 100 levels is parsed to the
 * same value as by `JSON.parse`.
 */

/**
 * Returns the outermost objects and arrays of the text in order, at most the first 4,096. Three errors are allowed: a comma before a
 * closing bracket, a control character (such as a line break) in a string, and an escape that JSON does not define. A value may be cut off
 * by the end of the text or of a markdown fence. Such a value keeps only its complete members and items, and is left out if it has none.
 */
export const values = (text: string): ReadonlyArray<unknown> => {
  const found: Array<unknown> = []
  let dead: Uint8Array | undefined
  for (let at = 0; at < text.length && found.length < maxFound; at++) {
    const code = text.charCodeAt(at)
    if ((code !== openArray && code !== openObject) || dead?.[at] === 1) continue
    if (code === openObject && !isObjectAt(text, at)) continue
    const read = readAt(text, at)
    // skips the brackets that were open at the failure: a new attempt at each of them could take quadratic time
    if (read.end === undefined) {
      dead ??= new Uint8Array(text.length)
      for (const { start } of read.open) dead[start] = 1
      continue
    }
    found.push(read.value)
    at = read.end - 1
  }
  return found
}

/** Largest number of returned values. The longest accepted answer of a model could contain 131,072 empty arrays. */
const maxFound = 4_096
const openArray = 91
const openObject = 123
const closeObject = 125
const quote = 34

/** Whether a quote or a closing brace follows the brace at index `at`, as in JSON. Most braces in prose fail this check. */
const isObjectAt = (text: string, at: number): boolean => {
  const next = text.charCodeAt(skip(text, at + 1))
  return next === quote || next === closeObject
}

interface Reading {
  readonly value: unknown
  /** Index after the value that was read; `undefined` if no JSON value was found. */
  readonly end: number | undefined
  readonly open: ReadonlyArray<Frame>
}

/** An object or array that is being read, with the items that have been read so far. */
interface Frame {
  readonly start: number
  readonly close: "]" | "}"
  readonly items: Array<unknown>
  /** Keys of an object: `keys[n]` is the key of the value `items[n]`. Empty for an array. */
  readonly keys: Array<string>
  expects: "key" | "colon" | "item" | "comma"
}

/** Largest depth of nesting. Code that visits deeper values by recursion could overflow the stack. */
const deepest = 100
/** The empty list of `keys` that the frames of all arrays share. Nothing is ever added to this list. */
const none: Array<string> = []

const readAt = (text: string, from: number): Reading => {
  const frames: Array<Frame> = []
  let kept = 0
  let at = from

  const failed = (): Reading => ({ value: undefined, end: undefined, open: frames })
  const cutAt = (end: number): Reading => {
    if (kept === 0) return failed()
    for (let inner = frames.pop(); inner; inner = frames.pop()) {
      const outer = frames.at(-1)
      if (!outer) return { value: toValue(inner), end, open: [] }
      if (inner.items.length > 0) outer.items.push(toValue(inner))
    }
    return failed()
  }

  for (;;) {
    at = skip(text, at)
    const frame = frames.at(-1)
    const char = text.charAt(at)
    if (frame && (char === "" || text.startsWith("```", at))) return cutAt(at)

    if (frame && char === frame.close && frame.expects !== "colon") {
      if (frame.expects === "item" && frame.close === "}") return failed()
      at++
      frames.pop()
      const value = toValue(frame)
      const outer = frames.at(-1)
      if (!outer) return { value, end: at, open: [] }
      outer.items.push(value)
      outer.expects = "comma"
      kept++
    } else if (frame && (frame.expects === "comma" || frame.expects === "colon")) {
      if (char !== (frame.expects === "comma" ? "," : ":")) return failed()
      at++
      frame.expects = frame.expects === "colon" || frame.close === "]" ? "item" : "key"
    } else if (char === "\"") {
      const end = endOfString(text, at)
      if (end === undefined) return cutAt(text.length)
      const string = unescaped(text.slice(at + 1, end))
      at = end + 1
      if (frame!.expects === "key") {
        frame!.keys.push(string)
        frame!.expects = "colon"
      } else {
        frame!.items.push(string)
        frame!.expects = "comma"
        kept++
      }
    } else if (frame?.expects === "key") {
      return failed()
    } else if (char === "[" || char === "{") {
      if (frames.length === deepest) return failed()
      const isArray = char === "["
      frames.push({
        start: at,
        close: isArray ? "]" : "}",
        items: [],
        keys: isArray ? none : [],
        expects: isArray ? "item" : "key"
      })
      at++
    } else {
      const word = wordAt(text, at)
      if (word !== "" && at + word.length === text.length) return cutAt(text.length)
      if (!scalar.test(word)) return failed()
      frame!.items.push(JSON.parse(word))
      frame!.expects = "comma"
      at += word.length
      kept++
    }
  }
}

/** Makes an object or array from a `Frame`. A key without a value is left out. The key `__proto__` becomes an ordinary property. */
const toValue = ({ close, items, keys }: Frame): unknown =>
  close === "]" ? items : Object.fromEntries(items.map((item, n) => [keys[n], item]))

const scalar = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/

const skip = (text: string, from: number): number => {
  for (let at = from;; at++) {
    const code = text.charCodeAt(at) // NaN beyond the end of the text
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at
  }
}

const wordAt = (text: string, at: number): string => {
  word.lastIndex = at
  return word.exec(text)?.[0] ?? ""
}
const word = /[\w.+-]*/y

/** Returns the index of the closing quote of the string that begins at `start`. Returns `undefined` if there is none. */
const endOfString = (text: string, start: number): number | undefined => {
  for (let at = start + 1; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === 34) return at
    if (char === 92) at++
  }
  return undefined
}

const escapes: { readonly [letter: string]: string } = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }

/** Replaces the escapes of a string. An escape that JSON does not define loses its backslash: `\'` becomes `'`. */
const unescaped = (raw: string): string =>
  raw.includes("\\")
    ? raw.replace(/\\(u[0-9a-fA-F]{4}|[^])/g, (_, escape: string) =>
      escape.length === 5 ? String.fromCharCode(parseInt(escape.slice(1), 16)) : escapes[escape] ?? escape)
    : raw
