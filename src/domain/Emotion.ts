/** How it felt: three dimensions of affect and the nine of appraisal. */
import * as Schema from "effect/Schema"

const Signed = Schema.Number.pipe(Schema.between(-1, 1))
const Unit = Schema.Number.pipe(Schema.between(0, 1))

/** Valence −1..1, arousal 0..1, dominance 0..1. */
export const VAD = Schema.Struct({ V: Signed, A: Unit, D: Unit })
export interface VAD extends Schema.Schema.Type<typeof VAD> {}

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
export interface Appraisal extends Schema.Schema.Type<typeof Appraisal> {}

const dimensions = Object.keys(Appraisal.fields) as ReadonlyArray<keyof Appraisal> // a Struct's keys are its fields

/** The wire form, snake_case; camelCase is read, too. Numbers out of range are clamped, what is missing is neutral: a model wrote them. */
export const AppraisalWire: Schema.Schema<Appraisal, { readonly [dimension: string]: number }> = Schema.transform(
  Schema.Record({ key: Schema.String, value: Schema.Number }),
  Schema.typeSchema(Appraisal),
  {
    decode: (wire) => clamp(Object.fromEntries(dimensions.map((name) => [name, wire[snake(name)] ?? wire[name]]))),
    encode: (appraisal) => Object.fromEntries(dimensions.map((name) => [snake(name), appraisal[name]]))
  }
)

export const neutral: VAD = { V: 0, A: 0, D: 0.5 }

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

/** Every dimension into its range; what is missing or NaN is neutral. */
export const clamp = (appraisal: Partial<Record<keyof Appraisal, number | undefined>>): Appraisal => {
  const clamped = { ...NEUTRAL_APPRAISAL }
  for (const name of dimensions) clamped[name] = into(signed.has(name) ? -1 : 0, appraisal[name], clamped[name])
  return clamped
}

/** Each into its range; what is missing or NaN is neutral. */
export const clampVAD = ({ A, D, V }: Partial<Record<keyof VAD, number | undefined>>): VAD => ({
  V: into(-1, V, neutral.V),
  A: into(0, A, neutral.A),
  D: into(0, D, neutral.D)
})

/** Up to 1. */
const into = (min: number, value: number | undefined, otherwise: number): number =>
  value === undefined || Number.isNaN(value) ? otherwise : Math.min(1, Math.max(min, value))

/** 1 for equal feeling, 0 for the opposite corner: one minus the distance, over the cube's diagonal. */
export const congruence = (a: VAD, b: VAD): number =>
  1 - Math.hypot((a.V - b.V) / 2, a.A - b.A, a.D - b.D) / Math.sqrt(3)

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
