/** The view of the next prompt: what memory would add to it, and why. */
import { post } from "./api.js"
import { announce, bar, element, explanation, facts, recordLink, wordsOf, written } from "./dom.js"

const block = (title, text, none) =>
  element(
    "section",
    { class: "block" },
    element("h2", {}, title),
    text === ""
      ? element("p", { class: "count" }, none)
      : element("pre", { tabindex: "0", "aria-label": title }, written(text))
  )

const row = (words) => ({ hit, isShown }) =>
  element(
    "li",
    { class: isShown ? "card" : "card aside" },
    element("h3", {}, recordLink(hit.record, words)),
    element(
      "p",
      { class: "score" },
      bar(hit.score, `score ${hit.score.toFixed(2)} of 1`),
      element("span", {}, hit.score.toFixed(2)),
      element("span", { class: isShown ? "badge on" : "badge" }, isShown ? "shown" : "not shown: there are better hits")
    ),
    facts(hit.record),
    explanation(hit.explanation)
  )

const whyForm = (text) => {
  const field = element("input", {
    type: "text",
    id: "why-id",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "ID of a record"
  })
  const told = element("p", { class: "count", role: "status" })
  return element(
    "form",
    {
      class: "search",
      onsubmit: async (event) => {
        event.preventDefault()
        try {
          const answer = await post("why", { id: field.value.trim(), text })
          told.textContent = answer.text === null ? "It is found." : `It is not found: ${answer.text}.`
        } catch (error) {
          told.textContent = error.message
        }
      }
    },
    element("div", { class: "grow" }, element("label", { for: "why-id" }, "Why is this record not found?"), field),
    element("button", { type: "submit" }, "Explain"),
    told
  )
}

/** Shows what the next prompt gets for the message `q`. */
export const prompt = async (main, parameters) => {
  const text = parameters.get("q") ?? ""
  const field = element("textarea", {
    id: "message",
    rows: "2",
    value: text,
    placeholder: "What a user would say next"
  })
  const send = () => {
    location.hash = `#/prompt?${new URLSearchParams({ q: field.value.trim() })}`
  }
  const form = element(
    "form",
    {
      class: "search",
      onsubmit: (event) => {
        event.preventDefault()
        send()
      }
    },
    element("div", { class: "grow" }, element("label", { for: "message" }, "The user's next message"), field),
    element("button", { type: "submit", class: "primary" }, "Show the prompt")
  )
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send()
  })
  const results = element("div", {})
  main.replaceChildren(
    element("h1", {}, "Next prompt"),
    element(
      "p",
      { class: "intro" },
      "What memory adds to the next prompt of an agent that acts for this viewer, and why."
    ),
    form,
    results
  )
  if (!main.contains(document.activeElement)) field.focus()
  const found = await post("prompt", { text })
  const words = wordsOf(text)
  results.replaceChildren(
    ...(text === "" ? [] : [
      block("At the end of the message", found.context.text, "Nothing: no record bears on this message."),
      element(
        "section",
        { "aria-label": "Why these" },
        element("h2", {}, "Why these"),
        element(
          "p",
          { class: "count" },
          found.query === null ? "The message has no topic to search for." : "Hits of the search for ",
          found.query === null ? undefined : element("q", { dir: "auto" }, written(found.query))
        ),
        element("ol", { class: "cards" }, found.hits.map(row(words))),
        whyForm(text)
      )
    ]),
    block("Memory index, in the system prompt", found.index.text, "Empty: nothing that may stand there is remembered."),
    block("Instructions, in the system prompt", found.instructions, "None: this server reads no instruction files.")
  )
  announce(text === "" ? "The index is shown" : `${found.context.ids.length} records would be shown`)
}
