/** The subpath `effect-memory/mcp`: a server of the Model Context Protocol. It needs `@modelcontextprotocol/sdk`. */
/** The server, over standard input and output or over HTTP; its module documents it. */
export * as McpServer from "./mcp/McpServer.ts"
/** The bearer tokens of the server over HTTP; their module documents them. */
export * as McpTokens from "./mcp/McpTokens.ts"
