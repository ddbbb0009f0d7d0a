/**
 * Replaces secrets in texts before the texts are stored or sent to a model. Secrets are keys, tokens, card numbers and, on request, e-mail
 * addresses. Your own patterns or your own function can find other secrets. Provide one redaction to all layers of memory. The default is
 * no redaction.
 *
 * Drafts, patches, and the messages of outboxes and threads are redacted before they are stored. Texts are redacted before they are sent to
 * a model for extraction, reconciliation or embedding. Texts already in a store, files that people write into a vault, rows that `Copy`
 * moves, and updates by `Viewer.system` are not redacted. Ids, scopes, kinds, sessions, names of threads, and keys and numbers of JSON are
 * not redacted either. A `memory_recalled` event contains the query text only with `MemoryEvents.layer({ texts: true })`, and then
 * unredacted.
 *
 * A `memory_redacted` event reports the number of secrets, never the secrets. To get the event, provide the redaction to `MemoryEvents`, or
 * provide `MemoryEvents` to a `MemoryService` over a store with the redaction. One of the two is enough. The secrets of an instruction file
 * are counted when the file is first read, and again after each change of its text.
 *
 * A store keeps the redaction with which it was built. All services over the store use this redaction. If another redaction is provided to
 * `MemoryService.layer`, `MemoryManager.layer` or `Overlay.layer`, the layer fails with `unsupported`. Building a federation fails if one
 * of its writable stores lacks the federation's redaction.
 *
 * Each call of `Redaction.layer` makes a different redaction, so call it only once. Provide this layer last, to the store and everything
 * over the store, or to the store alone. `Layer.mergeAll(Store, Redaction.layer())` does not provide the redaction to the store.
 *
 * `Copy` does not redact rows. A copy to a store with a redaction therefore requires the option `unredacted: true`. A store without a
 * redaction redacts nothing. Some services over such a store, such as `KeyValueMemory`, `Threads` and `MemoryPipeline`, use a redaction
 * that is provided to them, and log a warning. They redact texts such as keys, locations, messages, facts, prompts and texts to embed.
 * Other services, such as `BeliefMemory`, ignore the redaction and log nothing.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import { sha256 } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import type { Draft, Patch } from "../domain/MemoryRecord.ts"
import { isInternal } from "../domain/MemoryScope.ts"
import { Message } from "../domain/Message.ts"
import type { JsonObject } from "../domain/Payload.ts"
import * as PromptText from "../domain/PromptText.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as Completion from "./Completion.ts"
import type * as Embedder from "./Embedder.ts"
import {
  byPatterns,
  draftOf,
  json,
  onOneLine,
  type Options,
  type Redact,
  type Redacted,
  redactFields
} from "./Redaction/Patterns.ts"

export { byPatterns, type Options, type Redacted } from "./Redaction/Patterns.ts"

/** The number of secrets found in texts. `viewer` wrote the texts. It is `System` for texts sent to a model and for instruction files. */
export interface Report {
  readonly viewer: Viewer.Any
  readonly count: number
}

/** A redaction, which replaces the secrets in texts and reports the number of secrets to listeners. */
export interface Service {
  /** Redacts a text. Must find no secret in a text that is already redacted, since texts may be redacted several times. */
  readonly redact: (text: string) => Redacted
  /**
   * Calls the listener with each report until the Effect scope closes. Of several listeners with the same `key`, only one is called.
   * Default: each listener has its own key.
   */
  readonly listen: (
    listener: (report: Report) => Effect.Effect<void>,
    key?: unknown
  ) => Effect.Effect<void, never, Scope.Scope>
  readonly report: (report: Report) => Effect.Effect<void>
}

/** The provided redaction. Default: `undefined`, no redaction. A `Context.Reference`, so it never appears in `R`. */
export class Redaction extends Context.Reference<Redaction>()("@memory/Redaction", {
  defaultValue: (): Service | undefined => undefined
}) {}

/** Provides a redaction that finds secrets by the patterns of `Options`. */
export const layer = (options: Options = {}): Layer.Layer<never> => layerWith(byPatterns(options))

