/** The view of the graph around a record. Its layout is a function of the graph: rings by distance, the same each time. */
import { get } from "./api.js"
import { announce, element, safe, svg } from "./dom.js"

const width = 920
const ring = 130

/** Places nodes: the first in the middle, each other on the ring of its distance, in the sector of the node that leads to it. */
const placed = ({ edges, nodes }) => {
  const near = new Map(nodes.map(({ id }) => [id, []]))
  for (const { from, to } of edges) {
    near.get(from).push(to)
    near.get(to).push(from)
  }
  const depths = new Map(nodes.map(({ depth, id }) => [id, depth]))
  const children = new Map(nodes.map(({ id }) => [id, []]))
  for (const { depth, id } of nodes.slice(1)) {
    const parent = nodes.find((other) => depths.get(other.id) === depth - 1 && near.get(id).includes(other.id))
    children.get((parent ?? nodes[0]).id).push(id)
  }
  const leaves = new Map()
  for (const { id } of nodes.toReversed()) {
    leaves.set(id, Math.max(1, children.get(id).reduce((sum, child) => sum + leaves.get(child), 0)))
  }
  const places = new Map()
  const place = (id, from, until) => {
    const depth = depths.get(id)
    const angle = (from + until) / 2
    places.set(id, { x: Math.cos(angle) * ring * depth * 1.5, y: Math.sin(angle) * ring * depth, angle, depth })
    let at = from
    for (const child of children.get(id)) {
      const share = (until - from) * leaves.get(child) / leaves.get(id)
      place(child, at, at + share)
      at += share
    }
  }
  place(nodes[0].id, -Math.PI, Math.PI)
  return places
}

const lines = (summary) => {
  const text = safe(summary).replace(/\s+/g, " ")
  const words = text.split(" ")
  const rows = [""]
  for (const word of words) {
    const row = rows.at(-1)
    if (row !== "" && row.length + word.length > 24) rows.push(word)
    else rows[rows.length - 1] = row === "" ? word : `${row} ${word}`
  }
  const cut = rows.slice(0, 2).map((row) => row.length > 28 ? `${Array.from(row).slice(0, 27).join("")}…` : row)
  if (rows.length > 2) cut[1] = `${cut[1].replace(/…$/, "")}…`
  return cut
}

const drawn = ({ edges, nodes }, go) => {
  const places = placed({ edges, nodes })
  const all = Array.from(places.values())
  const left = Math.min(...all.map(({ x }) => x)) - 130
  const right = Math.max(...all.map(({ x }) => x)) + 130
  const top = Math.min(...all.map(({ y }) => y)) - 40
  const bottom = Math.max(...all.map(({ y }) => y)) + 70
  const paths = edges.map(({ from, to, type }) => {
    const a = places.get(from)
    const b = places.get(to)
    return svg(
      "g",
      { class: "edge" },
      svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y }),
      svg("title", {}, safe(type))
    )
  })
  const names = edges.filter(({ type }) => type !== "wikilink").map(({ from, to, type }) => {
    const a = places.get(from)
    const b = places.get(to)
    return svg(
      "text",
      { class: "type", x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - 4, "text-anchor": "middle" },
      safe(type).slice(0, 24)
    )
  })
  const dots = nodes.map(({ depth, id, kind, summary }) => {
    const { x, y } = places.get(id)
    const text = lines(summary)
    return svg(
      "a",
      {
        href: `#/record/${id}`,
        tabindex: depth === 0 ? "0" : "-1",
        "aria-label": `${safe(summary)}, ${safe(kind)}, ${depth === 0 ? "the middle" : `${depth} away`}`,
        class: `node depth-${depth}`,
        "data-id": id,
        "data-x": x,
        "data-y": y,
        onkeydown: (event) => {
          if (event.key === "c") go(id)
        }
      },
      svg("circle", { class: "ring", cx: x, cy: y, r: depth === 0 ? 19 : 14 }),
      svg("circle", { class: "dot", cx: x, cy: y, r: depth === 0 ? 13 : 9 }),
      text.map((row, n) => svg("text", { x, y: y + (depth === 0 ? 34 : 28) + n * 19, "text-anchor": "middle" }, row)),
      svg("title", {}, safe(summary))
    )
  })
  const height = bottom - top
  return svg(
    "svg",
    {
      viewBox: `${left} ${top} ${right - left} ${height}`,
      width,
      role: "group",
      "aria-label": "Graph; arrow keys move between records, Enter opens one, c puts it in the middle",
      class: "graph",
      onkeydown: (event) => move(event, dots)
    },
    ...paths,
    ...names,
    ...dots
  )
}

const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }

/** Moves the focus to the node that lies nearest in the direction of an arrow key; one node at a time is in the tab order. */
const move = (event, dots) => {
  const direction = directions[event.key]
  const current = dots.indexOf(document.activeElement)
  const target = event.key === "Home" ? dots[0] : event.key === "End" ? dots.at(-1) : undefined
  if (current < 0 || (direction === undefined && target === undefined)) return
  event.preventDefault()
  const at = (dot) => [Number(dot.dataset.x), Number(dot.dataset.y)]
  const [x, y] = at(dots[current])
  const next = target ?? dots
    .map((dot) => {
      const [dx, dy] = [at(dot)[0] - x, at(dot)[1] - y]
      const along = dx * direction[0] + dy * direction[1]
      const across = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0])
      return { dot, along, cost: along + across * 2 }
    })
    .filter(({ along, dot }) => along > 1 && dot !== dots[current])
    .sort((a, b) => a.cost - b.cost)[0]?.dot
  if (next === undefined) return
  for (const dot of dots) dot.setAttribute("tabindex", dot === next ? "0" : "-1")
  next.focus()
}

/** Shows the graph around a record. */
export const graph = async (main, parameters, id) => {
  const depth = /^[123]$/.test(parameters.get("depth") ?? "") ? parameters.get("depth") : "2"
  const found = await get(`records/${id}/graph?depth=${depth}`)
  const [middle] = found.nodes
  const go = (id) => {
    location.hash = `#/graph/${id}?depth=${depth}`
  }
  const select = element(
    "select",
    {
      id: "depth",
      onchange: (event) => {
        location.hash = `#/graph/${id}?depth=${event.target.value}`
      }
    },
    ["1", "2", "3"].map((value) =>
      element("option", { value, selected: value === depth }, `${value} link${value === "1" ? "" : "s"}`)
    )
  )
  const names = new Map(found.nodes.map((node) => [node.id, node]))
  const end = (id) => element("a", { href: `#/record/${id}`, dir: "auto" }, safe(names.get(id).summary))
  main.replaceChildren(
    element("h1", {}, "Graph"),
    element("p", { class: "intro" }, "Around ", end(middle.id)),
    element("p", { class: "inline" }, element("label", { for: "depth" }, "Distance"), select),
    found.nodes.length === 1
      ? element("p", { class: "count" }, "Nothing is linked to this record.")
      : element("div", { class: "canvas" }, drawn(found, go)),
    element(
      "p",
      { class: "count" },
      `${found.nodes.length} records, ${found.edges.length} links${
        found.isCut ? "; there are more" : ""
      }. Arrow keys move, Enter opens, c centres.`
    ),
    element(
      "details",
      {},
      element("summary", {}, "Links as a list"),
      element(
        "ul",
        { class: "links" },
        found.edges.map(({ from, to, type }) =>
          element("li", {}, end(from), element("span", { class: "type" }, ` ${safe(type)} → `), end(to))
        )
      )
    )
  )
  main.querySelector(".node")?.focus()
  announce(`${found.nodes.length} records, ${found.edges.length} links`)
}
