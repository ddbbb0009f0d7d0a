/** What patterns find, and what they leave alone. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Redaction from "../../src/host/Redaction.ts"

const redact = Redaction.byPatterns({ emails: true })
const key = (text: string, length: number) => text + "a1B2c3D4".repeat(8).slice(0, length)
// in parts, so that no scanner of repositories takes them for real
const pem = (end = "") => `-----BEGIN ${"RSA PRIVATE"} KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow+/=\nAAAA\n${end}`
const jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "c2lnbmF0dXJl-_"].join(".")

describe("Redaction.byPatterns", () => {
  it.each<readonly [string, string, string]>([
    ["a key of OpenAI", `it is ${key("sk-", 20)}.`, "it is (redacted key)."],
    ["a key of Anthropic", key("sk-ant-api03-", 40), "(redacted key)"],
    ["a key of AWS", "AKIAIOSFODNN7EXAMPLE", "(redacted key)"],
    ["a key of GitHub", key("ghp_", 36), "(redacted key)"],
    ["a private key", `mine:\n${pem("-----END RSA PRIVATE KEY-----")}\nthanks`, "mine:\n(redacted key)\nthanks"],
    ["a private key that was cut", pem(), "(redacted key)"],
    ["a web token", `${jwt} expired`, "(redacted token) expired"],
    ["a bearer token", "Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer (redacted token)"],
    ["the password of a URL", "postgres://ada:s3cr3t@db:5432/x", "postgres://ada:(redacted token)@db:5432/x"],
    [
      "a password that is said",
      "The password is hunter22, and no more",
      "The password is (redacted token), and no more"
    ],
    ["a password that is set", "password=correct-horse; x", "password=(redacted token); x"],
    ["a token in JSON", `{"api_key": "q1w2e3r4t5"}`, `{"api_key": "(redacted token)"}`],
    ["a card", "pay with 4111 1111 1111 1111 12 times", "pay with (redacted card) 12 times"],
    ["a card without spaces", "5555555555554444", "(redacted card)"],
    ["an American Express card", "3782-822463-10005.", "(redacted card)."],
    ["an address of e-mail", "Write to ada.l+x@example.co.uk.", "Write to (redacted email)."]
  ])("finds %s", (_, text, expected) => {
    assert.deepStrictEqual(redact(text), { text: expected, count: 1 })
    assert.deepStrictEqual(redact(expected), { text: expected, count: 0 })
  })

  it.each([
    "Order 4111111111111112, tracked at 1731234567890",
    "01JCZ8Q6Z4K3T9V2M7N5P1R8S0 and 8c7dd922ad47494fc02c388e12c00eac4f3b0c1d2e3f4a5b6c7d8e9f0a1b2c3d",
    "The token is expired, the secret is patience, the key is to listen",
    "token: string, sk-learn-tools, ask-me-anything, Bearer of bad news",
    "https://example.com:8080/a@b, @ada, git@host",
    "call +351 912 345 678 on 2026-11-24 at 13:30"
  ])("leaves alone: %s", (text) => assert.deepStrictEqual(redact(text), { text, count: 0 }))

  it("finds what is asked for and nothing else, with patterns of the caller's own", () => {
    const text = `${key("sk-", 20)} ${jwt} 5555555555554444 ada@example.com KD-1234 KD-5678`
    const none = { keys: false, tokens: false, cards: false }
    assert.strictEqual(Redaction.byPatterns()(text).count, 3)
    assert.deepStrictEqual(Redaction.byPatterns(none)(text), { text, count: 0 })
    assert.deepStrictEqual(Redaction.byPatterns({ ...none, patterns: { customer: /KD-\d+/ } })(text), {
      text: text.replace(/KD-\d+/g, "(redacted customer)"),
      count: 2
    })
  })

  it("finds nothing in what it has redacted, whatever the text", () => {
    const parts = FastCheck.oneof(
      FastCheck.fullUnicodeString({ maxLength: 8 }),
      FastCheck.constantFrom(
        key("sk-", 20),
        jwt,
        "password: ",
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
})
