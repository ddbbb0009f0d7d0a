/** A text of our own, sealed with the vault's key: what is torn, forged or of another vault does not open. */
import * as Option from "effect/Option"
import { sign } from "../../../domain/Digest.ts"

export const seal = (key: string, text: string): string => `${sign(key, text)}\n${text}`

export const unseal = (key: string, sealed: string): Option.Option<string> => {
  const end = sealed.indexOf("\n")
  const text = sealed.slice(end + 1)
  return sealed.slice(0, end) === sign(key, text) ? Option.some(text) : Option.none()
}
