/** Runs the programs of `processes/` and reads their output. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { createInterface } from "node:readline"

/** Returns `short`; `long` under `npm run soak`, which runs the tests for longer. */
export const times = (short: number, long: number): number => process.env["SOAK"] === undefined ? short : long

/**
 * Divides rounds into groups of at most 50, and runs `check` for each group in a new scope, so that each group can use a new vault: opening
 * a vault takes longer the more earlier rounds wrote. `check` receives the index of the group's first round, and the size of the group.
 */
export const eachVault = <E, R>(
  rounds: number,
  check: (first: number, rounds: number) => Effect.Effect<void, E, R>
): Effect.Effect<void, E, Exclude<R, Scope.Scope>> =>
  Effect.forEach(
    Array.from({ length: Math.ceil(rounds / 50) }, (_, n) => n * 50),
    (first) => Effect.scoped(check(first, Math.min(50, rounds - first))),
    { discard: true }
  )

/** Whether the tests run for hours instead of minutes, as under `npm run soak -- --long`. */
export const isLong = process.env["SOAK_LONG"] !== undefined

export interface Program<A> {
  /** The next line of the output. Waits for it; dies if the process ends first, or after a timeout. */
  readonly line: Effect.Effect<A>
  /** Takes the lines of the output so far that were not taken yet. Does not wait for more. */
  readonly rest: Effect.Effect<ReadonlyArray<A>>
  readonly signal: (signal: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT") => Effect.Effect<void>
  readonly tell: (text: string) => Effect.Effect<void>
  /** Waits for the exit code; dies after a timeout. `null` if the process was killed. Its remaining lines are in `rest` by then. */
  readonly end: Effect.Effect<number | null>
}

/** Timeout of a child process that hangs, shorter than the test's own. No test measures time with it. */
const patience = Duration.minutes(times(9, 20))

/** Returns the path of the bundle that `processes.ts` made of a program; the path of the program itself if there is no bundle. */
export const made = (file: string): string => {
  const folder = process.env["TEST_PROCESSES"]
  if (folder === undefined) return file
  const whole = path.join(folder, path.relative(path.join(import.meta.dirname, ".."), file))
  return fs.existsSync(whole) ? whole : file
}

/** Starts a program, and kills it when the scope closes if it still runs. `name`: a file of `processes/`, or a path. */
export const program = <A, I>(
  name: string,
  args: ReadonlyArray<string>,
  line: Schema.Schema<A, I>,
  flags: ReadonlyArray<string> = []
): Effect.Effect<Program<A>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const lines = yield* Queue.unbounded<A>()
    const decode = Schema.decodeSync(Schema.parseJson(line))
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [...flags, made(path.resolve(import.meta.dirname, "processes", name)), ...args], {
          stdio: ["pipe", "pipe", "pipe"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const out = createInterface({ input: child.stdout })
    let complaint = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      complaint = (complaint + text).slice(-4_000)
      process.stderr.write(text)
    })
    out.on("line", (text) => Queue.unsafeOffer(lines, decode(text)))
    const end = Promise.all([
      new Promise<number | null>((done) => child.on("exit", (code) => done(code))),
      new Promise<void>((done) => out.on("close", done)),
      new Promise<void>((done) => child.stderr.on("close", done))
    ])
    // lines printed before the end are still returned
    const silent = Effect.flatMap(
      Effect.promise(() => end),
      ([code]) =>
        Effect.flatMap(Queue.size(lines), (left) =>
          left > 0 ? Effect.never : Effect.die(`${name} ended with ${code} and said no more: ${complaint}`))
    )
    return {
      line: Queue.take(lines).pipe(Effect.raceFirst(silent), Effect.timeout(patience), Effect.orDie),
      rest: Effect.map(Queue.takeAll(lines), (all) =>
        Array.from(all)),
      signal: (signal) => Effect.sync(() => child.kill(signal)),
      tell: (text) => Effect.sync(() => child.stdin.write(text)),
      end: Effect.promise(() => end).pipe(Effect.map(([code]) => code), Effect.timeout(patience), Effect.orDie)
    }
  })
