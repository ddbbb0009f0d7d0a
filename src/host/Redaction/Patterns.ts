/**
 * The patterns by which `Redaction.layer` finds secrets, and the fields of drafts, patches and JSON in which a redaction replaces them.
 * Further checks exclude values that only look like secrets.
 */
import * as Predicate from "effect/Predicate"
import { deriveSummary, type Draft, type Link, type Patch } from "../../domain/MemoryRecord.ts"
import { type Json, maxDepth } from "../../domain/Payload.ts"
import * as PromptText from "../../domain/PromptText.ts"

/** A redacted text, and the number of secrets that were replaced in it. */
export interface Redacted {
  readonly text: string
  readonly count: number
}

/** Options of `Redaction.layer`: the sorts of secrets to find. */
export interface Options {
  /** Private keys, and API keys with the prefix of a known provider, such as `sk-`, `AKIA` or `ghp_`. Default true. */
  readonly keys?: boolean | undefined
  /**
   * JSON Web Tokens, bearer tokens, credentials in `Authorization` headers, and passwords in URLs. Also values that follow a word such as
   * password, secret or API key, in text and in command-line options. Default true.
   */
  readonly tokens?: boolean | undefined
  /** Numbers of 13 to 19 digits with the prefix, the length and the check digit of a payment card. Default true. */
  readonly cards?: boolean | undefined
  /** E-mail addresses. Default false. */
  readonly emails?: boolean | undefined
  /** Your own patterns, by name. A match of the pattern `customer` becomes `(redacted customer)`. Default: no patterns. */
  readonly patterns?: Readonly<Record<string, RegExp>> | undefined
}

interface Rule {
  readonly name: string
  readonly pattern: RegExp
  /** Whether a match of the pattern is a secret. Default: every match is. */
  readonly accepts?: ((match: string) => boolean) | undefined
}

/** Matches a mark that an earlier redaction left, such as `(redacted key)`, or its first word alone. */
const isMark = /^\(redacted(?:$| [^)]{0,100}\))/

