/**
 * Tells which rows belong to a person: records, tombstones and revisions of every scope that holds the user, and the library's own
 * rows about them, such as threads and messages to be extracted. A record of another scope that mentions the person does not.
 */
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import { Global, isInternal, same } from "../domain/MemoryScope.ts"

/** Tells whether a record belongs to a user. */
export const owns = (userId: string, { data, scope }: Pick<MemoryRecord, "data" | "scope">): boolean =>
  scope !== Global &&
  (isInternal(scope)
    ? ["viewer", "owner"].some((field) => same(userIn(data[field]), userId))
    : same(scope.userId, userId))

const userIn = (value: unknown): string | undefined =>
  typeof value === "object" && value !== null && "userId" in value && typeof value.userId === "string"
    ? value.userId
    : undefined
