/**
 * Finds near-duplicate texts. Such texts differ only in case, punctuation, accents or white space. Long near-duplicates may also differ in
 * a few words.
 *
 * ```text
 * words                  runs of letters and digits, including stopwords, since "to", "not" and "b" make a difference
 * fewer than 64 words    a 64-bit hash of the words in order; near-duplicates have equal hashes
 * 64 words or more       SimHash of the bigrams (Charikar, 2002); near-duplicates differ in ≤ 3 bits (Manku, Jain & Das Sarma, 2007)
 * strict                 a 32-bit hash of what must be the same, in the same order: numbers, signs, negations, single letters
 * ```
 *
 * These pairs are no near-duplicates: "room 12" and "room 13"; "likes" and "does not like"; "Paris to Rome" and "Rome to Paris". Long texts
 * that differ in one word are usually near-duplicates, but not if that word is in the `strict` hash. The functions are deterministic.
 */
import { canonicalJson } from "../domain/Digest.ts"
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"

/** The signature of a text: three 32-bit integers, which a database can store in columns. */
export interface Signature {
  readonly high: number
  readonly low: number
  readonly strict: number
}

/** Returns the signature of a text. Cost: about 0.1 µs per word. */
export const signature = (text: string): Signature => {
  const lower = text.toLowerCase()
  const { count, strict } = scan(beyondAscii.test(lower) ? normalised(lower) : lower)
  const [high, low] = count === 0
    ? orderedHash(hashCharacters(text))
    : count < simHashFrom
    ? orderedHash(count)
    : simHash(count)
  return { high, low, strict: mix(strict ^ (count < simHashFrom ? 1 : 0)) }
}

/** Whether two signatures belong to near-duplicates. `strict` must be equal, and at most 3 of the other 64 bits may differ. */
export const isNear = (a: Signature, b: Signature): boolean =>
  a.strict === b.strict && bits(a.high ^ b.high) + bits(a.low ^ b.low) <= 3

/**
 * Drops each item that is a near-duplicate of an earlier, kept item. `folded` is the number of dropped items. Each item is compared with
 * every kept item.
 */
export const foldBy = <A>(
  items: ReadonlyArray<A>,
  signatureOf: (item: A) => Signature
): { readonly kept: ReadonlyArray<A>; readonly folded: number } => {
  const kept: Array<A> = []
  const signatures: Array<Signature> = []
  for (const item of items) {
    const own = signatureOf(item)
    if (signatures.some((other) => isNear(own, other))) continue
    kept.push(item)
    signatures.push(own)
  }
  return { kept, folded: items.length - kept.length }
}

/** Does the same as `foldBy`, with the signature of the text that `text` returns for an item. */
export const fold = <A>(items: ReadonlyArray<A>, text: (item: A) => string): ReturnType<typeof foldBy<A>> =>
  foldBy(items, (item) => signature(text(item)))

const signatures = new WeakMap<MemoryRecord, Signature>()
const signatureOf = (record: MemoryRecord): Signature => {
  const known = signatures.get(record)
  if (known !== undefined) return known
  const made = signature(embeddingText(record))
  signatures.set(record, made)
  return made
}

/** Whether two records have the same kind, equal `data`, and near-duplicate texts. */
export const saysTheSame = (a: MemoryRecord, b: MemoryRecord): boolean =>
  a.kind === b.kind && isNear(signatureOf(a), signatureOf(b)) && hasDataOf(a, b)

const hasDataOf = (a: MemoryRecord, b: MemoryRecord): boolean =>
  a.data === b.data || canonicalJson(a.data) === canonicalJson(b.data)

const hasTextOf = (a: MemoryRecord, b: MemoryRecord): boolean =>
  a.kind === b.kind && a.body === b.body && a.summary === b.summary && a.summaryDerived === b.summaryDerived

/**
 * Returns a predicate that tells whether a record repeats an earlier record. The predicate returns true if the record says the same
 * (`saysTheSame`) as a remembered record. Otherwise it remembers the record, and returns false. A call costs about 10 ns per remembered
 * record. If the record is not an exact copy of a remembered record, the call also computes a signature.
 */
