/**
 * Takes secrets out of what is remembered: keys, tokens, card numbers and, if asked, addresses of e-mail; or whatever a function
 * of your own finds. Provide it once, below the whole of memory; without it nothing is redacted.
 *
 * Laws: a text is redacted before it is stored (drafts, patches, messages of outboxes and threads, in every store) and before a
 * model is asked to extract, reconcile or embed it. What was stored before stays as it is. Files that somebody else writes into a
 * vault, and rows that `Copy` moves, are not looked at. Ids, scopes, kinds, sessions, names of threads and keys of JSON are names, and
 * stay; so do numbers in `data`, what `Viewer.system` updates, and the words of a search in `memory_recalled`, which only
 * `MemoryEvents.layer({ texts: true })` publishes. A `memory_redacted` event says how many were found, never what: every
 * `MemoryEvents` below the same redaction publishes it. What is taken out of instruction files as they are read is not counted.
 *
 * A part redacts if this layer was provided to that part when it was built, and else it does not, without saying so. Provide it last:
 * `Layer.mergeAll(Store, Redaction.layer())` leaves the store without, and so does a layer that is built later, at run time, over a
 * store that redacts: provide the redaction to that layer as well.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { MemoryService, MemoryStore, Redaction, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const memory = yield* MemoryService.MemoryService
 *   const { record } = yield* memory.put({ scope: { userId: "ada" }, kind: "user", body: "My key is sk-abcdef0123456789." })
 *   return record.body
 * })
 *
 * const Memory = MemoryService.layer().pipe(
 *   Layer.provide(MemoryStore.layerInMemory),
 *   Layer.provide(Redaction.layer({ emails: true }))
 * )
 *
 * const kept = await program.pipe(MemoryService.as(Viewer.make({ userId: "ada" })), Effect.provide(Memory), Effect.runPromise)
 *
 * kept // => "My key is (redacted key)."
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import type { Draft, Link, Patch } from "../domain/MemoryRecord.ts"
import { isInternal } from "../domain/MemoryScope.ts"
import { Message } from "../domain/Message.ts"
import { type Json, type JsonObject, maxDepth } from "../domain/Payload.ts"
import * as PromptText from "../domain/PromptText.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as Completion from "./Completion.ts"
import type * as Embedder from "./Embedder.ts"

/** A text without its secrets, and how many it had. */
export interface Redacted {
  readonly text: string
  readonly count: number
}

/** Says that secrets were found: how many, and for whom; on the way to a model, which knows no viewer, for the library. */
export interface Report {
  readonly viewer: Viewer.Any
  readonly count: number
}

export interface Service {
  /** Redacts a text. What it returns is redacted again on its way, so it must find nothing in its own result. */
  readonly redact: (text: string) => Redacted
  /** Hears of every text in which something was found, until the scope closes. */
  readonly listen: (listener: (report: Report) => Effect.Effect<void>) => Effect.Effect<void, never, Scope.Scope>
  readonly report: (report: Report) => Effect.Effect<void>
}

/** The redaction in force; undefined, the default, for none. A reference, so it never appears in `R`. */
export class Redaction extends Context.Reference<Redaction>()("@memory/Redaction", {
  defaultValue: (): Service | undefined => undefined
}) {}

export interface Options {
  /** Private keys, and keys of providers that begin as theirs do: `sk-`, `AKIA`, `ghp_` and others. Default true. */
  readonly keys?: boolean | undefined
  /** JSON Web Tokens, bearer tokens, passwords of URLs, and what is said to be a password, secret, token or key. Default true. */
  readonly tokens?: boolean | undefined
  /** Numbers of 13 to 19 digits that begin as a card's does and have its check digit. Default true. */
  readonly cards?: boolean | undefined
  /** Default false. */
  readonly emails?: boolean | undefined
  /** Patterns of your own, by the name that takes the place of what they match: `(redacted customer)`. Default none. */
  readonly patterns?: Readonly<Record<string, RegExp>> | undefined
}

/** Redacts by patterns. */
export const layer = (options: Options = {}): Layer.Layer<never> => layerWith(byPatterns(options))

