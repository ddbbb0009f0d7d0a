/** The public API, names and signatures, equals the file docs/api.txt, in which a review sees changes. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "./programs.ts"

describe("the public API", () => {
  it("the names and signatures equal docs/api.txt (`npm run api` updates the file)", () => {
    const api = execFileSync(process.execPath, [join(root, ".ci/api.mjs")], { encoding: "utf8" })
    assert.strictEqual(readFileSync(join(root, "docs/api.txt"), "utf8"), api)
  })
})
