/**
 * Detects notes that were renamed or moved between two scans of the vault. Notes are Markdown files that this library did not write. A move
 * leaves a missing file, and a new file with the same or a similar text. Only files of the same tenant and scope are compared. A file in
 * another scope is a new note, because only viewers of the old scope may see the old revisions.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Context } from "./Document.ts"
import * as FileReader from "./FileReader.ts"
import * as Frontmatter from "./Frontmatter.ts"
import type { History, RevisionLocation } from "./History.ts"
import { type Bad, type Entry, isNote, type Text, textOf } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>
type Files = ReadonlyMap<string, Entry | Bad | undefined>

/** A note whose file is missing. */
interface MissingNote {
  readonly tenant: string
  readonly path: string
  readonly record: MemoryRecord
  readonly hash: string
  readonly frame?: Frontmatter.Frame | undefined
}

/**
 * Whether a missing file was a note that may have been moved. The result is false if the history says that the record is forgotten. The
 * result is also false if the history has the record at another path.
 */
const isGone = (context: Context, history: History, { path, row: { record }, tenant }: Entry): boolean => {
  const newest = history.newest(tenant, record.id)
  return isNote(context, path) &&
    (newest === undefined || (!newest.forgotten && (newest.path === null || newest.path === path)))
}

/**
 * Returns the missing notes of a scan. `known` contains each known entry whose file the scan did not find any more. A missing note has its
 * newest record, which comes from the history or from the entry. Only the first scan passes `isKnown`, which says whether this process
 * knows a file at a path. The result then also has each note in the history whose file this process does not know.
 */
export const findMissing = (
  context: Context,
  history: History,
  known: ReadonlyArray<Entry>,
  isKnown: ((path: string) => boolean) | undefined
): Io<ReadonlyArray<MissingNote>> =>
  Effect.gen(function*() {
    const all: Array<MissingNote> = []
    const add = (location: RevisionLocation) =>
      Effect.map(history.read(location), (kept) => {
        const { after, path, tenant } = location
        if (Option.isSome(kept) && path !== null && after !== null) {
          all.push({ tenant, path, hash: after, ...kept.value })
        }
      })
    for (const entry of known) {
      if (!isGone(context, history, entry)) continue
      const { frame, hash, path, row: { record }, tenant } = entry
      const location = history.at(path)
      if (location && location.revision > record.revision) yield* add(location)
      else all.push({ tenant, path, record, hash, frame })
    }
    if (isKnown === undefined) return all
    for (const tenant of history.tenants()) {
      const lost: Array<RevisionLocation> = []
      yield* EventLoop.forEach(history.all(tenant), 2_048, (location) => {
        const { forgotten, path } = location
        if (path !== null && !forgotten && !isKnown(path) && isNote(context, path)) lost.push(location)
      })
      yield* Effect.forEach(lost, add, { discard: true })
    }
    return all
  })

/**
 * Returns the new files to which missing notes were moved. Each returned file has the record of its missing note. `found` contains the
 * files of the scan, by path. Cost: reads each new note in a tenant and scope with a missing note.
 */
export const find = (
  { context, fs, history, reader }: {
    readonly context: Context
    readonly fs: VaultFileSystem
    readonly history: History
    readonly reader: FileReader.FileReader
  },
  gone: ReadonlyArray<MissingNote>,
  found: Files,
  known: (path: string) => Entry | Bad | undefined
): Io<ReadonlyArray<Entry>> =>
  Effect.gen(function*() {
    const fresh = Array.from(found.values()).flatMap((file) =>
      file?._tag === "Entry" && known(file.path)?._tag !== "Entry" && isNote(context, file.path) &&
        history.at(file.path) === undefined
        ? [file]
        : []
    )
    const olds = Arr.groupBy(gone, ({ record, tenant }) => realm(tenant, record))
    const news = Arr.groupBy(fresh, ({ row, tenant }) => realm(tenant, row.record))
    const moved: Array<Entry> = []
    for (const [key, appeared] of Object.entries(news)) {
      const vanished = olds[key]
      if (vanished === undefined) continue
      const texts = new Map<string, Text>()
      for (const { hash, path, stat } of appeared) {
        const text = yield* textOf(fs, context, path, stat.size)
        if (Option.exists(text, (now) => now.hash === hash)) texts.set(path, Option.getOrThrow(text))
      }
      const from = new Map(vanished.map((one) => [one.path, one]))
      const pairs = detect(
        vanished.map(({ frame, hash, path, record: { body } }) => ({
          path,
          hash,
          text: frame ? Frontmatter.framed(frame, body) : body
        })),
        Array.from(texts, ([path, { text }]) => ({ path, text }))
      )
      for (const entry of appeared) {
        const old = from.get(pairs.get(entry.path) ?? "")
        const text = texts.get(entry.path)
        if (old === undefined || text === undefined) continue
        const { path, settled, stat } = entry
        const made = yield* reader.entryOf({ path, stat, settled }, text, {
          record: FileReader.moved(old.record, old.path, path),
          properties: old.frame && Frontmatter.propertiesOf(old.frame),
          isSame: text.hash === old.hash
        })
        if (Either.isRight(made)) moved.push(made.right)
      }
    }
    return moved
  })

