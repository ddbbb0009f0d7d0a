/**
 * An analyzer turns texts into terms by two tokenizers: `index` for the texts of records, and `query` for the texts of queries.
 *
 * ```ts
 * import { Analyzer } from "effect-memory"
 *
 * const { index, query } = Analyzer.make()
 * const terms = [index("deployed engines"), query("Who deploys the engine?")]
 *
 * terms // => [["deploi", "engin"], ["deploi", "engin"]]
 * ```
 */
export { Analyzer, layer, make } from "./ranking/Analyzer.ts"
export type { Options, Service } from "./ranking/Analyzer.ts"
