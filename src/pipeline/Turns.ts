/** Which turns of a conversation are read, how far they are trusted, and what they are when stored as they stand. */
import * as Duration from "effect/Duration"
import { stableId } from "../domain/MemoryId.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import type { Trust } from "../domain/MemoryRecord.ts"
import { key, type MemoryScope } from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import { textOf } from "./Extraction.ts"
import type { Options } from "./MemoryPipeline.ts"

/** In the metadata of a turn that is stored as it stands: its role. */
export const mark = "turn"

/** Those that say something. A model is not shown tools and the harness's own words; whoever asks for all is. */
export const read = (
  messages: ReadonlyArray<Message>,
  { customExtract, infer }: Pick<Options, "customExtract" | "infer">
): ReadonlyArray<Message> =>
  messages.filter((message) =>
    textOf(message) !== "" && (infer === false || customExtract || !(isTool(message) || message.role === "system"))
  )

/** As the worst of them: a tool 3, any other 1; and never better than the caller says. */
export const trustOf = (turns: ReadonlyArray<Message>, said: Trust = 1): Trust =>
  turns.some(isTool) ? 3 : said === 0 ? 1 : said

/**
 * A record for each, blank ones apart. With a sequence number the id is that of scope, session, line and place: the same turn
 * again is the same record, and is not written over. `metadata` says whose turn it was.
 */
export const verbatim = (
  messages: ReadonlyArray<Message>,
  scope: MemoryScope,
  { kind = "episodic", line, sequence, session, ttl }: Pick<Options, "kind" | "line" | "sequence" | "session" | "ttl">,
  now: number
): ReadonlyArray<MemoryMutation> =>
  messages.flatMap((message, i): ReadonlyArray<MemoryMutation> => {
    const body = textOf(message)
    if (body === "") return []
    const { actorId, at, id: reference, role } = message
    const place = placeOf(sequence, i)
    const life = lifeOf(ttl)
    return [{
      _tag: "Put",
      draft: {
        ...(place !== undefined &&
          {
            id: stableId(
              `turn:${JSON.stringify([key(scope), session ?? "", place, ...line === undefined ? [] : [line]])}`
            )
          }),
        scope,
        kind,
        body,
        metadata: { [mark]: role, ...(actorId !== undefined && { actorId }) },
        validAt: at === undefined || !(at >= 0) ? now : Math.min(Math.floor(at), now),
        ...(life > 0 && { expiresAt: now + life }),
        source: { reference, session, sequence: place }
      },
      ...(place !== undefined && { ifRevision: 0 })
    }]
  })

/** Of the i-th turn. */
export const placeOf = (sequence: Options["sequence"], i: number): number | undefined =>
  typeof sequence === "number" ? sequence + i : sequence?.[i]

/** Milliseconds to live; 0 = for ever, which no part of one is. */
export const lifeOf = (ttl: Duration.DurationInput | undefined): number => {
  const millis = ttl === undefined ? 0 : Duration.toMillis(ttl)
  return Number.isFinite(millis) ? Math.ceil(millis) : 0
}

const isTool = ({ role, tool }: Message): boolean => role === "tool" || tool === true
