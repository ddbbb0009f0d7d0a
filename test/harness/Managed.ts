/** Builds a MemoryManager over named stores, with a scripted model that extracts the first line of each user message as one fact. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { over } from "./Service.ts"

export const ada = Viewer.make({ userId: "ada", sessionId: "s" })
export const bob = Viewer.make({ userId: "bob", sessionId: "s" })
export const memory = MemoryStore.layerInMemory
export const broken = (...ops: ReadonlyArray<keyof MemoryStore.Service>) =>
  Faulty.layer({ ops }).pipe(Layer.provide(MemoryStore.layerInMemory))
/** An in-memory store whose `apply` and `put` run the given effect instead. */
export const writing = (write: Effect.Effect<never, MemoryError>) =>
  over(() => ({ apply: () => write, put: () => write }))

export type Entries = Readonly<Record<string, Federated.Entry>>
export const two = {
  notes: { layer: memory, description: "what the user wants kept", writable: true },
  scratch: { layer: memory, writable: true, maxResults: 2 }
} satisfies Entries

export const literal = ({ system, user }: Completion.Prompt): unknown =>
  system.includes("\"facts\"")
    ? { facts: Array.from(user.matchAll(/^user: (.*)$/gm), ([, text]) => text) }
    : {
      memory: (JSON.parse(user.slice(user.lastIndexOf("["), user.lastIndexOf("]") + 1)) as ReadonlyArray<string>).map(
        (text) => ({ event: "ADD", text }) // the facts come last in the prompt
      )
    }

export interface Setup {
  readonly stores?: Entries
  readonly config?: MemoryManager.Config
  readonly completion?: Layer.Layer<Completion.Completion>
  readonly embedder?: Layer.Layer<Embedder.Embedder>
  readonly spec?: Parameters<typeof MemoryService.layer>[0]
}

export const world = (
  { completion = Completion.layerScripted(literal), config, embedder = Embedder.layerNone, spec, stores = two }: Setup =
    {}
) =>
  MemoryService.layer(spec).pipe(
    Layer.provideMerge(MemoryManager.layer(config)),
    Layer.provideMerge(Layer.mergeAll(Federated.layer(stores), completion, embedder, MemoryEvents.layer())),
    Layer.provide(Layer.setRandom(Random.make("manager")))
  )

export const manager = MemoryManager.MemoryManager
export const service = MemoryService.MemoryService

export const draft = (body: string, fields: Partial<Draft> = {}): Draft => ({
  scope: { userId: "ada" },
  kind: "reference",
  body,
  ...fields
})
export const bodies = (result: { readonly hits: ReadonlyArray<{ readonly record: { readonly body: string } }> }) =>
  result.hits.map(({ record }) => record.body)
