/** The command `completions`, which prints shell completion scripts. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as App from "../App.ts"
import { make, print } from "../Command.ts"
import * as Script from "../Script.ts"

/** Schema of the JSON output of `completions`. */
export const Completions = Schema.Struct({ shell: Schema.Literal("bash", "zsh", "fish"), script: Schema.String })

/** `completions`: prints the completion script for a shell. */
export const completions = make({
  name: "completions",
  summary: "print a completion script for bash, zsh or fish",
  description: [
    "Prints a script that completes commands and options. The script contains the names of all commands and options, so make it again after an update."
  ],
  options: Options.none,
  args: Args.choice([["bash", "bash" as const], ["zsh", "zsh" as const], ["fish", "fish" as const]], { name: "SHELL" })
    .pipe(
      Args.withDescription("bash, zsh or fish")
    ),
  examples: [
    ["completions bash >> ~/.bashrc", "for bash"],
    ["completions zsh > \"${fpath[1]}/_effect-memory\"", "for zsh"],
    ["completions fish > ~/.config/fish/completions/effect-memory.fish", "for fish"]
  ],
  run: ({ args: shell, shared }) =>
    Effect.gen(function*() {
      const commands = yield* Effect.promise(() => Promise.all(App.entries.map(({ load }) => load())))
      const script = Script.make(shell, commands)
      yield* print(shared, Completions, { shell, script }, ({ script }) => script)
    })
})
