/** PostgreSQL clusters that tests can start, stop, suspend and promote. Needs the server's programs on this machine. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { execFile, execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { ask } from "./Server.ts"

export interface Cluster {
  readonly url: string
  readonly port: number
  /** Stops the server: `fast` as an administrator does, `immediate` as in a crash. */
  readonly stop: (mode: "fast" | "immediate") => Effect.Effect<void>
  readonly start: Effect.Effect<void>
  /** Starts a synchronous replica, which the primary waits for before each commit. */
  readonly replica: Effect.Effect<Cluster, never, Scope.Scope>
  /** Promotes a replica to primary. */
  readonly promote: Effect.Effect<void>
  /** Sends a signal to the server and all of its processes. */
  readonly signal: (signal: "SIGSTOP" | "SIGCONT") => Effect.Effect<void>
}

const folders = (): ReadonlyArray<string> => {
  const given = process.env["EFFECT_MEMORY_TEST_PG_BIN"]
  const debian = "/usr/lib/postgresql"
  const versions = fs.existsSync(debian) ? fs.readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  return [...given === undefined ? [] : [given], ...versions.map((version) => path.join(debian, version, "bin"))]
}

const isProgram = (file: string) => fs.existsSync(file)

/** The user as whom PostgreSQL is run: `postgres` if the tests run as root, whom PostgreSQL refuses; else `undefined`, the current user. */
const owner = (): { readonly uid: number; readonly gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
}

const found = (): Option.Option<{ readonly bin: string; readonly as: ReturnType<typeof owner> }> => {
  if (process.env["EFFECT_MEMORY_TEST_PG_URL"] === "pglite") return Option.none()
  const bin = folders().find((folder) =>
    ["initdb", "pg_ctl", "pg_basebackup"].every((name) => isProgram(path.join(folder, name)))
  )
  try {
    return bin === undefined ? Option.none() : Option.some({ bin, as: owner() })
  } catch {
    return Option.none()
  }
}
const programs = found()

/** Whether tests can start clusters. `false` if PGlite is forced. Determined when tests are collected, so that no test is skipped. */
export const hasClusters: boolean = Option.isSome(programs)

const run = (program: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.async<string>((resume) => {
    const { as, bin } = Option.getOrThrow(programs)
    execFile(
      path.join(bin, program),
      args,
      { ...as, cwd: os.tmpdir(), env: { PATH: process.env["PATH"], ...env }, encoding: "utf8" },
      (error, out, err) =>
        resume(error === null ? Effect.succeed(out) : Effect.die(new Error(`${program}: ${error.message}\n${err}`)))
    )
  })

/** Makes a folder that the server's user owns, until the scope closes. */
const folder = Effect.acquireRelease(
  Effect.sync(() => {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), "memory-pg-"))
    const { as } = Option.getOrThrow(programs)
    if (as !== undefined) fs.chownSync(root, as.uid, as.gid)
    return root
  }),
  (root) => Effect.sync(() => fs.rmSync(root, { recursive: true, force: true }))
)

const freePort = Effect.async<number>((resume) => {
  const server = net.createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

const settings = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=",
  // the server need not wait for the disk, since no test simulates a power failure
  "fsync=off",
  "full_page_writes=off",
  "max_wal_senders=4",
  "shared_buffers=16MB",
  "wal_receiver_status_interval=1s"
]

const clusterOf = (root: string, extra: ReadonlyArray<string> = []) =>
  Effect.gen(function*() {
    const port = yield* freePort
    const data = path.join(root, "data")
    const ctl = (...args: ReadonlyArray<string>) =>
      Effect.asVoid(run("pg_ctl", ["-D", data, "-w", "-t", "60", ...args]))
    const options = [...settings, ...extra, `port=${port}`].map((setting) => `-c ${setting}`).join(" ")
    const start = ctl("-l", path.join(root, "log"), "-o", options, "start")
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`
    const pid = () => Number(fs.readFileSync(path.join(data, "postmaster.pid"), "utf8").split("\n")[0])
    const cluster: Cluster = {
      url,
      port,
      stop: (mode) => ctl("-m", mode, "stop"),
      start,
      promote: ctl("promote"),
      signal: (signal) =>
        Effect.sync(() => {
          const server = pid()
          const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(server)], { encoding: "utf8" })
          for (const id of [server, ...children.split("\n").filter((line) => line.trim() !== "").map(Number)]) {
            process.kill(id, signal)
          }
        }),
      replica: Effect.suspend(() => replicaOf(cluster))
    }
    yield* Effect.acquireRelease(start, () => Effect.ignore(Effect.sandbox(cluster.stop("immediate"))))
    return cluster
  })

const replicaOf = (primary: Cluster): Effect.Effect<Cluster, never, Scope.Scope> =>
  Effect.gen(function*() {
    const root = yield* folder
    const url = new URL(primary.url)
    url.searchParams.set("application_name", "replica")
    yield* run("pg_basebackup", ["-D", path.join(root, "data"), "-d", url.href, "-R", "-c", "fast", "-N"])
    const replica = yield* clusterOf(root)
    yield* Effect.orDie(ask(
      primary.url,
      "ALTER SYSTEM SET synchronous_standby_names = '*'",
      "ALTER SYSTEM SET synchronous_commit = 'remote_apply'",
      "SELECT pg_reload_conf()"
    ))
    yield* until(primary.url, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
    return replica
  })

/** Waits until a query returns true, polling every 20 ms. */
export const until = (url: string, query: string): Effect.Effect<void> =>
  ask(url, query).pipe(
    Effect.repeat({ until: ([row]) => row?.[0] === true, schedule: Schedule.spaced("20 millis") }),
    Effect.orDie,
    Effect.asVoid,
    Effect.withClock(realTime)
  )

/** The real clock, since a server takes real time even under a `TestClock`. */
const realTime = Clock.make()

/** Starts a new cluster, on which `postgres` needs no password, until the scope closes. */
export const throwAway: Effect.Effect<Cluster, never, Scope.Scope> = Effect.gen(function*() {
  const root = yield* folder
  const data = path.join(root, "data")
  yield* run("initdb", ["-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"])
  return yield* clusterOf(root)
})
