/** The view of a search. */
import { post } from "./api.js"
import { announce, bar, element, excerpt, explanation, facts, recordLink, roving, wordsOf, written } from "./dom.js"

const card = (words) => (hit) => {
  const { record, score } = hit
  const text = hit.passage?.text ?? record.body
  const isTold = text.trim() === record.summary.trim() || text.trim() === ""
  return element(
    "li",
    { class: "card" },
    element("h2", {}, recordLink(record, words)),
    element(
      "p",
      { class: "score" },
      bar(score, `score ${score.toFixed(2)} of 1`),
      element("span", { "aria-hidden": true }, score.toFixed(2))
    ),
    isTold ? undefined : element("p", { class: "passage", dir: "auto" }, written(excerpt(text, words), words)),
    facts(record),
    explanation(hit.explanation)
  )
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`

/** Shows the search, and the hits of `q`. */
export const search = async (main, parameters) => {
  const text = parameters.get("q") ?? ""
  const kind = parameters.get("kind") ?? ""
  const field = element("input", {
    type: "search",
    id: "q",
    name: "q",
    value: text,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "A few words, or a question"
  })
  const narrow = element("input", {
    type: "text",
    id: "kind",
    name: "kind",
    value: kind,
    autocomplete: "off",
    placeholder: "any"
  })
  const form = element(
    "form",
    {
      role: "search",
      class: "search",
      onsubmit: (event) => {
        event.preventDefault()
        const query = new URLSearchParams({
          q: field.value.trim(),
          ...(narrow.value.trim() && { kind: narrow.value.trim() })
        })
        const next = `#/search?${query}`
        if (location.hash === next) window.dispatchEvent(new HashChangeEvent("hashchange"))
        else location.hash = next
      }
    },
    element("div", { class: "grow" }, element("label", { for: "q" }, "Search memory"), field),
    element("div", { class: "narrow" }, element("label", { for: "kind" }, "Kind"), narrow),
    element("button", { type: "submit", class: "primary" }, "Search")
  )
  const results = element("section", { "aria-label": "Results", "aria-busy": "true" })
  main.replaceChildren(element("h1", { class: "hidden" }, "Search"), form, results)
  if (!main.contains(document.activeElement)) field.focus()
  const found = await post("search", { ...(text && { text }), ...(kind && { kinds: [kind] }), limit: 30 })
  const more = found.leftOut.limit + found.leftOut.budget
  const words = wordsOf(text)
  const told = found.hits.length === 0
    ? "Nothing found"
    : text === ""
    ? `The newest ${counted(found.hits.length, "memory").replace(/memorys$/, "memories")}`
    : `${counted(found.hits.length, "hit")}${
      more > 0 ? ` of ${found.leftOut.exact === false ? "at least " : ""}${found.hits.length + more}` : ""
    }`
  results.replaceChildren(
    element("p", { class: "count" }, told),
    roving(element("ol", { class: "cards" }, found.hits.map(card(words)))),
    ...found.failures.map(({ leg }) => element("p", { class: "count" }, `No answer from ${leg}.`))
  )
  results.setAttribute("aria-busy", "false")
  announce(told)
}
