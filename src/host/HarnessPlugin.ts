/** Where a harness, or a rule of yours, listens and says no. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Viewer from "../domain/Viewer.ts"

export const Signal = Schema.Union(
  Schema.TaggedStruct("turn_start", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("turn_end", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("session_end", { viewer: Viewer.Viewer })
)
export type Signal = typeof Signal.Type

export interface ToolCall {
  readonly tool: string
  readonly writes: boolean
  readonly viewer: Viewer.Viewer
  readonly input: unknown
}
export type Verdict = { readonly kind: "allow" } | { readonly kind: "deny"; readonly reason: string }

export const allow: Verdict = { kind: "allow" }
export const deny = (reason: string): Verdict => ({ kind: "deny", reason })

export interface HarnessPlugin {
  /** One of a kind: a plugin of ours is left out where one of the same id is in force. */
  readonly id: string
  /** What it does not survive is logged, and the turn goes on. */
  readonly onEvent?: ((signal: Signal) => Effect.Effect<void>) | undefined
  /** Asked in order; the first denial stands. One that dies has not said yes: the call is refused. */
  readonly beforeToolCall?: ((call: ToolCall) => Effect.Effect<Verdict>) | undefined
  /**
   * Runs after an allowed call failed validation before it wrote anything, so that a plugin can take back what it counted
   * for the call. Receives the same object as `beforeToolCall`.
   */
  readonly onRefused?: ((call: ToolCall) => Effect.Effect<void>) | undefined
}

/** The plugins in force, none by default, so they never show in `R`. */
export class Plugins extends Context.Reference<Plugins>()("@memory/Plugins", {
  defaultValue: (): ReadonlyArray<HarnessPlugin> => []
}) {}

type Source<E, R> = HarnessPlugin | Effect.Effect<HarnessPlugin, E, R>

/** Appends to the plugins in force. An Effect where a plugin keeps state. */
export const layer = <E = never, R = never>(
  ...plugins: ReadonlyArray<Source<E, R>>
): Layer.Layer<Plugins, E, R> =>
  Layer.effect(
    Plugins,
    Effect.gen(function*() {
      const inForce = yield* Plugins
      const added = yield* Effect.forEach(
        plugins,
        (plugin) => Effect.isEffect(plugin) ? plugin : Effect.succeed(plugin)
      )
      return [...inForce, ...added]
    })
  )
