/** The patterns by which `Redaction.layer` finds secrets, and exceptions that only look like secrets. */

/** A text without its secrets, and their number. */
export interface Redacted {
  readonly text: string
  readonly count: number
}

/** Options of `layer`: the sorts of secrets to find. */
export interface Options {
  /** Private keys, and keys of providers that begin as theirs do: `sk-`, `AKIA`, `ghp_` and others. Default true. */
  readonly keys?: boolean | undefined
  /**
   * JSON Web Tokens, bearer tokens, basic credentials of headers, passwords of URLs, and values that a text or an option of a command
   * calls password, passcode, secret, token or key. Default true.
   */
  readonly tokens?: boolean | undefined
  /** Numbers of 13 to 19 digits that begin as a card's does and have its length and check digit. Default true. */
  readonly cards?: boolean | undefined
  /** Addresses of e-mail. Default false. */
  readonly emails?: boolean | undefined
  /** Patterns of your own, by the name that replaces their matches: `(redacted customer)`. Default none. */
  readonly patterns?: Readonly<Record<string, RegExp>> | undefined
}

interface Rule {
  readonly name: string
  readonly pattern: RegExp
  /** Tells whether a match of the pattern is a secret. Default: each is. */
  readonly accepts?: ((match: string) => boolean) | undefined
}

/** Matches the mark that a redaction left, or its first word. */
const isMark = /^\(redacted(?:$| [^)]{0,100}\))/

