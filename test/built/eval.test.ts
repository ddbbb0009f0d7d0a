/** `npm run eval` on a collection whose figures were computed by hand. */
import { assert, describe, it } from "@effect/vitest"
import { cpSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { elsewhere, root, run } from "./programs.ts"

const collection = join(root, "test/fixtures/eval")
const evaluate = (...args: ReadonlyArray<string>) => run(join(root, "bench/eval.mjs"), elsewhere(), ...args)

/** Returns the JSON of the last line, with numbers rounded to nine places, since the order of additions is not tested. */
const result = (output: string): unknown =>
  JSON.parse(
    output.trimEnd().split("\n").at(-1) ?? "",
    (_, value: unknown) => typeof value === "number" ? Number(value.toFixed(9)) : value
  )
const metrics = (recall: number, ndcg: number, mrr: number, queries: number) => ({
  ...Object.fromEntries(["recall@5", "recall@10", "recall@20"].map((name) => [name, Number(recall.toFixed(9))])),
  "ndcg@10": Number(ndcg.toFixed(9)),
  mrr: Number(mrr.toFixed(9)),
  queries
})

const half = 2 / (2 + 1 / Math.log2(3)) // NDCG with grade 2 found first and grade 1 not found
const second = 1 / Math.log2(3) // NDCG with the relevant turn found second, after the only other turn of its conversation
const expected = {
  ...metrics(5.5 / 7, (1 + half + 1 + 2 * second + 1) / 7, 5 / 7, 7),
  categories: {
    "1": metrics(1.5 / 2, (1 + half) / 2, 1, 2),
    "2": metrics(3 / 4, (1 + 2 * second) / 4, 2 / 4, 4)
  }
}

/** Returns a copy of the collection with one file replaced. */
const broken = (file: string, content: string): string => {
  const folder = elsewhere()
  cpSync(collection, folder, { recursive: true })
  writeFileSync(join(folder, file), content)
  return folder
}

describe("npm run eval", () => {
  it("the measures of a small collection equal those computed by hand, in total and by category", async () => {
    const { code, output } = await evaluate(collection, "--exclude-category", "5", "--json")
    assert.strictEqual(code, 0, output)
    assert.deepStrictEqual(result(output), expected)
    assert.match(output, /^category +recall@5 +recall@10 +recall@20 +ndcg@10 +mrr +queries$/m)
    assert.match(output, /^2 +0\.7500 .* 4$/m)
    assert.match(output, /^95 % +(?:\d?\.\d{3}–\d?\.\d{3} *){5}$/m)
    assert.match(output, /^a query takes [\d.]+ ms \(median\), [\d.]+ ms \(95th of 100\)$/m)
    assert.notInclude(output, "\u001b[") // no colours, since the output is no terminal
  })

  it("the queries of the category in the option `--unanswerable` affect only the AUC of the confidence", async () => {
    const { output } = await evaluate(collection, "--unanswerable", "5", "--json")
    assert.match(output, /confidence tells 7 answerable from 1 other queries: AUC [01]\.\d{3}/)
    const without = await evaluate(collection, "--exclude-category", "5", "--json")
    const { auc, ...rest } = result(output) as { readonly auc: number }
    assert.isTrue(auc >= 0 && auc <= 1)
    assert.deepStrictEqual(rest, result(without.output))
  })

  it("the measures count the queries of all categories if `--exclude-category` is not given", async () => {
    const { output } = await evaluate(collection, "--json")
    assert.deepInclude(result(output), { queries: 8, "recall@5": Number((6.5 / 8).toFixed(9)) })
  })

  it("`--compare` prints the mean difference to a saved run, and the number of queries that both runs have", async () => {
    const file = join(elsewhere(), "before.json")
    await evaluate(collection, "--exclude-category", "5", "--save", file)
    const same = await evaluate(collection, "--exclude-category", "5", "--compare", file)
    assert.match(same.output, /^recall@10 +\+0\.0000 +\[\+0\.0000 \+0\.0000\] +over 7 queries of both$/m)
    const before = readFileSync(file, "utf8").replace(/"recall@10":[\d.]+/, "\"recall@10\":0.3")
    writeFileSync(file, before)
    const better = await evaluate(collection, "--exclude-category", "5", "--compare", file)
    assert.match(better.output, /^recall@10 +\+0\.1000 +\[\+0\.0000 \+0\.\d{4}\] +over 7 queries of both$/m)
    const { code, output } = await evaluate(collection, "--compare", join(elsewhere(), "nowhere"))
    assert.strictEqual(code, 2)
    assert.include(output, "cannot read")
  })

  it("the measures over a vault equal those over an in-memory store", async () => {
    const { output } = await evaluate(collection, "--exclude-category", "5", "--store", "vault", "--json")
    assert.deepStrictEqual(result(output), expected)
  })

  it("a document that has no word in common with the query is found by vector in hybrid mode", async () => {
    const folder = elsewhere()
    writeFileSync(
      join(folder, "docs.jsonl"),
      "{\"id\": \"dog\", \"text\": \"A kitchen with a new dog\"}\n{\"id\": \"tax\", \"text\": \"Invoices were paid\"}"
    )
    writeFileSync(join(folder, "queries.jsonl"), "{\"id\": \"q\", \"text\": \"cats\"}")
    writeFileSync(join(folder, "qrels.tsv"), "q\tdog\t1")
    const mrr = async (...args: ReadonlyArray<string>) => result((await evaluate(folder, "--json", ...args)).output)
    assert.deepInclude(await mrr(), { mrr: 0 })
    assert.deepInclude(await mrr("--embedder", "words"), { mrr: 1 })
    assert.deepInclude(await mrr("--embedder", "words", "--store", "vault"), { mrr: 1 })
  })

  it.each<readonly [saying: string, args: ReadonlyArray<string>]>([
    ["expected one folder", []],
    ["expected one folder", [collection, collection]],
    ["--store sql: expected memory, vault", [collection, "--store", "sql"]],
    ["--mode hybrid needs an embedder", [collection, "--mode", "hybrid", "--embedder", "none"]],
    ["Unknown option '--modes'", [collection, "--modes"]],
    ["docs.jsonl: ENOENT", [join(collection, "nowhere")]],
    ["docs.jsonl:2: not JSON", [broken("docs.jsonl", "{\"id\": 1, \"text\": \"\"}\n{")]],
    ["docs.jsonl:2: 1 is there twice", [
      broken("docs.jsonl", "{\"id\": 1, \"text\": \"\"}\n{\"id\": \"1\", \"text\": \"\"}")
    ]],
    ["queries.jsonl:1: no text", [broken("queries.jsonl", "{\"id\": 1}")]],
    ["qrels.tsv:1: expected query id", [broken("qrels.tsv", "first a1 1")]],
    ["no query that has a relevant document", [broken("qrels.tsv", "")]],
    ["no document of conversation c", [
      broken("queries.jsonl", "{\"id\": \"first\", \"conv\": \"c\", \"text\": \"x\"}")
    ]]
  ])("an error is reported with exit code 2: %s", async (saying, args) => {
    const { code, output } = await evaluate(...args)
    assert.strictEqual(code, 2, output)
    assert.include(output, saying)
    assert.notMatch(output, /^ +at /m)
  })

  it("`--help` prints the usage", async () => {
    const { code, output } = await evaluate("--help")
    assert.strictEqual(code, 0)
    assert.include(output, "npm run eval -- DIR")
  })
})
