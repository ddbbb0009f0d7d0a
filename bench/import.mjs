/**
 * Measures what an import of the package costs: CPU milliseconds of fresh processes, by turns, so that a busy machine slows all alike.
 * Prints medians and ratios. Argument: the number of turns, 15 by default. Needs `npm run build`.
 */
import { spawnSync } from "node:child_process"
import { join } from "node:path"

const base = "await import('effect'); await import('@effect/platform');"
const programs = {
  base,
  "with effect-memory": `${base} await import('effect-memory');`,
  alone: "await import('effect-memory');"
}
const times = Object.fromEntries(Object.keys(programs).map((name) => [name, []]))
const turns = Number(process.argv[2] ?? 15)

for (let n = 0; n < turns; n++) {
  for (const [name, program] of Object.entries(programs)) {
    const code = `${program} const { user, system } = process.cpuUsage(); console.log((user + system) / 1000)`
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", code], {
      cwd: join(import.meta.dirname, ".."),
      encoding: "utf8"
    })
    times[name].push(Number(stdout))
  }
}
const median = (name) => times[name].toSorted((a, b) => a - b)[Math.floor(turns / 2)]
for (const name of Object.keys(programs)) {
  console.log(
    `${name.padEnd(20)} ${median(name).toFixed(0).padStart(6)} ms  ${(median(name) / median("base")).toFixed(2)}×`
  )
}
process.exit()
