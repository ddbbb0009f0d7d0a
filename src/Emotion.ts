/**
 * Emotion as numbers: an affect has three dimensions (valence, arousal, dominance: VAD), an appraisal of an event has nine.
 *
 * ```ts
 * import { Emotion } from "effect-memory"
 *
 * Emotion.congruence({ V: 1, A: 0.5, D: 0.5 }, { V: 1, A: 0.5, D: 0.5 }) // => 1
 * ```
 */
export { Appraisal, clamp, congruence, neutral, NEUTRAL_APPRAISAL, VAD } from "./domain/Emotion.ts"
