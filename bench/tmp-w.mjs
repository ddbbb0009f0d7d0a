import { Analyzer, Viewer } from "../dist/index.js"
import { MemoryIndex } from "../dist/ranking.js"
import { notes, queries } from "./corpus.mjs"
import { recordOf } from "./rows/words.mjs"
const N = Number(process.argv[2] ?? 100000), D = Number(process.argv[3] ?? N), mode = process.argv[4] ?? "race"
const analyzer = Analyzer.make(), split = (t) => t === "" ? [] : t.split(" "), given = { index: split, query: split }
const tokens = ({ body, id, summary, tags }) => ({
  id,
  text: Buffer.from([summary, body, ...tags].flatMap((t) => analyzer.index(t)).join(" ")).toString()
})
const some = notes(D).map(tokens)
const index = MemoryIndex.make({ analyzer: given })
for (let n = 0; n < N; n++) index.add(recordOf({ id: n, text: some[n % D].text }, false))
const questions = queries(300).map((t) => Array.from(new Set(analyzer.query(t))).join(" ")).filter((t) => t !== "")
const now = 1_700_000_000_000, everyone = Viewer.everyone()
const variants = {
  plain: {},
  weights: { weights: { recency: .3, importance: .3 } },
  kinds: { kinds: ["reference"] },
  where: { where: { "metadata.colour": { eq: "red" } } }
}
const ask = (v, n) => index.search(everyone, { text: questions[n % questions.length], limit: 10, ...variants[v] }, now)
const names = mode === "race" ? Object.keys(variants) : [mode]
for (let r = 0; r < 3; r++) for (const v of names) for (let n = 0; n < questions.length; n++) ask(v, n)
const out = {}
const per = Math.max(1, Math.round(3e7 / N / (mode === "race" ? 1 : 1)))
for (let t = 0; t < 9; t++) {
  for (const v of names) {
    const a = process.cpuUsage()
    for (let n = 0; n < per; n++) ask(v, n + t * per)
    const b = process.cpuUsage(a)
    ;(out[v] ??= []).push((b.user + b.system) / 1000 / per)
  }
}
for (const v in out) out[v].sort((a, b) => a - b)
for (const v in out) {
  console.log(
    v,
    out[v][4].toFixed(3),
    "min",
    out[v][0].toFixed(3),
    "ratio",
    (out[v][4] / out[names[0]][4]).toFixed(2),
    "minratio",
    (out[v][0] / out[names[0]][0]).toFixed(2)
  )
}
