/** The patterns of Redaction.byPatterns: what they find and what they leave alone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { stableId } from "../../src/domain/MemoryId.ts"
import { deriveSummary, type Draft } from "../../src/domain/MemoryRecord.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Redaction from "../../src/host/Redaction.ts"

const redact = Redaction.byPatterns({ emails: true })
const key = (text: string, length: number) => text + "a1B2c3D4".repeat(8).slice(0, length)
// assembled from parts, so that secret scanners ignore them
const pem = (end = "") => `-----BEGIN ${"RSA PRIVATE"} KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow+/=\nAAAA\n${end}`
const jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "c2lnbmF0dXJl-_"].join(".")

describe("Redaction.byPatterns", () => {
  it.each<readonly [string, string, string]>([
    ["a key of OpenAI", `it is ${key("sk-", 20)}.`, "it is (redacted key)."],
    ["a key of Anthropic", key("sk-ant-api03-", 40), "(redacted key)"],
    ["a key of AWS", "AKIAIOSFODNN7EXAMPLE", "(redacted key)"],
    ["a key of GitHub", key("ghp_", 36), "(redacted key)"],
    ["a private key", `mine:\n${pem("-----END RSA PRIVATE KEY-----")}\nthanks`, "mine:\n(redacted key)\nthanks"],
    ["a private key without its end", pem(), "(redacted key)"],
    ["a web token", `${jwt} expired`, "(redacted token) expired"],
    ["a bearer token", "Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer (redacted token)"],
    ["the password of a URL", "postgres://ada:s3cr3t@db:5432/x", "postgres://ada:(redacted token)@db:5432/x"],
    [
      "a password in a sentence",
      "The password is hunter22, and no more",
      "The password is (redacted token), and no more"
    ],
    ["a passphrase in quotes", `password: "correct horse battery staple", x`, `password: "(redacted token)", x`],
    ["a passphrase with an apostrophe", `passphrase = "it's a long one"`, `passphrase = "(redacted token)"`],
    ["a passphrase in single quotes", "DB_PASSWORD='correct horse battery'", "DB_PASSWORD='(redacted token)'"],
    ["a passphrase in JSON", `{"password": "open the door 22"}`, `{"password": "(redacted token)"}`],
    [
      "a passphrase in escaped JSON",
      "{\\\"password\\\":\\\"open the door\\\"}",
      "{\\\"password\\\":\\\"(redacted token)\\\"}"
    ],
    ["a passphrase in a sentence", "The password is \"open the door\".", "The password is \"(redacted token)\"."],
    ["a passphrase after a colon", "My password is: \"open the door\"", "My password is: \"(redacted token)\""],
    [
      "a passphrase in a sentence in the past tense",
      "The passcode was 'open the door'.",
      "The passcode was '(redacted token)'."
    ],
    [
      "a passphrase in a sentence that says what it is for",
      "The password for the guest wifi is \"open the door\".",
      "The password for the guest wifi is \"(redacted token)\"."
    ],
    ["a passphrase in Go code", `password := "open the door"`, `password := "(redacted token)"`],
    ["a passphrase in PHP code", `'password' => 'open the door',`, `'password' => '(redacted token)',`],
    ["a passphrase in typographic quotes", "password: “it’s a door”", "password: “(redacted token)”"],
    ["a passphrase in single typographic quotes", "password is ‘it’s a door’", "password is ‘(redacted token)’"],
    ["a passphrase in backticks", "passphrase: `open the door`", "passphrase: `(redacted token)`"],
    [
      "a passphrase that contains escaped quotes",
      `password="the \\"big door\\" is open"`,
      `password="(redacted token)"`
    ],
    ["a passphrase that ends with a backslash", `password: "open the door\\"`, `password: "(redacted token)"`],
    ["a passphrase that begins like code", `password: "this.door is open"`, `password: "(redacted token)"`],
    ["a token in backticks", "The token is `q1w2e3r4t5`.", "The token is `(redacted token)`."],
    ["a password after an equals sign", "password=correct-horse; x", "password=(redacted token); x"],
    ["a token in JSON", `{"api_key": "q1w2e3r4t5"}`, `{"api_key": "(redacted token)"}`],
    [
      "a key after an escape of JSON",
      JSON.stringify({ out: `x\n${key("sk-", 20)}` }),
      "{\"out\":\"x\\n(redacted key)\"}"
    ],
    ["a bearer token after an escape", "x\\nBearer abcdefghijklmnop1234", "x\\nBearer (redacted token)"],
    ["a web token after an escape", `x\\n${jwt}`, "x\\n(redacted token)"],
    [
      "a password in escaped JSON",
      "{\\\"password\\\":\\\"hunter22\\\"}",
      "{\\\"password\\\":\\\"(redacted token)\\\"}"
    ],
    [
      "a key in an environment variable",
      `AWS_SECRET_ACCESS_KEY=${key("", 30)}`,
      "AWS_SECRET_ACCESS_KEY=(redacted token)"
    ],
    ["a password in an environment variable", "DB_PASSWORD=hunterhunter", "DB_PASSWORD=(redacted token)"],
    ["a client secret", "client_secret: \"8Q~abcdef01234\"", "client_secret: \"(redacted token)\""],
    ["an access token", "{\"access_token\":\"ya29abcdef01234\"}", "{\"access_token\":\"(redacted token)\"}"],
    ["a refresh token", "refreshToken=q1w2e3r4t5", "refreshToken=(redacted token)"],
    ["the password of a URL without a user", "redis://:s3cr3t@cache:6379", "redis://:(redacted token)@cache:6379"],
    ["a long value", `token: ${"a1".repeat(300)}`, "token: (redacted token)"],
    ["a password named `pwd`", "pwd=hunterhunter", "pwd=(redacted token)"],
    ["a value that begins like a redaction mark", "password: (redactedhunter22", "password: (redacted token)"],
    [
      "a private key of PGP",
      `-----BEGIN ${"PGP PRIVATE"} KEY BLOCK-----\n\nlQdG\n-----END ${"PGP PRIVATE"} KEY BLOCK-----`,
      "(redacted key)"
    ],
    [
      "an option of a command line",
      `mysql --password "two words" -u ada`,
      `mysql --password "(redacted token)" -u ada`
    ],
    [
      "an option in a JSON list of arguments",
      `["--db-password", "two words"]`,
      `["--db-password", "(redacted token)"]`
    ],
    ["an option of PowerShell", "New-User -Password 'two words'", "New-User -Password '(redacted token)'"],
    ["an option without quotes", "login --api-key q1w2e3r4t5 --all", "login --api-key (redacted token) --all"],
    [
      "a password whose name is one word in camel case",
      `{"dbPassword":"two words","x":1}`,
      `{"dbPassword":"(redacted token)","x":1}`
    ],
    ["a token whose name contains its issuer", "githubToken = q1w2e3r4t5", "githubToken = (redacted token)"],
    ["a password in a PostgreSQL variable", "PGPASSWORD=hunterhunter psql", "PGPASSWORD=(redacted token) psql"],
    ["a basic header", "Authorization: Basic YWRhOmxvdmU=", "Authorization: Basic (redacted token)"],
    ["a basic header in JSON", `{"authorization":"Basic YWRhOmxvdmU="}`, `{"authorization":"Basic (redacted token)"}`],
    ["a key of Google", `${key("ya29.", 30)}.`, "(redacted key)."],
    ["a key of PyPI", key("pypi-", 60), "(redacted key)"],
    ["a key of SendGrid", `${key("SG.", 22)}.${key("", 43)}`, "(redacted key)"],
    ["a Slack app key", key("xapp-1-", 30), "(redacted key)"],
    [
      "a password in an aligned column",
      "user:         ada\npassword:     hunter2x9",
      "user:         ada\npassword:     (redacted token)"
    ],
    ["a token before an aligned sign", "api_key           = q1w2e3r4t5", "api_key           = (redacted token)"],
    ["a header without a scheme", "Authorization: 0123456789abcdef", "Authorization: (redacted token)"],
    ["a card number with no-break spaces", "4111\u00a01111\u00a01111\u00a01111", "(redacted card)"],
    ["a card number", "pay with 4111 1111 1111 1111 12 times", "pay with (redacted card) 12 times"],
    ["a card number of 13 digits", "4222222222222", "(redacted card)"],
    ["a card number without spaces", "5555555555554444", "(redacted card)"],
    ["an American Express card number", "3782-822463-10005.", "(redacted card)."],
    ["e-mail addresses with no space between them", "a@b.co_a@b.co+a@b.co.", "(redacted email)."],
    ["an e-mail address", "Write to ada.l+x@example.co.uk.", "Write to (redacted email)."]
  ])("the secret is redacted: %s", (_, text, expected) => {
    assert.deepStrictEqual(redact(text), { text: expected, count: 1 })
    assert.deepStrictEqual(redact(expected), { text: expected, count: 0 })
  })

  it.each([
    "Order 4111111111111112, tracked at 1731234567890",
    "01JCZ8Q6Z4K3T9V2M7N5P1R8S0 and 8c7dd922ad47494fc02c388e12c00eac4f3b0c1d2e3f4a5b6c7d8e9f0a1b2c3d",
    "The token is expired, the secret is patience, the key is to listen",
    "token: string, sk-learn-tools, ask-me-anything, Bearer of bad news",
    "https://example.com:8080/a@b, @ada, git@host",
    "+4111111111111111, password: string, password=required, password: process.env.PASSWORD",
    "token: 128000, bearer infrastructure-as-code, pwd=/home/ada/projects",
    "order 5555555555554, invoice 6011000000001, moment 1731234567898", // valid check digits, but no card of 13 digits begins so
    "card? 4222222222223", // the prefix and length of a card, without a valid check digit
    "password: \"\", password: \"required\", \"password\" is the name of a field, \"password\": 5",
    // valid check digits, but the pattern of cards has no such prefix and length
    "users 305012345678901230 and 512345678901234568, row 3000000000000004",
    "password: z.string().min(8), password = getpass.getpass(), password: this.form.password, secretKey = crypto.randomBytes(32)",
    "Use the --password option, --password-file /run/secrets/db1, --token $CI_TOKEN_1, --secret /run/secrets/db1, a -token 128000",
    "const hashPassword = function(text) and validatePassword = (password) =>, basic understanding, Authorization: required",
    "password:\n      description: whatever a person chose, Authorization: oauth2",
    "call +351 912 345 678 on 2026-11-24 at 13:30"
  ])("the text is left unchanged: %s", (text) => assert.deepStrictEqual(redact(text), { text, count: 0 }))

  it("Redaction.byPatterns redacts only the enabled sorts of secrets and the matches of custom patterns", () => {
    const text = `${key("sk-", 20)} ${jwt} 5555555555554444 ada@example.com KD-1234 KD-5678`
    const none = { keys: false, tokens: false, cards: false }
    assert.strictEqual(Redaction.byPatterns()(text).count, 3)
    assert.deepStrictEqual(Redaction.byPatterns(none)(text), { text, count: 0 })
    assert.deepStrictEqual(Redaction.byPatterns({ ...none, patterns: { customer: /KD-\d+/ } })(text), {
      text: text.replace(/KD-\d+/g, "(redacted customer)"),
      count: 2
    })
  })

  it.effect("`data.password` is redacted as a whole, whatever quotes and backslashes it contains; the same text in `data.note` is kept", () =>
    Effect.gen(function*() {
      const redaction = yield* Redaction.Redaction
      for (const secret of ["abcdef\"ghijkl", "ab\"cdefgh", "ab 'cd' \" efgh 12", "back\\slash99", "\\\"trails99\\"]) {
        const data = { password: secret, note: secret }
        const draft = { scope: { userId: "ada" }, kind: "reference", body: "x", data }
        const [put] = yield* Redaction.mutations(redaction!, Viewer.make({ userId: "ada" }), [{ _tag: "Put", draft }])
        assert.deepInclude(put, { draft: { ...draft, data: { password: "(redacted token)", note: secret } } })
      }
    }).pipe(Effect.provide(Redaction.layer())))

  it("a second redaction of a redacted text finds no secret", () => {
    const parts = FastCheck.oneof(
      FastCheck.fullUnicodeString({ maxLength: 8 }),
      FastCheck.constantFrom(
        key("sk-", 20),
        jwt,
        "password: ",
        "password: \"correct horse",
        "token=",
        " is ",
        "hunter22",
        "4111 1111 1111 1111",
        "a@b.co",
        "https://u:p4ssword@h",
        pem(),
        "\""
      )
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(parts, { maxLength: 8 }), (all) => {
        const once = redact(all.join(""))
        assert.deepStrictEqual(redact(once.text), { text: once.text, count: 0 })
      }),
      { seed: 1, numRuns: 2_000 }
    )
  })

  it("a second redaction finds no secret if a custom pattern matches the name in its own mark or in another mark", () => {
    const patterns = { acme: /acme(-\d+)?/i, "a)b": /(?<end>key|b)\b/u, redacted: /redacted/ }
    const twice = Redaction.byPatterns({ patterns })
    const once = twice(`project acme: and Acme-123, b, ${key("sk-", 20)}, redacted`)
    assert.deepStrictEqual(once, {
      text: "project (redacted acme): and (redacted acme), (redacted a)b), (redacted key), (redacted redacted)",
      count: 5
    })
    assert.deepStrictEqual(twice(once.text), { text: once.text, count: 0 })
  })

  it("the redaction of repetitive texts of 1,000,000 characters ends within ten minutes", () => {
    const all = Redaction.byPatterns({ emails: true })
    const parts = [
      ...[
        "-eyJaaaaaaaa",
        "eyJaaaaaaaa.",
        "eyJ",
        "\\neyJaaaaaaaa",
        "-sk-a",
        "sk-",
        "\\nsk-a",
        "ghp_",
        "xoxb-",
        "-xoxb-a"
      ],
      ...[
        "bearer ",
        "bearer  ",
        "\\nbearer a",
        "a://",
        "ab://a:",
        "aa:",
        "://:",
        "password:",
        "password=\\",
        "token is ",
        "--password ",
        "-a",
        "--a-password \"",
        "password for ",
        "authorization: basic "
      ],
      ...["_token=", "pwd=", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-", " ", "\n", "=", "\\", "\\n", "\""],
      ...["4", "4242 4242 4242 4243 ", "a", "a.", "a@", "a@a.", "a1", "1", "(redacted "]
    ]
    // a quadratic algorithm would exceed the timeout of ten minutes
    for (const part of parts) assert.isAtLeast(all(part.repeat(Math.ceil(1_000_000 / part.length))).count, 0)
  })
})

const put = (redaction: Redaction.Service | undefined, fields: Partial<Draft>) =>
  Effect.map(
    Redaction.mutations(redaction, Viewer.make({ userId: "ada" }), [{
      _tag: "Put",
      draft: { scope: { userId: "ada" }, kind: "reference", body: "x", ...fields }
    }]),
    ([mutation]) => {
      assert(mutation?._tag === "Put")
      return mutation.draft
    }
  )
const withRedaction = (check: (redaction: Redaction.Service) => Effect.Effect<void, unknown>) => () =>
  Effect.flatMap(Redaction.Redaction, (redaction) => check(redaction!)).pipe(Effect.provide(Redaction.layer()))

describe("Redaction.layer", () => {
  it.effect(
    "a secret that is shown once invisible characters are removed is redacted, and so is each other secret of the text",
    withRedaction((redaction) =>
      Effect.gen(function*() {
        const card = "4111111111111111"
        const secret = key("sk-", 30)
        for (const hidden of ["\u200b", "\u00ad", "\ufeff", "\u2060", "\u0000", "\u200d", "\ufe0f"]) {
          for (const at of [4, 10, card.length - 1]) {
            const within = (text: string) => text.slice(0, at) + hidden + text.slice(at)
            for (const text of [card, secret]) {
              const { body } = yield* put(redaction, { body: `it is ${within(text)}.` })
              assert.match(body, /^it is \(redacted (?:card|key)\)\.$/)
            }
            const { body } = yield* put(redaction, { body: `${within(card)}, ${secret}, x${hidden}${card}` })
            assert.match(body, /^\(redacted card\), \(redacted key\), /)
          }
        }
        const { body } = yield* put(redaction, { body: `x\u200b${card}` })
        assert.strictEqual(body, "x(redacted card)")
      })
    )
  )

  it.effect(
    "the invisible characters and line breaks of a text stay if they hide no secret",
    withRedaction((redaction) =>
      Effect.gen(function*() {
        const body = "co\u00adoperate\r\n\u200bwith"
        const summary = "two\t words"
        assert.deepInclude(yield* put(redaction, { body, summary }), { body, summary })
        const { body: kept } = yield* put(redaction, { body: `${body} ${key("sk-", 20)}` })
        assert.strictEqual(kept, `${body} (redacted key)`)
      })
    )
  )

  it.effect(
    "values of fields such as `Authorization`, and strings of arrays in fields such as `secret`, are redacted",
    withRedaction((redaction) =>
      Effect.gen(function*() {
        const fields = (basic: string, token: string) => ({
          Authorization: basic,
          headers: { "proxy-authorization": basic, "pass\u200bword": token },
          secret: [token, "words only", [token]],
          keywords: ["abc12345"],
          note: ["abc12345"]
        })
        const given = fields("Basic dXNlcjpwYXNzd29yZA==", "abc12345")
        const expected = fields("Basic (redacted token)", "(redacted token)")
        const draft = yield* put(redaction, { metadata: given, data: given })
        assert.deepInclude(draft, { metadata: expected, data: expected })
        const again = yield* put(redaction, { metadata: expected, data: expected })
        assert.deepInclude(again, { metadata: expected, data: expected })
        const [message] = yield* Redaction.messages(redaction, Viewer.system(), [{
          ...Message.user("x"),
          data: { headers: given }
        }])
        assert.deepStrictEqual(message?.data, { headers: expected })
      })
    )
  )

  it.effect(
    "a summary contains no secret that appears when line breaks and tabs become spaces, whether it is given or derived",
    withRedaction((redaction) =>
      Effect.gen(function*() {
        const card = (gap: string) => `Card:${gap}${["4111", "1111", "1111", "1111"].join(gap)}`
        for (const gap of ["\n", "\t", "\u2009", "\u3000", "  ", "\u2028"]) {
          for (const before of ["", "words ".repeat(30)]) {
            const derived = yield* put(redaction, { body: before + card(gap) })
            assert.strictEqual(derived.summary, deriveSummary(`${before}Card: (redacted card)`))
          }
          const given = yield* put(redaction, { body: "x", summary: card(gap) })
          assert.strictEqual(given.summary, "Card: (redacted card)")
          const patched = yield* Redaction.mutations(redaction, Viewer.make({ userId: "ada" }), [{
            _tag: "Update",
            id: stableId("x"),
            patch: { body: card(gap) }
          }])
          assert.deepInclude(patched[0], { patch: { body: card(gap), summary: "Card: (redacted card)" } })
        }
        assert.notProperty(yield* put(redaction, { body: `plain ${key("sk-", 20)}\nwords` }), "summary")
      })
    )
  )

  it.effect(
    "a summary that was cut inside a secret is derived again from the redacted text",
    withRedaction((redaction) =>
      Effect.gen(function*() {
        for (let length = 175; length < 201; length++) {
          const text = `${"a".repeat(length)}/${key("sk-", 40)} and so on`
          const summary = deriveSummary(text)
          const object = { subject: "Ada", predicate: "has", object: text }
          for (
            const fields of [
              { body: text, summary },
              { data: { name: text }, summary },
              { data: object, summary: deriveSummary(`Ada has ${text}`) }
            ]
          ) {
            const draft = yield* put(redaction, fields)
            assert.notMatch(`${draft.summary}`, /sk-/)
            assert.isAbove(`${draft.summary}`.length, 170)
          }
        }
      })
    )
  )

  it.effect(
    "a fact that is a string is redacted as a text, and values that are no facts stay",
    withRedaction((redaction) =>
      Effect.gen(function*() {
        const given: ReadonlyArray<unknown> = [`it is ${key("sk-", 20)}`, null, 5, { text: key("sk-", 20) }, [], {
          text: "tea",
          metadata: 5
        }]
        const facts = yield* Redaction.facts(redaction, Viewer.system(), given as ReadonlyArray<{ text: string }>)
        assert.deepStrictEqual<unknown>(facts, ["it is (redacted key)", null, 5, { text: "(redacted key)" }, [], {
          text: "tea",
          metadata: 5
        }])
      })
    )
  )
})

describe("Redaction.rereading", () => {
  it.effect("the secrets in a file are reported once for each new text of the file, even if the first redaction of that text fails", () =>
    Effect.gen(function*() {
      const counts: Array<number> = []
      let isFailing = false
      const redaction: Redaction.Service = {
        redact: (text) => {
          if (isFailing) throw new Error("no memory left")
          return redact(text)
        },
        listen: () => Effect.void,
        report: ({ count }) => Effect.sync(() => void counts.push(count))
      }
      const reread = Redaction.rereading(redaction)
      const secret = `my key is ${key("sk-", 20)}`
      for (const place of ["AGENTS.md", "AGENTS.md", "docs/AGENTS.md"]) {
        assert.strictEqual(yield* reread(place, secret), "my key is (redacted key)")
      }
      assert.deepStrictEqual(counts, [1, 1])
      isFailing = true
      assert.strictEqual((yield* Effect.flip(reread("AGENTS.md", `${secret}, twice`))).reason, "unavailable")
      isFailing = false
      assert.strictEqual(yield* reread("AGENTS.md", `${secret}, twice`), "my key is (redacted key), twice")
      assert.deepStrictEqual(counts, [1, 1, 1])
    }))
})
