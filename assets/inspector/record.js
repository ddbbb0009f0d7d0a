/** The view of a record: its text, its links, its history, and what can be done with it. */
import { get, post } from "./api.js"
import { announce, bar, clearNotice, element, facts, notify, safe, time, written } from "./dom.js"

const row = (name, ...children) => [element("dt", {}, name), element("dd", {}, ...children)]

const property = (record) =>
  element(
    "dl",
    { class: "properties" },
    row("id", element("code", {}, record.id)),
    row("importance", bar(record.importance, `importance ${record.importance}`), ` ${record.importance}`),
    record.confidence === undefined
      ? []
      : row("confidence", bar(record.confidence, `confidence ${record.confidence}`), ` ${record.confidence}`),
    row("created", time(record.createdAt)),
    record.updatedAt === undefined ? [] : row("changed", time(record.updatedAt)),
    row("revision", `${record.revision}`),
    record.invalidAt === undefined ? [] : row("true until", time(record.invalidAt)),
    record.expiresAt === undefined ? [] : row("expires", time(record.expiresAt)),
    record.source.reference === undefined ? [] : row("source", written(record.source.reference)),
    ...Object.keys(record.data).length > 0
      ? [row("data", element("pre", { tabindex: "0" }, written(JSON.stringify(record.data, null, 2))))]
      : [],
    ...Object.keys(record.metadata).length > 0
      ? [row("metadata", element("pre", { tabindex: "0" }, written(JSON.stringify(record.metadata, null, 2))))]
      : []
  )

const ends = (title, linked, none) =>
  element(
    "section",
    { "aria-label": title },
    element("h2", {}, title),
    linked.length === 0 ? element("p", { class: "count" }, none) : element(
      "ul",
      { class: "links" },
      linked.map((end) =>
        element(
          "li",
          {},
          element("a", { href: `#/record/${end.id}`, dir: "auto" }, written(end.summary)),
          element("span", { class: "type" }, ` ${safe(end.type)}`)
        )
      )
    )
  )

const signs = { same: " ", added: "+", removed: "−" }
const says = { same: "", added: "added: ", removed: "removed: " }

const lineRows = (lines) =>
  element(
    "div",
    { class: "diff", role: "group", "aria-label": "Lines that changed" },
    lines.map(({ change, text }) =>
      element(
        "p",
        { class: change, dir: "auto" },
        element("span", { class: "sign", "aria-hidden": true }, signs[change]),
        element("span", { class: "hidden" }, says[change]),
        element("span", {}, written(text))
      )
    )
  )

const revision = ({ difference, record }, isCurrent, restore) =>
  element(
    "li",
    {},
    element(
      "h3",
      {},
      `Revision ${record.revision}`,
      isCurrent ? " (current)" : "",
      " ",
      element("small", {}, time(record.updatedAt ?? record.createdAt))
    ),
    difference === undefined
      ? element("p", { class: "count" }, "The earliest that is kept.")
      : difference.fields.length + difference.lines.length === 0
      ? element("p", { class: "count" }, "Says the same as the revision before.")
      : [
        difference.fields.map(({ after, before, field }) =>
          element(
            "p",
            { class: "field" },
            element("strong", {}, field),
            " ",
            before === null ? undefined : element("del", {}, written(before)),
            " ",
            after === null ? undefined : element("ins", {}, written(after))
          )
        ),
        difference.lines.length > 0 ? lineRows(difference.lines) : undefined
      ],
    isCurrent
      ? undefined
      : element("button", { type: "button", onclick: () => restore(record.revision) }, "Restore this revision")
  )

const field = (id, label, input) => element("div", { class: "field-row" }, element("label", { for: id }, label), input)

