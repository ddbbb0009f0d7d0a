/**
 * Seals receipts, so that `undo` takes back only what the store really did for that viewer.
 *
 * A receipt leaves the process: a harness keeps it as JSON, a client may hold it. The seal is the store's signature of the
 * viewer, the mutations and their outcomes (`applied`, from which `undo` is computed). It stays valid after the receipt is
 * encoded and decoded, for as long as the store keeps its secret: a vault beyond a restart, a store in memory until the
 * process ends.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"

/** The parts of a receipt that its seal covers. */
export const sealedFields = {
  viewer: Schema.Union(Viewer.System, Viewer.Stored),
  mutations: Schema.Array(MemoryMutation),
  /** Empty for a plan. */
  applied: Schema.Array(Applied)
}
const Sealed = Schema.Struct(sealedFields)
export interface Sealed extends Schema.Schema.Type<typeof Sealed> {}

const encode = Schema.encodeEither(Sealed)

/** Signs the parts of a receipt. Dies if they cannot be encoded, since such a receipt could not be kept. */
export const seal = (
  store: Pick<MemoryStore.Service, "sign">,
  { applied, mutations, viewer }: Sealed
): Effect.Effect<string, MemoryError.MemoryError> =>
  Effect.flatMap(
    Effect.orDie(encode({ applied, mutations, viewer })),
    (encoded) => store.sign(purpose, canonicalJson(encoded))
  )

/** Fails with `not_owned` unless the receipt has the seal that this store gave to exactly these parts. */
export const verify = (
  store: Pick<MemoryStore.Service, "sign">,
  { applied, mutations, seal, viewer }: Sealed & { readonly seal?: string | undefined }
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (seal === undefined) return yield* refused("the receipt has no seal")
    const encoded = encode({ applied, mutations, viewer })
    const isOurs = Either.isRight(encoded) && seal === (yield* store.sign(purpose, canonicalJson(encoded.right)))
    if (!isOurs) return yield* refused("the receipt was changed, or another store made it")
  })

const purpose = "receipt"

const refused = (why: string) =>
  MemoryError.make("not_owned", {
    op: "undo",
    message: `${why}: undo a receipt as \`remember\` returned it, with the store that it was made on`
  })
