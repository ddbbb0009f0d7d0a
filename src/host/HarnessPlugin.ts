/** Plugins of the harness. A plugin is told when a turn begins or ends and when a session ends, and may deny tool calls. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Viewer from "../domain/Viewer.ts"

/** Schema of a signal of the harness: a turn began, a turn ended, or a session ended. */
export const Signal = Schema.Union(
  Schema.TaggedStruct("turn_start", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("turn_end", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("session_end", { viewer: Viewer.Viewer })
)
/** A signal of the harness. */
export type Signal = typeof Signal.Type

/** A tool call that plugins allow or deny. For `writes` see `MemoryTool`. */
export interface ToolCall {
  readonly tool: string
  readonly writes: boolean
  readonly viewer: Viewer.Viewer
  readonly input: unknown
}
/** The decision of a plugin on a tool call. */
export type Verdict = { readonly kind: "allow" } | { readonly kind: "deny"; readonly reason: string }

/** The verdict that allows a call. */
export const allow: Verdict = { kind: "allow" }
/** Makes a verdict that denies a call for the given reason. */
export const deny = (reason: string): Verdict => ({ kind: "deny", reason })

/** A plugin, which handles signals and decides on tool calls. All of its methods are optional. */
export interface HarnessPlugin {
  /** Unique id. A plugin that this library would add itself is left out if a plugin with its id is provided. */
  readonly id: string
  /** Handles a signal. If it dies, the defect is logged and the turn continues. */
  readonly onEvent?: ((signal: Signal) => Effect.Effect<void>) | undefined
  /** Allows or denies a call. Plugins are asked in order until one denies the call. A plugin that dies denies it, too. */
  readonly beforeToolCall?: ((call: ToolCall) => Effect.Effect<Verdict>) | undefined
  /**
   * Runs if a call that was allowed has failed validation and written nothing, so that a plugin which counts calls can uncount
   * this one. Receives the same object as `beforeToolCall`.
   */
  readonly onRefused?: ((call: ToolCall) => Effect.Effect<void>) | undefined
}

/** The plugins that are provided, none by default. A `Context.Reference`, so it never appears in `R`. */
export class Plugins extends Context.Reference<Plugins>()("@memory/Plugins", {
  defaultValue: (): ReadonlyArray<HarnessPlugin> => []
}) {}

/** A plugin, or an Effect that makes one, for a plugin with state. */
export type PluginSource<E, R> = HarnessPlugin | Effect.Effect<HarnessPlugin, E, R>

/** Adds plugins after those that are already provided. Give a plugin with state as an Effect that makes it. */
export const layer = <E = never, R = never>(
  ...plugins: ReadonlyArray<PluginSource<E, R>>
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
