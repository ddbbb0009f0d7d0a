import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, id } from "../../src/testing/Sample.ts"

/** Applies random edits to a graph and to a model, a list of edges that is scanned for every question, and compares their answers. */
describe("GraphMemory, compared with a plain list of edges", () => {
  const viewers = [ada, bob, Viewer.make({}), Viewer.make({ userId: "ada", reach: "within" })]
  const scopes = ["global", { userId: "ada" }, { userId: "bob" }] as const
  const nodes = Array.from({ length: 8 }, (_, n) => ({ id: id(`node ${n}`), scope: scopes[n % 3]! }))
  const types = ["x", "y"]
  const node = FastCheck.nat(nodes.length - 1)
  const edit = FastCheck.record({
    op: FastCheck.constantFrom("add", "relate", "relate", "relate", "unrelate", "forget"),
    viewer: FastCheck.nat(viewers.length - 1),
    from: node,
    to: node,
    type: FastCheck.constantFrom(...types),
    weight: FastCheck.constantFrom(0, 0.25, 0.5, 1)
  })
  const question = FastCheck.record({
    viewer: FastCheck.nat(viewers.length - 1),
    from: node,
    to: node,
    maxDepth: FastCheck.integer({ min: 1, max: 5 }),
    minWeight: FastCheck.constantFrom(0, 0.3, 1),
    direction: FastCheck.constantFrom<"out" | "in" | "both">("out", "in", "both"),
    types: FastCheck.constantFrom(["x"], ["y"], types, [])
  })

  const model = () => {
    const live = new Set<MemoryId>()
    let edges: ReadonlyArray<GraphMemory.Relationship> = []
    const scopeOf = (id: MemoryId) => nodes.find((node) => node.id === id)!.scope
    const sees = (viewer: Viewer.Viewer, id: MemoryId) => live.has(id) && Viewer.sees(viewer, scopeOf(id))
    const isOf = (a: GraphMemory.Relationship, from: MemoryId, to: MemoryId, type: string) =>
      a.from === from && a.to === to && a.type === type
    return {
      sees,
      add: (id: MemoryId) => {
        live.add(id)
        edges = edges.filter(({ from }) => from !== id) // a put under an existing id replaces the record with all of its links
      },
      relate: (viewer: Viewer.Viewer, edge: GraphMemory.Relationship) => {
        if (edge.from === edge.to || !sees(viewer, edge.from) || !sees(viewer, edge.to)) return
        edges = [...edges.filter((one) => !isOf(one, edge.from, edge.to, edge.type)), edge]
      },
      unrelate: (viewer: Viewer.Viewer, { from, to, type }: GraphMemory.Relationship) => {
        if (!sees(viewer, from) || !sees(viewer, to)) return
        edges = edges.filter((one) => !isOf(one, from, to, type))
      },
      forget: (viewer: Viewer.Viewer, id: MemoryId) => {
        if (!sees(viewer, id)) return
        live.delete(id)
        edges = edges.filter(({ from, to }) => from !== id && (to !== id || !sees(viewer, from)))
      },
      /** Returns the distance of each node that the viewer reaches, in edges. */
      distances: (viewer: Viewer.Viewer, from: MemoryId, along: GraphMemory.Traversal) => {
        const distances = new Map<MemoryId, number>(sees(viewer, from) ? [[from, 0]] : [])
        for (let depth = 1; depth <= along.maxDepth!; depth++) {
          const reached = edges.flatMap(({ from, to, type, weight }) => {
            if (!sees(viewer, from) || !sees(viewer, to)) return []
            if (weight < along.minWeight! || !along.types!.includes(type)) return []
            return [
              ...(along.direction !== "in" && distances.has(from) ? [to] : []),
              ...(along.direction !== "out" && distances.has(to) ? [from] : [])
            ]
          })
          for (const id of reached) if (!distances.has(id)) distances.set(id, depth)
        }
        return distances
      },
      ends: (viewer: Viewer.Viewer, from: MemoryId, path: ReadonlyArray<string>) =>
        path.reduce(
          (ends, type) =>
            new Set(
              edges.flatMap((edge) =>
                ends.has(edge.from) && edge.type === type && sees(viewer, edge.to) ? [edge.to] : []
              )
            ),
          new Set(sees(viewer, from) ? [from] : [])
        )
    }
  }

  it.effect.prop(
    "`traverse`, `findPath` and `queryByPath` agree with a plain list of edges for different viewers after random changes",
    [
      FastCheck.array(edit, { minLength: 20, maxLength: 60 }),
      FastCheck.array(question, { minLength: 8, maxLength: 8 })
    ],
    ([edits, questions]) =>
      Effect.gen(function*() {
        const graph = yield* GraphMemory.GraphMemory
        const plain = model()
        const put = (n: number) => {
          const { id, scope } = nodes[n]!
          const viewer = scope === "global" ? ada : Viewer.make(scope)
          plain.add(id)
          return graph.addEntity(viewer, { id, scope, body: "", data: { name: `node ${n}`, type: "node" } })
        }
        for (const n of nodes.keys()) yield* put(n)
        for (const { from: f, op, to: t, type, viewer: v, weight } of edits) {
          const [viewer, from, to] = [viewers[v]!, nodes[f]!.id, nodes[t]!.id]
          const edge = { from, to, type, weight }
          if (op === "add") {
            yield* put(f)
          } else if (op === "relate") {
            yield* Effect.either(graph.relate(viewer, edge))
            plain.relate(viewer, edge)
          } else if (op === "unrelate") {
            yield* graph.unrelate(viewer, edge)
            plain.unrelate(viewer, edge)
          } else {
            assert.strictEqual(yield* graph.forget(viewer, from), plain.sees(viewer, from))
            plain.forget(viewer, from)
          }
        }
        for (const { from: f, to: t, viewer: v, ...along } of questions) {
          const [viewer, from, to] = [viewers[v]!, nodes[f]!.id, nodes[t]!.id]
          const distances = plain.distances(viewer, from, along)
          const found = yield* graph.traverse(viewer, from, along)
          assert.deepStrictEqual(
            new Map(found.map(({ path, record }) => [record.id, path.length])),
            new Map(Array.from(distances).filter(([, distance]) => distance > 0))
          )
          const depths = found.map(({ path }) => path.length)
          assert.deepStrictEqual(depths, depths.slice().sort((a, b) => a - b))
          const path = yield* graph.findPath(viewer, from, to, along)
          assert.strictEqual(Option.getOrUndefined(Option.map(path, ({ length }) => length)), distances.get(to))
          const ends = yield* graph.queryByPath(viewer, from, ["x", "y"])
          assert.deepStrictEqual(new Set(ends.map(({ record }) => record.id)), plain.ends(viewer, from, ["x", "y"]))
        }
      }).pipe(Effect.provide(Layer.provide(GraphMemory.layer, MemoryStore.layerInMemory))),
    { fastCheck: { numRuns: 100, seed: 4 } }
  )
})
