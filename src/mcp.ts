/** The subpath `effect-memory/mcp`: a server for the Model Context Protocol. It needs the package `@modelcontextprotocol/sdk`. */
/** The MCP server, over standard input and output or over HTTP. The module itself documents it. */
export * as McpServer from "./mcp/McpServer.ts"
/** The bearer tokens of the HTTP server. The module itself documents them. */
export * as McpTokens from "./mcp/McpTokens.ts"
