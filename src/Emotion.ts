/**
 * Emotion as numbers. An affect has three dimensions: valence, arousal, dominance (VAD). An appraisal, which rates an event, has nine.
 *
 * ```ts
 * import { Emotion } from "effect-memory"
 *
 * Emotion.congruence({ V: 1, A: 0.5, D: 0.5 }, { V: 1, A: 0.5, D: 0.5 }) // => 1
 * ```
 */
export { Appraisal, clamp, congruence, neutral, NEUTRAL_APPRAISAL, VAD } from "./domain/Emotion.ts"