/** Makes the form that changes a record. `saved` is called with the record as it is then. */
const editor = (record, draft, saved, cancelled) => {
  const summary = element("input", {
    id: "edit-summary",
    type: "text",
    maxlength: "200",
    value: draft.summary,
    dir: "auto"
  })
  const body = element("textarea", { id: "edit-body", rows: "10", value: draft.body, dir: "auto" })
  const tags = element("input", { id: "edit-tags", type: "text", value: draft.tags.join(", ") })
  const importance = element("input", {
    id: "edit-importance",
    type: "number",
    min: "0",
    max: "1",
    step: "any",
    value: String(draft.importance)
  })
  const told = element("div", { role: "alert" })
  const now = () => ({
    ...(summary.value !== record.summary && summary.value !== "" && { summary: summary.value }),
    ...(body.value !== record.body.replace(/\r\n?/g, "\n") && { body: body.value }),
    tags: tags.value.split(",").map((tag) => tag.trim()).filter((tag) => tag !== ""),
    importance: Number(importance.value)
  })
  const save = async (revision) => {
    clearNotice()
    try {
      saved(await post(`records/${record.id}`, { revision, patch: now() }))
    } catch (error) {
      if (error.status === 409) await conflict()
      else {told.replaceChildren(
          element(
            "p",
            { class: "warning" },
            safe(error.message),
            error.detail?.issues ? `: ${error.detail.issues.map(safe).join("; ")}` : ""
          )
        )}
    }
  }
  const conflict = async () => {
    const { record: theirs } = await get(`records/${record.id}`)
    const again = element("button", { type: "button", onclick: () => save(theirs.revision) }, "Save mine over it")
    told.replaceChildren(
      element(
        "section",
        { class: "warning", "aria-label": "Conflict" },
        element("h3", {}, "Changed meanwhile"),
        element(
          "p",
          {},
          `You began at revision ${record.revision}; it stands at revision ${theirs.revision} now, and says:`
        ),
        element("p", { dir: "auto" }, element("strong", {}, written(theirs.summary))),
        element("pre", { tabindex: "0" }, written(theirs.body)),
        element(
          "div",
          { class: "actions" },
          again,
          element(
            "button",
            { type: "button", onclick: () => saved(theirs, "Your changes were dropped.") },
            "Keep theirs"
          )
        )
      )
    )
    again.focus()
  }
  const form = element(
    "form",
    {
      class: "editor",
      "aria-label": "Edit",
      onsubmit: (event) => {
        event.preventDefault()
        save(record.revision)
      },
      onkeydown: (event) => {
        if (event.key === "Escape") cancelled()
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(record.revision)
      }
    },
    field("edit-summary", "Summary", summary),
    field("edit-body", "Text", body),
    field("edit-tags", "Tags, with commas between", tags),
    field("edit-importance", "Importance, 0 to 1", importance),
    told,
    element(
      "div",
      { class: "actions" },
      element("button", { type: "submit", class: "primary" }, "Save"),
      element("button", { type: "button", onclick: cancelled }, "Cancel")
    )
  )
  return { form, focus: () => body.focus() }
}

/** Shows a record. */
export const record = async (main, parameters, id) => {
  const [{ from, record, to }, { items }] = await Promise.all([get(`records/${id}`), get(`records/${id}/history`)])
  const reload = (text) => {
    window.dispatchEvent(new HashChangeEvent("hashchange"))
    if (text !== undefined) notify(text)
  }
  const place = element("div", { class: "text" })
  const show = () =>
    place.replaceChildren(
      record.body.trim() === ""
        ? element("p", { class: "count" }, "It has no text beside its summary.")
        : element("div", { class: "body", dir: "auto" }, written(record.body))
    )
  const edit = () => {
    const { focus, form } = editor(record, record, (_, text = "Saved.") => reload(text), () => {
      show()
      document.getElementById("edit").focus()
    })
    place.replaceChildren(form)
    focus()
  }
  const restore = async (revision) => {
    try {
      await post(`records/${id}/restore`, { revision })
      reload(`Revision ${revision} is restored.`)
    } catch (error) {
      notify(`Not restored: ${error.message}`)
    }
  }
  const forget = async () => {
    try {
      await post(`records/${id}/forget`, { revision: record.revision })
    } catch (error) {
      notify(`Not forgotten: ${error.message}`)
      return
    }
    location.hash = "#/trash"
    notify("Forgotten. It can be restored from here.")
  }
  const asking = element(
    "dialog",
    { "aria-labelledby": "ask" },
    element("h2", { id: "ask" }, "Forget this memory?"),
    element("p", {}, "It goes into the trash, and can be restored until that is emptied."),
    element(
      "form",
      {
        method: "dialog",
        class: "actions",
        onsubmit: (event) => {
          event.preventDefault()
          asking.close()
          if (event.submitter?.value === "yes") forget()
        }
      },
      element("button", { value: "yes", class: "danger", type: "submit" }, "Forget"),
      element("button", { value: "no", type: "submit" }, "Keep")
    )
  )
  show()
  main.replaceChildren(
    element(
      "article",
      {},
      element("h1", { dir: "auto", tabindex: "-1" }, written(record.summary)),
      facts(record),
      element(
        "div",
        { class: "actions" },
        element("button", { type: "button", id: "edit", onclick: edit }, "Edit"),
        element("a", { class: "button", id: "graph", href: `#/graph/${id}` }, "Graph"),
        element(
          "button",
          { type: "button", id: "forget", class: "danger", onclick: () => asking.showModal() },
          "Forget"
        )
      ),
      place
    ),
    element("div", { class: "columns" }, ends("Links to", to, "Nothing."), ends("Linked from", from, "Nothing.")),
    element("section", { "aria-label": "Properties" }, element("h2", {}, "Properties"), property(record)),
    element(
      "section",
      { id: "history", "aria-label": "History", tabindex: "-1" },
      element("h2", {}, "History"),
      element("ol", { class: "history", reversed: true }, items.map((item, n) => revision(item, n === 0, restore)))
    ),
    asking
  )
  main.querySelector("h1").focus()
  announce(`${safe(record.summary)}, revision ${record.revision}`)
}