/**
 * Provides a redaction that uses the given function. If the function throws, the operation fails with `unavailable`, and the text is
 * neither stored nor sent to a model.
 */
export const layerWith = (redact: Service["redact"]): Layer.Layer<never> =>
  Layer.sync(Redaction, () => {
    const listeners = new Set<readonly [key: unknown, listener: (report: Report) => Effect.Effect<void>]>()
    return {
      redact,
      listen: (listener, key = listener) =>
        Effect.suspend(() => {
          const entry = [key, listener] as const
          return Effect.acquireRelease(
            Effect.sync(() => listeners.add(entry)),
            () => Effect.sync(() => listeners.delete(entry))
          )
        }),
      report: (report) =>
        Effect.zipRight(
          Metric.incrementBy(redactions, report.count),
          Effect.forEach(new Map(listeners).values(), (listener) => listener(report), { discard: true })
        )
    }
  })

/** Metric: the number of secrets found. Each secret counts once, even if there are several listeners. */
const redactions = Metric.counter("memory_redactions", {
  description: "Secrets that were taken out of texts",
  incremental: true
})

/* Functions that choose the redaction of a service that is built on a store. */

/** A store's redaction, and its name for messages. */
interface Carrier {
  readonly name: string
  readonly redaction: Option.Option<Service>
}

/** Whether two redactions have the same function, as all builds of one layer do, or are both absent. @internal */
export const isSame = (one: Service | undefined, other: Service | undefined): boolean => one?.redact === other?.redact

/**
 * Returns the redaction for a service over a store: the store's own redaction, otherwise the provided one. Logs a warning if the provided
 * redaction differs from the store's. @internal
 */
export const over = (store: Carrier): Effect.Effect<Service | undefined> =>
  Effect.flatMap(Redaction, (provided) => {
    const carried = Option.getOrUndefined(store.redaction)
    return Effect.as(
      provided === undefined || isSame(provided, carried)
        ? Effect.void
        : Effect.logWarning(otherThan(store, "what stands on it")),
      carried ?? provided
    )
  })

/** Returns the store's redaction, if any. Fails with `unsupported` if one is provided that is not the store's. @internal */
export const required = (op: string, store: Carrier): Effect.Effect<Service | undefined, MemoryError.MemoryError> =>
  Effect.flatMap(Redaction, (provided) => {
    const carried = Option.getOrUndefined(store.redaction)
    if (provided === undefined || isSame(provided, carried)) return Effect.succeed(carried)
    return MemoryError.make("unsupported", { op, message: otherThan(store, op) })
  })

const otherThan = ({ name, redaction }: Carrier, provided: string): string =>
  `the store ${name} ${Option.isSome(redaction) ? "redacts by another redaction than" : "was built without"} ` +
  `the redaction that is provided to ${provided}: end the whole with one Layer.provide(redaction), the store among it, ` +
  "or provide the redaction to the store alone"

/**
 * Combines the redactions of several stores that are used as one. Returns `None` if no store has a redaction. If all stores have the same
 * redaction (`isSame`), the result redacts as this redaction does. Otherwise, the result applies the redactions of the stores one after
 * another. A listener of the result is added to the redactions of all stores.
 * @internal
 */
export const combine = (carriers: ReadonlyArray<Pick<Carrier, "redaction">>): Option.Option<Service> => {
  const all = Array.from(new Set(carriers.map(({ redaction }) => Option.getOrUndefined(redaction))))
  const some = all.filter(Predicate.isNotUndefined)
  const [first] = some
  if (first === undefined || all.length === 1) return Option.fromNullable(first)
  const listen: Service["listen"] = (listener, key) =>
    Effect.forEach(some, ({ listen }) => listen(listener, key), { discard: true })
  const redactions = Array.from(new Set(some.map(({ redact }) => redact)))
  const redact: Service["redact"] = (text) =>
    redactions.reduce((redacted, redact) => {
      const { count, text } = redact(redacted.text)
      return { text, count: redacted.count + count }
    }, { text, count: 0 })
  return Option.some({ ...first, listen, redact: all.every((one) => isSame(one, first)) ? first.redact : redact })
}

