/** Plugins of the harness: they hear the signals of turns and sessions, and may deny tool calls. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Viewer from "../domain/Viewer.ts"

/** Schema of a signal of the harness: a turn began or ended, or a session ended. */
export const Signal = Schema.Union(
  Schema.TaggedStruct("turn_start", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("turn_end", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("session_end", { viewer: Viewer.Viewer })
)
/** A signal of the harness. */
export type Signal = typeof Signal.Type

/** A tool call that plugins allow or deny; `writes` as in `MemoryTool`. */
export interface ToolCall {
  readonly tool: string
  readonly writes: boolean
  readonly viewer: Viewer.Viewer
  readonly input: unknown
}
/** The answer of a plugin to a tool call. */
export type Verdict = { readonly kind: "allow" } | { readonly kind: "deny"; readonly reason: string }

/** The verdict that allows a call. */
export const allow: Verdict = { kind: "allow" }
/** Makes a verdict that denies a call for the given reason. */
export const deny = (reason: string): Verdict => ({ kind: "deny", reason })

/** A plugin: hears signals and decides on tool calls. All of its methods are optional. */
export interface HarnessPlugin {
  /** Unique id. A plugin of this library is left out if one of the same id is in force. */
  readonly id: string
  /** Hears a signal. A defect is logged, and the turn goes on. */
  readonly onEvent?: ((signal: Signal) => Effect.Effect<void>) | undefined
  /** Allows or denies a call. Plugins are asked in order, and the first denial stands. A plugin that dies denies the call. */
  readonly beforeToolCall?: ((call: ToolCall) => Effect.Effect<Verdict>) | undefined
  /**
   * Runs after an allowed call failed validation before it wrote anything, so that a plugin can take back what it counted
   * for the call. Receives the same object as `beforeToolCall`.
   */
  readonly onRefused?: ((call: ToolCall) => Effect.Effect<void>) | undefined
}

/** The plugins in force, none by default. A reference, so it never appears in `R`. */
export class Plugins extends Context.Reference<Plugins>()("@memory/Plugins", {
  defaultValue: (): ReadonlyArray<HarnessPlugin> => []
}) {}

/** A plugin, or an Effect that makes one with state. */
export type PluginSource<E, R> = HarnessPlugin | Effect.Effect<HarnessPlugin, E, R>

/** Adds plugins after those in force. A plugin with state is given as an Effect that makes it. */
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
