/**
 * Makes the tests' temporary folders in memory if `TMPDIR` is not set and the system has 4 GB for that (`/dev/shm` on Linux). The suite
 * removes tens of thousands of files, and ext4 does not reuse the inode of a removed file for up to five minutes: creating a file then
 * scans all of those inodes, and the suite takes three times as long. The soak (`npm run soak`) uses the disk.
 */
import * as fs from "node:fs"
import * as path from "node:path"

const memory = "/dev/shm"

export default (): () => void => {
  if (process.env["TMPDIR"] !== undefined || !fs.existsSync(memory)) return () => {}
  const { bavail, bsize } = fs.statfsSync(memory)
  if (bavail * bsize < 4 * 2 ** 30) return () => {}
  const folder = fs.mkdtempSync(path.join(memory, "effect-memory-tests-"))
  fs.chmodSync(folder, 0o1777) // PostgreSQL runs as another user
  process.env["TMPDIR"] = folder
  return () => fs.rmSync(folder, { recursive: true, force: true })
}
