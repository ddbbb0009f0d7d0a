/** The page: which view is shown, the keys, the look, and the question for a token. */
import { dropToken, get, keepToken } from "./api.js"
import { announce, clearNotice, element, safe } from "./dom.js"
import { graph } from "./graph.js"
import { timeline, trash } from "./lists.js"
import { prompt } from "./prompt.js"
import { record } from "./record.js"
import { search } from "./search.js"

const main = document.getElementById("main")
const views = { search, timeline, prompt, trash, record, graph }
const titles = {
  search: "Search",
  timeline: "Timeline",
  prompt: "Next prompt",
  trash: "Trash",
  record: "Record",
  graph: "Graph"
}

const here = () => {
  const [, view = "", id = "", query = ""] = /^#\/(\w*)(?:\/([0-9A-Z]{26}))?(?:\?(.*))?$/s.exec(location.hash) ?? []
  return { view: Object.hasOwn(views, view) ? view : "search", id, parameters: new URLSearchParams(query) }
}

let turn = 0

/** Shows the view of the address. A view that is overtaken by another draws into a place that is no longer shown. */
const show = async () => {
  const { id, parameters, view } = here()
  const mine = ++turn
  const place = element("div", {})
  main.setAttribute("aria-busy", "true")
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${view}`) link.setAttribute("aria-current", "page")
    else link.removeAttribute("aria-current")
  }
  document.title = `${titles[view]} · effect-memory`
  main.replaceChildren(place)
  try {
    await views[view](place, parameters, id)
  } catch (error) {
    if (mine !== turn) return
    if (error.status === 401) return askToken(error.message)
    place.replaceChildren(
      element("h1", {}, error.status === 404 ? "Not there" : "That did not work"),
      element(
        "p",
        { role: "alert" },
        error.status === 404 ? "There is no such record, or this viewer does not see it." : safe(error.message)
      ),
      element("p", {}, element("a", { href: "#/search" }, "Search"))
    )
    announce(error.message)
  } finally {
    if (mine === turn) main.setAttribute("aria-busy", "false")
  }
}

/** Asks for a token, which is kept for this tab alone. */
const askToken = (message) => {
  const field = element("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true
  })
  main.replaceChildren(element(
    "form",
    {
      class: "token",
      onsubmit: async (event) => {
        event.preventDefault()
        keepToken(field.value.trim())
        await begin()
      }
    },
    element("h1", {}, "A token is needed"),
    element(
      "p",
      { class: "intro" },
      "This memory is served to those who have a token. It is kept for this tab, and sent to this server alone."
    ),
    element("div", { class: "field-row" }, element("label", { for: "token" }, "Token"), field),
    sessionStorage.length > 0 ? element("p", { role: "alert", class: "warning" }, safe(message)) : undefined,
    element("div", { class: "actions" }, element("button", { type: "submit", class: "primary" }, "Go on"))
  ))
  main.setAttribute("aria-busy", "false")
  field.focus()
}

const begin = async () => {
  try {
    const { ids, reach, store, tenant, version } = await get("session")
    const who = Object.entries(ids).map(([name, id]) => `${name.replace(/Id$/, "")} ${safe(id)}`).join(", ")
    document.getElementById("viewer").textContent =
      `For ${who || (reach === "everyone" ? "everyone" : "what everyone may see")}` +
      `${tenant === "default" ? "" : ` of tenant ${safe(tenant)}`} · store: ${safe(store)} · effect-memory ${version}`
  } catch (error) {
    if (error.status === 401) {
      askToken(error.message)
      dropToken()
      return
    }
  }
  await show()
}

const looks = ["system", "light", "dark"]
const themeButton = document.getElementById("theme")
const setLook = (look) => {
  if (look === "system") delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = look
  themeButton.textContent = `Theme: ${look}`
}
let look = looks.includes(localStorage.getItem("look")) ? localStorage.getItem("look") : "system"
setLook(look)
themeButton.addEventListener("click", () => {
  look = looks[(looks.indexOf(look) + 1) % looks.length]
  localStorage.setItem("look", look)
  setLook(look)
  announce(`Theme: ${look}`)
})

const keys = [
  ["/", "search"],
  ["s  t  p  x", "search, timeline, prompt, trash"],
  ["↓ ↑ or j k", "next and previous card of a list; arrows move in a graph"],
  ["Enter", "opens what has the focus"],
  ["e  g  h  f", "on a record: edit, graph, history, forget"],
  ["c", "in a graph: puts the record in the middle"],
  ["Ctrl+Enter", "saves an edit, sends a message"],
  ["Esc", "leaves an edit or a dialog"],
  ["?", "shows these keys"]
]
const isOn = element("input", { type: "checkbox", id: "keys-on", checked: localStorage.getItem("keys") !== "off" })
isOn.addEventListener("change", () => localStorage.setItem("keys", isOn.checked ? "on" : "off"))
const help = element(
  "dialog",
  { "aria-labelledby": "help-title", class: "help" },
  element("h2", { id: "help-title" }, "Keys"),
  element("dl", {}, keys.map(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)])),
  element("p", { class: "inline" }, isOn, element("label", { for: "keys-on" }, "Single letters are shortcuts")),
  element("div", { class: "actions" }, element("button", { type: "button", onclick: () => help.close() }, "Close"))
)
document.body.append(help)
document.getElementById("help").addEventListener("click", () => help.showModal())
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault()
  main.focus()
})

const go = { s: "#/search", t: "#/timeline", p: "#/prompt", x: "#/trash" }
document.addEventListener("keydown", (event) => {
  if (
    event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog") ||
    !isOn.checked
  ) return
  const { id, view } = here()
  if (event.key === "?") help.showModal()
  else if (event.key === "/") {
    const field = document.getElementById("q")
    if (field === null) location.hash = "#/search"
    else field.focus()
  } else if (Object.hasOwn(go, event.key)) location.hash = go[event.key]
  else if (view === "record" && event.key === "g") location.hash = `#/graph/${id}`
  else if (view === "record" && event.key === "h") document.getElementById("history")?.focus()
  else if (view === "record" && (event.key === "e" || event.key === "f")) {
    document.getElementById(event.key === "e" ? "edit" : "forget")?.click()
  } else return
  event.preventDefault()
})
window.addEventListener("hashchange", () => {
  clearNotice()
  show()
})
begin()
