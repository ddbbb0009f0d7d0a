/**
 * Vectors by purpose and text: those that were used last are kept, and callers share what is under way.
 *
 * Law: a text is asked for by one caller at a time. A failure is that of all who wait for it, and not kept; whoever is
 * interrupted stops nobody else: those who wait ask themselves.
 */
import * as Arr from "effect/Array"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import type { MemoryError } from "../domain/MemoryError.ts"

type Vectors = ReadonlyArray<Float32Array>
/** A vector a text, in order. */
type Embed<Purpose extends string> = (
  texts: ReadonlyArray<string>,
  purpose: Purpose
) => Effect.Effect<Vectors, MemoryError>

/** `ask` gets at most `batch` texts at a time, each once. Texts of any number; vectors are shared, not copied. */
export const make = <P extends string>(limit: number, batch: number, ask: Embed<P>): Embed<P> => {
  const kept = recentlyUsed(limit)
  const underWay = new Map<string, Pending>()

  const embed: Embed<P> = (texts, purpose) =>
    Effect.uninterruptibleMask((restore) => {
      const vectors = new Map<string, Float32Array>()
      const mine: Array<Claim> = []
      const others: Array<Claim> = []
      for (const text of new Set(texts)) {
        const key = `${purpose}\n${text}`
        const vector = kept.get(key)
        const pending = underWay.get(key)
        if (vector) vectors.set(text, vector)
        else if (pending) others.push({ text, key, pending })
        else {
          const claim: Claim = { text, key, pending: Deferred.unsafeMake(FiberId.none) }
          underWay.set(key, claim.pending)
          mine.push(claim)
        }
      }

      const settle = (claims: ReadonlyArray<Claim>, exit: Exit.Exit<Vectors, MemoryError>) =>
        Effect.sync(() => {
          for (const [n, { key, pending, text }] of claims.entries()) {
            if (underWay.get(key) !== pending) continue // it was settled with its batch
            underWay.delete(key)
            if (Exit.isSuccess(exit)) {
              vectors.set(text, exit.value[n]!)
              kept.set(key, exit.value[n]!)
            }
            const stopped = Exit.isInterrupted(exit)
            Deferred.unsafeDone(pending, stopped ? Exit.succeed(undefined) : Exit.map(exit, (all) => all[n]))
          }
        })
      const asked = Effect.forEach(
        Arr.chunksOf(mine, batch),
        (claims) => Effect.onExit(ask(claims.map(({ text }) => text), purpose), (exit) => settle(claims, exit)),
        { concurrency: "unbounded", discard: true }
      )

      const awaited = Effect.gen(function*() {
        const left: Array<string> = []
        for (const { pending, text } of others) {
          const vector = yield* Deferred.await(pending)
          if (vector) vectors.set(text, vector)
          else left.push(text)
        }
        const again = left.length > 0 ? yield* embed(left, purpose) : []
        for (const [n, text] of left.entries()) vectors.set(text, again[n]!)
        return texts.map((text) => vectors.get(text)!)
      })

      return restore(asked).pipe(
        Effect.ensuring(settle(mine, Exit.interrupt(FiberId.none))), // batches that never began
        Effect.zipRight(restore(awaited))
      )
    })
  return embed
}

/** `undefined`: whoever asked was interrupted. */
type Pending = Deferred.Deferred<Float32Array | undefined, MemoryError>

interface Claim {
  readonly text: string
  readonly key: string
  readonly pending: Pending
}

/** At most `limit`; the one whose use is longest ago goes first. */
const recentlyUsed = (limit: number) => {
  const entries = new Map<string, Float32Array>()
  return {
    get: (key: string): Float32Array | undefined => {
      const vector = entries.get(key)
      if (vector && entries.delete(key)) entries.set(key, vector)
      return vector
    },
    set: (key: string, vector: Float32Array): void => {
      entries.set(key, vector)
      if (entries.size > limit) { for (const oldest of entries.keys()) return void entries.delete(oldest) }
    }
  }
}
