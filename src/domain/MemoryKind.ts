/** Kinds of memory. A kind defines how its records are validated, deduplicated and ranked, and how many are kept. `layer` adds kinds. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Payload from "./Payload.ts"

/**
 * Schema of the name of a kind: `[a-z][a-z0-9_-]{0,63}`. A kind need not be registered. The `data` of an unregistered kind is any JSON
 * object. The records of an unregistered kind are ranked like records of the kind `entry`.
 */
export const Name = Schema.String.pipe(Schema.pattern(/^[a-z][a-z0-9_-]{0,63}$/))

/** A kind of memory, as stores and rankers use it. Make one with `make`. */
export interface MemoryKind<out N extends string = string, in out A = any> {
  readonly name: N
  readonly schema: Schema.Schema<A, any>
  /** Whether a draft without an id is ignored if a live record of the kind has the same scope, summary, body and `data`. Default false. */
  readonly dedupe: boolean
  /** Importance, 0..1, of a draft that does not set its importance. Default 0.5. */
  readonly importance: number
  /**
   * Time in which the recency score of a record halves. The lowest recency score is 0.1. With an infinite half-life, the score stays 1.
   * Default 30 days.
   */
  readonly halfLife: Duration.Duration
  /**
   * Largest number of live records of this kind with exactly the same scope. `Retention` forgets the records in excess. The least important
   * records are forgotten first, and among equally important records those with the earliest last change. Default: no limit.
   */
  readonly cap: number | undefined
  /** Whether the memory index lists the records of this kind. The index is the list of memories in a model's prompt. Default true. */
  readonly shown: boolean
}

/** Options of `make`; see `MemoryKind` for their meaning and defaults. */
export interface Options<N extends string, A> {
  readonly name: N
  /** Schema of `data`. Default: any JSON object. */
  readonly schema?: Schema.Schema<A, any> | undefined
  readonly dedupe?: boolean | undefined
  readonly importance?: number | undefined
  readonly halfLife?: Duration.DurationInput | undefined
  readonly cap?: number | undefined
  readonly shown?: boolean | undefined
}

/** Makes a kind from its options. */
export const make = <const N extends string, A = Payload.JsonObject>(options: Options<N, A>): MemoryKind<N, A> => ({
  name: options.name,
  schema: options.schema ?? (Payload.JsonObject as any), // the default of the type `A` is `JsonObject`, too
  dedupe: options.dedupe ?? false,
  importance: options.importance ?? 0.5,
  halfLife: Duration.decode(options.halfLife ?? "30 days"),
  cap: options.cap,
  shown: options.shown ?? true
})

const forever = Duration.infinity