/** Returns a key for the tenant and the scope of a note. A move is detected only between notes with the same key. */
const realm = (tenant: string, { scope }: MemoryRecord): string => JSON.stringify([tenant, MemoryScope.key(scope)])

/*
 * Finds out which files were moved or renamed: which new file continues which missing file. A scan sees only that some files are missing
 * and others are new. The contents of the files are compared, as git does.
 *
 * ```text
 * 1. equal content          first files with the same name; then the others, if only one missing and one new file are left
 * 2. most similar content   with a similarity of at least `threshold`
 * ```
 *
 * Laws: each new file continues at most one missing file. Each missing file is continued by at most one new file. Files without text are
 * ignored. If several candidates are equally similar, none is chosen. The functions are pure. The order of the files does not matter.
 */

/** A missing file. */
export interface Vanished {
  readonly path: string
  /** SHA-256 of the file's last text, in hex. */
  readonly hash: string
  /** The file's last text; absent if unknown. A move of the file is then found only by the hash. */
  readonly text?: string | undefined
}

/** A new file. */
export interface Appeared {
  readonly path: string
  readonly text: string
}

/**
 * Least similarity at which a new text continues the text of a missing file. The similarity is twice the number of shared word pairs,
 * divided by the number of all word pairs in both texts. The value is higher than git's 0.5, since notes made from a template have much in
 * common. A lost history does less harm than a history that belongs to another note.
 */
export const threshold = 0.7

/**
 * A word pair is rare if at most this many missing files have it. Only rare pairs are used to find candidates. Other pairs probably come
 * from a template, and comparing all notes from a template would take quadratic time. The similarity counts all pairs.
 */
const maxShared = 64

/** The similarity of two texts is computed from only this many UTF-16 units at the start of each text. */
const maxCompared = 65_536

/**
 * Returns the moves: a map from the new path of each moved file to its old path. Cost: usually linear in the texts. Texts that are not
 * equal are compared only if their lengths are similar and they share a rare word pair.
 */
export const detect = (
  vanished: ReadonlyArray<Vanished>,
  appeared: ReadonlyArray<Appeared>
): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  const matched = new Set<string>()
  const match = (from: string, to: string) => {
    found.set(to, from)
    matched.add(from)
  }

  const old = vanished.filter(({ hash, text }) => hash !== empty && text?.trim() !== "")
  const fresh = appeared.filter(({ text }) => text.trim() !== "")
  const hashes = new Map(fresh.map(({ path, text }) => [path, sha256(text)]))
  const twins = groups(old, ({ hash }) => hash)
  const copies = groups(fresh, ({ path }) => hashes.get(path)!) // `hashes` has every path in `fresh`
  for (const [hash, news] of copies) {
    const olds = twins.get(hash) ?? []
    for (const { path } of news) {
      const same = olds.filter((one) => nameOf(one.path) === nameOf(path))
      const others = news.filter((other) => nameOf(other.path) === nameOf(path))
      if (same.length === 1 && others.length === 1) match(same[0]!.path, path)
    }
    const [first, ...more] = news.filter(({ path }) => !found.has(path))
    const [last, ...rest] = olds.filter(({ path }) => !matched.has(path))
    if (first && last && more.length === 0 && rest.length === 0) match(last.path, first.path)
  }

  const isTwin = (hash: string) => twins.has(hash) && copies.has(hash) // a missing file and a new file have this content
  const sources = old.flatMap(({ hash, path, text }) =>
    text === undefined || matched.has(path) || isTwin(hash) ? [] : [{ path, words: pairsOf(text) }]
  )
  const targets = fresh.flatMap(({ path, text }) =>
    found.has(path) || isTwin(hashes.get(path)!) ? [] : [{ path, words: pairsOf(text) }]
  )
  const pairs = candidates(sources, targets)
  for (let at = 0; at < pairs.length;) {
    const { score } = pairs[at]!
    const level = []
    for (; at < pairs.length && pairs[at]!.score === score; at++) level.push(pairs[at]!)
    const open = level.filter(({ from, to }) => !matched.has(from) && !found.has(to))
    const [froms, tos] = [counts(open.map(({ from }) => from)), counts(open.map(({ to }) => to))]
    for (const { from, to } of open) if (froms.get(from) === 1 && tos.get(to) === 1) match(from, to)
    for (const { from, to } of open) if (found.get(to) !== from) tie(matched, found, from, to)
  }
  for (const [to, from] of found) if (from === "") found.delete(to)
  return found
}

