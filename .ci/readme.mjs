/**
 * Reads out of the README what it tells a new user to type, so that `.ci/run` and the tests do exactly that.
 *
 *   node .ci/readme.mjs install TARBALL     every install line, with the tarball in place of the package's name
 *   node .ci/readme.mjs program             the first program
 */
import { readFileSync } from "node:fs"

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8")
const { name } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))

/** The texts of the fences in a language, in order. */
const fences = (language) =>
  Array.from(readme.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gm")), ([, text]) => text)

/** The lines that install packages by name, without what follows `#`. `npm install` alone is for a checkout. */
const installLines = () =>
  fences("sh").flatMap((text) => text.split("\n"))
    .map((line) => line.replace(/\s+#.*$/, "").trim())
    .filter((line) => /^npm install\s+(?!&&)\S/.test(line))

const commands = {
  install: (tarball = name) =>
    installLines().map((line) => line.split(/\s+/).map((word) => word === name ? tarball : word).join(" ")).join("\n"),
  program: () => fences("ts")[0]
}

const [command, ...args] = process.argv.slice(2)
if (!(command in commands)) throw new Error(`expected one of ${Object.keys(commands).join(", ")}`)
console.log(commands[command](...args).trimEnd())
