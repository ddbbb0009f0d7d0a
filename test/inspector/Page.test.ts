/** The inspector's page in a real browser, operated by keyboard only. */
import { assert, describe, it } from "@effect/vitest"
import axe from "axe-core"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Page } from "playwright-core"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as McpTokens from "../../src/mcp/McpTokens.ts"
import { folder } from "../cli/Running.ts"
import { pageOf, serving } from "./Browser.ts"
import { ada, drafts, idOf } from "./Inspected.ts"

const heading = (page: Page, name: string | RegExp) => page.getByRole("heading", { level: 1, name }).waitFor()

/** Presses Tab until the first element with this role and name has the focus; fails after 80 presses. */
const tabTo = async (page: Page, role: "button" | "link" | "textbox", name: string | RegExp) => {
  const wanted = page.getByRole(role, { name }).first()
  for (let n = 0; n < 80; n++) {
    if (await wanted.evaluate((element) => element.matches(":focus"))) return
    await page.keyboard.press("Tab")
  }
  throw new Error(`no Tab leads to ${role} ${name}`)
}

const focused = (page: Page) =>
  page.locator(":focus").evaluate((element) => element.getAttribute("aria-label") ?? element.textContent ?? "")

/** Texts that a page or a terminal could interpret as markup or control sequences. */
const hostile = [
  "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
  "[click](javascript:document.title='owned') **bold** # heading",
  "<svg onload=\"document.title='owned'\"></svg>{{7*7}}${7*7}",
  "\u202Ereversed\u202C \u200Bzero \u0007bell \u001B[31mred"
].join("\n")

const hostileDraft: Draft = {
  id: idOf(30),
  scope: { userId: "ada" },
  kind: "user",
  summary: "<script>alert(1)</script> \u202Egnissap",
  body: hostile,
  tags: ["<b>tag</b>"],
  data: { "<i>key</i>": "<script>alert(2)</script>" },
  links: [{ to: idOf(1), type: "<script>alert(3)</script>", weight: 1 }],
  source: { reference: "javascript:alert(4)" }
}

/** Views of the inspector. All but the trash have content. */
const views = [
  "search?q=coffee",
  "timeline",
  "prompt?q=tea",
  "trash",
  `record/${idOf(1)}`,
  `record/${idOf(30)}`,
  `graph/${idOf(1)}`
]

/** Script that runs axe in the page, and returns each violation with its element. */
const run =
  `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then(({ violations }) => ({
  violations: violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ": " + html.slice(0, 120) + " " + failureSummary))
}))`

