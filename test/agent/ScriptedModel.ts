/** A language model of @effect/ai with scripted answers. */
import * as AiError from "@effect/ai/AiError"
import * as LanguageModel from "@effect/ai/LanguageModel"
import type * as Response from "@effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

export const down = new AiError.UnknownError({ module: "Test", method: "ask", description: "key sk-123 refused" })

export const text = (text: string): Response.PartEncoded => ({ type: "text", text })
export const call = (name: string, params: unknown): Response.PartEncoded => ({
  type: "tool-call",
  id: "call",
  name,
  params
})

const streamed = (part: Response.PartEncoded): ReadonlyArray<Response.StreamPartEncoded> =>
  part.type === "tool-call"
    ? [part]
    : part.type === "text"
    ? [{ type: "text-start", id: "0" }, { type: "text-delta", id: "0", delta: part.text }, {
      type: "text-end",
      id: "0"
    }]
    : []

/** Makes a model that answers with the entries of the script in order, and records its prompts. */
export const scripted = (...script: Array<ReadonlyArray<Response.PartEncoded>>) => {
  const asked: Array<LanguageModel.ProviderOptions> = []
  const next = (options: LanguageModel.ProviderOptions) =>
    Effect.suspend(() => {
      asked.push(options)
      const parts = script.shift()
      return parts ? Effect.succeed([...parts]) : Effect.fail(down)
    })
  const model = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: next,
      streamText: (options) =>
        Stream.unwrap(Effect.map(next(options), (parts) => Stream.fromIterable(parts.flatMap(streamed))))
    })
  )
  return { asked, model }
}
