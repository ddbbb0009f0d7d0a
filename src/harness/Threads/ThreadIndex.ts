/** Finds messages of threads by words. The search indexes of recently searched threads are kept in RAM. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { stableId } from "../../domain/MemoryId.ts"
import { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { Global } from "../../domain/MemoryScope.ts"
import type { Message } from "../../domain/Message.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as Analyzer from "../../ranking/Analyzer.ts"
import * as MemoryIndex from "../../ranking/MemoryIndex.ts"

/** Largest number of indexes that are kept. Beyond this number, the index of the least recently searched thread is removed. */
const capacity = 64
/** Largest number of messages that are read and indexed in one step. */
const atATime = 500

type Io<A> = Effect.Effect<A, MemoryError>

/** Searches threads by words, with one in-memory index per thread. */
export interface ThreadIndex {
  /**
   * Finds messages of a thread, best first. Messages that are not in the index are first read with `read` and added. `generation` is a
   * random text that identifies the thread. `length` is the number of messages in the thread.
   */
  readonly search: (
    generation: string,
    length: number,
    query: { readonly text: string; readonly limit: number },
    read: (from: number, end: number) => Io<ReadonlyArray<Message & { readonly sequence: number }>>
  ) => Io<ReadonlyArray<{ readonly sequence: number; readonly score: number }>>
}

interface Indexed {
  readonly index: MemoryIndex.MemoryIndex
  /** Number of indexed messages. */
  length: number
}

/** Makes an empty cache of indexes. The analyzer splits texts into words. */
export const make = (analyzer: Analyzer.Service): ThreadIndex => {
  const viewer = Viewer.make({})
  const known = new Map<string, Indexed>()
  const of = (generation: string, length: number): Indexed => {
    const one = known.get(generation)
    known.delete(generation)
    // makes a new index if the known one has more messages than the thread: some of them may be erased
    const kept = one === undefined || one.length > length ? { index: MemoryIndex.make({ analyzer }), length: 0 } : one
    known.set(generation, kept)
    const [oldest] = known.keys()
    if (known.size > capacity && oldest !== undefined) known.delete(oldest)
    return kept
  }
  return {
    search: (generation, length, { limit, text }, read) =>
      Effect.gen(function*() {
        const one = of(generation, length)
        for (let from = one.length; from < length; from += atATime) {
          const messages = yield* read(from, Math.min(length, from + atATime))
          for (const message of messages) one.index.add(recordOf(generation, message))
          one.length = Math.max(one.length, Math.min(length, from + atATime))
        }
        const { hits } = one.index.search(viewer, { text, limit }, yield* Clock.currentTimeMillis)
        return hits.map(({ record, score }) => ({ sequence: record.source.sequence ?? 0, score }))
      })
  }
}

const recordOf = (
  generation: string,
  { actorId, content, name, sequence }: Message & { readonly sequence: number }
) => {
  const actor = name ?? actorId
  return new MemoryRecord({
    id: stableId(`${generation}:${sequence}`),
    scope: Global,
    kind: "entry",
    summary: "",
    summaryDerived: true,
    body: content,
    tags: [],
    importance: 0.5,
    links: [],
    data: {},
    metadata: {},
    source: { origin: "user", trust: 1, session: generation, sequence, ...(actor !== undefined && { actor }) },
    createdAt: sequence,
    validAt: 0,
    revision: 1
  }, { disableValidation: true })
}
