/**
 * Marks the calls that initialise the top-level constants of `dist` as pure, as the build of Effect does: a bundler then leaves out each
 * schema, metric and tag that a program does not use. All other comments are left out, which editors read in the `.d.ts` files; bundles
 * that are not minified would keep those within object literals. Run after `tsc` and before `bundle.mjs`.
 */
import { transformSync } from "@babel/core"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const dist = join(import.meta.dirname, "../dist")
const modules = readdirSync(dist, { recursive: true }).filter((name) =>
  name.endsWith(".js") && !name.startsWith("node") && !name.startsWith("cli")
)
for (const name of modules) {
  const file = join(dist, name)
  const { code, map } = transformSync(readFileSync(file, "utf8"), {
    babelrc: false,
    compact: false,
    configFile: false,
    filename: file,
    inputSourceMap: JSON.parse(readFileSync(`${file}.map`, "utf8")),
    plugins: ["annotate-pure-calls"],
    shouldPrintComment: (comment) => comment === "#__PURE__",
    sourceMaps: true
  })
  writeFileSync(file, `${code}\n//# sourceMappingURL=${name.split(/[\\/]/).at(-1)}.map\n`)
  writeFileSync(`${file}.map`, JSON.stringify(map))
}
