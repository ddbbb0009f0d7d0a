/**
 * Limits of one reading, which hold whatever the conversation says and whatever the model answers.
 *
 * ```text
 * conversation   4,096 turns and 262,144 characters
 * answer         262,144 characters; a longer one is a failure (`Completion.maxAnswerLength`)
 * facts          `maxFacts`, default 64, and 262,144 characters
 * related        1,000, and 262,144 characters
 * decisions      `maxFacts` new records, 128 changed ones
 * ```
 *
 * Beyond a limit the first items count (of the turns, the last), and the receipt says how many were left out. Characters
 * are UTF-16 units.
 */
import * as Schema from "effect/Schema"
import { Message } from "../domain/Message.ts"
import type { Decision } from "./Decision.ts"
import { type Fact, textOf } from "./Extraction.ts"

/** Most characters of a conversation, of all facts of a reading together, and of all related memories together. */
export const characters = 262_144

/** Facts of one reading: 1..256, default 64. */
export const MaxFacts = Schema.Int.pipe(Schema.between(1, 256))
/** Default of `MaxFacts`. */
export const maxFacts = 64
/** Most records that one reading changes or deletes. */
export const maxChanges = 128

/** Keeps the first `most` facts, and of those as many as have `characters` together. `leftOut` counts the others. */
export const facts = (
  all: ReadonlyArray<Fact>,
  most: number
): { readonly facts: ReadonlyArray<Fact>; readonly leftOut: number } => {
  let room = characters
  const kept: Array<Fact> = []
  for (const fact of all.slice(0, most)) {
    room -= fact.text.length
    if (room < 0) break
    kept.push(fact)
  }
  return { facts: kept, leftOut: all.length - kept.length }
}

/** Most records that one reading may write. */
export interface Limits {
  /** Records that are added: each ADD, and each UPDATE of a record beyond its first. */
  readonly additions: number
  /** Records that are changed: those named by at least one UPDATE or DELETE. */
  readonly changes: number
}

/** Keeps the first decisions up to the limits, in their order; NOOPs count towards none. `leftOut` counts the others. */
export const decisions = (
  all: ReadonlyArray<Decision>,
  { additions, changes }: Limits
): { readonly kept: ReadonlyArray<Decision>; readonly leftOut: number } => {
  let added = 0
  const changed = new Set<string | undefined>()
  const kept = all.filter(({ event, id }) => {
    if (event === "NOOP") return true
    if (event === "ADD" || (event === "UPDATE" && changed.has(id))) return ++added <= additions
    if (changed.has(id)) return true
    if (changed.size >= changes) return false
    changed.add(id)
    return true
  })
  return { kept, leftOut: all.length - kept.length }
}

/** Most turns that a model is shown at once: the last ones. */
const most = 4_096

/**
 * Fits a conversation into one prompt. A conversation that is too long loses the ends of its longest turns, all cut to the
 * same length; shorter turns stay whole. `leftOut` counts the characters that were cut.
 */
export const conversation = (
  turns: ReadonlyArray<Message>
): { readonly turns: ReadonlyArray<Message>; readonly leftOut: number } => {
  const texts = turns.map(textOf)
  const total = texts.reduce((sum, { length }) => sum + length, 0)
  if (total <= characters && turns.length <= most) return { turns, leftOut: 0 }
  const last = texts.slice(-most)
  let room = characters
  let longest = characters
  for (const [n, length] of last.map(({ length }) => length).sort((a, b) => a - b).entries()) {
    longest = Math.floor(room / (last.length - n))
    if (length > longest) break
    room -= length
    longest = characters
  }
  const shown = last.map((text) => text.slice(0, longest).toWellFormed())
  return {
    turns: turns.slice(-most).map((turn, i) =>
      shown[i] === last[i] ? turn : new Message({ ...turn, content: shown[i]! }, { disableValidation: true }) // `shown` has every turn
    ),
    leftOut: total - shown.reduce((sum, { length }) => sum + length, 0)
  }
}
