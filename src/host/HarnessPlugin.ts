/**
 * Plugins of the harness, the program that runs the agent. A plugin can deny tool calls. Each plugin also receives a signal when a turn
 * starts, a turn ends or a session ends.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { globalValue } from "effect/GlobalValue"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Viewer from "../domain/Viewer.ts"

/** Schema of a signal, which tells plugins that a turn began, a turn ended, or a session ended. */
export const Signal = Schema.Union(
  Schema.TaggedStruct("turn_start", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("turn_end", { viewer: Viewer.Viewer }),
  Schema.TaggedStruct("session_end", { viewer: Viewer.Viewer })
)
/** A signal, which tells plugins that a turn began, a turn ended, or a session ended. */
export type Signal = typeof Signal.Type

/**
 * A tool call, which plugins allow or deny. `writes` says whether the call writes memories. The value comes from the tool's function
 * `isWrite`, or from the tool's field `writes` if there is no `isWrite`.
 */
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
  /** Unique id. A provided plugin with the id `memory-rate-limit` replaces the library's write limit. */
  readonly id: string
  /** Handles a signal. A defect is logged, and the turn continues. */
  readonly onEvent?: ((signal: Signal) => Effect.Effect<void>) | undefined
  /** Allows or denies a call. Plugins are asked in order, up to the first denial. A defect counts as a denial. */
  readonly beforeToolCall?: ((call: ToolCall) => Effect.Effect<Verdict>) | undefined
  /**
   * Runs after a call that this plugin allowed, but that a later plugin denied, or that had invalid arguments and wrote nothing. A plugin
   * that counts calls can then subtract this call. `call` is the same object that `beforeToolCall` received.
   */
  readonly onRefused?: ((call: ToolCall) => Effect.Effect<void>) | undefined
}

/** The plugins to which `layer` adds, in order. Default: no plugins. A `Context.Reference`, so it never appears in `R`. */
export class Plugins extends Context.Reference<Plugins>()("@memory/Plugins", {
  defaultValue: (): ReadonlyArray<HarnessPlugin> => []
}) {}

/** A plugin, or an Effect that makes a plugin. Use an Effect for a plugin with state. */
export type PluginSource<E, R> = HarnessPlugin | Effect.Effect<HarnessPlugin, E, R>

/**
 * Adds plugins after the plugins that are already provided. Layers that are merged add up. A plugin with state is passed as an Effect that
 * makes the plugin. Each build of the layer runs this Effect once.
 */
export const layer = <E = never, R = never>(
  ...plugins: ReadonlyArray<PluginSource<E, R>>
): Layer.Layer<Plugins, E, R> => {
  // a service for each layer, since of two merged layers the second replaces the services of the first
  const key = `${prefix}${layers.count++}`
  return Layer.effectContext(Effect.gen(function*() {
    const { unsafeMap } = yield* Effect.context<never>()
    const inForce = Array.from(unsafeMap).filter(([key]) => key.startsWith(Plugins.key))
    const added = yield* Effect.forEach(
      plugins,
      (plugin) => Effect.isEffect(plugin) ? plugin : Effect.succeed(plugin)
    )
    return Context.unsafeMake<Plugins>(new Map([...inForce, [key, added] as const]))
  }))
}
const prefix = `${Plugins.key}/`
/** Number of layers made by `layer`, shared by all copies of this module in a process. */
const layers = globalValue(Symbol.for(prefix), () => ({ count: 0 }))

/** The provided plugins, in order: those of `Plugins`, then those of `layer`. */
export const provided: Effect.Effect<ReadonlyArray<HarnessPlugin>> = Effect.map(
  Effect.context<never>(),
  (context) => [
    ...Context.get(context, Plugins),
    ...Array.from(context.unsafeMap).flatMap(([key, plugins]) => key.startsWith(prefix) ? plugins : [])
  ]
)