/** Redacts by a function of your own. Where it throws, nothing is stored and nothing sent: the call fails with `unavailable`. */
export const layerWith = (redact: Service["redact"]): Layer.Layer<never> =>
  Layer.sync(Redaction, () => {
    const listeners = new Set<(report: Report) => Effect.Effect<void>>()
    return {
      redact,
      listen: (listener) =>
        Effect.acquireRelease(
          Effect.sync(() => listeners.add(listener)),
          () => Effect.sync(() => listeners.delete(listener))
        ),
      report: (report) =>
        Effect.zipRight(
          Metric.incrementBy(redactions, report.count),
          Effect.forEach(Array.from(listeners), (listener) => listener(report), { discard: true })
        )
    }
  })

/** Counts each secret once, whoever hears of it. */
const redactions = Metric.counter("memory_redactions", {
  description: "Secrets that were taken out of texts",
  incremental: true
})

interface Rule {
  readonly name: string
  readonly pattern: RegExp
  /** Tells whether a match of the pattern is a secret. Default: each is. */
  readonly accepts?: ((match: string) => boolean) | undefined
}

/** Matches the mark that a redaction left, or its first word. */
const isMark = /^\(redacted(?:$| [^)]{0,100}\))/

/** Makes the function that redacts by patterns; `layer` uses it. Cost: proportional to the text, whatever it says. */
export const byPatterns = (options: Options = {}): Service["redact"] => {
  const { cards = true, emails = false, keys = true, patterns = {}, tokens = true } = options
  const rules: ReadonlyArray<Rule> = [
    ...Object.entries(patterns).map(([name, pattern]) => ({
      name,
      pattern: new RegExp(pattern.source, `${pattern.flags.replace(/[gy]/g, "")}g`)
    })),
    ...keys ? [{ name: "key", pattern: privateKey }, { name: "key", pattern: providerKey }] : [],
    ...tokens ? [bearer, webToken, urlPassword].map((pattern) => ({ name: "token", pattern })) : [],
    ...tokens ? assigned.map((pattern) => ({ name: "token", pattern, accepts: isValue })) : [],
    ...cards ? [{ name: "card", pattern: cardNumber, accepts: hasCheckDigit }] : [],
    ...emails ? [{ name: "email", pattern: email }] : []
  ]
  return (text) => {
    let count = 0
    const redacted = rules.reduce(
      (text, { accepts, name, pattern }) =>
        text.replace(pattern, (match) => {
          if (match === "" || accepts?.(match) === false || isMark.test(match)) return match
          count++
          return `(redacted ${name})`
        }),
      text
    )
    return { text: redacted, count }
  }
}

