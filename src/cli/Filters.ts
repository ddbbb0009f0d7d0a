/** Options by which several commands select records. */
import * as Options from "@effect/cli/Options"
import * as Option from "effect/Option"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import { valued } from "./Command.ts"

/** Options that select records by kind and tag, and limit their number. */
export const options = {
  kind: valued(Options.text("kind"), "KIND", "only records of this kind; may be given several times").pipe(
    Options.repeated
  ),
  tag: valued(Options.text("tag"), "TAG", "only records with this tag; several: with at least one of them").pipe(
    Options.repeated
  ),
  limit: valued(Options.integer("limit"), "N", "most records; default 20").pipe(Options.withDefault(20))
}

/** The parsed values of `options`. */
export interface Values {
  readonly kind: ReadonlyArray<string>
  readonly tag: ReadonlyArray<string>
  readonly limit: number
}

/** Converts the parsed values of the options to a filter. */
export const filterOf = ({ kind, limit, tag }: Values): MemoryFilter => ({
  ...(kind.length > 0 && { kinds: kind }),
  ...(tag.length > 0 && { tags: tag }),
  limit
})

/** Returns `{ [name]: value }` with the value of the option, or `{}` if the option was not given. */
export const field = <K extends string, A>(name: K, value: Option.Option<A>): { readonly [key in K]?: A } =>
  Option.isSome(value) ? { [name]: value.value } as { readonly [key in K]: A } : {} // TypeScript types a computed key as `string`
