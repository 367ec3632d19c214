# The published Python kit as a client that a test steers: one line of JSON in, one out. With `opens` as the third word,
# what its user is asked comes out between the two, and the answer to that is the next line in.
import asyncio
import json
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import ElicitResult


async def open_address(context, params):
    print(json.dumps({"asked": params.model_dump(mode="json", by_alias=True, exclude_none=True)}), flush=True)
    return ElicitResult.model_validate_json(await asyncio.to_thread(sys.stdin.readline))


async def main(mode, place, opens):
    server = StdioServerParameters(command=place[0], args=place[1:]) if isinstance(place, list) else place
    async with Client(server, mode=mode, elicitation_callback=open_address if opens else None) as client:
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


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), "opens" in sys.argv[3:]))
