/**
 * Failures of the command line, and its exit codes.
 *
 * ```text
 * 0    done                                     1    failed: a conflict, a damaged record, a bug
 * 2    the command line is invalid              3    no such record for this viewer, or the file to import cannot be read
 * 4    rejected: invalid value, no permission   5    the store, the output or a port is unavailable
 * 6    a package is missing                     7    a check found something
 * 130  interrupted (Ctrl-C)                     143  terminated
 * ```
 */
import * as Data from "effect/Data"
import type { MemoryError, Reason } from "../domain/MemoryError.ts"

/** The exit codes, by name. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  unavailable: 5,
  missingPackage: 6,
  found: 7,
  interrupted: 130,
  terminated: 143
} as const
/** An exit code. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** A failure of a command. */
export class CommandError extends Data.TaggedError("CommandError")<{
  readonly code: ExitCode
  /** Message for people, one or more lines. Empty if the command has already printed a message. */
  readonly message: string
  /** Advice on how to solve the problem. */
  readonly hint?: string | undefined
}> {}

/** Makes a failure; `code` is the name of its exit code. */
export const make = (code: keyof typeof exitCodes, message: string, hint?: string): CommandError =>
  new CommandError({ code: exitCodes[code], message, hint })

/** Makes the failure for bytes that are not UTF-8. The message begins with `source`, such as `stdin` or a path. */
export const notUtf8 = (source: string): CommandError =>
  make("refused", `${source} is not UTF-8`, "convert it first, for example with iconv")

const byReason: Readonly<Record<Reason, ExitCode>> = {
  not_found: exitCodes.notFound,
  invalid_scope: exitCodes.refused,
  path_escape: exitCodes.refused,
  invalid_id: exitCodes.refused,
  invalid_draft: exitCodes.refused,
  not_owned: exitCodes.refused,
  read_only: exitCodes.refused,
  unsupported: exitCodes.refused,
  io: exitCodes.unavailable,
  unavailable: exitCodes.unavailable,
  conflict: exitCodes.failed,
  corrupt: exitCodes.failed,
  model: exitCodes.failed,
  rate_limited: exitCodes.failed
}

/** Returns the exit code for an error. */
export const codeOf = (error: CommandError | MemoryError): ExitCode =>
  error._tag === "CommandError" ? error.code : byReason[error.reason]

/** Converts an error to the object that `--json` prints on stderr. */
export const encode = (error: CommandError | MemoryError): { readonly error: object } => ({
  error: {
    code: codeOf(error),
    reason: error._tag === "CommandError" ? nameOf(error.code) : error.reason,
    message: error.message,
    ...(error._tag === "CommandError" && error.hint !== undefined && { hint: error.hint }),
    ...(error._tag === "MemoryError" && error.id !== undefined && { id: error.id }),
    ...(error._tag === "MemoryError" && error.detail !== undefined && { detail: error.detail })
  }
})

const names = new Map<ExitCode, string>([
  [exitCodes.failed, "failed"],
  [exitCodes.usage, "usage"],
  [exitCodes.notFound, "not_found"],
  [exitCodes.refused, "refused"],
  [exitCodes.unavailable, "unavailable"],
  [exitCodes.missingPackage, "missing_package"],
  [exitCodes.found, "found"],
  [exitCodes.interrupted, "interrupted"],
  [exitCodes.terminated, "terminated"]
])
const nameOf = (code: ExitCode): string => names.get(code) ?? "failed"
