/**
 * Decides which rows are a person's data: rows in scopes with the person's user id, and internal rows about the person. Examples of
 * internal rows are threads and waiting messages. Other records do not count, even if they mention the person.
 */
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import { Global, isInternal, same } from "../domain/MemoryScope.ts"

/** Whether a record belongs to the data of a user. */
export const owns = (userId: string, { data, scope }: Pick<MemoryRecord, "data" | "scope">): boolean =>
  scope !== Global &&
  (isInternal(scope)
    ? ["viewer", "owner"].some((field) => same(userIn(data[field]), userId))
    : same(scope.userId, userId))

const userIn = (value: unknown): string | undefined =>
  typeof value === "object" && value !== null && "userId" in value && typeof value.userId === "string"
    ? value.userId
    : undefined
