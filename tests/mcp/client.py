# The published Python kit as a client that a test steers: one line of JSON in, one out.
import asyncio
import json
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters


async def main(mode, place):
    server = StdioServerParameters(command=place[0], args=place[1:]) if isinstance(place, list) else place
    async with Client(server, mode=mode) as client:
        print(json.dumps({"ready": client.protocol_version}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            wanted = json.loads(line)
            try:
                if wanted["do"] == "list":
                    said = await client.list_tools()
                else:
                    said = await client.call_tool(wanted["name"], wanted["arguments"])
                answer = {"said": said.model_dump(mode="json", by_alias=True, exclude_none=True)}
            except Exception as error:
                answer = {"failed": str(error)}
            print(json.dumps(answer), flush=True)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
