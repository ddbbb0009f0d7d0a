/** Maps the module names of the package, platform-dependent ones (`imports` of package.json) included, to their source files. */
import { fileURLToPath } from "node:url"

const src = (path: string) => fileURLToPath(new URL(`../src/${path}`, import.meta.url))

export const aliases = [
  { find: /^#builtins$/, replacement: src("storage/MemoryStore/Markdown/internal/BuiltinsNode.ts") },
  { find: /^#vault$/, replacement: src("storage/MemoryStore/Markdown/internal/VaultNode.ts") },
  { find: /^#hash$/, replacement: src("domain/internal/HashNode.ts") },
  { find: /^effect-memory\/ai$/, replacement: src("agent/MemoryToolkit.ts") },
  { find: /^effect-memory\/(cluster|compat|mcp|postgres|ranking|sqlite|tools)$/, replacement: src("$1.ts") },
  { find: /^effect-memory\/testing$/, replacement: src("testing/index.ts") },
  { find: /^effect-memory$/, replacement: src("index.ts") }
]
