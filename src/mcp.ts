/** The subpath `effect-memory/mcp`: a server for the Model Context Protocol. It needs the package `@modelcontextprotocol/sdk`. */
/** The server, over standard input and output or over HTTP. Its own module documents it. */
export * as McpServer from "./mcp/McpServer.ts"
/** The bearer tokens of the HTTP server. Their own module documents them. */
export * as McpTokens from "./mcp/McpTokens.ts"
