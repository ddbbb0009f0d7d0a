/** Copies the summary of `docs/benchmarks.md` into the README, between the same marks. */
import { readFileSync, writeFileSync } from "node:fs"
import { summaryOf } from "./report.mjs"

const readme = new URL("../README.md", import.meta.url)
const summary = summaryOf(readFileSync(new URL("../docs/benchmarks.md", import.meta.url), "utf8"))
if (summary === undefined) throw new Error("docs/benchmarks.md has no summary")
const text = readFileSync(readme, "utf8")
if (summaryOf(text) === undefined) throw new Error("README.md has no place for the summary")
writeFileSync(
  readme,
  text.replace(/<!-- summary -->\n[^]*?\n?<!-- \/summary -->/, () => `<!-- summary -->\n${summary}\n<!-- /summary -->`)
)