/* Functions that redact what the library writes and reads. Without a redaction, they change nothing. */

/** Redacts the texts of a batch, except the library's own rows and updates by the viewer `System`. @internal */
export const mutations = (
  redaction: Service | undefined,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>
): Effect.Effect<ReadonlyArray<MemoryMutation>, MemoryError.MemoryError> =>
  within(
    redaction,
    viewer,
    batch,
    (redact, redactLine) =>
      batch.map((mutation) =>
        mutation._tag === "Put" && Predicate.isRecord(mutation.draft) && !isOurs(mutation.draft)
          ? { ...mutation, draft: draftOf(redact, redactLine, mutation.draft) }
          : mutation._tag === "Update" && Predicate.isRecord(mutation.patch) && !Viewer.isSystem(viewer)
          ? { ...mutation, patch: redactFields(redact, redactLine, mutation.patch) }
          : mutation
      )
  )

/** Whether the library writes this draft for itself. False for a draft without a scope, which is invalid. */
const isOurs = ({ scope }: Draft): boolean => Predicate.isRecord(scope) && isInternal(scope)

/** Redacts messages, and the JSON that a thread stores with each message. @internal */
export const messages = <A extends Message & { readonly data?: JsonObject | undefined }>(
  redaction: Service | undefined,
  viewer: Viewer.Any,
  all: ReadonlyArray<A>
): Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError> =>
  within(redaction, viewer, all, (redact) =>
    all.map((message) => {
      const { name } = message
      const whole = (text: string) => redact(typeof text === "string" ? plain(text) : text)
      const data = message.data && json(whole, message.data)
      const fields = {
        ...message,
        content: whole(message.content),
        ...(name !== undefined && { name: whole(name) }),
        ...(data && { data })
      }
      return message instanceof Message && data === undefined
        ? new Message(fields, { disableValidation: true }) as A // the cast: redaction keeps the types of the message's fields
        : fields
    }))

/**
 * Removes memory blocks (`<memory>…</memory>`) and lone surrogates from a text before it is redacted. A block inside a secret would hide
 * the secret from the redaction. The block is removed anyway before the message is stored, and the secret would then remain. The removal of
 * a block can form another block, so it is repeated up to eight times. After an eighth removal, all closing tags left are made invalid.
 */
const plain = (text: string): string => {
  let kept = text.replace(/\p{Surrogate}/gu, "")
  for (let n = 0; n < 8; n++) {
    const less = PromptText.withoutMemory(kept)
    if (less === kept) return kept
    kept = less
  }
  return kept.replaceAll(PromptText.close, "</memory >")
}

/**
 * Redacts facts: their texts, tags, metadata and the types of their links. Facts of a user's function are not yet validated: a string is
 * redacted as a text, and any other value that is not an object stays as it is. @internal
 */
export const facts = <A extends Pick<Patch, "tags" | "metadata" | "links"> & { readonly text: string }>(
  redaction: Service | undefined,
  viewer: Viewer.Any,
  all: ReadonlyArray<A>
): Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError> =>
  within(
    redaction,
    viewer,
    all,
    (redact, redactLine) =>
      all.map((fact) =>
        (typeof fact === "string"
          ? redact(fact)
          : Predicate.isRecord(fact)
          ? { ...redactFields(redact, redactLine, fact), text: redact(fact.text) }
          : fact) as A // the cast: redaction keeps the types of the fact's fields
      )
  )

/**
 * Makes a function that redacts the texts of files that are read repeatedly. `place` is the path of a file. The number of secrets is
 * reported when a file is first read, and again after each change of its text. @internal
 */
export const rereading = (redaction: Service | undefined) => {
  const known = new Map<string, string>()
  return (place: string, text: string): Effect.Effect<string, MemoryError.MemoryError> =>
    redaction === undefined ? Effect.succeed(text) : Effect.suspend(() => {
      const digest = sha256(text)
      if (known.get(place) === digest) return redactQuery(redaction, text)
      known.set(place, digest)
      return within(redaction, Viewer.system(), text, (redact) => redact(text)).pipe(
        Effect.onError(() => Effect.sync(() => known.get(place) === digest && known.delete(place))) // the next call reports the secrets
      )
    })
}