/** A fact about the user. Deduplicated; half-life infinite. */
export const user = make({ name: "user", dedupe: true, halfLife: forever })
/** Feedback on how to work. Deduplicated; half-life 30 days. */
export const feedback = make({ name: "feedback", dedupe: true })
/** A fact about the project. Deduplicated; half-life 30 days. */
export const project = make({ name: "project", dedupe: true })
/** Plain text that points to something outside the store. Half-life 30 days. */
export const reference = make({ name: "reference" })
/** A fact, either as text or as a triple of subject, predicate and object. Deduplicated; at most 10,000 per scope. */
export const semantic = make({ name: "semantic", schema: Schema.partial(Payload.Fact), dedupe: true, cap: 10_000 })
/** An event, a turn of a chat, or a task. Half-life 138 hours; at most 1,000 per scope; not in the memory index. */
export const episodic: MemoryKind<"episodic", Payload.Episode> = make({
  name: "episodic",
  schema: Payload.Episode,
  halfLife: "138 hours",
  cap: 1_000,
  shown: false
})
/** A procedure, as plain text or with the data of `Payload.Procedure`. `ProceduralMemory` requires all of this data. Half-life 30 days. */
export const procedural = make({
  name: "procedural",
  schema: Schema.partial(Payload.Procedure).pipe(
    Schema.filter(({ executions = 0, successes = 0 }) => successes <= executions, {
      message: () => "expected no more successes than executions"
    })
  )
})
/** A short-lived note. Half-life 24 hours; not in the memory index. */
export const working = make({ name: "working", halfLife: "24 hours", shown: false })
/** The identity of an agent. Importance 1; half-life infinite. */
export const core: MemoryKind<"core", Payload.Identity> = make({
  name: "core",
  schema: Payload.Identity,
  importance: 1,
  halfLife: forever
})
/** A reference to a file, URL, API or database by its location. Importance 0.25; half-life 30 days. */
export const resource: MemoryKind<"resource", Payload.Resource> = make({
  name: "resource",
  schema: Payload.Resource,
  importance: 0.25
})
/** An entry of `KnowledgeVault`, such as an insight or a decision. Half-life 30 days. */
export const vault: MemoryKind<"vault", Payload.VaultEntry> = make({ name: "vault", schema: Payload.VaultEntry })
/** A belief, with the type of its source and a list of its changes. Half-life 30 days. */
export const belief: MemoryKind<"belief", Payload.Belief> = make({ name: "belief", schema: Payload.Belief })
/** A reflection on past events. Half-life 30 days; not in the memory index. */
export const reflection: MemoryKind<"reflection", Payload.Reflection> = make({
  name: "reflection",
  schema: Payload.Reflection,
  shown: false
})
/** An entity of a graph. The links of the record are the entity's relations. At most 5,000 per scope; not in the memory index. */
export const entity: MemoryKind<"entity", Payload.Entity> = make({
  name: "entity",
  schema: Payload.Entity,
  cap: 5_000,
  shown: false
})
/** Something that was learned in a session. Half-life 30 days; at most 100 per scope. */
export const learning: MemoryKind<"learning", Payload.Learning> = make({
  name: "learning",
  schema: Payload.Learning,
  cap: 100
})
/** A value that is stored under a namespace and a key. Half-life 30 days; not in the memory index. */
export const entry: MemoryKind<"entry", Payload.Entry> = make({ name: "entry", schema: Payload.Entry, shown: false })
/** A note: plain text, to which `AgenticMemory` adds the attributes of `Payload.Note`. */
export const note = make({ name: "note", schema: Schema.partial(Payload.Note) })

/**
 * The kinds to which `layer` adds, by name. Default: the seventeen kinds of this module. `Kinds` is a `Context.Reference`, so it is never a
 * requirement (`R`) of an effect.
 */
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

/**
 * Registers kinds. A kind replaces the registered kind of the same name. Layers that are merged add up. Provide this layer to the store, and
 * also to `Retention` and `MemoryService` if they shall know the kinds: `Layer.provideMerge`.
 */
export const layer = (...kinds: ReadonlyArray<MemoryKind>): Layer.Layer<Kinds> =>
  Layer.effectContext(Effect.map(Effect.context<never>(), (context) => {
    const inForce = Array.from(context.unsafeMap).filter(([key]) => key.startsWith(Kinds.key))
    // a service for each kind, since of two merged layers the second replaces the services of the first
    return Context.unsafeMake<Kinds>(new Map([...inForce, ...kinds.map((kind) => [prefix + kind.name, kind] as const)]))
  }))
const prefix = `${Kinds.key}/`

/** The registered kinds by name: those of `Kinds`, and those of `layer`. */
export const registered: Effect.Effect<ReadonlyMap<string, MemoryKind>> = Effect.map(
  Effect.context<never>(),
  (context) => {
    const kinds = new Map(Context.get(context, Kinds))
    for (const [key, kind] of context.unsafeMap) if (key.startsWith(prefix)) kinds.set(kind.name, kind)
    return kinds
  }
)

/** Returns the kind with the given name. An unknown name gets the settings of `entry`, and its `data` is any JSON object. */
export const find = (kinds: ReadonlyMap<string, MemoryKind>, name: string): MemoryKind =>
  kinds.get(name) ?? { ...entry, name, schema: Payload.JsonObject }
