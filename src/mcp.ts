/** The subpath `effect-memory/mcp`: a server for the Model Context Protocol. The package `@modelcontextprotocol/sdk` must be installed. */
/** The MCP server, over standard input and output or over HTTP, documented in the module `McpServer`. */
export * as McpServer from "./mcp/McpServer.ts"
/** The bearer tokens of the HTTP server, documented in the module `McpTokens`. */
export * as McpTokens from "./mcp/McpTokens.ts"