/** Redacts the text of a query. Reports nothing. @internal */
export const redactQuery = (
  redaction: Service | undefined,
  text: string
): Effect.Effect<string, MemoryError.MemoryError> =>
  within(silent(redaction), Viewer.system(), text, (redact) => redact(text))

const silent = (redaction: Service | undefined) => redaction && { ...redaction, report: () => Effect.void }

/**
 * Redacts a text from which other texts are derived, such as keywords. Also redacts the secrets that appear when the text is put on one
 * line. Reports nothing, since the text itself is redacted again when it is stored. @internal
 */
export const redactSource = (
  redaction: Service | undefined,
  text: string
): Effect.Effect<string, MemoryError.MemoryError> =>
  within(silent(redaction), Viewer.system(), text, (_, redactLine) => redactLine(text))

/** Wraps a language model so that its prompts are redacted. @internal */
export const completion = (redaction: Service | undefined, model: Completion.Service): Completion.Service => {
  const asked = (prompt: Completion.Prompt) =>
    within(
      redaction,
      Viewer.system(),
      prompt,
      (redact) => ({ system: redact(prompt.system), user: redact(prompt.user) })
    )
  return redaction === undefined ? model : {
    model: model.model,
    complete: (prompt) => Effect.flatMap(asked(prompt), model.complete),
    object: (schema, prompt) => Effect.flatMap(asked(prompt), (prompt) => model.object(schema, prompt))
  }
}

/** Wraps an embedder so that the texts to embed are redacted. @internal */
export const embedder = (redaction: Service | undefined, model: Embedder.Service): Embedder.Service =>
  redaction === undefined ? model : {
    ...model,
    embed: (texts, purpose) =>
      Effect.flatMap(
        within(redaction, Viewer.system(), texts, (redact) => texts.map(redact)),
        (texts) => model.embed(texts, purpose)
      )
  }

/**
 * Calls `use` with two redacting functions, then reports the number of secrets. `redactLine` also finds the secrets that appear when the
 * text is put on one line, as summaries are. Returns `otherwise` if there is no redaction.
 */
const within = <A>(
  redaction: Service | undefined,
  viewer: Viewer.Any,
  otherwise: A,
  use: (redact: Redact, redactLine: Redact) => A
): Effect.Effect<A, MemoryError.MemoryError> =>
  redaction === undefined ? Effect.succeed(otherwise) : Effect.suspend(() => {
    let count = 0
    const counting = (redact: Service["redact"]): Redact => (text) => {
      if (typeof text !== "string") return text // the store later refuses a value that is not a string
      const redacted = redact(text)
      count += redacted.count
      return redacted.text
    }
    const revealing = inForm(PromptText.reveal, (text) => {
      const redacted = redaction.redact(text)
      if (typeof redacted.text !== "string") throw new TypeError("it returned no text")
      return { ...redacted, count: redacted.count > 0 ? redacted.count : redacted.text === text ? 0 : 1 }
    })
    return Effect.try({
      try: () => use(counting(revealing), counting(inForm(onOneLine, revealing))),
      // the error has no cause, since the cause may quote the text
      catch: () => MemoryError.make("unavailable", { op: "redact", message: "the redaction failed: nothing was kept" })
    }).pipe(Effect.tap(() => count > 0 ? redaction.report({ viewer, count }) : Effect.void))
  })

/**
 * Returns a function that redacts a text so that no secret appears when `form` is later applied to the text, for example when invisible
 * characters are removed for a prompt. The redacted text has this form only if the text itself does not show all secrets.
 */
const inForm = (form: (text: string) => string, redact: Service["redact"]): Service["redact"] => (text) => {
  const kept = redact(text)
  const formed = form(text)
  if (formed === text) return kept
  const redacted = redact(formed)
  if (redacted.text === form(kept.text)) return kept
  if (redacted.count >= kept.count) return redacted
  const again = redact(form(kept.text))
  return { text: again.text, count: kept.count + again.count }
}
