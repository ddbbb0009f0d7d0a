/** The command `serve`, which serves the store to agents over MCP. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeSink from "@effect/platform-node/NodeSink"
import * as NodeStream from "@effect/platform-node/NodeStream"
import { FileSystem } from "@effect/platform/FileSystem"
import * as HttpServer from "@effect/platform/HttpServer"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import { scopeOf } from "../../domain/Viewer.ts"
import * as MemoryService from "../../harness/MemoryService.ts"
import * as InspectorApi from "../../inspector/InspectorApi.ts"
import * as InspectorPage from "../../inspector/InspectorPage.ts"
import * as McpServer from "../../mcp/McpServer.ts"
import * as McpTokens from "../../mcp/McpTokens.ts"
import { make, print, type Shared, valued } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import { Screen } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

/** The files of the inspector (the web page of `serve --ui`), as JSON text. The bundler puts the text in place of `process.env[…]`. */
const files = process.env["EFFECT_MEMORY_INSPECTOR"]

/** Schema of the JSON output of `serve token`. */
export const Token = Schema.Struct({
  /** The token. Only this output shows the token, since the token file has only the token's hash. */
  token: Schema.String,
  /** The line for the token file, with the token's hash. */
  line: Schema.String,
  /** The token file to which `line` was added. Absent without `--tokens`. */
  file: Schema.optional(Schema.String)
})

const options = Options.all({
  http: Options.boolean("http").pipe(Options.withDescription("serves over HTTP at /mcp, instead of stdin and stdout")),
  ui: Options.boolean("ui").pipe(
    Options.withDescription("serves the inspector too, a page for people, at /; implies --http")
  ),
  port: valued(Options.integer("port"), "N", "port of --http; 0 takes a free one; default 7411").pipe(
    Options.withDefault(7411)
  ),
  host: valued(
    Options.text("host"),
    "ADDRESS",
    "address of --http; other than loopback it needs --tokens; default 127.0.0.1"
  ).pipe(Options.withDefault("127.0.0.1")),
  tokens: valued(Options.text("tokens"), "FILE", "file of bearer tokens, each of which stands for a viewer").pipe(
    Options.optional
  ),
  allowedHost: valued(
    Options.text("allowed-host"),
    "NAME",
    "name of the host that clients use, beside localhost and addresses; may be given several times"
  ).pipe(Options.repeated),
  allowedOrigin: valued(
    Options.text("allowed-origin"),
    "ORIGIN",
    "origin of a page that may call the server; may be given several times"
  ).pipe(Options.repeated),
  name: valued(Options.text("name"), "NAME", "name of a new token; default token").pipe(Options.withDefault("token"))
})
type Values = typeof options extends Options.Options<infer A> ? A : never

/** `serve`: serves the store over MCP, or makes a token. */
export const serve = make({
  name: "serve",
  summary: "serve the store to agents over MCP",
  description: [
    "Serves remember, recall and forget, records as resources, and the index, to an agent that speaks the Model Context Protocol. Over stdin and stdout it acts for the viewer of the options until its input ends; over HTTP for that viewer too, or for the viewer of each bearer token.",
    "The viewer is never an argument of a call. A model writes only to scopes of that viewer: without --user or --agent it reads what is Global, and writes nothing.",
    "serve token makes a token for the viewer of the options, prints it once, and adds the line with its hash to --tokens FILE. Whoever reads the file learns no token.",
    "With --ui it serves a page for people, too: search with explanations, records with their history, the graph around them, the next prompt, and the trash.",
    "Ctrl-C lets running calls end, and refuses new ones."
  ],
  options,
  args: Args.choice([["token", "token" as const]], { name: "token" }).pipe(
    Args.withDescription("makes a token, instead of serving"),
    Args.optional
  ),
  examples: [
    ["serve --user ada", "serves ada's memory to the program that starts it, such as Claude Desktop"],
    ["serve --http --user ada --store sqlite:memory.db", "serves it on this machine at http://127.0.0.1:7411/mcp"],
    ["serve --ui --user ada", "shows ada's memory in a browser, at http://127.0.0.1:7411/"],
    ["serve token --user ada --name laptop --tokens tokens.txt", "makes a token for ada's laptop"],
    ["serve --http --host 0.0.0.0 --tokens tokens.txt", "serves everybody who has a token"]
  ],
  run: ({ args, options, shared }) => Option.isSome(args) ? makeToken(options, shared) : serving(options, shared)
})

