/** Vectors by model and by the hash of the text they are of: an edit invalidates itself, and models are never mixed. */
import { type MemoryRecord, textHash } from "../domain/MemoryRecord.ts"

const hashes = new WeakMap<MemoryRecord, string>()

/** `textHash`, once for each record. */
export const hashOf = (record: MemoryRecord): string => {
  const known = hashes.get(record)
  if (known !== undefined) return known
  const hash = textHash(record)
  hashes.set(record, hash)
  return hash
}

interface Table {
  /** Of every vector of the model; the first one says. */
  readonly dimensions: number
  readonly vectors: Map<string, Float32Array>
  version: number
}

/** The vectors of several tenants. A tenant without vectors takes no memory. */
export class TenantEmbeddings {
  readonly #all: All = { tenants: new Map(), arrived: 0 }

  /** Returns the vectors of one tenant. Every call for the same tenant returns a view of the same vectors. */
  of(tenant: string): Embeddings {
    return new Embeddings(this.#all, tenant)
  }
}

interface All {
  readonly tenants: Map<string, Map<string, Table>>
  /** Number of vectors ever added, removed ones included. */
  arrived: number
}

export class Embeddings {
  readonly #all: All
  readonly #tenant: string

  /** Makes an independent set of vectors; `TenantEmbeddings.of` makes the view of a tenant. */
  constructor(all: All = { tenants: new Map(), arrived: 0 }, tenant = "") {
    this.#all = all
    this.#tenant = tenant
  }

  get #tables(): ReadonlyMap<string, Table> {
    return this.#all.tenants.get(this.#tenant) ?? none
  }

  /** `undefined`: there is no vector of this model. */
  dimensions(model: string): number | undefined {
    return this.#tables.get(model)?.dimensions
  }

  /** Another with each vector that comes, never the same again: what was not there may be there now. */
  version(model: string): number {
    return this.#tables.get(model)?.version ?? 0
  }

  /** How many vectors of the model that has the most. */
  get size(): number {
    return Math.max(0, ...Array.from(this.#tables.values(), ({ vectors }) => vectors.size))
  }

  get(model: string, hash: string): Float32Array | undefined {
    return this.#tables.get(model)?.vectors.get(hash)
  }

  all(model: string): Iterable<readonly [hash: string, vector: Float32Array]> {
    return this.#tables.get(model)?.vectors ?? []
  }

  /**
   * Not copied. A hash that has one keeps it: of one text a model makes one vector. `false`, and nothing changed: it is
   * empty, not finite, or has not the dimensions of the others.
   */
  set(model: string, hash: string, vector: Float32Array): boolean {
    const known = this.#tables.get(model)
    if (vector.length === 0 || vector.length !== (known?.dimensions ?? vector.length)) return false
    if (!vector.every(Number.isFinite)) return false
    const table = known ?? { dimensions: vector.length, vectors: new Map(), version: 0 }
    if (known === undefined) {
      this.#all.tenants.set(this.#tenant, (this.#all.tenants.get(this.#tenant) ?? new Map()).set(model, table))
    }
    if (table.vectors.has(hash)) return true
    table.vectors.set(hash, vector)
    table.version = ++this.#all.arrived
    return true
  }

  /** Of every model, or of one; how many vectors went. */
  retain(keep: (hash: string) => boolean, only?: string): number {
    const tables = this.#all.tenants.get(this.#tenant)
    if (tables === undefined) return 0
    let count = 0
    for (const [model, { vectors }] of tables) {
      if (only !== undefined && model !== only) continue
      for (const hash of vectors.keys()) if (!keep(hash) && vectors.delete(hash)) count++
      if (vectors.size === 0) tables.delete(model)
    }
    if (tables.size === 0) this.#all.tenants.delete(this.#tenant)
    return count
  }
}

const none: ReadonlyMap<string, Table> = new Map()
