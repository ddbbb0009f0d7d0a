/**
 * Memory in PostgreSQL without this library, for the benches that compare: a table with a tsvector, and where the server has
 * pgvector a vector, as one writes it by hand; and LangGraph's store. Each lies in a schema of its own.
 */
import { PostgresStore } from "@langchain/langgraph-checkpoint-postgres/store"
import pg from "pg"

export const defaultUrl = process.env.EFFECT_MEMORY_TEST_PG_URL ?? "postgres://postgres@127.0.0.1:5432/test"

/** Runs one statement on a connection of its own, and returns its rows. */
const ask = async (url, statement, parameters = []) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(statement, parameters)).rows
  } finally {
    await client.end()
  }
}

/** Whether the server has pgvector. */
export const hasVector = async (url) => {
  try {
    await ask(url, "CREATE EXTENSION IF NOT EXISTS vector")
    return true
  } catch {
    return false
  }
}

export const dropSchema = (url, schema) => ask(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)

/** Size of the tables of a schema with their indexes, in bytes. */
export const bytesOf = async (url, schema) => {
  const [{ bytes }] = await ask(
    url,
    `SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)), 0)::float8 AS bytes
     FROM pg_tables WHERE schemaname = $1`,
    [schema]
  )
  return bytes
}

/** Any of the words, as our search means a question: `plainto_tsquery` would mean all of them, which finds next to nothing. */
const anyWord = (text) => (text.match(/[\p{L}\p{N}]+/gu) ?? []).join(" | ")
const literal = (vector) => `[${vector.join(",")}]`

/**
 * A table with a generated tsvector under GIN, ranked by `ts_rank_cd`; with `dimensions` a vector under HNSW, and both lists merged
 * by reciprocal rank. `isMade`: the table is there.
 */
export const byHand = async ({ dimensions, isMade = false, schema, url }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  const table = `${schema}.notes`
  if (!isMade) {
    await pool.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`)
    await pool.query(
      `CREATE TABLE ${table} (id bigserial PRIMARY KEY, user_id text NOT NULL, key text NOT NULL, body text NOT NULL,
         words tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED
         ${dimensions === undefined ? "" : `, embedding vector(${dimensions})`})`
    )
    await pool.query(`CREATE INDEX ON ${table} USING gin (words)`)
    await pool.query(`CREATE INDEX ON ${table} (user_id)`)
  }
  const keys = ({ rows }) => rows.map(({ key }) => key)
  return {
    put: (userId, notes) =>
      pool.query(
        `INSERT INTO ${table} (user_id, key, body${dimensions === undefined ? "" : ", embedding"})
         SELECT $1, x->>0, x->>1${
          dimensions === undefined ? "" : `, (x->>2)::vector`
        } FROM jsonb_array_elements($2) AS x`,
        [userId, JSON.stringify(notes.map(({ key, text, vector }) => [key, text, vector && literal(vector)]))]
      ),
    /** Run once all is put. */
    settle: async () => {
      if (dimensions !== undefined) {
        const client = await pool.connect()
        await client.query("SET maintenance_work_mem = '1GB'") // else building the index takes an hour
        await client.query(`CREATE INDEX ON ${table} USING hnsw (embedding vector_cosine_ops)`)
        client.release()
      }
      await pool.query(`ANALYZE ${table}`)
    },
    search: async (userId, { text }, limit = 10) =>
      keys(
        await pool.query(
          `SELECT key, body, ts_rank_cd(words, q) AS rank FROM ${table}, to_tsquery('english', $2) AS q
           WHERE user_id = $1 AND words @@ q ORDER BY rank DESC LIMIT ${limit}`,
          [userId, anyWord(text)]
        )
      ),
    near: async (userId, { vector }, limit = 10) =>
      keys(
        await pool.query(
          `SELECT key, body FROM ${table} WHERE user_id = $1 ORDER BY embedding <=> $2::vector LIMIT ${limit}`,
          [userId, literal(vector)]
        )
      ),
    hybrid: async (userId, { text, vector }, limit = 10) =>
      keys(
        await pool.query(
          `WITH v AS (SELECT id, row_number() OVER (ORDER BY embedding <=> $3::vector) AS place FROM ${table}
             WHERE user_id = $1 ORDER BY embedding <=> $3::vector LIMIT 50),
           w AS (SELECT id, row_number() OVER (ORDER BY ts_rank_cd(words, q) DESC) AS place
             FROM ${table}, to_tsquery('english', $2) AS q WHERE user_id = $1 AND words @@ q
             ORDER BY ts_rank_cd(words, q) DESC LIMIT 50),
           best AS (SELECT id, sum(1.0 / (60 + place)) AS score FROM (SELECT * FROM v UNION ALL SELECT * FROM w) AS found
             GROUP BY id ORDER BY score DESC LIMIT ${limit})
           SELECT key, body FROM best JOIN ${table} USING (id) ORDER BY score DESC`,
          [userId, anyWord(text), literal(vector)]
        )
      ),
    close: () => pool.end()
  }
}

/** LangGraph's store as its documentation sets it up, with the vectors that `embed` makes of texts. */
export const langGraph = async ({ dimensions, embed, schema, url }) => {
  const store = PostgresStore.fromConnString(url, { schema, index: { dims: dimensions, embed, fields: ["text"] } })
  await store.start()
  const ask = async (userId, query, limit, mode) =>
    (await store.search([userId], { query, limit, mode })).map(({ key }) => key)
  return {
    put: async (userId, notes) => {
      for (const { key, text } of notes) await store.put([userId], key, { text })
    },
    settle: async () => {},
    search: (userId, { text }, limit = 10) => ask(userId, text, limit, "text"),
    near: (userId, { text }, limit = 10) => ask(userId, text, limit, "vector"),
    hybrid: (userId, { text }, limit = 10) => ask(userId, text, limit, "hybrid"),
    close: () => store.stop()
  }
}