/** Returns the function with which `Redaction.layer` redacts. The built-in patterns take linear time for every text. */
export const byPatterns = (options: Options = {}): (text: string) => Redacted => {
  const { cards = true, emails = false, keys = true, patterns = {}, tokens = true } = options
  const names = ["card", "email", "key", "token", ...Object.keys(patterns)]
  const marks = `\\(redacted (?:${names.map((name) => name.replace(/[$()*+./?[\\\]^{|}]/g, "\\$&")).join("|")})\\)`
  const rules: ReadonlyArray<Rule> = [
    ...Object.entries(patterns).map(([name, pattern]) => ({
      name,
      // the marks are matched first and left alone, since the pattern may match the name in a mark
      pattern: new RegExp(`${marks}|(?:${pattern.source})`, `${pattern.flags.replace(/[gy]/g, "")}g`)
    })),
    ...tokens ? passphrases.map((pattern) => ({ name: "token", pattern, accepts: isValue })) : [],
    ...keys ? [{ name: "key", pattern: privateKey }, { name: "key", pattern: providerKey() }] : [],
    ...tokens ? [header(), bearer(), webToken, urlPassword()].map((pattern) => ({ name: "token", pattern })) : [],
    ...tokens ? assigned.map((pattern) => ({ name: "token", pattern, accepts: isValue })) : [],
    ...cards ? [{ name: "card", pattern: cardNumber(), accepts: hasCheckDigit }] : [],
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

/** Pattern of the place where a secret may begin: not after a letter, digit or `_`. An escape such as `\n` may precede the secret. */
const begins = "(?:(?<![A-Za-z0-9_])|(?<=\\\\[bfnrt]))"
/** Matches a private key in PEM form, up to its `END` line. If this line is missing: up to the next `-----`, or to the end of the text. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-(?!----)[^-]*)*(?:-----END [A-Z0-9 ]{0,40}-----)?/g
/** Returns a pattern that matches API keys. A bundler can leave out an unused function, but not a constant made of a template literal. */
const providerKey = () =>
  new RegExp(
    `${begins}(?:` + [
      "sk-(?=[\\w-]{0,64}\\d)[\\w-]{10,}", // OpenAI, Anthropic
      "[rsp]k_(?:live|test)_\\w{10,}", // Stripe
      "(?:AKIA|ASIA)[0-9A-Z]{16}", // AWS
      "AIza[\\w-]{35}|ya29\\.[\\w-]{20,}|GOCSPX-[\\w-]{20,}", // Google
      "gh[oprsu]_\\w{30,}|github_pat_\\w{30,}",
      "glpat-[\\w-]{20,}",
      "npm_\\w{36}",
      "hf_\\w{30,}",
      "pypi-[\\w-]{40,}",
      "dckr_pat_[\\w-]{20,}", // Docker
      "whsec_\\w{20,}", // Stripe
      "SG\\.[\\w-]{16,64}\\.[\\w-]{16,}", // SendGrid
      "(?:xox[abeoprs]|xapp)-[\\w-]{10,}" // Slack
    ].join("|") + ")",
    "g"
  )
/**
 * Pattern of the white space around a sign or after a word: `least` to 3 characters, or 4 to 16 on one line, as in aligned columns. More
 * than 3 line breaks and indents in a row rather separate a name from names that are nested below it.
 */
const gap = (least: number) => `(?:\\s{${least},3}|[^\\S\\r\\n]{4,16})`
/**
 * Returns a pattern that matches credentials in an `Authorization` header: after `Basic`, `Token` or `ApiKey`, or 16 or more characters with a digit and without
 * such a word. The pattern that `bearer` returns matches bearer tokens.
 */
const header = () => {
  const set = `authorization\\\\?["'\`]?${gap(0)}[:=]${gap(0)}\\\\?["'\`]?`
  const value = "[\\w.~+/-]"
  return new RegExp(
    `(?<=${set}(?:basic|token|api-?key)${gap(1)})${value}{6,}=*|(?<=${set})(?=${value}{0,100}\\d)${value}{16,}=*`,
    "gi"
  )
}
const bearer = () => new RegExp(`(?<=${begins}bearer${gap(1)})(?=[\\w.~+/-]{0,100}\\d)[\\w.~+/-]{16,}=*`, "gi")
/** Matches a JSON Web Token. A match never begins after a dash. Otherwise, a text that repeats `-eyJ…` would take quadratic time. */
const webToken = /(?:(?<![\w-])|(?<=\\[bfnrt]))eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g
const urlPassword = () =>
  new RegExp(
    `(?<=${begins}[a-z][a-z0-9+.-]{1,20}://[^\\s/:@]{0,100}:)[^\\s/@]{1,200}(?=@)`,
    "gi"
  )
/** Pattern of the place where a name may begin: not after a letter or digit. A name may follow an escape, or `_` as in DB_PASSWORD. */
const nameStart = "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrt]))"
/** Pattern of the last word of a password's name, such as `password`, or `Password` in `userPassword`. */
const passwords = "pass(?:word|wd|phrase|code)"
const secrets = "(?:secret|token|(?:api|access|secret|account)[ _-]?key)"
/**
 * Returns a pattern that matches a command-line option and what separates it from its value. Examples: `--db-password ` in a shell, and
 * `--password", ` in a list of arguments.
 */
const option = (names: string) => `(?<![\\w-])-{1,2}(?:[\\w-]{0,40}-)?${names}(?:${gap(1)}|\\\\?["'\`],${gap(0)})`
/** Pattern of the optional purpose of a password, such as "for the guests" in "the password for the guests is". */
const whose = "(?:\\s(?:for|of|to)\\s[^\"'`:=\\n]{1,40})?"
/** Returns a pattern of what separates a name from its value, such as `:`, `=`, `:=`, `=>`, `is`, `is:` or `was`. */
const separator = () => `${gap(0)}(?:[:=]{1,2}>?|=>|(?:is|was)\\b:?)${gap(0)}`
/**
 * Patterns of passwords in quotes. A password has 6 to 200 characters, and may contain spaces. An escaped quote is part of the password if
 * the opening quote is unescaped and an unescaped quote follows on the line. Otherwise, the escaped quote ends the password.
 */
const passphrases = [
  ["(\\\\?[\"'`])", "(?:(?!\\1)(?:\\\\[^\\n]|[^\\\\\\n]))", "\\1"],
  ["(\\\\?[\"'`])", "(?:(?!\\1)[^\\n])", "\\1"],
  ["[“„«]", "[^“”«»\\n]", "[“”»]"],
  ["[‘‚]", "(?:[^‘’\\n]|’(?=\\p{L}))", "’"] // a ’ before a letter is an apostrophe
].map(([opens, within, closes]) =>
  new RegExp(
    `(?<=(?:${passwords}(?:\\\\?["'])?${whose}${separator()}|${
      option(passwords)
    })${opens})${within}{6,200}(?=${closes})`,
    "giu"
  )
)
/**
 * Patterns of the values that follow a name such as password, secret or token. A value contains no spaces. A value must contain a digit,
 * unless it is a password after a colon or an equals sign. The value of a name such as `userPassword` always needs a digit.
 */
const assigned = (() => {
  const quote = "(?:\\\\?[\"'`“„«‘‚])?"
  const set = `${quote}${gap(0)}[:=]${gap(0)}${quote}`
  const is = `${quote}${separator()}${quote}`
  const value = "[^\\s\"'`“”«»‘’,;)\\]}]{6,}(?<!\\\\)"
  const hasDigit = "(?=[^\\s\"']{0,100}\\d)"
  const isQuantity = "[\\d._]{1,10}(?:[\\s\"'`,;)\\]}]|$)"
  return [
    `(?<=${nameStart}(?:PG)?${passwords}${set})${value}`, // does not match `hashPassword = function`
    `(?<=${option(`(?:${passwords}|${secrets})`)}${quote})${hasDigit}(?![$/~<.\\\\-]|${isQuantity})${value}`,
    `(?<=${nameStart}pwd${set})(?![/~.\\\\$]|[a-z]:)${value}`, // `pwd` may also name a directory
    `(?<=${passwords}${is})${hasDigit}${value}`,
    `(?<=${secrets}${is})${hasDigit}(?!${isQuantity})${value}`
  ].map((pattern) => new RegExp(pattern, "gi"))
})()
/**
 * Whether a value may be a secret. False for names of types, and for words such as `required`. Also false for code that reads a secret,
 * such as `process.env` or `getpass.getpass(`.
 */
const isValue = (match: string): boolean =>
  !/^(?:[a-z_$][\w$]*(?:\.[a-z_$][\w$]*)+\(\S*$|this(?:\.\w+)+$|(?:string|number|boolean|required|optional|missing|invalid|incorrect|forgotten|expired|undefined|unknown)[.!?|]*$|process\.env\b|import\.meta\b|os\.environ\b|\$\{)/i
    .test(match)
/** Pattern of the separator between two groups of a card number: a space or a dash, also a non-breaking one. */
const between = "[ \\u00a0\\u202f\\u2010-\\u2013-]"
/**
 * Returns a pattern that matches card numbers by first digits and length. First digits 22 to 27, or first digit 5: 16 digits. First digit
 * 3: 14 to 16 digits, depending on the second digit. First digit 4: 13, 16 or 19 digits. First digit 6: 16 to 19 digits. Longer or shorter
 * numbers are not cards but, for example, times, order numbers or ids.
 */
const cardNumber = () =>
  new RegExp(
    "(?<![\\w.+-])(?:" + [
      "4\\d{12}(?:\\d{3}){0,2}",
      "5\\d{15}",
      "6\\d{15,18}",
      "2[2-7]\\d{14}",
      "3(?:[0689]\\d{12}|[47]\\d{13}|5\\d{14})",
      `(?:[3-6]\\d{3}|2[2-7]\\d\\d)(${between})\\d{4}\\1\\d{4}\\1\\d{4}`,
      `3[47]\\d\\d(${between})\\d{6}\\2\\d{5}`
    ].join("|") + ")(?![\\w-])",
    "g"
  )
/**
 * Matches an e-mail address, together with all addresses that follow without a separator. One mark replaces them all. If only the first
 * were replaced, redacting the result again would find another address.
 */
const email = /(?<![\w.+-])(?:[\w.+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})+/gi

/**
 * Checks a number by Luhn's formula. Every second digit from the right is doubled. If the result has two digits, 9 is subtracted. The sum
 * of all digits must be a multiple of ten.
 */
const hasCheckDigit = (match: string): boolean => {
  const digits = Array.from(match.replace(/\D/g, ""), Number).reverse()
  const sum = digits.reduce((sum, digit, n) => sum + (n % 2 === 0 ? digit : digit < 5 ? digit * 2 : digit * 2 - 9), 0)
  return sum % 10 === 0
}

/** Redacts a text. A value that is not a string is returned unchanged. */
export type Redact = (text: string) => string

/** Puts a text on one line, as summaries are shown. */
export const onOneLine = (text: string): string => text.replace(/\s+/g, " ").trim()

/** Redacts a draft. `redactLine` also finds the secrets that appear when the text is put on one line. */
export const draftOf = (redact: Redact, redactLine: Redact, draft: Draft): Draft => {
  const { actor, reference } = draft.source ?? {}
  return {
    ...redactFields(redact, redactLine, draft),
    ...(draft.source && {
      source: {
        ...draft.source,
        ...(actor !== undefined && { actor: redact(actor) }),
        ...(reference !== undefined && { reference: redact(reference) })
      }
    })
  } as Draft // the cast: redaction keeps the types of the draft's fields
}

/**
 * Redacts the fields that both drafts and patches have. Absent fields stay absent, except the summary. It is set if the store would derive
 * a summary with a secret from the redacted body, such as a card number whose groups are on four lines.
 */
export const redactFields = <A extends Pick<Patch, "summary" | "body" | "tags" | "data" | "metadata" | "links">>(
  redact: Redact,
  redactLine: Redact,
  fields: A
) => {
  const { body: givenBody, data, links, metadata, summary: givenSummary, tags, ...rest } = fields
  const body = givenBody === undefined ? undefined : redact(givenBody)
  const summary = givenSummary === undefined
    ? derivedSummary(redact, body)
    : redactSummary(redact, redactLine, givenSummary, fields)
  return {
    ...rest,
    ...(body !== undefined && { body }),
    ...(summary !== undefined && { summary }),
    ...(tags !== undefined && { tags: json(redact, tags) }),
    ...(data !== undefined && { data: json(redact, data) }),
    ...(metadata !== undefined && { metadata: json(redact, metadata) }),
    ...(links !== undefined && { links: Array.isArray(links) ? links.map((link) => linkOf(redact, link)) : links })
  }
}

/** Returns the redacted summary of a body, or `undefined` if the summary that the store would derive has no secret. */
const derivedSummary = (redact: Redact, body: string | undefined): string | undefined => {
  if (typeof body !== "string") return undefined
  const summary = summarise(redact, body)
  return summary === deriveSummary(body) ? undefined : summary
}

/**
 * Redacts a summary. A summary that was cut may end with a part of a secret, which no pattern matches. If the summary was derived from the
 * body or from a string in `data`, it is therefore derived again from that text after redaction.
 */
const redactSummary = (
  redact: Redact,
  redactLine: Redact,
  summary: string,
  { body, data }: Pick<Patch, "body" | "data">
): string => {
  if (typeof summary !== "string" || !summary.endsWith("…")) return redactLine(summary)
  const texts = stringsIn(data)
  // the summary of a fact is made of several strings
  const source = [...stringsIn(body), ...texts, texts.join(" ")].find((text) => deriveSummary(text) === summary)
  return source === undefined ? redactLine(summary) : summarise(redact, source)
}

/** Derives a summary from a text after redaction of the text's beginning. The beginning is longer than a summary and most secrets in it. */
const summarise = (redact: Redact, text: string): string => {
  const head = onOneLine(text.trimStart().slice(0, 4_096)).slice(0, 400)
  const redacted = redact(head)
  return deriveSummary(redacted === head ? text : redacted)
}

const stringsIn = (value: unknown, depth = 0): ReadonlyArray<string> =>
  typeof value === "string"
    ? [value]
    : typeof value === "object" && value !== null && depth <= maxDepth
    ? Object.values(value).flatMap((within) => stringsIn(within, depth + 1))
    : []

const linkOf = (redact: Redact, link: typeof Link.Type): typeof Link.Type =>
  Predicate.isRecord(link) && typeof link.type === "string" ? { ...link, type: redact(link.type) } : link

/** Redacts the strings in a JSON value, but not the keys. Returns `value` itself if there is nothing to redact. */
export const json = <A extends Json>(redact: Redact, value: A): A => {
  /** `name` is the key of the value, or of the array around the value. */
  const walk = (value: Json, depth: number, name: string): Json => {
    if (typeof value === "string") {
      const redacted = redact(value)
      return redacted === value ? named(redact, name, value) : redacted
    }
    if (typeof value !== "object" || value === null || depth > maxDepth) return value
    if (Array.isArray(value)) {
      const all = value.map((item) => walk(item, depth + 1, name))
      return all.every((item, n) => Object.is(item, value[n])) ? value : all
    }
    const entries = Object.entries(value)
    const all = entries.map(([key, field]) => [key, walk(field, depth + 1, PromptText.reveal(key))] as const)
    return all.every(([, field], n) => Object.is(field, entries[n]![1])) ? value : Object.fromEntries(all)
  }
  return walk(value, 0, "") as A // `walk` replaces strings by strings only
}

/** Redacts a string together with its key (`password="…"`) if the key may name a secret. Some patterns need the key. */
const named = (redact: Redact, key: string, value: string): string => {
  if (!/pass|pwd|secret|token|key|authorization/i.test(key)) return value
  // quotes are tried first, since only a quoted value may contain spaces
  for (const quote of ["\"", ""]) {
    const before = `${key}=${quote}`
    const given = quote === "" ? value : value.replace(/["\\]/g, "\\$&")
    const redacted = redact(before + given + quote)
    const within = redacted.slice(before.length, redacted.length - quote.length)
    const isNamed = redacted.startsWith(before) && redacted.endsWith(quote)
    if (isNamed && within !== given) return quote === "" ? within : within.replace(/\\(["\\])/g, "$1")
  }
  return value
}
