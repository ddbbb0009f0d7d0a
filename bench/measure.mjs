/** Measuring for all benches: CPU time, the longest stretch for which the event loop was held, and work in a process of its own. */
import { spawnSync } from "node:child_process"
import { performance } from "node:perf_hooks"
import { setImmediate } from "node:timers"

/** CPU time of this process so far, all threads, in milliseconds. */
export const cpu = () => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1_000
}

/**
 * Watches the turns of the event loop. The function that it returns ends that, and returns the longest time between two turns
 * in milliseconds, by the clock or by CPU time, whichever says less: the clock counts other processes too, and the CPU time of
 * the process has the threads that collect garbage and compile.
 */
export const watch = () => {
  let last = { wall: performance.now(), cpu: cpu() }
  let longest = 0
  let isOver = false
  const look = () => {
    const now = { wall: performance.now(), cpu: cpu() }
    longest = Math.max(longest, Math.min(now.wall - last.wall, now.cpu - last.cpu))
    last = now
    if (!isOver) setImmediate(look)
  }
  setImmediate(look)
  return () => {
    isOver = true
    return longest
  }
}

/** Runs a function; prints what it took as a line of JSON: `wall` and `cpu` in milliseconds, and what `more` returns. */
export const printed = async (run, more = () => ({})) => {
  const before = cpu()
  const start = performance.now()
  await run()
  console.log(JSON.stringify({ wall: performance.now() - start, cpu: cpu() - before, ...more() }))
}

/** Makes a function that runs a script with arguments in a process of its own, and returns what `printed` printed there. */
export const child = (script) => (...args) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [script, ...args.map(String)], { encoding: "utf8" })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

/** The middle one of several, by a figure of each. */
export const median = (all, by) => all.toSorted((a, b) => by(a) - by(b))[all.length >> 1]
