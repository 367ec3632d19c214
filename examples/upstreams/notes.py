"""A small MCP server over standard streams, with nothing but Python's own library: two tools for texts."""

import json
import sys

TEXT = {"type": "object", "properties": {"text": {"type": "string", "description": "Any text."}}, "required": ["text"]}
TOOLS = [
    {
        "name": "count_words",
        "description": "Counts the words of a text. Use it for a text that you have; it fetches nothing.",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "shout",
        "description": "Gives a text back in capital letters. Use it for headings, not for whole letters.",
        "inputSchema": TEXT,
    },
]


def call(name, text):
    if name == "count_words":
        return {"content": [], "structuredContent": {"words": len(text.split())}}
    return {"content": [{"type": "text", "text": text.upper()}]}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1.0.0"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params["arguments"]["text"])
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "unknown method"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
