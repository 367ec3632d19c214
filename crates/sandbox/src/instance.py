# What an instance of untrusted Python is made of, whatever is around it: how it speaks with the server, how it runs code
# and says how that went. `CHANNEL`, its way to the server, is said before this; what puts up the barriers is read after,
# and differs between tiers.
#
# Behind the barriers it is as hostile as the code it runs: what it says is believed by nobody.
import errno
import json
import os
import struct
import sys
import threading
import traceback

config = json.loads(sys.argv[1])
del sys.argv[1:]
for path in config["libraries"]:
    sys.path.append(path)

# What code is likely to want, and everything with native code: it cannot be loaded once the filter stands.
missing = []
for name in config["preload"]:
    try:
        __import__(name)
    except ImportError:
        missing.append(name)


class HostError(Exception):
    """The host did not do what was asked."""


def frame(kind, body):
    data = kind + struct.pack("<I", len(body)) + body
    while data:
        data = data[os.write(CHANNEL, data) :]


# What came with what was asked for: mostly all of a run is there at once.
ahead = b""


def exactly(count):
    global ahead
    parts, left = [ahead[:count]], count - len(ahead)
    ahead = ahead[count:]
    while left > 0:
        part = os.read(CHANNEL, max(1 << 16, min(left, 1 << 20)))
        if not part:
            os._exit(0)
        parts.append(part[:left])
        ahead = part[left:]
        left -= len(part)
    return b"".join(parts)


# Made once, before anything is forked.
encoded = json.JSONEncoder(allow_nan=False).encode
decoded = json.JSONDecoder().decode


CODE = "<code>"

# What is said of an exception at most: the server takes it whole, takes the secrets out of it and cuts it then.
MESSAGE_CHARS_MAX = 128 * 1024


def whole(text, most):
    """A text, or how long it is: the part of one might end in the middle of a secret, where nobody finds it."""
    return text if len(text) <= most else f"<{len(text)} characters, too long to be told>"


def described(error, source):
    lines = source.splitlines()
    frames = []
    for at in traceback.walk_tb(error.__traceback__):
        place, line = at[0].f_code, at[1]
        if place.co_filename == CODE:
            text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
            frames.append({"line": line, "function": place.co_name[:200], "text": text[:500]})
    if isinstance(error, SyntaxError) and error.filename == CODE and error.lineno:
        text = lines[error.lineno - 1].strip() if 0 < error.lineno <= len(lines) else ""
        frames.append({"line": error.lineno, "function": "<module>", "text": text[:500]})
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:
        message = "its message cannot be read"
    kind = whole(type(error).__name__, 200)
    told = {"kind": kind, "message": whole(message, MESSAGE_CHARS_MAX), "frames": frames[-32:]}
    return json.dumps(told).encode()


def limit_of(error):
    if isinstance(error, MemoryError):
        return b"memory_bytes"
    if isinstance(error, OSError):
        return {
            errno.ENOSPC: b"scratch_bytes",
            errno.EFBIG: b"scratch_bytes",
            errno.EMFILE: b"open_files",
            errno.ENOMEM: b"memory_bytes",
        }.get(error.errno)
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return b"processes"
    return None


lock = threading.Lock()


def host_call(name, argument=None):
    """Asks the host to do `name`."""
    with lock:
        frame(b"H", json.dumps({"name": name, "argument": argument}, allow_nan=False).encode())
        good, length = struct.unpack("<?I", exactly(5))
        told = json.loads(exactly(length))
    if not good:
        raise HostError(told)
    return told


def fetch(url, method="GET", headers=None, body=None):
    """Asks the host for a page. The host decides which it may be."""
    return host_call("fetch", {"url": url, "method": method, "headers": headers or {}, "body": body})


def run(source, given, names):
    """Says how it went as a frame; never raises."""
    try:
        names["input"] = decoded(given.decode())
        exec(compile(source, CODE, "exec", dont_inherit=True), names)
        main = names.get("main")
        result = main(names["input"]) if callable(main) else names.get("result")
        told = b"V", encoded(result).encode()
    except SystemExit as error:
        if error.code in (None, 0):
            told = b"V", json.dumps(names.get("result"), allow_nan=False, default=repr).encode()
        else:
            told = b"E", described(error, source)
    except BaseException as error:
        limit = limit_of(error)
        if limit:
            told = b"L", limit
        else:
            told = b"E", described(error, source)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    return told


def fresh():
    return {"__name__": "__main__", "__builtins__": __builtins__}


def tidied():
    """Leaves nothing that code would meet, and makes what it would otherwise have to make itself."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.environ.clear()
    sys.modules["__main__"] = type(sys)("__main__")


def one_run(bounded):
    """Runs what the server sends, once, after `bounded` has set its limits. Does not return."""
    frame(b"R", b"")
    # What follows comes from the server, until the code.
    cpu, memory, files, threads, size, hosts, source, given = struct.unpack("<QQQQQQII", exactly(56))
    bounded(cpu, memory, files, threads, size)
    names = fresh()
    if hosts:
        names.update(host_call=host_call, fetch=fetch, HostError=HostError)
    source = exactly(source).decode()
    given = exactly(given)
    kind, told = run(source, given, names)
    frame(kind, told)
    # The server ends us when it has counted what was used.
    os.read(CHANNEL, 1)
    os._exit(0)
