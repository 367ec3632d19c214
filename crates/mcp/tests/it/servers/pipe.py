"""A server over standard streams for tests. Arguments: the revision that it speaks, then words that make it bad."""

import json
import os
import sys
import threading
import time

REVISION, MANNERS = sys.argv[1], sys.argv[2:]
STATELESS = REVISION >= "2026"
received, answers, writing = [], {}, threading.Lock()
asked = 0


def send(message):
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def raw(text):
    with writing:
        sys.stdout.write(text)
        sys.stdout.flush()


def ask(method, params):
    global asked
    asked += 1
    number = f"q{asked}"
    waiting = answers[number] = [threading.Event(), None]
    send({"id": number, "method": method, "params": params})
    waiting[0].wait()
    return waiting[1]


def call(message):
    number, params = message["id"], message["params"]
    name, given = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    result = {"content": [], "structuredContent": given}
    if name == "slow":
        time.sleep(given.get("seconds", 1))
    elif name == "progress":
        for step in (1, 2, 3):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 3}})
        send({"method": "notifications/message", "params": {"level": "info", "data": "half way"}})
    elif name == "ask":
        answered = ask("elicitation/create", {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}})
        result["structuredContent"] = {"answered": answered}
    elif name == "die":
        sys.stderr.write("the disk is on fire\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "garbage":
        raw('{"jsonrpc": "2.0", "id": \n')
        return
    elif name == "oversized":
        raw('{"jsonrpc": "2.0", "id": %d, "result": {"x": "%s"}}\n' % (number, "x" * given["bytes"]))
        return
    elif name == "wrong_id":
        send({"id": number + 1000, "result": result})
        return
    elif name == "twice":
        send({"id": number, "result": {"structuredContent": {"first": True}}})
        send({"id": number, "result": {"structuredContent": {"first": False}}})
        return
    elif name == "flood":
        for step in range(given["count"]):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
            send({"method": "notifications/tools/list_changed"})
    elif name == "silent":
        return
    elif name == "pings":
        for step in range(given["count"]):
            send({"id": f"p{step}", "method": "ping"})
    elif name == "log":
        send({"method": "notifications/message", "params": {"level": "info", "data": given}})
    elif name == "noise":
        raw("a banner\n" + json.dumps({"level": 30, "msg": "a log"}) + "\n")
    elif name == "large":
        raw('{"jsonrpc": "2.0", "id": %d, "result": {"structuredContent": {"id": 9007199254740993}}}\n' % number)
        return
    elif name == "failing":
        send({"id": number, "error": {"code": -32602, "message": "no such thing", "data": {"x": 1}}})
        return
    elif name == "received":
        result["structuredContent"] = {"messages": received, "environment": sorted(os.environ), "folder": os.getcwd()}
    elif name == "batch":
        raw(json.dumps([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
                        {"jsonrpc": "2.0", "id": number, "result": result}]) + "\n")
        return
    if STATELESS:
        result["resultType"] = given.get("resultType", "complete")
    send({"id": number, "result": result})


def request(message):
    method, number = message["method"], message["id"]
    about = {"name": "pipe", "version": "1"}
    if "mute" in MANNERS and method in ("server/discover", "initialize"):
        return
    if method == "server/discover" and STATELESS:
        meta = {"io.modelcontextprotocol/serverInfo": about}
        send({"id": number, "result": {"resultType": "complete", "supportedVersions": [REVISION], "_meta": meta,
                                       "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}})
    elif method == "initialize" and not STATELESS:
        send({"id": number, "result": {"protocolVersion": REVISION, "capabilities": {"tools": {}},
                                       "serverInfo": about, "instructions": "be kind"}})
    elif method == "ping":
        send({"id": number, "result": {}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(message,), daemon=True).start()
    elif method == "subscriptions/listen":
        meta = {"io.modelcontextprotocol/subscriptionId": number}
        send({"method": "notifications/subscriptions/acknowledged",
              "params": {"_meta": meta, "notifications": message["params"]["notifications"]}})
        send({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
    elif method == "resources/subscribe":
        send({"id": number, "result": {}})
        send({"method": "notifications/resources/updated", "params": {"uri": message["params"]["uri"]}})
    else:
        send({"id": number, "error": {"code": -32601, "message": "unknown"}})


begun = STATELESS
for line in sys.stdin:
    message = json.loads(line)
    if message.get("params", {}).get("name") == "deafen":
        time.sleep(600)
    received.append(message)
    if message.get("method") == "initialize":
        begun = True
    if not begun and "fragile" in MANNERS:
        sys.exit(9)
    if "method" not in message:
        waiting = answers.pop(message["id"], None)
        if waiting:
            waiting[1] = message
            waiting[0].set()
    elif "id" in message:
        request(message)
if "stubborn" in MANNERS:
    while True:
        time.sleep(60)
