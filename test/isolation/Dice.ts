/** Seeded random choices for generated worlds. The same seed makes the same choices on every machine. */
import { PCGRandom } from "effect/Utils"

export class Dice {
  readonly #random: PCGRandom

  constructor(seed: number) {
    this.#random = new PCGRandom(seed)
  }

  /** Returns an integer of 0..n − 1. */
  below(n: number): number {
    return this.#random.integer(n)
  }

  chance(probability: number): boolean {
    return this.#random.number() < probability
  }

  pick<A>(all: readonly [A, ...ReadonlyArray<A>] | ReadonlyArray<A>): A {
    return all[this.below(all.length)]! // `all` must not be empty
  }

  /** Picks a key of `weights`, each with a probability proportional to its weight. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    let [sum, chosen]: [number, K | undefined] = [0, undefined]
    for (const key in weights) {
      sum += weights[key]
      if (weights[key] > 0 && (chosen === undefined || this.#random.number() * sum < weights[key])) chosen = key
    }
    return chosen! // some weight must be above 0
  }

  maybe<A>(probability: number, make: () => A): A | undefined {
    return this.chance(probability) ? make() : undefined
  }

  /** Returns `min` to `max` elements, a random number of them, each made by `make`. */
  many<A>(min: number, max: number, make: () => A): ReadonlyArray<A> {
    return Array.from({ length: min + this.below(max - min + 1) }, make)
  }

  /** Keeps every element with this probability, in order. */
  subset<A>(all: ReadonlyArray<A>, probability: number): ReadonlyArray<A> {
    return all.filter(() => this.chance(probability))
  }
}
