/**
 * Emotion as numbers. An affect has three dimensions: valence, arousal and dominance (VAD). An appraisal rates an event in nine dimensions.
 *
 * ```ts
 * import { Emotion } from "effect-memory"
 *
 * Emotion.congruence({ V: 1, A: 0.5, D: 0.5 }, { V: 1, A: 0.5, D: 0.5 }) // => 1
 * ```
 */
export { Appraisal, clamp, congruence, neutral, NEUTRAL_APPRAISAL, VAD } from "./domain/Emotion.ts"
