/** `npm run soak` runs the long tests for minutes; `--long` makes it hours. Every other argument goes to vitest. */
import { spawn } from "node:child_process"

const given = process.argv.slice(2)
const args = ["vitest", "run", "--root", ".", "--config", "test/soak/vitest.config.ts", ...given.filter((arg) => arg !== "--long")]
const env = { ...process.env, ...(given.includes("--long") && { SOAK_LONG: "1" }) }
const child = spawn("npx", ["--no-install", ...args], { stdio: "inherit", env, shell: process.platform === "win32" })
child.on("exit", (code) => process.exit(code ?? 1))
