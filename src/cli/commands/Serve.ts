/** The command `serve`. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import { make } from "../Command.ts"
import * as CommandError from "../CommandError.ts"

/** `serve`: serves the store to agents. */
export const serve = make({
  name: "serve",
  summary: "serve the store to agents over MCP",
  description: ["Serves over stdio."],
  options: Options.none,
  args: Args.none,
  examples: [],
  run: () => CommandError.make("failed", "not there yet")
})
