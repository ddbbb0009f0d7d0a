/** Analyzers: the pair of tokenizers that turn stored texts and queries into terms. */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as Tokenizer from "./Tokenizer.ts"

/** The tokenizers of stored texts (`index`) and of queries (`query`). */
export interface Service {
  readonly index: Tokenizer.Tokenizer
  readonly query: Tokenizer.Tokenizer
}

/** Options of `make`. */
export interface Options {
  /** Whether stored texts and queries are stemmed (Porter, English). Default true. */
  readonly stem?: boolean | undefined
  /** Stopwords of stored texts. Default `short`. */
  readonly stopwords?: Tokenizer.Options["stopwords"]
  /** Whether compounds (`8.104.9`, `src/index.ts`) and single letters (`R`) are terms. Default true. */
  readonly compounds?: boolean | undefined
  /** Stopwords of queries. A query of stopwords only keeps them, so that "who am I" has terms. Default `wide`. */
  readonly query?: Tokenizer.Options["stopwords"]
}

/** Makes an analyzer. The defaults come from an ablation: docs/retrieval.md. */
export const make = (
  { compounds = true, query = "wide", stem = true, stopwords = "short" }: Options = {}
): Service => {
  const index = Tokenizer.make({ stem, stopwords, compounds, characters: compounds })
  const asked = (stopwords: Tokenizer.Options["stopwords"]) =>
    Tokenizer.make({ stem, stopwords, compounds, characters: compounds && "capitals" })
  return { index, query: Tokenizer.orElse(asked(query), Tokenizer.orElse(asked(stopwords), index)) }
}

/** The analyzer that uses `tokenise` for texts and queries, so that scores equal those of `bm25` with its default. */
export const plain: Service = { index: Tokenizer.tokenise, query: Tokenizer.tokenise }

/** The analyzer in force, which stores are built with. Default: `make()`. A reference, so it never appears in `R`. */
export class Analyzer extends Context.Reference<Analyzer>()("@memory/Analyzer", { defaultValue: () => make() }) {}

/** Provides an analyzer. Stores that are built below it use it. */
export const layer = (options: Options): Layer.Layer<never> => Layer.succeed(Analyzer, make(options))
