/** A model provider that speaks OpenAI's Responses format, whole or as a stream of events. A function determines its answers. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"

/** An item of a model's input: a message, a tool call or a tool's result. */
export interface Item {
  readonly role?: string
  readonly type?: string
  readonly content?: string | ReadonlyArray<{ readonly text: string }>
  readonly name?: string
  readonly output?: string
}

/** A model's answer: a text, tool calls, or a text that never ends. */
export type Answer =
  | { readonly text: string }
  | { readonly calls: ReadonlyArray<{ readonly name: string; readonly arguments: object }> }
  | { readonly hangsAfter: string }

/** Returns the text of an item. */
export const said = ({ content, output }: Item): string =>
  output ?? (typeof content === "string" ? content : content?.map(({ text }) => text).join("") ?? "")

export interface Provider {
  readonly url: string
  /** The input of every request, in order. */
  readonly asked: ReadonlyArray<ReadonlyArray<Item>>
}

const bare = {
  object: "response",
  created_at: 0,
  error: null,
  incomplete_details: null,
  instructions: null,
  parallel_tool_calls: true,
  model: "gpt-4o",
  tools: [],
  tool_choice: "auto",
  metadata: null,
  temperature: null,
  top_p: null
}

/** Serves until the scope closes. */
export const provider = (
  answer: (input: ReadonlyArray<Item>) => Answer
): Effect.Effect<Provider, never, Scope.Scope> =>
  Effect.gen(function*() {
    const asked: Array<ReadonlyArray<Item>> = []
    let ids = 0
    const itemsOf = (given: Answer) =>
      "calls" in given
        ? given.calls.map((call) => ({
          id: `fc_${++ids}`,
          type: "function_call",
          call_id: `call_${ids}`,
          name: call.name,
          arguments: JSON.stringify(call.arguments),
          status: "completed"
        }))
        : "text" in given
        ? [{
          id: `msg_${++ids}`,
          type: "message",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: given.text, annotations: [] }]
        }]
        : []

    const server = createServer((request, response) => {
      void text(request).then((body) => {
        const { input, stream } = JSON.parse(body) as { input: ReadonlyArray<Item>; stream?: boolean } // the client's format
        asked.push(input)
        const given = answer(input)
        const items = itemsOf(given)
        const whole = { ...bare, id: `resp_${++ids}`, status: "completed", output: items }
        if (stream !== true) {
          response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole))
          return
        }
        response.writeHead(200, { "content-type": "text/event-stream" })
        let sequence = 0
        const send = (event: Readonly<Record<string, unknown>>) =>
          response.write(`event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: sequence++ })}\n\n`)
        const delta = (id: string, output_index: number, delta: string) =>
          send({ type: "response.output_text.delta", item_id: id, output_index, content_index: 0, delta, logprobs: [] })
        send({ type: "response.created", response: { ...whole, status: "in_progress", output: [] } })
        if ("hangsAfter" in given) {
          const item = { id: "msg_0", type: "message", role: "assistant", status: "in_progress", content: [] }
          send({ type: "response.output_item.added", output_index: 0, item })
          delta(item.id, 0, given.hangsAfter)
          return
        }
        for (const [output_index, item] of items.entries()) {
          const begun = "content" in item ? { ...item, status: "in_progress", content: [] } : { ...item, arguments: "" }
          send({ type: "response.output_item.added", output_index, item: begun })
          for (const part of "content" in item ? item.content[0]!.text.match(/.{1,5}/gs) ?? [] : []) {
            delta(item.id, output_index, part)
          }
          send({ type: "response.output_item.done", output_index, item })
        }
        send({ type: "response.completed", response: whole })
        response.end()
      })
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
    )
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked } // it listens on a TCP port
  })
