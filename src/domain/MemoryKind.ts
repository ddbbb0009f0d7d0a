/** What sort of thing is remembered, and how long it matters. A table, open to kinds of your own. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Payload from "./Payload.ts"

/** `[a-z][a-z0-9_-]{0,63}`. A name that is in no table is kept, ranked as `entry` and not validated. */
export const Name = Schema.String.pipe(Schema.pattern(/^[a-z][a-z0-9_-]{0,63}$/))

export interface MemoryKind<out N extends string = string, in out A = any> {
  readonly name: N
  readonly schema: Schema.Schema<A, any>
  /** Equal live records of one scope are one. Default false. */
  readonly dedupe: boolean
  /** 0..1, of a draft that says none. Default 0.5. */
  readonly importance: number
  /** After which recency has halved; never below .1 of it. Infinite = does not fade. Default 30 days. */
  readonly halfLife: Duration.Duration
  /** Live records per exact scope; then the least important, then the oldest go. Default none. */
  readonly cap: number | undefined
  /** In the memory index. Default true. */
  readonly shown: boolean
}

export interface Options<N extends string, A> {
  readonly name: N
  /** Default any JSON object. */
  readonly schema?: Schema.Schema<A, any> | undefined
  readonly dedupe?: boolean | undefined
  readonly importance?: number | undefined
  readonly halfLife?: Duration.DurationInput | undefined
  readonly cap?: number | undefined
  readonly shown?: boolean | undefined
}

export const make = <const N extends string, A = Payload.JsonObject>(options: Options<N, A>): MemoryKind<N, A> => ({
  name: options.name,
  schema: options.schema ?? (Payload.JsonObject as any), // without a schema, A is its default: JsonObject
  dedupe: options.dedupe ?? false,
  importance: options.importance ?? 0.5,
  halfLife: Duration.decode(options.halfLife ?? "30 days"),
  cap: options.cap,
  shown: options.shown ?? true
})

const forever = Duration.infinity

export const user = make({ name: "user", dedupe: true, halfLife: forever })
export const feedback = make({ name: "feedback", dedupe: true })
export const project = make({ name: "project", dedupe: true })
export const reference = make({ name: "reference" })
export const semantic = make({ name: "semantic", schema: Schema.partial(Payload.Fact), dedupe: true, cap: 10_000 })
export const episodic: MemoryKind<"episodic", Payload.Episode> = make({
  name: "episodic",
  schema: Payload.Episode,
  halfLife: "138 hours",
  cap: 1_000,
  shown: false
})
/** Plain text, or a whole `Procedure`: `ProceduralMemory` demands the whole. */
export const procedural = make({
  name: "procedural",
  schema: Schema.partial(Payload.Procedure).pipe(
    Schema.filter(({ executions = 0, successes = 0 }) => successes <= executions, {
      message: () => "expected no more successes than executions"
    })
  )
})
export const working = make({ name: "working", halfLife: "24 hours", shown: false })
export const core: MemoryKind<"core", Payload.Identity> = make({
  name: "core",
  schema: Payload.Identity,
  importance: 1,
  halfLife: forever
})
export const resource: MemoryKind<"resource", Payload.Resource> = make({
  name: "resource",
  schema: Payload.Resource,
  importance: 0.25
})
export const vault: MemoryKind<"vault", Payload.VaultEntry> = make({ name: "vault", schema: Payload.VaultEntry })
export const belief: MemoryKind<"belief", Payload.Belief> = make({ name: "belief", schema: Payload.Belief })
export const reflection: MemoryKind<"reflection", Payload.Reflection> = make({
  name: "reflection",
  schema: Payload.Reflection,
  shown: false
})
export const entity: MemoryKind<"entity", Payload.Entity> = make({
  name: "entity",
  schema: Payload.Entity,
  cap: 5_000,
  shown: false
})
export const learning: MemoryKind<"learning", Payload.Learning> = make({
  name: "learning",
  schema: Payload.Learning,
  cap: 100
})
export const entry: MemoryKind<"entry", Payload.Entry> = make({ name: "entry", schema: Payload.Entry, shown: false })
/** Plain text, or with the attributes that `AgenticMemory` gives it. */
export const note = make({ name: "note", schema: Schema.partial(Payload.Note) })

/** The kinds in force. The seventeen above where nothing else is provided, so it never shows in `R`. */
export class Kinds extends Context.Reference<Kinds>()("@memory/Kinds", {
  defaultValue: (): ReadonlyMap<string, MemoryKind> =>
    new Map([
      user,
      feedback,
      project,
      reference,
      semantic,
      episodic,
      procedural,
      working,
      core,
      resource,
      vault,
      belief,
      reflection,
      entity,
      learning,
      entry,
      note
    ].map((kind) => [kind.name, kind]))
}) {}

/** Adds kinds to those in force, or replaces the ones of the same name. Provide it to the store. */
export const layer = (...kinds: ReadonlyArray<MemoryKind>): Layer.Layer<Kinds> =>
  Layer.effect(
    Kinds,
    Effect.map(Kinds, (inForce): ReadonlyMap<string, MemoryKind> =>
      new Map([
        ...inForce,
        ...kinds.map((kind) => [kind.name, kind] as const)
      ]))
  )

/** The kind of that name, or one that is ranked as `entry` and takes any JSON object. */
export const find = (kinds: ReadonlyMap<string, MemoryKind>, name: string): MemoryKind =>
  kinds.get(name) ?? { ...entry, name, schema: Payload.JsonObject }
