/** An analyzer turns texts into terms. It has one tokenizer for the texts that are indexed, and one for the texts of queries. */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as Tokenizer from "./Tokenizer.ts"

/** An analyzer: one tokenizer for the texts of records (`index`) and one for the texts of queries (`query`). */
export interface Service {
  readonly index: Tokenizer.Tokenizer
  readonly query: Tokenizer.Tokenizer
}

/** Options of `make`. */
export interface Options {
  /** Whether English words of texts and queries are stemmed (Porter). Default true. */
  readonly stem?: boolean | undefined
  /** Stopwords to drop from indexed texts. Default `short`. */
  readonly stopwords?: Tokenizer.Options["stopwords"]
  /** Whether compounds (`v1.2`) and single characters are terms. Default true. In a query with other terms, `R` is a term, `r` is not. */
  readonly compounds?: boolean | undefined
  /** Stopwords to drop from queries. Default `wide`. If no term is left, as for "who am I", `stopwords` are dropped instead. */
  readonly query?: Tokenizer.Options["stopwords"]
}

/** Makes an analyzer. The defaults are among those that retrieved best in the measurements of docs/retrieval.md. */
export const make = (
  { compounds = true, query = "wide", stem = true, stopwords = "short" }: Options = {}
): Service => {
  const index = Tokenizer.make({ stem, stopwords, compounds, characters: compounds })
  const withStopwords = (stopwords: Tokenizer.Options["stopwords"]) =>
    Tokenizer.make({ stem, stopwords, compounds, characters: compounds && "capitals" })
  return { index, query: Tokenizer.orElse(withStopwords(query), Tokenizer.orElse(withStopwords(stopwords), index)) }
}

/**
 * An analyzer that uses the tokenizer `tokenise` for texts and queries. A store with this analyzer computes the same BM25 scores as the
 * function `bm25` with its default tokenizer.
 */
export const plain: Service = { index: Tokenizer.tokenise, query: Tokenizer.tokenise }

/** The analyzer that a store uses. Default: `make()`. A `Context.Reference`, so it never appears in `R`. */
export class Analyzer extends Context.Reference<Analyzer>()("@memory/Analyzer", { defaultValue: () => make() }) {}

/** Provides an analyzer to the stores to which this layer is provided. */
export const layer = (options: Options): Layer.Layer<never> => Layer.succeed(Analyzer, make(options))