/** Pattern of the place where a name or a key may begin: not after a word character, unless that is the letter of an escape of JSON. */
const begins = "(?:(?<![A-Za-z0-9_])|(?<=\\\\[bfnrt]))"
/** Reaches to the end of the key, or, of a key that was cut, to the end of the text. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-(?!----)[^-]*)*(?:-----END [A-Z0-9 ]{0,40}-----)?/g
const providerKey = new RegExp(
  `${begins}(?:` + [
    "sk-(?=[\\w-]{0,64}\\d)[\\w-]{10,}", // OpenAI, Anthropic
    "[rsp]k_(?:live|test)_\\w{10,}", // Stripe
    "(?:AKIA|ASIA)[0-9A-Z]{16}", // AWS
    "AIza[\\w-]{35}", // Google
    "gh[oprsu]_\\w{30,}|github_pat_\\w{30,}",
    "glpat-[\\w-]{20,}",
    "npm_\\w{36}",
    "hf_\\w{30,}",
    "xox[abeoprs]-[\\w-]{10,}" // Slack
  ].join("|") + ")",
  "g"
)
const bearer = new RegExp(`(?<=${begins}bearer\\s{1,3})(?=[\\w.~+/-]{0,100}\\d)[\\w.~+/-]{16,}=*`, "gi")
/** No dash stands before it: of a run that repeats its beginning each would be tried to the end of the run. */
const webToken = /(?:(?<![\w-])|(?<=\\[bfnrt]))eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g
const urlPassword = new RegExp(
  `(?<=${begins}[a-z][a-z0-9+.-]{1,20}://[^\\s/:@]{0,100}:)[^\\s/@]{1,200}(?=@)`,
  "gi"
)
/** Patterns of values that their name calls secret. A password after a colon or an equals sign may be any word; other values have a digit. */
const assigned = (() => {
  const said = "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrt]))" // after an underscore, too: DB_PASSWORD
  const secrets = "(?:(?:client|app)?secret|(?:access|refresh|auth|id|session)?token|(?:api|access|secret)[ _-]?key)"
  const passwords = "(?:password|passwd|passphrase)"
  const quote = "(?:\\\\?[\"'])?"
  const set = `${quote}\\s{0,3}[:=]\\s{0,3}${quote}`
  const is = `${quote}\\s{0,3}(?:[:=]|is\\b)\\s{0,3}${quote}`
  const value = "[^\\s\"'`,;)\\]}]{6,}(?<!\\\\)"
  const hasDigit = "(?=[^\\s\"']{0,100}\\d)"
  return [
    `(?<=${said}${passwords}${set})${value}`,
    `(?<=${said}pwd${set})(?![/~.\\\\$]|[a-z]:)${value}`, // no directory
    `(?<=${said}${passwords}${is})${hasDigit}${value}`,
    `(?<=${said}${secrets}${is})${hasDigit}(?![\\d._]{1,10}(?:[\\s"'\`,;)\\]}]|$))${value}` // no quantity
  ].map((pattern) => new RegExp(pattern, "gi"))
})()
/** Whether a value is a secret, rather than a type, a remark such as `required`, or the place that it is read from. */
const isValue = (match: string): boolean =>
  !/^(?:(?:string|number|boolean|required|optional|missing|invalid|incorrect|forgotten|expired|undefined|unknown)[.!?|]*$|process\.env\b|import\.meta\b|os\.environ\b|\$\{)/i
    .test(match)
const cardNumber =
  /(?<![\w.+-])(?:(?:[3-6]\d{3}|2[2-7]\d\d)(?:\d{9,15}|([ -])\d{4}\1\d{4}\1\d{4})|3[47]\d\d([ -])\d{6}\2\d{5})(?![\w-])/g
const email = /(?<![\w.+-])[\w.+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}/gi

/** Luhn's formula: from the right, every second digit counts double, and all add up to a multiple of ten. */
const hasCheckDigit = (match: string): boolean => {
  const digits = Array.from(match.replace(/\D/g, ""), Number).reverse()
  const sum = digits.reduce((sum, digit, n) => sum + (n % 2 === 0 ? digit : digit < 5 ? digit * 2 : digit * 2 - 9), 0)
  return sum % 10 === 0
}

/* What the library's writers and askers use: each does nothing without a redaction. */

/** Redacts what a batch says. Leaves the rows of the library alone: what they hold was redacted before they were made. @internal */
export const mutations = (
  redaction: Service | undefined,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>
): Effect.Effect<ReadonlyArray<MemoryMutation>, MemoryError.MemoryError> =>
  within(
    redaction,
    viewer,
    batch,
    (redact) =>
      batch.map((mutation) =>
        mutation._tag === "Put" && Predicate.isRecord(mutation.draft) && !isOurs(mutation.draft)
          ? { ...mutation, draft: draftOf(redact, mutation.draft) }
          : mutation._tag === "Update" && Predicate.isRecord(mutation.patch) && !Viewer.isSystem(viewer)
          ? { ...mutation, patch: said(redact, mutation.patch) }
          : mutation
      )
  )

/** Whether a draft is a row of the library; one without a scope is the store's to refuse. */
const isOurs = ({ scope }: Draft): boolean => Predicate.isRecord(scope) && isInternal(scope)

/** Redacts messages, and the JSON that a thread keeps beside them. @internal */
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
        ? new Message(fields, { disableValidation: true }) as A // the same fields
        : fields
    }))

/**
 * Removes what is removed before a message is stored, blocks of memory and lone surrogates, so that no secret is put together
 * afterwards. Blocks that others left form anew are removed, too, up to eight deep; of deeper ones the ends are disarmed.
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

/** Redacts the texts of facts, and what is kept beside them. @internal */
export const facts = <A extends Pick<Patch, "tags" | "metadata" | "links"> & { readonly text: string }>(
  redaction: Service | undefined,
  viewer: Viewer.Any,
  all: ReadonlyArray<A>
): Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError> =>
  within(
    redaction,
    viewer,
    all,
    (redact) => all.map((fact) => ({ ...said(redact, fact), text: redact(fact.text) }) as A)
  ) // the fields of the fact

/** Redacts a text and reports nothing: a name that something is found by, or a file that is read again and again. @internal */
export const quiet = (redaction: Service | undefined, text: string): Effect.Effect<string, MemoryError.MemoryError> =>
  within(redaction && { ...redaction, report: () => Effect.void }, Viewer.system(), text, (redact) => redact(text))