export const repeats = (): (record: MemoryRecord) => boolean => {
  const kept: Array<MemoryRecord> = []
  const known: Array<Signature> = []
  return (record) => {
    // exact copies are looked for first, since they are found without a signature
    if (kept.some((other) => hasTextOf(other, record) && hasDataOf(other, record))) return true
    const own = signatureOf(record)
    if (known.some((other, i) => isNear(own, other) && saysTheSame(kept[i]!, record))) return true // `kept` and `known` are parallel
    kept.push(record)
    known.push(own)
    return false
  }
}

/** Smallest number of words of a text that is hashed by SimHash. A shorter text is hashed word by word, in order. */
const simHashFrom = 64

/** Hashes of the words of the text that `scan` read last. The next call of `scan` overwrites them. */
let words = new Int32Array(1_024)

const beyondAscii = /\P{ASCII}/u

/** Removes accents. Converts dashes and apostrophes to ASCII. Other punctuation and white space beyond ASCII becomes a space. */
const normalised = (lower: string): string =>
  lower.normalize("NFKD").replace(accents, "").normalize("NFC").toLowerCase()
    .replace(/[\u2018\u2019\u02bc]/g, "'")
    .replace(/[\p{Pd}\u2212]/gu, "-")
    .replace(/(?!\p{ASCII})\p{N}/gu, "0$&") // puts an ASCII zero before any other digit, since `scan` knows ASCII digits only
    .replace(/[^\p{L}\p{N}\p{M}\p{S}\p{ASCII}]/gu, " ")

/** Matches accents, but not the voicing marks of kana, since a kana with such a mark is a different letter. */
const accents = /(?=\p{Mn})(?![\u3099\u309a])[\p{sc=Inherited}\p{sc=Hebrew}\p{sc=Arabic}\p{sc=Cyrillic}]/gu

const letter = 1
const digit = 2
/** Class of a character that belongs to the word before it, such as `+` in `c++`, `#` in `c#` and `%` in `50%`. */
const suffix = 3
/** Class of a character that is a word by itself, such as `<`. */
const sign = 4
const sorts = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  return /[a-z$]/.test(character) ? letter : /\d/.test(character) ?
    digit
    : /[+#%]/.test(character)
    ? suffix
    : /[<>=]/.test(character)
    ? sign
    : 0
})

/** Whether a character counts as a word by itself: one of Thai, Lao, Myanmar or Khmer, or any from U+2E80 on, such as Han and Hangul. */
const isUnspaced = (code: number): boolean =>
  code >= 0x2e80 || (code >= 0x0e00 && code < 0x0f00) || (code >= 0x1000 && code < 0x10a0) ||
  (code >= 0x1780 && code < 0x1800)

const seed = 0x811c9dc5

/** Makes room in `words` for the hashes of a text. */
const reserve = ({ length }: string): void => {
  if (words.length <= length) words = new Int32Array(2 * length)
}

const scan = (text: string): { readonly count: number; readonly strict: number } => {
  reserve(text)
  let count = 0
  let strict = seed
  let hash = seed
  let length = 0
  let isStrict = false
  let before = 0
  for (let at = 0; at <= text.length; at++) {
    const code = at < text.length ? text.charCodeAt(at) : 0
    const sort = code < 128 ? sorts[code]! : letter
    const isPart = sort === letter || sort === digit || (sort === suffix && length > 0)
    if (isPart && !(code > 127 && isUnspaced(code))) {
      hash = Math.imul(hash ^ code, 0x01000193)
      length++
      if (sort !== letter) isStrict = true
      // the minus sign of a negative number, such as −5, is hashed into `strict`
      if (sort === digit && length === 1 && before === minus && !isWordEnd(text, at - 2)) strict = mix(strict ^ minus)
    } else {
      if (length > 0) {
        if (isStrict || (length === 1 && isName(text, at - 1)) || negations.has(hash)) {
          strict = mix(strict ^ hash)
        }
        words[count++] = mix(hash)
        // a character between two digits is hashed into `strict`, since 1.5 is not 15, and 1/2 is not 1.2
        if (code > space && sorts[before] === digit && sorts[text.charCodeAt(at + 1)] === digit) {
          strict = mix(strict ^ code)
        }
        // the apostrophe of n't, as in isn't, is hashed into `strict`, since n't is a negation
        if (code === apostrophe && before === n && text.charCodeAt(at + 1) === t) strict = mix(strict ^ apostrophe)
        hash = seed
        length = 0
        isStrict = false
      }
      if (isPart || sort === sign) {
        const whole = Math.imul(seed ^ code, 0x01000193)
        words[count++] = mix(whole)
        if (sort === sign || negations.has(whole)) strict = mix(strict ^ code)
      }
    }
    before = code
  }
  return { count, strict }
}

