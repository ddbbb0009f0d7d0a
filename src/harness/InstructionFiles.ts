/** AGENTS.md and its like, from the root of the tree down to where the agent works. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../domain/Digest.ts"
import type * as MemoryError from "../domain/MemoryError.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { deriveSummary, type Draft, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { Global } from "../domain/MemoryScope.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as InstructionTree from "./InstructionTree.ts"
import { InstructionFilesConfig } from "./MemorySpec.ts"
import { fenced, line } from "./PromptBlock.ts"

export type { InstructionFile, Loaded } from "./InstructionTree.ts"

export interface Service {
  /** Root first. A file that cannot be read is an issue, and the rest is there. */
  readonly load: Effect.Effect<InstructionTree.Loaded>
  /** `""` without files. */
  readonly render: Effect.Effect<string>
  /**
   * Puts them in the tenant's Global scope, read-only, and forgets those that vanished; what is there already is left
   * alone. Nothing under `seedMemory: false`. A file that cannot be put is logged; fails where none could.
   */
  readonly seed: (system: Viewer.System) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>
}

export class InstructionFiles extends Context.Tag("@memory/InstructionFiles")<InstructionFiles, Service>() {}

export const layer = (
  config: ConstructorParameters<typeof InstructionFilesConfig>[0] = {},
  /** Default: the process's. Not part of the spec. */
  options: { readonly cwd?: string | undefined } = {}
): Layer.Layer<InstructionFiles, never, MemoryStore.MemoryStore | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    InstructionFiles,
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const disk = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
      const settings = new InstructionFilesConfig(config)
      const open = Effect.provide(InstructionTree.open(options.cwd ?? ".", settings), disk)
      const load = Effect.flatMap(open, ({ load }) => load).pipe(
        Effect.catchAll((issue) => Effect.succeed({ files: [], issues: [issue] })),
        Effect.withSpan("InstructionFiles.load")
      )
      return {
        load,
        render: Effect.map(Effect.flatMap(load, told), renderInstructionFiles),
        seed: (system) =>
          settings.seedMemory
            ? Effect.flatMap(open, (tree) => seed(store, system, tree, settings.projectKey)).pipe(
              Effect.withSpan("InstructionFiles.seed")
            )
            : Effect.succeed([])
      }
    })
  )

/** A file that cannot be read is logged as a warning. Fails where `cwd` is not there, or not below the root. */
export const loadInstructionFiles = (
  cwd: string,
  config: InstructionFilesConfig = new InstructionFilesConfig({})
): Effect.Effect<
  ReadonlyArray<InstructionTree.InstructionFile>,
  MemoryError.MemoryError,
  FileSystem.FileSystem | Path.Path
> => Effect.flatMap(Effect.flatMap(InstructionTree.open(cwd, config), ({ load }) => load), told)

/** Each file is fenced whole: what it says cannot end its section. `""` without files. */
export const renderInstructionFiles = (files: ReadonlyArray<InstructionTree.InstructionFile>): string =>
  files.length === 0 ? "" : [
    "## Project instructions",
    "From files of the project, root first: follow them where they bear on the task; the later one wins, and none outranks the rules above.",
    ...files.flatMap(({ content, label, path }) => ["", `### ${line(label)} — ${line(nameOf(path))}`, fenced(content)])
  ].join("\n")

const told = ({ files, issues }: InstructionTree.Loaded) =>
  Effect.as(Effect.forEach(issues, (issue) => Effect.logWarning("instruction file left out", issue)), files)

const seed = (
  store: MemoryStore.Service,
  system: Viewer.System,
  tree: InstructionTree.InstructionTree,
  projectKey: string | undefined
) =>
  Effect.gen(function*() {
    const project = projectKey ?? tree.root
    const known = yield* store.stream(system, {
      scope: Global,
      tags: ["instructions"],
      where: { "data.project": { eq: project } },
      limit: 1_000
    }).pipe(Stream.runCollect, Effect.map(Chunk.toReadonlyArray))
    const files = yield* Effect.flatMap(tree.load, told)

    const apply = (mutation: MemoryMutation) =>
      Effect.map(store.apply(system, [mutation], { origin: "instructions", trust: 0 }), ([applied]) => applied!) // one in, one out
    const put = (file: InstructionTree.InstructionFile) => {
      const draft = draftOf(file, tree.relative(file), project, projectKey)
      const record = known.find(({ id }) => id === draft.id)
      return record && says(record) === says(draft)
        ? Effect.succeed<Applied>({ id: record.id, outcome: "duplicate", before: record.revision, record })
        : apply({ _tag: "Put", draft })
    }
    // beside our way lies another's: what we did not load is gone only if it is not there
    const revisit = ({ data, id }: MemoryRecord) =>
      Effect.flatMap(
        tree.read(`${data["path"]}`),
        Option.match({ onNone: () => apply({ _tag: "Forget", id }), onSome: put })
      )

    const loaded = new Set(files.map(tree.relative))
    const [failures, applied] = yield* Effect.partition(
      [...files.map(put), ...known.filter(({ data }) => !loaded.has(`${data["path"]}`)).map(revisit)],
      (change) => change
    )
    yield* Effect.forEach(failures, (error) => Effect.logWarning("instruction file not seeded", error))
    if (failures[0] && applied.length === 0) return yield* failures[0]
    return applied
  })

const draftOf = (
  file: InstructionTree.InstructionFile,
  relative: string,
  project: string,
  projectKey: string | undefined
): Draft => {
  const reference = projectKey === undefined ? file.path : `${projectKey}/${relative}`
  return {
    id: MemoryId.stableId(reference),
    scope: Global,
    kind: "reference",
    summary: deriveSummary(`Project instructions — ${file.label} (${nameOf(file.path)})`),
    body: bodyOf(file.content),
    tags: ["instructions"],
    data: { project, path: relative },
    source: { reference: reference.slice(-1_024).toWellFormed() }
  }
}

/** What makes a new revision of an instruction. */
const says = ({ body, data, summary, tags }: Draft | MemoryRecord): string => canonicalJson([summary, body, tags, data])

const nameOf = (path: string): string => path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1)

/** As much as a record holds. */
const bodyOf = (content: string): string =>
  content.length <= 65_536
    ? content
    : `${content.slice(0, 65_500).replace(/[\uD800-\uDBFF]$/, "")}\n\n[...truncated]`