/** Redacts what the model is asked. @internal */
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

/** Redacts what is embedded. @internal */
export const embedder = (redaction: Service | undefined, model: Embedder.Service): Embedder.Service =>
  redaction === undefined ? model : {
    ...model,
    embed: (texts, purpose) =>
      Effect.flatMap(
        within(redaction, Viewer.system(), texts, (redact) => texts.map(redact)),
        (texts) => model.embed(texts, purpose)
      )
  }

/** Runs `use` with a function that redacts and counts, and reports the count; `otherwise` without a redaction. */
const within = <A>(
  redaction: Service | undefined,
  viewer: Viewer.Any,
  otherwise: A,
  use: (redact: (text: string) => string) => A
): Effect.Effect<A, MemoryError.MemoryError> =>
  redaction === undefined ? Effect.succeed(otherwise) : Effect.suspend(() => {
    let count = 0
    return Effect.try({
      try: () =>
        use((text) => {
          if (typeof text !== "string") return text // the store refuses what is no text
          const redacted = redaction.redact(text)
          if (typeof redacted.text !== "string") throw new TypeError("it returned no text")
          count += redacted.count > 0 ? redacted.count : redacted.text === text ? 0 : 1
          return redacted.text
        }),
      // no cause: it may quote the text
      catch: () => MemoryError.make("unavailable", { op: "redact", message: "the redaction failed: nothing was kept" })
    }).pipe(Effect.tap(() => count > 0 ? redaction.report({ viewer, count }) : Effect.void))
  })

/** Redacts what drafts and patches have in common; a field that is not there is not there afterwards. */
const said = <A extends Pick<Patch, "summary" | "body" | "tags" | "data" | "metadata" | "links">>(
  redact: (text: string) => string,
  { body, data, links, metadata, summary, tags, ...rest }: A
) => ({
  ...rest,
  ...(body !== undefined && { body: redact(body) }),
  ...(summary !== undefined && { summary: redact(summary) }),
  ...(tags !== undefined && { tags: json(redact, tags) }),
  ...(data !== undefined && { data: json(redact, data) }),
  ...(metadata !== undefined && { metadata: json(redact, metadata) }),
  ...(links !== undefined && { links: Array.isArray(links) ? links.map((link) => linkOf(redact, link)) : links })
})

const linkOf = (redact: (text: string) => string, link: typeof Link.Type): typeof Link.Type =>
  Predicate.isRecord(link) && typeof link.type === "string" ? { ...link, type: redact(link.type) } : link

const draftOf = (redact: (text: string) => string, draft: Draft): Draft => {
  const { actor, reference } = draft.source ?? {}
  return {
    ...said(redact, draft),
    ...(draft.source && {
      source: {
        ...draft.source,
        ...(actor !== undefined && { actor: redact(actor) }),
        ...(reference !== undefined && { reference: redact(reference) })
      }
    })
  } as Draft // the fields of the draft, each of its own type
}

/** Redacts the texts of JSON, its keys apart. What has nothing to redact is returned as it is, and so is what is no JSON. */
const json = <A extends Json>(redact: (text: string) => string, value: A): A => {
  const walk = (value: Json, depth: number): Json => {
    if (typeof value === "string") return redact(value)
    if (typeof value !== "object" || value === null || depth > maxDepth) return value
    if (Array.isArray(value)) {
      const all = value.map((item) => walk(item, depth + 1))
      return all.every((item, n) => Object.is(item, value[n])) ? value : all
    }
    const entries = Object.entries(value)
    const all = entries.map(([key, field]) => {
      const within = walk(field, depth + 1)
      return [key, within === field && typeof field === "string" ? named(redact, key, field) : within] as const
    })
    return all.every(([, field], n) => Object.is(field, entries[n]![1])) ? value : Object.fromEntries(all)
  }
  return walk(value, 0) as A // of the same shape
}

/** Redacts a text that its key says to be a secret: `{ password: "…" }` as `password=…`. */
const named = (redact: (text: string) => string, key: string, value: string): string => {
  if (!/pass|pwd|secret|token|key/i.test(key)) return value
  const before = `${key}=`
  const redacted = redact(before + value)
  return redacted.startsWith(before) ? redacted.slice(before.length) : value
}
