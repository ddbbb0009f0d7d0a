/**
 * Looks at a path without following a symbolic link. The platform's `FileSystem` has `stat`, which follows it, and `readLink`,
 * which fails for every file that is no link: at the first look at a folder of notes the two and the failures were a sixth of
 * the CPU time. The one module that imports node:fs.
 */
import * as Effect from "effect/Effect"
import { lstat, type Stats } from "node:fs"

export interface LinkStat extends Stats {}

/** What lies at an absolute path; `undefined` where Node's file system has nothing there, or may not look. */
export const at = (path: string): Effect.Effect<LinkStat | undefined> =>
  Effect.async((resume) => lstat(path, (error, stat) => resume(Effect.succeed(error === null ? stat : undefined))))
