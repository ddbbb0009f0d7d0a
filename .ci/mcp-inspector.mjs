/**
 * Lists and calls what the built command serves, over both transports, with the command line of MCP's own inspector. Needs
 * `npm run build` and the registry. Ends with 1 where an answer is not as it should be.
 */
import { strict as assert } from "node:assert"
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const command = join(import.meta.dirname, "../dist/cli/effect-memory.mjs")
const place = mkdtempSync(join(tmpdir(), "effect-memory-"))
const store = ["serve", "--store", `vault:${join(place, "vault")}`, "--user", "ada"]

/** Asks the inspector for a method of a server, and returns the answer; the inspector's exit code is 1 where that is an error of a tool. */
const asked = (server, method, ...rest) => {
  const args = ["--yes", "@modelcontextprotocol/inspector@2", "--cli", ...server, "--method", method, ...rest]
  const { stderr, stdout } = spawnSync("npx", args, { cwd: place, encoding: "utf8", timeout: 300_000 })
  assert.notEqual(stdout, "", stderr)
  return JSON.parse(stdout)
}

/** Checks all that a server lists, and that what is remembered is recalled. */
const check = (server, drink) => {
  assert.deepEqual(asked(server, "tools/list").tools.map(({ name }) => name), ["remember", "recall", "forget"])
  assert.deepEqual(asked(server, "resources/list").resources.map(({ uri }) => uri), ["memory://index"])
  assert.deepEqual(
    asked(server, "resources/templates/list").resourceTemplates.map(({ uriTemplate }) => uriTemplate),
    ["memory://record/{id}"]
  )
  assert.deepEqual(asked(server, "prompts/list").prompts.map(({ name }) => name), ["recall", "review"])
  const call = (name, ...args) =>
    asked(server, "tools/call", "--tool-name", name, ...args.flatMap((arg) => ["--tool-arg", arg]))
  const { structuredContent: { id } } = call(
    "remember",
    "kind=user",
    `summary=Drinks ${drink}`,
    `body=Ada drinks ${drink}.`
  )
  assert.match(JSON.stringify(call("recall", `query=${drink}`)), new RegExp(`Ada drinks ${drink}`))
  assert.match(JSON.stringify(asked(server, "resources/read", "--uri", `memory://record/${id}`)), new RegExp(drink))
  assert.equal(call("forget", `id=${id}`).structuredContent.removed, true)
  assert.equal(call("forget", "id=nothing").isError, true)
}

check(["node", command, ...store], "tea")
console.log("stdio: the inspector lists and calls")

const serving = spawn(process.execPath, [command, ...store, "--http", "--port", "0"], {
  stdio: ["ignore", "ignore", "pipe"]
})
try {
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: serving.stderr }).on("line", (line) => {
      const found = /http:\S+\/mcp/.exec(line)?.[0]
      if (found !== undefined) resolve(found)
    })
    serving.once("exit", (code) => reject(new Error(`the server ended with ${code}`)))
  })
  check([url, "--transport", "http"], "coffee")
  console.log("streamable HTTP: the inspector lists and calls")
} finally {
  serving.kill("SIGINT")
  rmSync(place, { recursive: true, force: true })
}