describe("the inspector's page", () => {
  it.scopedLive("a user can search, open, edit, forget and restore records and move in the graph with the keyboard alone", () =>
    Effect.gen(function*() {
      const { url } = yield* serving(ada, drafts, ["--user", "ada"])
      const { page, wrong } = yield* pageOf(url)
      yield* Effect.promise(async () => {
        await page.goto(url)
        await page.getByText("The newest 4 memories").first().waitFor()
        await page.keyboard.press("Shift+Tab") // moves the focus out of the field
        await page.keyboard.press("/")
        await page.keyboard.type("never coffee")
        await page.keyboard.press("Enter")
        await page.getByRole("img", { name: "score 1.00 of 1" }).first().waitFor()
        assert.match(await page.getByRole("status").innerText(), /^1 hit/)
        await tabTo(page, "link", "Tea")
        await page.keyboard.press("Enter")
        await heading(page, "Tea")

        await page.keyboard.press("e")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Drinks green tea. See [[Kettle]].")
        await page.keyboard.press("Control+Enter")
        await page.getByText("Revision 2 (current)").waitFor()
        assert.include(await page.locator(".diff .added").innerText(), "green tea")

        await page.keyboard.press("g")
        await heading(page, "Graph")
        await page.locator(".node").first().waitFor()
        assert.strictEqual(await page.locator(".node").count(), 3)
        assert.match(await focused(page), /^Tea, user, the middle/)
        for (const key of ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"]) {
          await page.keyboard.press(key)
          if ((await focused(page)).startsWith("Kettle")) break
        }
        assert.match(await focused(page), /^Kettle, user, 1 away/)
        await page.keyboard.press("Enter")
        await heading(page, "Kettle")

        await page.keyboard.press("f")
        await page.getByRole("dialog", { name: "Forget this memory?" }).waitFor()
        await page.keyboard.press("Enter")
        await heading(page, "Trash")
        await page.getByRole("heading", { level: 2, name: "Kettle" }).waitFor()
        assert.isFalse(await page.getByRole("button", { name: "Show more" }).isVisible())
        await tabTo(page, "button", "Restore")
        await page.keyboard.press("Enter")
        await page.getByText("The trash is empty.").first().waitFor()

        await page.keyboard.press("t")
        await heading(page, "Timeline")
        await page.getByRole("link", { name: "Kettle" }).waitFor()
        await page.keyboard.press("?")
        await page.getByRole("dialog", { name: "Keys" }).waitFor()
        await page.keyboard.press("Escape")
        await page.keyboard.press("p")
        await heading(page, "Next prompt")
        await page.keyboard.type("Would she like tea?")
        await page.keyboard.press("Control+Enter")
        await page.getByText("shown", { exact: true }).first().waitFor()
      })
      assert.deepStrictEqual(wrong, [])
    }))

  it.scopedLive("a conflicting edit shows the record's current text, and overwrites the text only if the user confirms", () =>
    Effect.gen(function*() {
      const { url } = yield* serving(ada, drafts, ["--user", "ada"])
      const { page, wrong } = yield* pageOf(url)
      yield* Effect.promise(async () => {
        await page.goto(`${url}/#/record/${idOf(4)}`)
        await heading(page, "Matches")
        await page.keyboard.press("e")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Mine.")
        const theirs = await fetch(`${url}/api/records/${idOf(4)}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ revision: 1, patch: { body: "Theirs." } })
        })
        assert.strictEqual(theirs.status, 200)
        await page.keyboard.press("Control+Enter")
        const conflict = page.getByRole("region", { name: "Conflict" })
        await conflict.waitFor()
        assert.include(await conflict.innerText(), "Theirs.")
        assert.include(await (await fetch(`${url}/api/records/${idOf(4)}`)).text(), "Theirs.")
        await page.keyboard.press("Enter") // presses the focused button "Save mine over it"
        await page.getByText("Revision 3 (current)").waitFor()
        assert.strictEqual(await page.locator(".body").innerText(), "Mine.")
      })
      assert.deepStrictEqual(wrong, [])
    }))

  it.scopedLive("a record full of scripts and Markdown is shown as text, with invisible characters made visible", () =>
    Effect.gen(function*() {
      const { url } = yield* serving(ada, [...drafts, hostileDraft], ["--user", "ada"])
      const { page, wrong } = yield* pageOf(url)
      yield* Effect.promise(async () => {
        for (
          const view of [
            "search?q=script",
            "timeline",
            "prompt?q=script",
            `record/${idOf(30)}`,
            `graph/${idOf(30)}`
          ]
        ) {
          await page.goto(`${url}/#/${view}`)
          await page.locator("main[aria-busy=false]").waitFor()
          await page.getByText("<script>").first().waitFor()
          assert.strictEqual(
            await page.locator("main script, main img, main b, main i, main [onload], main [onerror]").count(),
            0
          )
          assert.strictEqual(await page.locator("main a[href^='javascript']").count(), 0)
          assert.notInclude(await page.title(), "owned")
          // eslint-disable-next-line no-control-regex
          assert.notMatch(await page.locator("main").innerText(), /[\u202a-\u202e\u200b\u0007\u001b]/, view)
        }
        await page.goto(`${url}/#/record/${idOf(30)}`)
        await page.getByRole("heading", { level: 1 }).waitFor()
        const body = await page.locator(".body").innerText()
        for (const escape of ["\\u202e", "\\u200b", "\\u0007", "\\u001b[31m"]) assert.include(body, escape)
        assert.include(body, "<img src=x onerror=")
        assert.include(body, "**bold**")
        assert.strictEqual(await page.evaluate("document.cookie"), "")
      })
      assert.deepStrictEqual(wrong, [])
    }))

  it.scopedLive("the colours follow the system until the user selects a theme, and a reload keeps the selected theme", () =>
    Effect.gen(function*() {
      const { url } = yield* serving(ada, drafts, ["--user", "ada"])
      const { page } = yield* pageOf(url, { colorScheme: "dark" })
      const isDark = () =>
        page.evaluate<string>("getComputedStyle(document.body).backgroundColor").then((colour) =>
          Number(/\d+/.exec(colour)?.[0]) < 128
        )
      yield* Effect.promise(async () => {
        await page.goto(url)
        assert.isTrue(await isDark())
        await page.emulateMedia({ colorScheme: "light" })
        assert.isFalse(await isDark())
        await tabTo(page, "button", /^Theme/)
        await page.keyboard.press("Enter")
        await page.keyboard.press("Enter")
        assert.strictEqual(await focused(page), "Theme: dark")
        assert.isTrue(await isDark())
        await page.reload()
        assert.isTrue(await isDark())
      })
    }))

  it.scopedLive("axe finds no violation of WCAG 2.2 at level AA in any view of the page, in both colour schemes, at two widths", () =>
    Effect.gen(function*() {
      const { url } = yield* serving(ada, [...drafts, hostileDraft], ["--user", "ada"])
      for (const colorScheme of ["light", "dark"] as const) {
        for (const width of [380, 1000]) {
          const { page, wrong } = yield* pageOf(url, { colorScheme, viewport: { width, height: 760 } })
          for (const view of views) {
            yield* Effect.promise(async () => {
              await page.goto(`${url}/#/${view}`)
              await page.locator("main[aria-busy=false]").waitFor()
              await page.evaluate(axe.source) // not by a script tag, which the page's policy forbids
              const { violations } = await page.evaluate<{ readonly violations: ReadonlyArray<string> }>(run)
              assert.deepStrictEqual(violations, [], `${view}, ${colorScheme}, ${width} wide`)
            })
          }
          assert.deepStrictEqual(wrong, [])
        }
      }
    }))

  it.scopedLive("the page asks for the token, and stores the token neither in `localStorage` nor in the URL", () =>
    Effect.gen(function*() {
      const { line, token } = yield* McpTokens.generate("ada", ada)
      const tokens = path.join(yield* folder, "tokens")
      fs.writeFileSync(tokens, `${line}\n`)
      const { url } = yield* serving(ada, drafts, ["--tokens", tokens])
      const { page, wrong } = yield* pageOf(url)
      yield* Effect.promise(async () => {
        await page.goto(url)
        await heading(page, "A token is needed")
        await page.keyboard.type("em_wrong")
        await page.keyboard.press("Enter")
        await page.getByText("a valid token is needed").first().waitFor()
        await page.keyboard.type(token)
        await page.keyboard.press("Enter")
        await page.getByText("The newest 4 memories").first().waitFor()
        assert.include(await page.locator("footer").innerText(), "user ada")
        assert.strictEqual(await page.evaluate("localStorage.length"), 0)
        assert.notInclude(page.url(), token)
      })
      assert.deepStrictEqual(wrong, [])
    }))
})
