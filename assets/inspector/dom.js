/** Elements of the page. Text reaches them by text nodes alone; nothing of this page parses a text as HTML. */

const svgNamespace = "http://www.w3.org/2000/svg"

// controls but tab and line feed; bidi, zero-width, tag and other invisible characters but joiners; separators; half characters
const unsafe = /((?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}])/gu

const escapeOf = (character) => {
  const code = character.codePointAt(0)
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`
}

/** Returns a text with every character that hides or reorders others written as an escape. */
export const safe = (text) => String(text).replace(/\r\n?/g, "\n").replace(unsafe, escapeOf)

/** Returns the nodes of a stored text: what is invisible in it stands there as a marked escape. `marks`: words to mark. */
export const written = (text, marks = []) =>
  String(text).replace(/\r\n?/g, "\n").split(unsafe).flatMap((part, n) => {
    if (part === "") return []
    if (n % 2 === 1) {
      return [element("span", { class: "escape", title: "a character that is not shown" }, escapeOf(part))]
    }
    return marked(part, marks)
  })

const marked = (text, marks) => {
  if (marks.length === 0) return [text]
  const pattern = marks.map((mark) => mark.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")
  return text.split(new RegExp(`((?<![\\p{L}\\p{N}])(?:${pattern})[\\p{L}\\p{N}]*)`, "giu")).map((part, n) =>
    n % 2 === 1 ? element("mark", {}, part) : part
  )
}

/** Returns the words of a question that are worth marking. */
export const wordsOf = (question) =>
  Array.from(new Set(question.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []))
    .filter((word) =>
      !/^(?:and|are|but|does|for|her|his|how|not|she|that|the|was|what|when|where|which|who|why|with|you)$/.test(word)
    )
    .map((word) => word.length > 4 ? word.replace(/(?:ies|es|s|ed|ing)$/, "") : word)

const build = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value)
    else if (name === "value") made.value = value
    else made.setAttribute(name, value === true ? "" : String(value))
  }
  made.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false))
  return made
}

/** Makes an element of attributes, listeners (`onclick`) and children: texts, nodes, lists of them. */
export const element = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children)

/** Makes an element of SVG. */
export const svg = (name, attributes = {}, ...children) =>
  build(document.createElementNS(svgNamespace, name), attributes, children)

/** Tells people who do not see the page what has changed. */
export const announce = (text) => {
  document.getElementById("status").textContent = safe(text)
}

const notices = () => document.getElementById("notice")

/** Shows a notice, with a button if there is something to do. It goes with the next notice or view. */
export const notify = (text, action) => {
  const place = notices()
  place.replaceChildren(
    element("span", {}, safe(text)),
    ...(action === undefined ? [] : [element("button", { type: "button", onclick: action.run }, action.label)]),
    element("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: clearNotice }, "×")
  )
  place.hidden = false
  announce(text)
}

/** Takes the notice away. */
export const clearNotice = () => {
  notices().hidden = true
}

const steps = [
  [31557600000, "year"],
  [2629800000, "month"],
  [604800000, "week"],
  [86400000, "day"],
  [3600000, "hour"],
  [
    60000,
    "minute"
  ]
]

/** Makes the element of a time: relative, with the exact one beside the pointer. */
export const time = (at) => {
  const distance = Math.abs(Date.now() - at)
  const step = steps.find(([size]) => distance >= size)
  const count = step === undefined ? 0 : Math.floor(distance / step[0])
  const words = step === undefined ? "just now" : `${count} ${step[1]}${count === 1 ? "" : "s"}`
  const iso = new Date(at).toISOString()
  return element(
    "time",
    { datetime: iso, title: iso },
    step === undefined ? words : at <= Date.now() ? `${words} ago` : `in ${words}`
  )
}

/** Returns a scope in words. */
export const scopeText = (scope) =>
  scope === "global"
    ? "everyone"
    : Object.entries(scope).map(([name, id]) => `${name.replace(/Id$/, "")} ${safe(id)}`).join(", ")

const trusts = ["system", "stated", "derived", "untrusted"]

/** Makes the line of facts about a record. */
export const facts = (record) =>
  element(
    "p",
    { class: "facts" },
    element("span", { class: "kind" }, safe(record.kind)),
    element("span", {}, scopeText(record.scope)),
    element("span", {}, time(record.updatedAt ?? record.createdAt)),
    element("span", {}, `${safe(record.source.origin)}, ${trusts[record.source.trust]}`),
    record.tags.map((tag) => element("span", { class: "tag" }, `#${safe(tag)}`))
  )

/** Makes a bar for a share, 0..1. */
export const bar = (share, label) => {
  const fill = element("span", { class: "fill" })
  fill.style.setProperty("width", `${Math.round(Math.max(0, Math.min(1, share)) * 100)}%`)
  return element("span", { class: "meter", role: "img", "aria-label": label }, fill)
}

/** Makes the explanation of a score: what each factor adds to it. */
export const explanation = (parts = {}) => {
  const entries = Object.entries(parts).filter(([, share]) => share !== 0).sort(([, a], [, b]) =>
    Math.abs(b) - Math.abs(a)
  )
  if (entries.length === 0) return undefined
  const most = Math.max(...entries.map(([, share]) => Math.abs(share)))
  return element(
    "details",
    { class: "why" },
    element("summary", {}, "Why this score"),
    element(
      "dl",
      {},
      entries.map(([name, share]) => [
        element("dt", {}, safe(name)),
        element("dd", {}, bar(Math.abs(share) / most, `${share.toFixed(3)}`), element("span", {}, share.toFixed(3)))
      ])
    )
  )
}

/** Makes a link to a record by its summary. */
export const recordLink = (record, marks) =>
  element("a", { href: `#/record/${record.id}`, dir: "auto" }, written(record.summary, marks))

/** Returns the part of a text that a card shows: around the first of the words, at most so many characters. */
export const excerpt = (text, words, size = 320) => {
  const found = text.toLowerCase().search(new RegExp(words.join("|") || "(?!)", "u"))
  const start = found > size * 0.6 ? Math.max(0, text.lastIndexOf(" ", found - size / 4)) : 0
  const end = Math.min(text.length, start + size)
  return `${start > 0 ? "…" : ""}${text.slice(start, end).toWellFormed?.() ?? text.slice(start, end)}${
    end < text.length ? "…" : ""
  }`
}

/** Lets the arrow keys, j and k move between the cards of a list. */
export const roving = (list) => {
  list.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" || event.key === "j"
      ? 1
      : event.key === "ArrowUp" || event.key === "k"
      ? -1
      : 0
    if (step === 0 || event.altKey || event.ctrlKey || event.metaKey) return
    const cards = Array.from(list.querySelectorAll("h2 a, h3 a"))
    const at = cards.findIndex((card) =>
      card === document.activeElement || card.closest("li").contains(document.activeElement)
    )
    const next = cards[at + step]
    if (next === undefined) return
    event.preventDefault()
    next.focus()
  })
  return list
}
