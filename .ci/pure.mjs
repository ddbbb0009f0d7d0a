/**
 * Marks the calls that initialise the top-level constants of `dist` as pure, as the build of Effect does: a bundler then leaves out each
 * schema, metric and tag that a program does not use. All other comments are left out, which editors read in the `.d.ts` files; bundles
 * that are not minified would keep those within object literals. Run after `tsc` and before `bundle.mjs`.
 */
import { transformSync } from "@babel/core"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/**
 * Puts the initial value of each top-level constant that spreads an object into a function that is called at once. The call can be marked as
 * pure; esbuild keeps every call with a spread in its arguments, since a getter might run.
 */
const wrapSpreads = ({ types }) => ({
  visitor: {
    VariableDeclarator(path) {
      const { init } = path.node
      if (path.scope.block.type !== "Program" || !types.isCallExpression(init)) return
      let spreads = false
      path.get("init").traverse({ SpreadElement: () => void (spreads = true), Function: (inner) => inner.skip() })
      if (spreads) path.get("init").replaceWith(types.callExpression(types.arrowFunctionExpression([], init), []))
    }
  }
})

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
    plugins: [wrapSpreads, "annotate-pure-calls"],
    shouldPrintComment: (comment) => comment === "#__PURE__",
    sourceMaps: true
  })
  writeFileSync(file, `${code}\n//# sourceMappingURL=${name.split(/[\\/]/).at(-1)}.map\n`)
  writeFileSync(`${file}.map`, JSON.stringify(map))
}
