"""A gateway as FastMCP makes one: what a client calls goes on to one server. `python proxy.py URL PORT`."""

import sys

from fastmcp.server import create_proxy

_, url, port = sys.argv
proxy = create_proxy(url, name="proxy")
proxy.run(
    transport="http",
    host="127.0.0.1",
    port=int(port),
    path="/mcp",
    stateless_http=True,
    json_response=True,
    show_banner=False,
    log_level="WARNING",
)