/** Makes the function that redacts by patterns; `layer` uses it. Cost: linear in the length of any text. */
export const byPatterns = (options: Options = {}): (text: string) => Redacted => {
  const { cards = true, emails = false, keys = true, patterns = {}, tokens = true } = options
  const rules: ReadonlyArray<Rule> = [
    ...Object.entries(patterns).map(([name, pattern]) => ({
      name,
      pattern: new RegExp(pattern.source, `${pattern.flags.replace(/[gy]/g, "")}g`)
    })),
    ...tokens ? passphrases.map((pattern) => ({ name: "token", pattern, accepts: isValue })) : [],
    ...keys ? [{ name: "key", pattern: privateKey }, { name: "key", pattern: providerKey }] : [],
    ...tokens ? [header, bearer, webToken, urlPassword].map((pattern) => ({ name: "token", pattern })) : [],
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
/** A private key to its end or, where it was cut, to the end of the text. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-(?!----)[^-]*)*(?:-----END [A-Z0-9 ]{0,40}-----)?/g
const providerKey = new RegExp(
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
/** Credentials of a header; those of a bearer stand in any text. */
const header = new RegExp(
  "(?<=authorization\\\\?[\"'`]?\\s{0,3}[:=]\\s{0,3}\\\\?[\"'`]?(?:basic|token|api-?key)\\s{1,3})[\\w.~+/-]{6,}=*",
  "gi"
)
const bearer = new RegExp(`(?<=${begins}bearer\\s{1,3})(?=[\\w.~+/-]{0,100}\\d)[\\w.~+/-]{16,}=*`, "gi")
/** A JSON Web Token with no dash before it: in a text that repeats its beginning each would be tried to the end of the text. */
const webToken = /(?:(?<![\w-])|(?<=\\[bfnrt]))eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g
const urlPassword = new RegExp(
  `(?<=${begins}[a-z][a-z0-9+.-]{1,20}://[^\\s/:@]{0,100}:)[^\\s/@]{1,200}(?=@)`,
  "gi"
)
/** Pattern of the place where a name may begin: as `begins`, or after an underscore (DB_PASSWORD). */
const said = "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrt]))"
/** Pattern of the end of a name that calls its value a password: password, userPassword. */
const passwords = "pass(?:word|wd|phrase|code)"
const secrets = "(?:secret|token|(?:api|access|secret|account)[ _-]?key)"
/** Pattern of an option of a command and what ends it, in a shell or in a list of arguments: `--db-password `, `"--password", `. */
const option = (names: string) => `(?<![\\w-])-{1,2}(?:[\\w-]{0,40}-)?${names}(?:\\s{1,3}|\\\\?["'\`],\\s{0,3})`
/** Pattern of whose password it is: the password for the guests is. */
const whose = "(?:\\s(?:for|of|to)\\s[^\"'`:=\\n]{1,40})?"
/** Pattern of what stands between a name and its value: `:`, `=`, `:=`, `=>`, is, is:, was. */
const says = "\\s{0,3}(?:[:=]{1,2}>?|=>|(?:is|was)\\b:?)\\s{0,3}"
/**
 * Patterns of passwords in quotes, up to the quote that ends them: they may have spaces, and have 200 characters at most. A quote after
 * a backslash is part of the password, unless no other ends it.
 */
const passphrases = [
  ["(\\\\?[\"'`])", "(?:(?!\\1)(?:\\\\[^\\n]|[^\\\\\\n]))", "\\1"],
  ["(\\\\?[\"'`])", "(?:(?!\\1)[^\\n])", "\\1"],
  ["[“„«]", "[^“”«»\\n]", "[“”»]"],
  ["[‘‚]", "(?:[^‘’\\n]|’(?=\\p{L}))", "’"] // a word may have an apostrophe
].map(([opens, within, closes]) =>
  new RegExp(
    `(?<=(?:${passwords}(?:\\\\?["'])?${whose}${says}|${option(passwords)})${opens})${within}{6,200}(?=${closes})`,
    "giu"
  )
)
/** Patterns of values whose name says that they are secret. A password after a colon or an equals sign may be any word; other values have a digit. */
const assigned = (() => {
  const quote = "(?:\\\\?[\"'`“„«‘‚])?"
  const set = `${quote}\\s{0,3}[:=]\\s{0,3}${quote}`
  const is = `${quote}${says}${quote}`
  const value = "[^\\s\"'`“”«»‘’,;)\\]}]{6,}(?<!\\\\)"
  const hasDigit = "(?=[^\\s\"']{0,100}\\d)"
  const isQuantity = "[\\d._]{1,10}(?:[\\s\"'`,;)\\]}]|$)"
  return [
    `(?<=${said}(?:PG)?${passwords}${set})${value}`, // hashPassword = function
    `(?<=${option(`(?:${passwords}|${secrets})`)}${quote})${hasDigit}(?![$/~<.\\\\-]|${isQuantity})${value}`,
    `(?<=${said}pwd${set})(?![/~.\\\\$]|[a-z]:)${value}`, // no directory
    `(?<=${passwords}${is})${hasDigit}${value}`,
    `(?<=${secrets}${is})${hasDigit}(?!${isQuantity})${value}`
  ].map((pattern) => new RegExp(pattern, "gi"))
})()
/**
 * Whether a value is a secret: no type, no remark such as `required`, and no place that it is read from, be it an environment, a field or a
 * function, `getpass.getpass(`.
 */
const isValue = (match: string): boolean =>
  !/^(?:[a-z_$][\w$]*(?:\.[a-z_$][\w$]*)+\(\S*$|this(?:\.\w+)+$|(?:string|number|boolean|required|optional|missing|invalid|incorrect|forgotten|expired|undefined|unknown)[.!?|]*$|process\.env\b|import\.meta\b|os\.environ\b|\$\{)/i
    .test(match)
/** Pattern of what stands between the groups of a card number: a space or a dash, also one that breaks no line. */
const between = "[ \\u00a0\\u202f\\u2010-\\u2013-]"
/**
 * Card numbers by the lengths that their issuers give them. Only Visa has cards of 13 digits, only cards that begin with 6 have 17 or
 * 18, and none that begins with 3 or 5 has more than 16: other numbers are times, orders, articles, ids.
 */
const cardNumber = new RegExp(
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
/** Addresses of e-mail. Those that follow one without a space are taken with it: only the next redaction would find them. */
const email = /(?<![\w.+-])(?:[\w.+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})+/gi

/** Luhn's formula: from the right, every second digit counts double, and all add up to a multiple of ten. */
const hasCheckDigit = (match: string): boolean => {
  const digits = Array.from(match.replace(/\D/g, ""), Number).reverse()
  const sum = digits.reduce((sum, digit, n) => sum + (n % 2 === 0 ? digit : digit < 5 ? digit * 2 : digit * 2 - 9), 0)
  return sum % 10 === 0
}
