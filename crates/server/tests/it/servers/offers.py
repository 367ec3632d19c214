"""A server over standard streams whose tools stand in a file, so that a test changes them while it runs."""

import json
import os
import queue
import sys
import threading
import time

FILE = sys.argv[1]
writing = threading.Lock()
cancelled = set()
answers = {}


def send(message):
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tools():
    with open(FILE) as file:
        return json.load(file)


def version():
    if not os.path.exists(FILE + ".version"):
        return "1.0"
    with open(FILE + ".version") as file:
        return file.read()


def call(number, params):
    name, given = params["name"], params.get("arguments", {})
    result = {"content": [{"type": "text", "text": json.dumps(given)}]}
    if name == "whoami":
        result = {"content": [{"type": "text", "text": "I hold " + os.environ.get("TOKEN", "nothing")}]}
    elif name == "fail":
        result = {"content": [{"type": "text", "text": "no such record"}], "isError": True}
    elif name == "odd":
        result = {"content": [{"type": "resource", "resource": {"uri": "note:1", "text": "hello"}}]}
    elif name == "big":
        result = {"content": [{"type": "text", "text": "x" * 3_000_000}]}
    elif name == "wrong":
        said = "x" * 490 + os.environ.get("TOKEN", "nothing")
        send({"id": number, "error": {"code": -32000, "message": said, "data": {"shown": [said]}}})
        return
    elif name == "wail":
        sys.stderr.write("x" * 60_000 + "I hold " + os.environ.get("TOKEN", "nothing") + "\n" + "x" * 470)
        sys.stderr.flush()
        os._exit(3)
    elif name == "ask":
        answers[number] = queue.Queue()
        send({"id": f"q{number}", "method": "elicitation/create",
              "params": {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}})
        said = answers[number].get()
        result = {"content": [{"type": "text", "text": json.dumps(said)}]}
    elif name == "die":
        os._exit(3)
    elif name == "slow":
        while number not in cancelled:
            time.sleep(0.02)
        with open(FILE + ".cancelled", "w") as file:
            file.write("yes")
        return
    send({"id": number, "result": result})


def watch():
    before = os.stat(FILE).st_mtime_ns
    while True:
        time.sleep(0.05)
        now = os.stat(FILE).st_mtime_ns
        if now != before:
            before = now
            send({"method": "notifications/tools/list_changed"})


# Of the process, as of a program that was replaced while it runs.
VERSION = version()
with open(FILE + ".started", "a") as started:
    started.write("x")
if "watched" in sys.argv:
    threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        send({"id": number, "result": {
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "offers", "version": VERSION}}})
    elif method == "tools/list":
        # Two pages, so that both are read.
        every = tools()
        half = len(every) // 2
        if "cursor" in params:
            send({"id": number, "result": {"tools": every[half:]}})
        else:
            send({"id": number, "result": {"tools": every[:half], "nextCursor": "rest"}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(number, params), daemon=True).start()
    elif method == "notifications/cancelled":
        cancelled.add(params.get("requestId"))
    elif method is None:
        answers[int(number[1:])].put(message.get("result", message.get("error")))
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "unknown method"}})
