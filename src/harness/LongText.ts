/** Texts that are longer than a record holds: they lie in several rows, which are written and erased together. */

/** Number of characters of one row's body. */
const room = 60_000

/** Cuts a text into the bodies of its rows, none of which ends within a character; an empty text has none. */
export const pieces = (text: string): ReadonlyArray<string> => {
  const all: Array<string> = []
  for (let start = 0; start < text.length;) {
    const end = Math.min(start + room, text.length)
    const cut = end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!) ? end - 1 : end
    all.push(text.slice(start, cut))
    start = cut
  }
  return all
}
