/** Makes a tree of instruction files on a real disk. */
import { NodeContext } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import { InstructionFilesConfig } from "../../src/harness/MemorySpec.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

export type Config = ConstructorParameters<typeof InstructionFilesConfig>[0]

/** Makes a temporary folder with these files, until the scope closes. A path with `null` is a directory. */
export const tree = (files: Readonly<Record<string, string | Uint8Array | null>>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
    for (const [name, content] of Object.entries(files)) {
      const path = `${root}/${name}`
      yield* fs.makeDirectory(content === null ? path : path.slice(0, path.lastIndexOf("/")), { recursive: true })
      if (typeof content === "string") yield* fs.writeFileString(path, content)
      else if (content !== null) yield* fs.writeFile(path, content)
    }
    return { fs, root, at: (name: string) => `${root}/${name}` }
  })

export const service = (cwd: string, config?: Config) =>
  Effect.provide(
    InstructionFiles.InstructionFiles,
    InstructionFiles.layer(config, { cwd }).pipe(Layer.provide(MemoryStore.layerInMemory))
  )

export const load = (cwd: string, config?: Config) => Effect.flatMap(service(cwd, config), ({ load }) => load)

export const onDisk = (
  body: Effect.Effect<void, unknown, FileSystem.FileSystem | NodeContext.NodeContext | Scope.Scope>
) => Effect.provide(Effect.scoped(body), NodeContext.layer)

export const told = ({ files, issues }: InstructionFiles.Loaded) => ({
  files: files.map(({ content, label }) => `${label}: ${content}`),
  issues: issues.map(({ message, reason }) => `${reason} ${message}`)
})
