/** The inspector in Debian's chromium, for its tests and its pictures: the browser, and the address that the built command serves at. */
import { createInterface } from "node:readline"
import { chromium } from "playwright-core"

export const executablePath = "/usr/bin/chromium"

/** Starts chromium without a window, and without requests of its own. */
export const launch = () =>
  chromium.launch({
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync"
    ]
  })

/**
 * Waits until a process of `serve --ui` says where it serves. Returns its address without a slash at the end. Fails where it ends before, with what it said.
 */
export const addressOf = (child) =>
  new Promise((resolve, reject) => {
    let said = ""
    createInterface({ input: child.stderr }).on("line", (line) => {
      said += `${line}\n`
      const found = /^inspector at (http:\S+)\/$/.exec(line)?.[1]
      if (found !== undefined) resolve(found.replace("0.0.0.0", "127.0.0.1"))
    })
    child.once("exit", (code) => reject(new Error(`it ended with ${code}: ${said}`)))
  })