const makeToken = ({ name, tokens }: Values, shared: Shared) =>
  Effect.gen(function*() {
    if (shared.viewer.reach === "everyone") {
      return yield* CommandError.make("refused", "a viewer of the whole tenant has no token")
    }
    if (name.length < 1 || name.length > 100) {
      return yield* CommandError.make("refused", "--name: expected 1 to 100 characters")
    }
    const { line, token } = yield* McpTokens.generate(name, shared.viewer)
    if (Option.isSome(tokens)) yield* addLine(tokens.value, line)
    const answer = { token, line, ...(Option.isSome(tokens) && { file: tokens.value }) }
    yield* print(shared, Token, answer, ({ file, line, token }) => file === undefined ? `${token}\n${line}` : token)
  })

/** Adds a line to a token file, or creates the file. If the file does not end with a line feed, one is added first. */
const addLine = (file: string, line: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem
    const text = (yield* fs.exists(file)) ? yield* fs.readFileString(file) : ""
    const gap = text === "" || text.endsWith("\n") ? "" : "\n"
    yield* fs.writeFileString(file, `${gap}${line}\n`, { flag: "a", mode: 0o600 })
  }).pipe(Effect.mapError(() => CommandError.make("unavailable", "the file of tokens cannot be read and written")))

const serving = (
  { allowedHost, allowedOrigin, host, http: overHttp, port, tokens, ui }: Values,
  shared: Shared
) =>
  Effect.gen(function*() {
    const screen = yield* Screen
    const { viewer } = shared
    const { version } = screen
    const http = overHttp || ui
    if (port < 0 || port > 65_535) return yield* CommandError.make("usage", "serve: --port: expected 0 to 65535")
    if (!http && Option.isSome(tokens)) return yield* CommandError.make("usage", "serve: --tokens needs --http")
    if (Option.isNone(tokens) && scopeOf(viewer) === "global") {
      yield* screen.err("effect-memory: without --user or --agent the agent reads what is Global, and writes nothing\n")
    }
    if (!http) {
      return yield* McpServer.stdio({ viewer, version, stdin: NodeStream.stdin, stdout: NodeSink.stdout })
    }
    const page = ui
      ? {
        routes: yield* InspectorApi.make({ version }),
        assets: InspectorPage.make(yield* InspectorPage.fromJson(files))
      }
      : {}
    const known = Option.isSome(tokens) ? { tokens: yield* McpTokens.fromFile(tokens.value) } : { viewer }
    const Listening = NodeHttpServer.layer(() => createServer(), { host, port }).pipe(
      Layer.catchAll(() => Layer.fail(CommandError.make("unavailable", `${host}:${port} cannot be listened on`)))
    )
    const Said = Layer.scopedDiscard(
      HttpServer.addressWith((address) => {
        const isIpv6 = address._tag === "TcpAddress" && address.hostname.includes(":")
        const url = isIpv6 ? `http://[${address.hostname}]:${address.port}` : HttpServer.formatAddress(address)
        return screen.err(`listening at ${url}/mcp\n${ui ? `inspector at ${url}/\n` : ""}`)
      })
    )
    return yield* Layer.launch(
      Said.pipe(
        Layer.provideMerge(McpServer.layerHttp({
          version,
          ...known,
          ...page,
          ...(allowedHost.length > 0 && { allowedHosts: allowedHost }),
          ...(allowedOrigin.length > 0 && { allowedOrigins: allowedOrigin })
        })),
        Layer.provide(Listening)
      )
    )
  }).pipe(
    Effect.provide(Layer.provideMerge(
      // no limit of writes per turn, since MCP has no turns
      MemoryService.layer({ writesPerTurn: 0, allowForget: true }),
      StoreAddress.layer(shared.store, { create: true, follow: true })
    ))
  )