/**
 * Excludes a missing file and a new file from further matches, since one of the two has several equally similar candidates. Without this
 * exclusion, a less similar candidate could be chosen later.
 */
const tie = (matched: Set<string>, found: Map<string, string>, from: string, to: string): void => {
  matched.add(from)
  found.set(to, "")
}

const groups = <A>(all: ReadonlyArray<A>, key: (one: A) => string): ReadonlyMap<string, ReadonlyArray<A>> =>
  new Map(Object.entries(Arr.groupBy(all, key)))

interface Words {
  readonly path: string
  readonly words: Pairs
}

/** The pairs of adjacent words in a text. `counts` says how often each pair occurs. `total` is the number of all pairs. */
interface Pairs {
  readonly counts: ReadonlyMap<string, number>
  readonly total: number
}

/** Returns pairs of a missing text and a new text with a similarity of at least `threshold`, most similar first. */
const candidates = (sources: ReadonlyArray<Words>, targets: ReadonlyArray<Words>) => {
  const having = new Map<string, Array<Words>>()
  for (const source of sources) {
    for (const pair of source.words.counts.keys()) {
      const others = having.get(pair)
      if (others) others.push(source)
      else having.set(pair, [source])
    }
  }
  const isRare = (pair: string) => (having.get(pair)?.length ?? 0) <= maxShared
  /** Number of frequent (not rare) word pairs in each text. Frequent pairs are assumed to come from a template. */
  const usual = new Map([...sources, ...targets].map(({ words }) => {
    let sum = 0
    for (const [pair, count] of words.counts) if (!isRare(pair)) sum += count
    return [words, sum] as const
  }))
  return targets.flatMap((target) => {
    const rare = new Map<Words, number>()
    for (const [pair, count] of target.words.counts) {
      for (const source of isRare(pair) ? having.get(pair) ?? [] : []) {
        if (!isLike(source.words.total, target.words.total)) continue
        rare.set(source, (rare.get(source) ?? 0) + Math.min(count, source.words.counts.get(pair) ?? 0))
      }
    }
    return Array.from(rare).flatMap(([{ path, words }, shared]) => {
      const score = (shared: number) => 2 * shared / (words.total + target.words.total)
      const rest = Math.min(usual.get(words) ?? 0, usual.get(target.words) ?? 0)
      if (score(shared + rest) < threshold) return []
      return [{ from: path, to: target.path, score: score(rest === 0 ? shared : sharedBy(words, target.words)) }]
    })
  }).filter(({ score }) => score >= threshold).sort((a, b) => b.score - a.score)
}

/** Returns the number of word pairs that two texts have in common, counting repetitions. */
const sharedBy = (one: Pairs, other: Pairs): number => {
  let sum = 0
  for (const [pair, count] of one.counts) sum += Math.min(count, other.counts.get(pair) ?? 0)
  return sum
}

const counts = (all: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const found = new Map<string, number>()
  for (const one of all) found.set(one, (found.get(one) ?? 0) + 1)
  return found
}

/** Whether two texts with these numbers of word pairs can have a similarity of at least `threshold`. */
const isLike = (a: number, b: number): boolean => 2 * Math.min(a, b) / (a + b) >= threshold

const pairsOf = (text: string): Pairs => {
  const words = text.slice(0, maxCompared).match(word) ?? []
  const counts = new Map<string, number>()
  const pairs = words.length === 1 ? words : words.slice(1).map((word, i) => `${words[i]} ${word}`)
  for (const pair of pairs) counts.set(pair, (counts.get(pair) ?? 0) + 1)
  return { counts, total: pairs.length }
}

/** Matches each word. Each Han, kana or Thai character counts as a word. */
const word =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]+/gu

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

const empty = sha256("")
