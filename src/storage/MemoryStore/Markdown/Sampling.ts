/**
 * A rotating sample of files whose size and times say that they are as they were. A look at the vault reads these all the
 * same, since a bit that rots, and a tool that restores the time of a file it changed, leave size and times alone.
 */

export interface Sampling {
  /** The next sample of these paths, which come in the same order each time. Cost: the paths of the sample. */
  readonly next: (paths: ReadonlyArray<string>, now: number) => ReadonlySet<string>
}

/** Number of looks after which every file was read once, in a vault of as many files or more; else of so many files. */
export const rounds = 100
/** Files of a sample at most: a vault of more than 1,600 files takes longer to be read once, and no longer to be looked at. */
const most = 16

/** Begins anywhere, by the clock, so that processes that take one look each do not all read the same files. */
export const make = (): Sampling => {
  let at: number | undefined
  return {
    next(paths, now) {
      const count = Math.min(most, Math.ceil(paths.length / rounds))
      if (count === 0) return new Set()
      at = (at ?? now % Math.ceil(paths.length / count) * count) % paths.length
      const sample = new Set([
        ...paths.slice(at, at + count),
        ...paths.slice(0, Math.max(0, at + count - paths.length))
      ])
      at += count
      return sample
    }
  }
}
