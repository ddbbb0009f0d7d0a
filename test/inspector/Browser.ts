/** Opens Debian's chromium, headless, on the inspector that the built command serves from a vault. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import type { BrowserContextOptions, Page } from "playwright-core"
import { addressOf, executablePath, launch } from "../../.ci/inspector.mjs"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import type { Viewer } from "../../src/domain/Viewer.ts"
import { file, folder } from "../cli/Running.ts"
import { opened } from "../vault/Place.ts"

/** A browser, closed with the scope. Fails if chromium is not installed. */
export const browser = Effect.acquireRelease(
  Effect.promise(() => {
    assert.isTrue(fs.existsSync(executablePath), `${executablePath} is missing: apt-get install -y chromium`)
    return launch()
  }),
  (browser) => Effect.promise(() => browser.close())
)

/**
 * Opens an empty page. Records errors (except the statuses 401, 404 and 409), violations of the content security policy, dialogs, and
 * requests to other origins.
 */
export const pageOf = (url: string, options: BrowserContextOptions = {}) =>
  Effect.flatMap(
    browser,
    (browser) =>
      Effect.promise(async (): Promise<{ readonly page: Page; readonly wrong: Array<string> }> => {
        const context = await browser.newContext({ viewport: { width: 1000, height: 760 }, ...options })
        const page = await context.newPage()
        const wrong: Array<string> = []
        page.on("pageerror", (error) => wrong.push(String(error)))
        page.on("dialog", (dialog) => {
          wrong.push(`a dialog: ${dialog.message()}`)
          return dialog.dismiss()
        })
        page.on("console", (message) => {
          if (message.type() === "error" && !/status of (?:401|404|409)/.test(message.text())) {
            wrong.push(message.text())
          }
        })
        page.on("request", (request) => {
          if (!request.url().startsWith(url)) wrong.push(request.url())
        })
        return { page, wrong }
      })
  )

/** Serves a vault with these drafts by the built command. */
export const serving = (viewer: Viewer, drafts: ReadonlyArray<Draft>, args: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const root = path.join(yield* folder, "memory")
    yield* Effect.scoped(
      Effect.flatMap(opened(root), ({ store }) => Effect.forEach(drafts, (draft) => store.put(viewer, [draft])))
    )
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [file, "serve", "--ui", "--port", "0", "--store", `vault:${root}`, ...args], {
          stdio: ["ignore", "ignore", "pipe"]
        })
      ),
      (child) =>
        Effect.promise(() =>
          new Promise((resolve) => {
            if (child.exitCode !== null || child.signalCode !== null) return resolve(undefined)
            child.once("exit", resolve)
            child.kill("SIGTERM")
          })
        )
    )
    const url = yield* Effect.promise(() => addressOf(child))
    return { url, root }
  })
