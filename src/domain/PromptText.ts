/** Text that a prompt holds as data: nothing hidden in it, nothing that ends its fence, and our own words known again. */

/** What our blocks stand between, so that extraction never reads them back. Within, `<` is escaped. */
export const open = "<memory>"
export const close = "</memory>"

/** Without the blocks of memory that we put there. One that has no end is somebody else's, and stays. */
export const withoutMemory = (text: string): string => {
  let kept = ""
  let from = 0
  for (;;) {
    const start = text.indexOf(open, from)
    const end = start < 0 ? -1 : text.indexOf(close, start)
    if (end < 0) return kept + text.slice(from)
    kept += text.slice(from, start)
    from = end + close.length
  }
}

/**
 * Every line break is a line feed; control characters, direction overrides, and the tag characters that nobody sees and
 * a model reads are gone.
 */
export const visible = (text: string): string =>
  text
    .replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n")
    .replace(/[^\P{Cc}\t\n]|[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu, "")
    .toWellFormed()

/** In a fence longer than any run within. Make it `visible` first: what is left out may have kept two runs apart. */
export const fence = (text: string): string => {
  let longest = 2
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length)
  const mark = "`".repeat(longest + 1)
  return `${mark}\n${text}\n${mark}`
}

/** What a tag begins or ends with. */
export const escape = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")

/** One line, escaped: for labels and summaries. */
export const line = (text: string): string => escape(visible(text).replace(/\s+/gu, " ").trim())
