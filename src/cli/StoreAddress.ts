/** Parses the address of a store, the value of `--store`, and opens the store. Database drivers are loaded only if they are needed. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { MemoryError } from "../domain/MemoryError.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import type { VaultService } from "../storage/MemoryStore/Markdown.ts"
import * as CommandError from "./CommandError.ts"

/** The parsed address of a store. */
export type StoreAddress =
  | { readonly _tag: "Memory" }
  | { readonly _tag: "Vault"; readonly root: string }
  | { readonly _tag: "Sqlite"; readonly filename: string }
  | { readonly _tag: "Postgres"; readonly url: Redacted.Redacted; readonly schema: string | undefined }

/** The address that is used if neither `--store` nor `EFFECT_MEMORY_STORE` is given. */
export const fallback = "vault:./.memory"

/** Parses an address. The error does not quote the address, because a URL may contain a password. */
export const parse = (text: string): Either.Either<StoreAddress, CommandError.CommandError> => {
  if (text === "memory:") return Either.right({ _tag: "Memory" })
  const [, scheme, rest] = /^(vault|sqlite):(.+)$/s.exec(text) ?? []
  if (scheme === "vault" && rest !== undefined) return Either.right({ _tag: "Vault", root: rest })
  if (scheme === "sqlite" && rest !== undefined) return Either.right({ _tag: "Sqlite", filename: rest })
  if (/^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text)) {
    const url = new URL(text)
    const schema = url.searchParams.get("schema") ?? undefined
    url.searchParams.delete("schema")
    return Either.right({ _tag: "Postgres", url: Redacted.make(url.href), schema })
  }
  return Either.left(CommandError.make(
    "usage",
    "no such store",
    "expected memory:, vault:DIR, sqlite:FILE or postgres://USER@HOST/DATABASE"
  ))
}

/** Renders an address for messages. Only the host and the path of a URL are shown, so its password is left out. */
export const shown = (address: StoreAddress): string => {
  switch (address._tag) {
    case "Memory":
      return "memory:"
    case "Vault":
      return `vault:${address.root}`
    case "Sqlite":
      return `sqlite:${address.filename}`
    case "Postgres": {
      const url = new URL(Redacted.value(address.url))
      return `postgres://${url.host}${url.pathname}`
    }
  }
}

/** The address of the open store and, if the store is a vault, its vault service. */
export interface Opened {
  readonly address: StoreAddress
  /** The vault service of a Markdown store; `None` for other stores. */
  readonly vault: Option.Option<VaultService>
}

/** Service tag of `Opened`, which describes the open store. */
export class OpenStore extends Context.Tag("@memory/cli/OpenStore")<OpenStore, Opened>() {}

/** Options for opening a store. */
export interface OpenOptions {
  /** Whether a missing file or folder of the store is created. Default false: opening a missing store fails with `unavailable`. */
  readonly create?: boolean | undefined
  /**
   * Whether an open vault watches for writes of other processes, and a store in PostgreSQL may use more than one connection. Default false,
   * since most commands end soon.
   */
  readonly follow?: boolean | undefined
}

type Failure = CommandError.CommandError | MemoryError
type Disk = FileSystem.FileSystem | Path.Path

/** Opens a store, and closes it when the Effect scope closes. */
export const layer = (
  address: StoreAddress,
  options: OpenOptions = {}
): Layer.Layer<MemoryStore | OpenStore, Failure, Disk> => {
  const beside = (vault: Option.Option<VaultService>) => Layer.succeed(OpenStore, { address, vault })
  switch (address._tag) {
    case "Memory":
      return Layer.merge(
        Layer.unwrapEffect(Effect.map(
          Effect.promise(() => import("../storage/MemoryStore.ts")),
          ({ layerInMemory }) => layerInMemory
        )),
        beside(Option.none())
      )
    case "Vault":
      return Layer.unwrapEffect(Effect.gen(function*() {
        yield* present(address.root, address, options)
        const Markdown = yield* Effect.promise(() => import("../storage/MemoryStore/Markdown.ts"))
        return Layer.scopedContext(Effect.gen(function*() {
          const open = yield* Layer.build(Markdown.layer({
            root: address.root,
            ...(options.follow !== true && { poll: Duration.infinity })
          }))
          return Context.add(open, OpenStore, { address, vault: Option.some(Context.get(open, Markdown.Vault)) })
        }))
      })).pipe(named(address))
    case "Sqlite":
      return Layer.unwrapEffect(Effect.gen(function*() {
        yield* present(address.filename, address, options)
        const { layer } = yield* Effect.promise(() => import("../storage/MemoryStore/Sqlite.ts"))
        return Layer.merge(layer({ filename: address.filename }), beside(Option.none()))
      })).pipe(named(address))
    case "Postgres":
      return Layer.unwrapEffect(Effect.gen(function*() {
        const { layer } = yield* Effect.promise(() => import("../storage/MemoryStore/Postgres.ts"))
        // a command without `follow` makes one call after another, so one connection is enough
        const connections = options.follow === true ? {} : { maxConnections: 1 }
        return Layer.merge(layer({ ...postgresOptions(address), ...connections }), beside(Option.none()))
      })).pipe(named(address))
  }
}

