/** Emotion as numbers. An affect has valence, arousal and dominance (VAD). An appraisal rates an event in nine dimensions. */
import * as Schema from "effect/Schema"

const Signed = Schema.Number.pipe(Schema.between(-1, 1))
const Unit = Schema.Number.pipe(Schema.between(0, 1))

/** Schema of an affect: valence `V` −1..1, arousal `A` 0..1, dominance `D` 0..1. */
export const VAD = Schema.Struct({ V: Signed, A: Unit, D: Unit })
/** An affect, as its schema decodes it. */
export interface VAD extends Schema.Schema.Type<typeof VAD> {}

/** Schema of an appraisal: nine dimensions, each −1..1 or 0..1. */
export const Appraisal = Schema.Struct({
  goalRelevance: Signed,
  goalCongruence: Signed,
  expectedness: Unit,
  controllability: Unit,
  agency: Signed,
  normCompatibility: Signed,
  internalStandards: Signed,
  adjustmentPotential: Unit,
  urgency: Unit
})
/** An appraisal, as its schema decodes it. */
export interface Appraisal extends Schema.Schema.Type<typeof Appraisal> {}

const dimensions = Object.keys(Appraisal.fields) as ReadonlyArray<keyof Appraisal> // `fields` has the keys of an appraisal

/**
 * Schema of an appraisal as a model writes it, with snake_case keys. Decoding also accepts camelCase keys. A number out of range is
 * clamped, and a missing dimension gets its neutral value.
 */
export const AppraisalWire: Schema.Schema<Appraisal, { readonly [dimension: string]: number }> = Schema.transform(
  Schema.Record({ key: Schema.String, value: Schema.Number }),
  Schema.typeSchema(Appraisal),
  {
    decode: (wire) => clamp(Object.fromEntries(dimensions.map((name) => [name, wire[snake(name)] ?? wire[name]]))),
    encode: (appraisal) => Object.fromEntries(dimensions.map((name) => [snake(name), appraisal[name]]))
  }
)

/** The neutral affect: `{ V: 0, A: 0, D: 0.5 }`. */
export const neutral: VAD = { V: 0, A: 0, D: 0.5 }

/** The neutral appraisal. A dimension of −1..1 is 0. A dimension of 0..1 is 0.5, except urgency, which is 0. */
export const NEUTRAL_APPRAISAL: Appraisal = {
  goalRelevance: 0,
  goalCongruence: 0,
  expectedness: 0.5,
  controllability: 0.5,
  agency: 0,
  normCompatibility: 0,
  internalStandards: 0,
  adjustmentPotential: 0.5,
  urgency: 0
}

const signed = new Set<keyof Appraisal>([
  "goalRelevance",
  "goalCongruence",
  "agency",
  "normCompatibility",
  "internalStandards"
])

/** Clamps every dimension of an appraisal to its range. A missing value or NaN is replaced by the neutral value. */
export const clamp = (appraisal: Partial<Record<keyof Appraisal, number | undefined>>): Appraisal => {
  const clamped = { ...NEUTRAL_APPRAISAL }
  for (const name of dimensions) clamped[name] = into(signed.has(name) ? -1 : 0, appraisal[name], clamped[name])
  return clamped
}

/** Clamps every dimension of an affect to its range. A missing value or NaN is replaced by the neutral value. */
export const clampVAD = ({ A, D, V }: Partial<Record<keyof VAD, number | undefined>>): VAD => ({
  V: into(-1, V, neutral.V),
  A: into(0, A, neutral.A),
  D: into(0, D, neutral.D)
})

/** Clamps a number to `min`..1. Returns `otherwise` if the value is `undefined` or NaN. */
const into = (min: number, value: number | undefined, otherwise: number): number =>
  value === undefined || Number.isNaN(value) ? otherwise : Math.min(1, Math.max(min, value))

/**
 * Returns the similarity 1 − d/√3 of two affects, 0..1. Here, d is the Euclidean distance, with the difference in valence halved. The
 * greatest possible distance is √3.
 */
export const congruence = (a: VAD, b: VAD): number =>
  1 - Math.hypot((a.V - b.V) / 2, a.A - b.A, a.D - b.D) / Math.sqrt(3)

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
