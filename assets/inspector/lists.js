/** The views of lists: the timeline, and the trash. */
import { get, post } from "./api.js"
import { announce, clearNotice, element, excerpt, facts, notify, recordLink, roving, time, written } from "./dom.js"

const day = (at) =>
  new Date(at).toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" })

const paged = (main, title, intro, path, item, empty) => async () => {
  const list = roving(element("ol", { class: "cards" }))
  const more = element("button", { type: "button", hidden: true }, "Show more")
  const told = element("p", { class: "count" })
  main.replaceChildren(element("h1", {}, title), element("p", { class: "intro" }, intro), told, list, more)
  let after
  const load = async () => {
    const page = await get(after === undefined ? path : `${path}?after=${encodeURIComponent(after)}`)
    const first = page.items.map((record) => {
      const made = item(record, list)
      list.append(...made)
      return made.at(-1)
    })[0]
    if (after !== undefined) first?.querySelector("a, button")?.focus()
    after = page.next
    more.hidden = after === undefined
    const count = list.querySelectorAll("li.card").length
    told.textContent = count === 0
      ? empty
      : `${count} ${count === 1 ? "record" : "records"}${after === undefined ? "" : " so far"}`
    announce(count === 0 ? empty : `${count} shown`)
  }
  more.addEventListener("click", load)
  await load()
}

/** Shows what is remembered, newest first. */
export const timeline = (main) => {
  let last
  return paged(main, "Timeline", "What is remembered, newest first.", "records", (record) => {
    const today = day(record.updatedAt ?? record.createdAt)
    const heading = today === last ? [] : [element("li", { class: "day" }, element("h2", {}, today))]
    last = today
    const isTold = record.body.trim() === "" || record.body.trim() === record.summary.trim()
    return [
      ...heading,
      element(
        "li",
        { class: "card" },
        element("h3", {}, recordLink(record)),
        isTold ? undefined : element("p", { class: "passage", dir: "auto" }, written(excerpt(record.body, [], 160))),
        facts(record)
      )
    ]
  }, "Nothing is remembered yet.")()
}

/** Shows what was forgotten, with buttons that bring it back. */
export const trash = (main) =>
  paged(
    main,
    "Trash",
    "What was forgotten and can be brought back, until the store empties its trash.",
    "trash",
    (record, list) => {
      const restore = async () => {
        clearNotice()
        try {
          await post(`records/${record.id}/restore`, { revision: record.revision })
        } catch (error) {
          notify(`Not restored: ${error.message}`)
          return
        }
        const next = card.nextElementSibling ?? card.previousElementSibling
        card.remove()
        ;(next?.querySelector("button") ?? document.getElementById("main")).focus()
        if (list.children.length === 0) document.querySelector(".count").textContent = "The trash is empty."
        notify("Restored.", {
          label: "Open",
          run: () => {
            location.hash = `#/record/${record.id}`
          }
        })
      }
      const card = element(
        "li",
        { class: "card" },
        element("h2", { dir: "auto" }, written(record.summary)),
        element(
          "p",
          { class: "facts" },
          element("span", { class: "kind" }, record.kind),
          element("span", {}, "forgotten ", time(record.updatedAt ?? record.createdAt))
        ),
        element("div", { class: "actions" }, element("button", { type: "button", onclick: restore }, "Restore"))
      )
      return [card]
    },
    "The trash is empty."
  )()
