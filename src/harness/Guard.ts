/**
 * The gate between a model and a tool: every plugin is asked, in order, before the tool is.
 *
 * Results and failures of every tool pass through `MemoryTool.visible`, including tools that this library did not make.
 *
 * A plugin is somebody else's code. One that dies when told of a turn is logged, and the turn goes on; one that dies
 * when asked has not said yes, and the call is refused.
 */
import * as Effect from "effect/Effect"
import type { Viewer } from "../domain/Viewer.ts"
import * as HarnessPlugin from "../host/HarnessPlugin.ts"
import * as MemoryTool from "../host/MemoryTool.ts"
import type { EventPublisher } from "./EventPublisher.ts"
import type { MemorySpec } from "./MemorySpec.ts"
import * as RateLimit from "./RateLimit.ts"

export interface Guard {
  readonly tool: (viewer: Viewer, tool: MemoryTool.MemoryTool) => MemoryTool.MemoryTool
  readonly signal: (signal: HarnessPlugin.Signal) => Effect.Effect<void>
}

/**
 * A denial is `rate_limited` where the write limit says it and `unsupported` where any other plugin does, in the
 * plugin's own words, and a `memory_denied` event.
 */
export const make = (
  plugins: ReadonlyArray<HarnessPlugin.HarnessPlugin>,
  events: Pick<EventPublisher, "denied">
): Guard => {
  const ask = (plugin: HarnessPlugin.HarnessPlugin, call: HarnessPlugin.ToolCall) =>
    Effect.suspend(() => plugin.beforeToolCall?.(call) ?? Effect.succeed(HarnessPlugin.allow)).pipe(
      Effect.catchAllCause((cause) =>
        Effect.as(
          Effect.logWarning(`plugin ${plugin.id} died when asked about ${call.tool}`, cause),
          HarnessPlugin.deny("the call could not be checked")
        )
      )
    )

  const admit = (call: HarnessPlugin.ToolCall): Effect.Effect<void, MemoryTool.Failure> =>
    Effect.forEach(plugins, (plugin) =>
      Effect.gen(function*() {
        const verdict = yield* ask(plugin, call)
        if (verdict.kind === "allow") return
        const { reason: message } = verdict
        yield* events.denied(call, plugin.id, message)
        return yield* Effect.fail(
          MemoryTool.failure(plugin.id === RateLimit.id ? "rate_limited" : "unsupported", message)
        )
      }), { discard: true })

  const tell = (event: string, f: (plugin: HarnessPlugin.HarnessPlugin) => Effect.Effect<void> | undefined) =>
    Effect.forEach(plugins, (plugin) =>
      Effect.suspend(() => f(plugin) ?? Effect.void).pipe(
        Effect.catchAllCause((cause) => Effect.logWarning(`plugin ${plugin.id} died of ${event}`, cause))
      ), { discard: true })

  return {
    tool: (viewer, tool) => ({
      ...tool,
      call: (input) =>
        Effect.suspend(() => {
          const call: HarnessPlugin.ToolCall = { tool: tool.name, writes: tool.writes, viewer, input }
          return Effect.zipRight(
            admit(call),
            Effect.tapError(MemoryTool.visible(tool.call(input)), ({ reason, written }) =>
              isValidation(reason) && written === undefined
                ? tell("a refusal", ({ onRefused }) =>
                  onRefused?.(call))
                : Effect.void)
          )
        })
    }),
    signal: (signal) => tell(signal._tag, ({ onEvent }) => onEvent?.(signal))
  }
}

/** The plugins in force, and the write limit of the spec unless they hold one. */
export const plugins = (spec: MemorySpec) =>
  Effect.gen(function*() {
    const plugins = yield* HarnessPlugin.Plugins
    return spec.writesPerTurn === 0 || plugins.some(({ id }) => id === RateLimit.id)
      ? plugins
      : [...plugins, yield* RateLimit.make({ writesPerTurn: spec.writesPerTurn })]
  })

/** What a model got wrong and can put right at once; not what it may not do, or what failed. */
const isValidation = (reason: MemoryTool.Failure["reason"]): boolean =>
  reason === "invalid_draft" || reason === "invalid_scope" || reason === "invalid_id" || reason === "path_escape"
