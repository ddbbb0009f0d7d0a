/** The file that a vault writes for a record of each kind is the one that docs/kinds.md shows, where only the line `hash` is left out. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Emotion from "../../src/domain/Emotion.ts"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as AgenticMemory from "../../src/kinds/AgenticMemory.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import { MemoryStore } from "../../src/storage/MemoryStore.ts"
import { ada } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"

const scope = { userId: "ada" }
const mira = Viewer.make({ agentId: "mira", actorId: "ada" })
const withAda = { agentId: "mira", actorId: "ada" }
/** Makes ids like those in docs/kinds.md. */
const id = (last: string) => MemoryId.make(`01K${last.padStart(23, "0")}`)

/** Writes at least one record of each kind, by the kind's service. Records of plain text are put into the store directly. */
const pages = Effect.gen(function*() {
  const store = yield* MemoryStore
  const episodes = yield* EpisodicMemory.EpisodicMemory
  const tasks = yield* TaskMemory.make
  const facts = yield* SemanticMemory.make
  const procedures = yield* ProceduralMemory.make
  const settings = yield* KeyValueMemory.make("settings")
  const core = yield* CoreMemory.make
  const resources = yield* ResourceMemory.make
  const knowledge = yield* KnowledgeVault.make
  const beliefs = yield* BeliefMemory.make
  const graph = yield* GraphMemory.make
  const notes = yield* AgenticMemory.make
  const sessions = yield* SessionMemory.make

  const plain = (last: string, kind: string, body: string, fields: Partial<Draft> = {}) =>
    store.put(ada, [{ id: id(last), scope, kind, body, ...fields }])
  yield* plain("ME", "user", "Ada is a mathematician.\n\nShe likes short answers.")
  yield* plain("FBK", "feedback", "No semicolons.", { importance: 0.75 })
  yield* plain("PRJ", "project", "The engine is to be done by May.", { tags: ["engine"] })
  yield* plain("REF", "reference", "The manual is in the second drawer.")
  yield* plain("WRK", "working", "Half way through chapter 3.")
  yield* episodes.saveEpisode(mira, {
    id: id("TRN"),
    scope: withAda,
    body: "I swam across the lake.",
    importance: 0.6,
    data: {
      context: "The lake",
      emotion: { V: 0.4, A: 0.2, D: 0.5 },
      appraisal: { ...Emotion.NEUTRAL_APPRAISAL, goalCongruence: 0.8, agency: 0.6 },
      intensity: 0.7
    }
  })
  yield* episodes.saveEpisode(mira, {
    id: id("EVT"),
    scope: withAda,
    body: "A blue mug.",
    data: { type: "gift" }
  })
  yield* episodes.saveReflection(mira, {
    id: id("RFX"),
    scope: withAda,
    body: "I am fond of her.",
    data: { trigger: "interaction", emotion: { V: 0.6, A: 0.1, D: 0.5 } }
  })
  yield* tasks.recordEpisode(ada, {
    id: id("TSK"),
    scope,
    body: "The cache was stale.",
    data: {
      task: {
        taskId: "42",
        taskType: "release",
        action: "deploy the engine",
        outcome: "failure",
        learnings: ["Clear the cache first."],
        durationMs: 90_000
      }
    }
  })
  yield* facts.storeFact(ada, {
    id: id("FACT"),
    scope,
    body: "",
    confidence: 0.9,
    validAt: Date.UTC(2025, 4, 1),
    data: { subject: "Ada", predicate: "lives in", object: "Bern", domain: "people" }
  })
  yield* procedures.storeProcedure(ada, {
    id: id("PRC"),
    scope,
    body: "",
    data: {
      name: "deploy",
      steps: [{ action: "build" }, { action: "upload", parameters: { to: "staging" }, preconditions: ["it is green"] }],
      triggers: ["ship it"],
      successes: 3,
      executions: 4
    }
  })
  yield* settings.set(ada, "theme", "dark", { tags: ["look"] })
  yield* settings.set(ada, "editor", { tabs: 2, rulers: [80, 120] })
  yield* core.setIdentity(
    mira,
    { name: "Mira", role: "companion", constraints: ["never guess"], capabilities: ["maps"], temperament: "balanced" },
    "You are Mira. Speak plainly."
  )
  yield* resources.store(ada, {
    id: id("RSC"),
    scope,
    body: "How the engine is built.",
    data: { type: "url", location: "https://example.org/engine", mimeType: "text/html", lastModified: 0 }
  })
  yield* knowledge.store(ada, {
    id: id("VAT"),
    scope,
    body: "One place for all of it.",
    links: [{ to: id("RSC"), type: "related_to", weight: 1 }],
    data: { title: "Monorepo", category: "decision" }
  })
  yield* beliefs.retain(ada, {
    id: id("BEF"),
    scope,
    body: "",
    data: { subject: "Ada", predicate: "prefers", object: "tea", sourceType: "observation" }
  })
  yield* beliefs.reinforce(ada, id("BEF"), 0.5, { reason: "she ordered it again", evidence: [id("TRN")] })
  yield* graph.addEntity(ada, {
    id: id("ENA"),
    scope,
    body: "Wrote the first program, for the engine of [[Charles Babbage]].",
    data: { name: "Ada Lovelace", type: "person", properties: { born: 1815 } }
  })
  yield* graph.addEntity(ada, { id: id("ENC"), scope, body: "", data: { name: "Charles Babbage", type: "person" } })
  yield* graph.relate(ada, { from: id("ENA"), to: id("ENC"), type: "works_with", weight: 0.9 })
  const retries = "The Payments Gateway retries failed webhooks with exponential backoff."
  yield* notes.store(ada, { id: id("NTA"), scope, body: retries })
  yield* notes.store(ada, { id: id("NTB"), scope, body: `${retries} It gives up after a day.` })
  yield* notes.link(ada, id("NTB"), yield* notes.suggestLinks(ada, id("NTB")))
  const session = yield* sessions.start(ada, "monday")
  yield* session.recordLearning("Uploads fail behind the proxy.", { confidence: 0.8, context: "CI" })
  yield* session.recordTask("Try the upload by hand first.")
  yield* session.recordError("ECONNRESET on upload", "Raise the proxy's timeout.")
}).pipe(Effect.provide(EpisodicMemory.layer))

it.scoped("a record of each kind is written to the path and with the text that docs/kinds.md shows, apart from the line `hash`", () =>
  Effect.gen(function*() {
    const root = yield* place
    yield* TestClock.setTime(Date.UTC(2026, 0, 1))
    const { store } = yield* opened(root)
    yield* Effect.provideService(pages, MemoryStore, store).pipe(Effect.withRandom(Random.make("pages")))
    const text = fs.readFileSync(path.join(import.meta.dirname, "../../docs/kinds.md"), "utf8")
    const shown = Object.fromEntries(
      Array.from(
        text.matchAll(/^`([^`\n]+\.md)`\n\n(`{3,})markdown\n([^]*?)\n\2$/gm),
        ([, at, , page]) => [at!, `${page!}\n`]
      )
    )
    const written = Object.entries(files(root)).map((
      [at, page]
    ) => [at, page.replace(/\nhash: [0-9a-f]{64}\n---\n/, "\n---\n")])
    assert.deepStrictEqual(shown, Object.fromEntries(written))
  }))
