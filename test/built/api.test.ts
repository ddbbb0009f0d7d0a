/** The public API, names and signatures, is the file in which a review sees it. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "./programs.ts"

describe("the public API", () => {
  it("is that of docs/api.txt: after a change run `npm run api`, and say in CHANGELOG.md what changed", () => {
    const api = execFileSync(process.execPath, [join(root, ".ci/api.mjs")], { encoding: "utf8" })
    assert.strictEqual(readFileSync(join(root, "docs/api.txt"), "utf8"), api)
  })
})
