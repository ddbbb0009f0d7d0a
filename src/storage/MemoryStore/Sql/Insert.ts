/** Makes INSERT statements. A statement for one row has a parameter per value, which is fastest. Several rows are passed as JSON. */
import { batchSize, each, type Parameter } from "./Database.ts"

/** A statement with its parameters. */
export type Statement = readonly [sql: string, parameters: ReadonlyArray<Parameter>]

/** The cells of a row, in the order of the columns. */
export type Cells = ReadonlyArray<string | number | null>

/** The table and columns of an insert. */
export interface Options {
  readonly table: string
  /** Names and types of the columns, in the order of the cells. The column `tenant` is not among them. */
  readonly columns: Readonly<Record<string, "text" | "integer" | "number">>
  /** SQL expressions for the values of further columns. Default: none. */
  readonly set?: Readonly<Record<string, string>> | undefined
  /** SQL after `ON CONFLICT`. Default: inserting an existing row is an error. */
  readonly conflict?: string | undefined
}

/** Makes a function that returns INSERT statements. The caller must encode the tenant and all key cells by `Database.text`. */
export const insert = (
  { columns, conflict, set = {}, table }: Options
): (tenant: string, rows: ReadonlyArray<Cells>) => ReadonlyArray<Statement> => {
  const names = Object.keys(columns)
  const into = `INSERT INTO ${table} AS t (tenant, ${[...Object.keys(set), ...names].join(", ")})`
  const expressions = Object.values(set).map((expression) => `${expression}, `).join("")
  const end = conflict === undefined ? "" : ` ON CONFLICT ${conflict}`
  const one = `${into} VALUES (?, ${expressions}${names.map(() => "?").join(", ")})${end}`
  const cells = Object.values(columns).map((type, n) =>
    type === "text"
      ? `e.value->>${n}`
      : `CAST(e.value->>${n} AS ${type === "integer" ? "integer" : "double precision"})`
  )
  // `WHERE true` is needed, since SQLite would otherwise parse ON CONFLICT as the condition of a join
  const many = `${into} SELECT ?, ${expressions}${cells.join(", ")} FROM {each} AS e WHERE true${end}`
  return (tenant, rows) => {
    const [first] = rows
    if (first === undefined) return []
    if (rows.length === 1) return [[one, [tenant, ...first]]]
    const statements: Array<Statement> = []
    for (let at = 0; at < rows.length; at += batchSize) {
      statements.push([many, [tenant, each(rows.slice(at, at + batchSize))]])
    }
    return statements
  }
}
