/** Retrieval quality of others over a test collection, beside `npm run eval`. `--help` says how. */
import { create, insertMultiple, search } from "@orama/orama"
import Database from "better-sqlite3"
import MiniSearch from "minisearch"
import { pathToFileURL } from "node:url"
import { parseArgs } from "node:util"
import { Analyzer } from "../dist/index.js"
import { load, Refusal } from "./dataset.mjs"
import { mean, measure, names } from "./metrics.mjs"
import { byHand, dropSchema, hasVector, langGraph } from "./postgres.mjs"

const help = `npm run peers -- DIR [options]

Gives every document of DIR to others, each conversation an index of its own, asks every query and prints the measures of
npm run eval. A turn's text begins with its speaker, for they have no other place for him. Questions are "any of these words".

  --exclude-category N   leaves these queries out
  --url URL              asks a PostgreSQL server as well: a table by hand with a tsvector, and where the server has pgvector the
                         same with vectors, and LangGraph's store
  --embedder FILE        vectors for Orama's hybrid mode: a module whose default export is the layer of an embedder;
                         default the word vectors
  --help`

const limit = 20
const analyzer = Analyzer.make()
const wordsOf = (text) => Array.from(new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []))

/** Each makes an index of documents and returns how it is asked for ids, best first. */
const peers = {
  "MiniSearch": (documents) => {
    const index = new MiniSearch({ fields: ["text"] })
    index.addAll(documents)
    return ({ text }) => index.search(text).slice(0, limit).map(({ id }) => id)
  },
  "MiniSearch, prefix and fuzzy": (documents) => {
    const index = new MiniSearch({ fields: ["text"] })
    index.addAll(documents)
    return ({ text }) => index.search(text, { prefix: true, fuzzy: 0.2 }).slice(0, limit).map(({ id }) => id)
  },
  "MiniSearch, our terms": (documents) => {
    const split = (text) => text === "" ? [] : text.split(" ")
    const index = new MiniSearch({ fields: ["text"], tokenize: split, processTerm: (term) => term })
    index.addAll(documents.map(({ id, text }) => ({ id, text: analyzer.index(text).join(" ") })))
    return ({ text }) => index.search(analyzer.query(text).join(" ")).slice(0, limit).map(({ id }) => id)
  },
  "FTS5, porter": (documents) => {
    const db = new Database(":memory:")
    db.exec("CREATE VIRTUAL TABLE notes USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')")
    const insert = db.prepare("INSERT INTO notes VALUES (?, ?)")
    db.transaction(() => documents.forEach(({ id, text }) => insert.run(id, text)))()
    const ask = db.prepare("SELECT id FROM notes WHERE notes MATCH ? ORDER BY bm25(notes) LIMIT ?")
    return ({ text }) => {
      const words = wordsOf(text)
      return words.length === 0 ? [] : ask.all(words.map((word) => `"${word}"`).join(" OR "), limit).map(({ id }) => id)
    }
  },
  "Orama": (documents) => orama(documents, "fulltext"),
  "Orama, hybrid": (documents) => orama(documents, "hybrid")
}

const orama = async (documents, mode) => {
  const size = documents[0].vector.length
  const db = create({ schema: { key: "string", text: "string", vector: `vector[${size}]` } })
  await insertMultiple(db, documents.map(({ id, text, vector }) => ({ key: id, text, vector })))
  return async ({ text, vector }) => {
    const hybrid = { mode, vector: { value: vector, property: "vector" }, similarity: 0 }
    const asked = { term: text, properties: ["text"], threshold: 1, limit }
    const { hits } = await search(db, mode === "hybrid" ? { ...asked, ...hybrid } : asked)
    return hits.map(({ document: { key } }) => key)
  }
}

/** The peers of a PostgreSQL server. Each index is a schema, dropped once it was asked. */
const onServer = async (url, embed) => {
  const schema = `peers_${process.pid}`
  const made = (make, mode) => async (documents) => {
    const store = await make(documents[0].vector.length)
    await store.put("user", documents.map(({ id, text, vector }) => ({ key: id, text, vector })))
    await store.settle()
    const close = async () => {
      await store.close()
      await dropSchema(url, schema)
    }
    return Object.assign((asked) => store[mode]("user", asked, limit), { close })
  }
  const vectors = (dimensions) => byHand({ url, schema, dimensions })
  const graph = (dimensions) => langGraph({ url, schema, dimensions, embed })
  return {
    "tsvector by hand": made(() => byHand({ url, schema }), "search"),
    ...(await hasVector(url) && {
      "pgvector by hand": made(vectors, "near"),
      "both by hand": made(vectors, "hybrid"),
      "LangGraph, text": made(graph, "search"),
      "LangGraph, vector": made(graph, "near"),
      "LangGraph, hybrid": made(graph, "hybrid")
    })
  }
}

/** Makes the vectors of texts. */
const embedderOf = async (file) => {
  const { Effect } = await import("effect")
  const NodeContext = await import("@effect/platform-node/NodeContext")
  const { Embedder } = await import("../dist/index.js")
  const layer = file === undefined ? Embedder.layerWordVectors : (await import(pathToFileURL(file).href)).default
  const service = await Effect.runPromise(
    Embedder.Embedder.pipe(Effect.provide(layer), Effect.provide(NodeContext.layer))
  )
  return async (texts) => (await Effect.runPromise(service.embed(texts, "add"))).map((vector) => Array.from(vector))
}

const main = async () => {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      "exclude-category": { type: "string" },
      embedder: { type: "string" },
      help: { type: "boolean" },
      url: { type: "string" }
    }
  })
  if (values.help) return console.log(help)
  if (positionals.length !== 1) throw new Refusal("expected one folder")
  const { documents, queries } = load(positionals[0], { exclude: values["exclude-category"] })
  const embed = await embedderOf(values.embedder)
  const vectors = await embed(documents.map(({ text }) => text))
  const asked = await embed(queries.map(({ text }) => text))
  const given = documents.map(({ conv, id, speaker, text }, n) => ({
    conv,
    id,
    text: speaker === undefined ? text : `${speaker}: ${text}`,
    vector: vectors[n]
  }))
  const all = { ...peers, ...(values.url === undefined ? {} : await onServer(values.url, embed)) }
  const width = Math.max(...Object.keys(all).map((name) => name.length))
  console.log([" ".repeat(width), ...names.map((name) => name.padStart(9))].join(" "))
  for (const [name, make] of Object.entries(all)) {
    const measured = []
    for (const conv of new Set(documents.map(({ conv }) => conv))) {
      const ask = await make(given.filter((one) => one.conv === conv && one.text.trim() !== ""))
      for (const [n, query] of queries.entries()) {
        if (query.conv === conv) measured.push(measure(await ask({ text: query.text, vector: asked[n] }), query.grades))
      }
      await ask.close?.()
    }
    const means = mean(measured)
    console.log([name.padEnd(width), ...names.map((one) => means[one].toFixed(4).padStart(9))].join(" "))
  }
}

main().catch((error) => {
  if (!(error instanceof Refusal)) throw error
  console.error(`${error.message}\n--help says how.`)
  process.exitCode = 2
})
