/** Hashes and signatures: known values, and equal results with and without node:crypto. */
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as Digest from "../../src/domain/Digest.ts"
import * as HashNode from "../../src/domain/internal/HashNode.ts"
import * as HashPortable from "../../src/domain/internal/HashPortable.ts"

const texts = FastCheck.oneof(Arbitrary.make(Schema.String), FastCheck.string({ unit: "binary", maxLength: 300 }))
const bytes = FastCheck.uint8Array({ maxLength: 300 })

describe("Digest", () => {
  it("the hash of `abc` and the signature of one text equal examples in FIPS 180-4 and RFC 4231", () => {
    for (const Hash of [Digest, HashNode, HashPortable]) {
      assert.strictEqual(Hash.sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
      assert.strictEqual(
        Hash.sign("Jefe", "what do ya want for nothing?"),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
      )
    }
  })

  it.prop(
    "the hash of any text or bytes is the same with and without `node:crypto`",
    [texts, bytes],
    ([text, content]) => {
      assert.strictEqual(HashPortable.sha256(text), HashNode.sha256(text))
      assert.strictEqual(HashPortable.sha256(content), HashNode.sha256(content))
      assert.deepStrictEqual(Array.from(HashPortable.sha256Bytes(text)), Array.from(HashNode.sha256Bytes(text)))
    }
  )

  it.prop(
    "the signature of any content with any key is the same with and without `node:crypto`",
    [texts, texts, bytes],
    ([key, text, content]) => {
      assert.strictEqual(HashPortable.sign(key, text), HashNode.sign(key, text))
      assert.strictEqual(HashPortable.sign(key, content), HashNode.sign(key, content))
    }
  )

  it.prop(
    "the signature of content that is passed in parts equals the signature of the whole content",
    [texts, FastCheck.array(bytes, { maxLength: 4 })],
    ([key, parts]) => {
      for (const Hash of [Digest, HashNode, HashPortable]) {
        const signer = Hash.signer(key)
        for (const part of parts) signer.add(part)
        assert.strictEqual(signer.end(), Hash.sign(key, Buffer.concat(parts)))
      }
    }
  )

  it("a text with a lone surrogate has the same hash as the text with U+FFFD in its place", () => {
    for (const Hash of [HashNode, HashPortable]) assert.strictEqual(Hash.sha256("a\ud800b"), Hash.sha256("a\ufffdb"))
  })

  it("`secretBytes` returns as many bytes as requested, even beyond the platform's limit for one call", () => {
    for (const Hash of [HashNode, HashPortable]) {
      for (const length of [0, 1, 32, 65_537]) assert.lengthOf(Hash.secretBytes(length), length)
      assert.isTrue(Hash.secretBytes(131_073).subarray(131_040).some((byte) => byte !== 0))
    }
  })
})
