import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { outboxLaws } from "../harness/OutboxLaws.ts"
import { server } from "../postgres/Server.ts"
import { opened } from "./Clusters.ts"
import * as Kill from "./Kill.ts"

describe("an outbox of a cluster", () => {
  for (const { check, title } of outboxLaws) {
    it.scopedLive(title, () => Effect.provide(Effect.scoped(check(opened)), MemoryStore.layerInMemory))
  }
})

// else the run says what the server does not show
if (server.url !== undefined) Kill.suite(server.url)
