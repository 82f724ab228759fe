"""The HTTP and MCP service: search, re-ranking and explanations over indexes that stay open."""
