/**
 * Notes to search: sentences of real English (the Markdown and the doc comments below `node_modules`), recombined by a
 * seeded generator. The same installation gives the same notes.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

/** Mulberry32: numbers of 0..1. */
export const random = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
}

const prose = (file, text) =>
  file.endsWith(".md")
    ? text
    : Array.from(text.matchAll(/^\s*\* (?!@)(.*)$|^\s*\*$/gm), ([, line = ""]) => line).join("\n")

const sentences = () => {
  const root = fileURLToPath(new URL("../node_modules", import.meta.url))
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((file) => /\.md$|\.d\.ts$|effect\/src\/[^/]*\.ts$/.test(file)).sort()
  const found = new Set()
  for (const file of files) {
    const text = prose(file, readFileSync(join(root, file), "utf8")).replace(/^```[^]*?^```/gm, "")
    for (const sentence of text.replace(/<[^>]*>|https?:\S+/g, " ").split(/(?<=[.!?])\s+|\n\s*\n/)) {
      const line = sentence.replace(/\s+/g, " ").trim()
      if (line.length > 30 && line.length < 400 && /[a-z]{3,} [a-z]{3,}/.test(line)) found.add(line)
    }
  }
  return Array.from(found)
}

const source = sentences()

/** `{ id, summary, body, tags }`, about 78 words each. */
export const notes = (count) => {
  const next = random(1)
  const pick = (items) => items[Math.floor(next() * items.length)]
  return Array.from({ length: count }, (_, n) => {
    const length = 300 + next() * 400
    const lines = []
    for (let size = 0; size < length; size += lines.at(-1).length) lines.push(pick(source))
    const body = Buffer.from(lines.join(" ")).toString() // flat, before anybody's memory is measured
    const tags = Array.from(
      { length: Math.floor(next() * 3) },
      () => pick(pick(source).split(/\W+/)).toLowerCase() || "note"
    )
    return { id: n, summary: pick(source).slice(0, 80), body, tags }
  })
}

/** 3..8 neighbouring words of a sentence each, as a person would paste them. */
export const queries = (count) => {
  const next = random(2)
  return Array.from({ length: count }, () => {
    const words = source[Math.floor(next() * source.length)].match(/[A-Za-z]+/g)
    const length = 3 + Math.floor(next() * 6)
    const start = Math.floor(next() * Math.max(1, words.length - length))
    return words.slice(start, start + length).join(" ")
  })
}

export const facts = { sentences: source.length }
