/** How a text becomes terms: one that is remembered, and one that is asked. */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as Tokenizer from "./Tokenizer.ts"

export interface Service {
  readonly index: Tokenizer.Tokenizer
  readonly query: Tokenizer.Tokenizer
}

export interface Options {
  /** Porter stems, of both. Default true. */
  readonly stem?: boolean | undefined
  /** What is not remembered. Default `short`. */
  readonly stopwords?: Tokenizer.Options["stopwords"]
  /** Whether `8.104.9`, `user_id` and `src/index.ts` are terms beside their parts, and `R` one, `r` where nothing else is asked. Default true. */
  readonly compounds?: boolean | undefined
  /** What is not asked for, unless the question has nothing else: "who am I" finds who is who. Default `wide`. */
  readonly query?: Tokenizer.Options["stopwords"]
}

/** The defaults are those of an ablation: docs/retrieval.md. */
export const make = (
  { compounds = true, query = "wide", stem = true, stopwords = "short" }: Options = {}
): Service => {
  const index = Tokenizer.make({ stem, stopwords, compounds, characters: compounds })
  const asked = (stopwords: Tokenizer.Options["stopwords"]) =>
    Tokenizer.make({ stem, stopwords, compounds, characters: compounds && "capitals" })
  return { index, query: Tokenizer.orElse(asked(query), Tokenizer.orElse(asked(stopwords), index)) }
}

/** `tokenise` for both: scores are those of `bm25` as it stands. */
export const plain: Service = { index: Tokenizer.tokenise, query: Tokenizer.tokenise }

/** What stores are built with. By default never in `R`. */
export class Analyzer extends Context.Reference<Analyzer>()("@memory/Analyzer", { defaultValue: () => make() }) {}

export const layer = (options: Options): Layer.Layer<never> => Layer.succeed(Analyzer, make(options))
