import type { ChildProcess } from "node:child_process"
import type { Readable } from "node:stream"
import type { Browser } from "playwright-core"

export declare const executablePath: string
export declare const launch: () => Promise<Browser>
export declare const addressOf: (child: ChildProcess & { readonly stderr: Readable }) => Promise<string>
