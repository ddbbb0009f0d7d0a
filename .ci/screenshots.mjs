/**
 * Makes the pictures of docs/inspector.md, docs/images/*.png: the built command serves a vault of invented memories, and Debian's
 * chromium shows its page. `npm run build` first.
 */
import { NodeContext } from "@effect/platform-node"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Markdown, MemoryId, MemoryStore, Viewer } from "../dist/index.js"
import { addressOf, launch } from "./inspector.mjs"

const root = join(import.meta.dirname, "..")
const images = join(root, "docs/images")
const folder = mkdtempSync(join(tmpdir(), "screenshots-"))
const ada = Viewer.make({ userId: "ada" })
const scope = { userId: "ada" }
const day = 86_400_000
const id = (n) => MemoryId.MemoryId.make(`01JB7Y9QZ3M4N5P6Q7R8S9T0${String(n).padStart(2, "0")}`)

/** Runs an effect as it was some days ago. */
const daysAgo = (days) => (self) => {
  const clock = Clock.make()
  const now = () => clock.unsafeCurrentTimeMillis() - days * day
  // a clock has methods of its prototype, which a copy would lack
  const then = Object.assign(Object.create(clock), {
    unsafeCurrentTimeMillis: now,
    currentTimeMillis: Effect.sync(now)
  })
  return Effect.withClock(self, then)
}

const memories = [
  [
    30,
    "project",
    "Observatory",
    "The observatory on the hill opens on clear nights.\n\nIts telescope is [[Telescope]], its log [[Night log]].",
    ["astronomy"],
    0.7
  ],
  [28, "reference", "Telescope", "A refractor of 1894, 30 cm. The drive needs oil each spring: [[Maintenance]].", [
    "astronomy",
    "instruments"
  ], 0.5],
  [21, "reference", "Night log", "What was seen is written down the same night, in UTC. Begun by [[Grace]].", [
    "astronomy"
  ], 0.5],
  [20, "user", "Grace", "Grace keeps the night log, and prefers short messages before noon.", ["people"], 0.6],
  [
    14,
    "project",
    "Maintenance",
    "**Spring:** oil the drive, clean the dome's rail.\n**Autumn:** check the shutters before the first storm. Ask [[Grace]] for the key.",
    ["instruments"],
    0.8
  ],
  [
    9,
    "user",
    "Drinks tea, never coffee",
    "Drinks tea, never coffee: coffee keeps her awake on observing nights.\nTea is in the kettle room of the [[Observatory]].",
    ["drinks"],
    0.5
  ],
  [
    6,
    "feedback",
    "Give times in UTC",
    "Give times of observations in UTC.\n**Why:** the night log is in UTC, and one entry was an hour off.\n**How to apply:** every time in the [[Night log]].",
    ["astronomy", "style"],
    0.9
  ],
  [
    2,
    "project",
    "Comet night",
    "The comet is best seen on the first clear night of the week, low in the west. Bring tea, and open the [[Telescope]] an hour before.",
    ["astronomy", "plans"],
    0.7
  ],
  [
    1,
    "project",
    "Visit of the school",
    "Twelve pupils come on Thursday. Show the moon first, then the log.",
    ["plans"],
    0.4
  ],
  [1, "user", "Old phone number", "The number of the dome before it changed.", [], 0.2]
]

const program = Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  for (const [n, [days, kind, summary, body, tags, importance]] of memories.entries()) {
    yield* store.put(ada, [{ id: id(n + 1), scope, kind, summary, body, tags, importance }]).pipe(daysAgo(days))
  }
  const change = (n, patch, days) => store.update(ada, id(n), patch).pipe(daysAgo(days))
  yield* change(5, {
    body: memories[4][3].replace("clean the dome's rail", "clean the rail of the dome, grease its wheels")
  }, 5)
  yield* change(5, { importance: 0.9, tags: ["instruments", "plans"] }, 3)
  yield* store.forget(ada, [id(10)])
})
const vault = join(folder, "memory")
await program.pipe(
  Effect.provide(Layer.provide(Markdown.layer({ root: vault }), NodeContext.layer)),
  Effect.scoped,
  Effect.runPromise
)

const child = spawn(
  process.execPath,
  [
    join(root, "dist/cli/effect-memory.mjs"),
    "serve",
    "--ui",
    "--port",
    "0",
    "--store",
    `vault:${vault}`,
    "--user",
    "ada"
  ],
  { stdio: ["ignore", "ignore", "pipe"] }
)
const url = await addressOf(child)
const browser = await launch()

mkdirSync(images, { recursive: true })
const shots = [
  ["search", "light", "search?q=tea+on+a+clear+night", async (page) => {
    await page.locator("details.why summary").first().click()
    await page.locator("h1").first().evaluate(() => document.activeElement?.blur())
  }],
  ["record", "light", `record/${id(5)}`],
  ["graph", "light", `graph/${id(1)}?depth=3`],
  ["timeline", "dark", "timeline"],
  [
    "prompt",
    "dark",
    "prompt?q=When+is+the+comet+best+seen%3F",
    (page) => page.locator("textarea").evaluate((field) => field.blur())
  ],
  ["trash", "light", "trash"]
]
try {
  for (const [name, colorScheme, view, prepare] of shots) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1000, height: 760 } })
    const page = await context.newPage()
    await page.goto(`${url}/#/${view}`)
    await page.locator("main[aria-busy=false]").waitFor()
    await prepare?.(page)
    const path = join(images, `inspector-${name}.png`)
    await page.screenshot({ path, fullPage: name === "record" })
    console.log(path.slice(root.length + 1), statSync(path).size)
    await context.close()
  }
} finally {
  await browser.close()
  child.kill("SIGTERM")
  rmSync(folder, { recursive: true, force: true })
}