const postgresOptions = ({ schema, url }: Extract<StoreAddress, { readonly _tag: "Postgres" }>) => ({
  url,
  ...(schema !== undefined && { schema })
})

/** Whether `reindex` can rebuild the index of the store. Only a database stores an index that can be rebuilt. */
export const canReindex = ({ _tag }: StoreAddress): boolean => _tag === "Sqlite" || _tag === "Postgres"

/**
 * Checks the file of a store in SQLite, and returns its problems. Returns none for other stores. Fails with a `MemoryError` only if the
 * file is so damaged that it cannot be checked, and with a `CommandError` for all other reasons, for example if the file is missing.
 */
export const verify = (
  address: StoreAddress
): Effect.Effect<ReadonlyArray<string>, Failure, FileSystem.FileSystem> =>
  address._tag !== "Sqlite" ? Effect.succeed([]) : Effect.gen(function*() {
    yield* present(address.filename, address, {})
    const { verify } = yield* Effect.promise(() => import("../storage/MemoryStore/Sqlite.ts"))
    return yield* Effect.mapError(
      verify({ filename: address.filename }),
      (error) => error.reason === "corrupt" ? error : opening(address, error)
    )
  })

/** Rebuilds the index of a database, which must not be open. Returns false if the store is no database, and otherwise true. */
export const reindex = (address: StoreAddress): Effect.Effect<boolean, Failure> =>
  Effect.gen(function*() {
    if (address._tag === "Sqlite") {
      const { reindex } = yield* Effect.promise(() => import("../storage/MemoryStore/Sqlite.ts"))
      yield* reindex({ filename: address.filename })
    } else if (address._tag === "Postgres") {
      const { reindex } = yield* Effect.promise(() => import("../storage/MemoryStore/Postgres.ts"))
      yield* reindex(postgresOptions(address))
    } else return false
    return true
  })

/**
 * Fails if the file or folder is missing. Exceptions: `create` is set, or the store is in SQLite and its path is `:memory:`. So a command
 * without `create` never makes this file or folder. It may create a vault in an existing folder, or tables in an existing database.
 */
const present = (path: string, address: StoreAddress, { create = false }: OpenOptions) =>
  Effect.gen(function*() {
    if (create || (address._tag === "Sqlite" && path === ":memory:")) return
    const fs = yield* FileSystem.FileSystem
    if (yield* Effect.orElseSucceed(fs.exists(path), () => false)) return
    return yield* CommandError.make(
      "unavailable",
      `there is no store at ${shown(address)}`,
      "`effect-memory remember TEXT` makes one; --store names another"
    )
  })

/**
 * Converts an error of opening a store to a `CommandError`. If a package is missing, or has no binary for this version of Node, the message
 * names the package. Otherwise, the message names the address of the store.
 */
const named = (address: StoreAddress) => <A, R>(self: Layer.Layer<A, Failure, R>): Layer.Layer<A, Failure, R> =>
  Layer.catchAll(self, (error) => Layer.fail(error._tag === "CommandError" ? error : opening(address, error)))

const opening = (address: StoreAddress, error: MemoryError): CommandError.CommandError =>
  error.reason === "unsupported" && isMissing(error.cause)
    ? CommandError.make(
      "missingPackage",
      "a store in SQLite needs the package better-sqlite3, which is not installed beside effect-memory",
      "npm install better-sqlite3, or npx -p effect-memory -p better-sqlite3 effect-memory …"
    )
    : error.reason === "unsupported" && /binary/.test(error.message)
    ? CommandError.make("missingPackage", error.message, "npm rebuild better-sqlite3")
    : CommandError.make("unavailable", `${shown(address)} cannot be opened: ${error.message}`)

const isMissing = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "code" in cause &&
  (cause.code === "MODULE_NOT_FOUND" || cause.code === "ERR_MODULE_NOT_FOUND")
