/** Measuring for all benches: CPU time, races by turns, the longest stretch for which the event loop was held, and child processes. */
import { Effect, Layer, Scope } from "effect"
import { spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, openSync, readSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { setImmediate } from "node:timers"

/** CPU time of this process so far, all threads, in milliseconds. */
export const cpu = () => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1_000
}

/** Memory of JavaScript values and buffers after garbage collection, in MB. Needs `--expose-gc`. */
export const heap = () => {
  for (let turn = 0; turn < 2; turn++) globalThis.gc?.() // the first collection only marks the memory of typed arrays as free
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return (heapUsed + arrayBuffers) / 2 ** 20
}

/** Runs a function, and returns what it took in milliseconds. */
export const timed = async (run) => {
  const before = cpu()
  const start = performance.now()
  await run()
  return { cpu: cpu() - before, wall: performance.now() - start }
}

const spread = (values) => {
  const sorted = values.toSorted((a, b) => a - b)
  return { median: sorted[sorted.length >> 1], min: sorted[0], max: sorted.at(-1) }
}

/** Summarises samples of `timed`: median, minimum and maximum of the CPU time, and the median of the wall time. */
export const summary = (samples) => ({
  ...spread(samples.map(({ cpu }) => cpu)),
  wall: spread(samples.map(({ wall }) => wall)).median
})

/** Returns the middle of the turns of a figure; of what was measured once, that. */
export const time = (figure) => figure?.median ?? figure?.cpu

/**
 * Returns the least of the turns, by which contestants of one process are compared: a collection of all garbage, of which most is not
 * its own, falls on the one whose turn it is.
 */
export const least = (figure) => figure?.min ?? figure?.cpu

/**
 * Lets contestants take turns, so that what else the machine does falls on all. `calls(first, count)` makes `count` calls, the first
 * of which has the number `first`. Each contestant makes as many calls a turn as take it about `stretch` milliseconds, at most
 * `most`. Returns for each, by name, the milliseconds of a call. Young garbage is collected before each turn, so that it does not fall on
 * the next contestant; a whole collection would throw compiled code away.
 */
export const race = async (contestants, { most = 500, stretch = 60, turns = 7 } = {}) => {
  const rows = []
  for (const { calls, name } of contestants) {
    await calls(0, 1) // the first call may build what the others find
    let [at, count] = [1, 1]
    for (;;) { // also warms up
      const { cpu } = await timed(() => calls(at, count))
      at += count
      if (cpu >= stretch || count >= most) break
      count = Math.min(most, count * 2)
    }
    rows.push({ calls, name, count, at, samples: [] })
  }
  for (let turn = 0; turn < turns; turn++) {
    for (const row of rows) {
      globalThis.gc?.({ type: "minor" })
      const { cpu, wall } = await timed(() => row.calls(row.at, row.count))
      row.at += row.count
      row.samples.push({ cpu: cpu / row.count, wall: wall / row.count })
    }
  }
  return Object.fromEntries(rows.map(({ name, samples }) => [name, summary(samples)]))
}

/** Puts the figures of several processes together; of one that was measured several times the middle, the least and the most. */
export const merged = (all) => {
  const rows = {}
  for (const figures of all) {
    for (const [row, names] of Object.entries(figures)) {
      for (const [name, figure] of Object.entries(names)) ((rows[row] ??= {})[name] ??= []).push(figure)
    }
  }
  const one = (figures) => ({
    median: spread(figures.map(({ median }) => median)).median,
    min: Math.min(...figures.map(({ min }) => min)),
    max: Math.max(...figures.map(({ max }) => max)),
    wall: spread(figures.map(({ wall }) => wall)).median
  })
  const each = (names) => Object.fromEntries(Object.entries(names).map(([name, figures]) => [name, one(figures)]))
  return Object.fromEntries(Object.entries(rows).map(([row, names]) => [row, each(names)]))
}

/** CPU time of the thread that runs JavaScript, in milliseconds. Elsewhere than on Linux: of all threads of the process. */
const threadCpu = (() => {
  const path = "/proc/self/schedstat"
  if (!existsSync(path)) return cpu
  const [file, bytes] = [openSync(path, "r"), Buffer.alloc(64)]
  return () => Number(bytes.toString("latin1", 0, readSync(file, bytes, 0, 64, 0)).split(" ", 1)[0]) / 1e6
})()

/**
 * Watches the event loop. The function that it returns ends that, and returns the longest time between two iterations in
 * milliseconds: `stall` by the CPU time of the thread of the loop, `clock` by the clock, which counts besides how long the thread waited
 * for a processor, that other processes and the threads that collect garbage had.
 */
export const watch = () => {
  const now = () => ({ clock: performance.now(), stall: threadCpu() })
  let last = now()
  const longest = { stall: 0, clock: 0 }
  let isOver = false
  const look = () => {
    const next = now()
    for (const by of Object.keys(longest)) longest[by] = Math.max(longest[by], next[by] - last[by])
    last = next
    if (!isOver) setImmediate(look)
  }
  setImmediate(look)
  return () => {
    look()
    isOver = true
    return longest
  }
}

/** Runs a function; prints what it took as a line of JSON: `wall` and `cpu` in milliseconds, and what `more` returns. */
export const printed = async (run, more = () => ({})) => {
  console.log(JSON.stringify({ ...await timed(run), ...more() }))
}

/** Makes a function that runs a script with arguments in a process of its own, and returns what `printed` printed there. */
export const child = (script) => (...args) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [script, ...args.map(String)], { encoding: "utf8" })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

/**
 * Makes an empty folder, which `bench.mjs` removes when every section is through. ext4 gives the inode of a removed file to no
 * other for up to five minutes, and a new file looks at each of those: after 10,000 removals a new file takes 1.2 ms instead of
 * .05, which would be measured as the cost of a put.
 */
export const folder = () => mkdtempSync(join(process.env.BENCH_FOLDER ?? tmpdir(), "effect-memory-bench-"))

/** The middle one of several, by a figure of each. */
export const median = (all, by) => all.toSorted((a, b) => by(a) - by(b))[all.length >> 1]

/** Builds a layer that lives as long as the process. */
export const built = (layer) =>
  Effect.runPromise(Effect.flatMap(Scope.make(), (scope) => Layer.buildWithScope(Layer.fresh(layer), scope)))