const [apostrophe, minus, n, space, t] = [0x27, 0x2d, 0x6e, 0x20, 0x74]

/** Whether a single letter is a name, like `b` in `plan b`. False for `a`, `i` and letters after an apostrophe. */
const isName = (text: string, at: number): boolean =>
  text.charCodeAt(at - 1) !== apostrophe && !/[ai]/.test(text.charAt(at))

const isWordEnd = (text: string, at: number): boolean => {
  const code = at < 0 ? 0 : text.charCodeAt(at)
  return code > 127 || sorts[code]! > 0
}

/** Writes the hash of each character of a text without words into `words`. Returns the number of characters. */
const hashCharacters = (text: string): number => {
  reserve(text) // `scan` has reserved room for the normalised text only, which may be shorter
  for (let at = 0; at < text.length; at++) words[at] = mix(text.charCodeAt(at))
  return text.length
}

const orderedHash = (count: number): readonly [high: number, low: number] => {
  let high = count
  let low = ~count
  for (let i = 0; i < count; i++) {
    high = Math.imul((high << 5 | high >>> 27) ^ words[i]!, 0x9e3779b1)
    low = Math.imul((low << 7 | low >>> 25) + words[i]!, 0x85ebca6b)
  }
  return [mix(high), mix(low)]
}

/**
 * Returns the SimHash of the bigrams of `words`. A bit of the SimHash is set if it is set in the hashes of more than half of the bigrams.
 * Counts four bits at once: each number in `lanes` has four counts, one per byte. A byte counts up to 255, so the counts are added to
 * `totals` after every 255 bigrams.
 */
const simHash = (count: number): readonly [high: number, low: number] => {
  const totals = new Int32Array(64)
  const lanes = new Int32Array(16)
  for (let i = 1; i < count;) {
    lanes.fill(0)
    for (const end = Math.min(count, i + 255); i < end; i++) {
      const high = mix(Math.imul(words[i - 1]!, 0x9e3779b1) + words[i]!)
      const low = mix(high ^ 0x5bd1e995)
      for (let bit = 0; bit < 8; bit++) {
        lanes[bit]! += (high >>> bit) & 0x01010101
        lanes[bit + 8]! += (low >>> bit) & 0x01010101
      }
    }
    for (let bit = 0; bit < 64; bit++) totals[bit]! += (lanes[(bit >> 5) * 8 + bit % 8]! >>> (bit & 24)) & 255
  }
  const half = (count - 1) / 2
  let high = 0
  let low = 0
  for (let bit = 0; bit < 32; bit++) {
    if (totals[bit]! > half) high |= 1 << bit
    if (totals[bit + 32]! > half) low |= 1 << bit
  }
  return [high, low]
}

/** Scrambles a hash with the finaliser of MurmurHash3: each bit of the input affects every bit of the result. */
const mix = (number: number): number => {
  let hash = number
  hash = Math.imul(hash ^ hash >>> 16, 0x85ebca6b)
  hash = Math.imul(hash ^ hash >>> 13, 0xc2b2ae35)
  return hash ^ hash >>> 16
}

/** Returns the number of set bits of a 32-bit integer. */
const bits = (number: number): number => {
  let count = number - (number >>> 1 & 0x55555555)
  count = (count & 0x33333333) + (count >>> 2 & 0x33333333)
  return Math.imul((count + (count >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** Hashes of negations in several languages, without accents. `scan` finds the negation `n't` by its apostrophe instead. */
const negations = new Set(
  ("no not none never nobody nothing nowhere neither nor without cannot cant dont doesnt didnt isnt arent wasnt werent " +
    "wont wouldnt couldnt shouldnt hasnt havent hadnt mustnt neednt aint " +
    "nicht kein keine keinen keiner keinem nie niemals ohne pas ne jamais sans rien ni nunca sin nada nao sem non senza mai " +
    "niet geen nooit zonder не нет ни без nie bez inte ingen aldrig ikke " +
    "不 没 沒 無 无 未 非 안 못").split(" ")
    .map((word) =>
      Array.from(word).reduce((hash, character) => Math.imul(hash ^ character.charCodeAt(0), 0x01000193), seed)
    )
)
