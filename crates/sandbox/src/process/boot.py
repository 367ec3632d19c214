# The prepared interpreter. It forks an instance for each order that comes through its control socket, and tells when one
# has ended. It reads nothing that came from outside: code and input go from the server to the instance directly.
#
# An instance puts up every barrier before it reads its first byte, the filter for system calls last. From then on it is
# as hostile as the code it runs: what it says is believed by nobody.
import ctypes
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import traceback

CONTROL, PROC, RULESET = 3, 4, 5
CHANNEL = 3
# Of a thread: reserved rather than used, so it is not taken from what the code may allocate.
STACK = 2 << 20
config = json.loads(sys.argv[1])
del sys.argv[1:]
for path in config["libraries"]:
    sys.path.append(path)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 4, 28, 38, 22
# No right by being user 0, none kept when users change, none raised as ambient; and each of these for good.
SECUREBITS = 0b11101111
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


def ok(returned, doing):
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
    return returned


def put(path, text):
    file = os.open(path, os.O_WRONLY, dir_fd=PROC)
    try:
        os.write(file, text)
    finally:
        os.close(file)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def program(text):
    instructions = bytes.fromhex(text)
    kept = ctypes.create_string_buffer(instructions, len(instructions))
    made = Program(len(instructions) // 8, ctypes.cast(kept, ctypes.c_void_p))
    made.kept = kept
    return made


instance_filter = program(config["instance_filter"])
# Version 3 of the interface: two halves of three words each, all zero.
no_capabilities = (ctypes.create_string_buffer(struct.pack("<II", 0x20080522, 0), 8), ctypes.create_string_buffer(24))

# What code is likely to want, and everything with native code: it cannot be loaded once the filter stands.
missing = []
for name in config["preload"]:
    try:
        __import__(name)
    except ImportError:
        missing.append(name)

with open(os.open("self/statm", os.O_RDONLY, dir_fd=PROC)) as file:
    address_space = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
own_namespace = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=PROC)

landlock = libc.syscall(ctypes.c_long(config["sys_landlock_create_ruleset"]), None, ctypes.c_size_t(0), ctypes.c_uint(1))
if config["landlock"] and landlock > 0:
    # One folder above the one that instances mount theirs on: Landlock looks at the parents of a mount.
    folder = os.open("/box", os.O_PATH)
    access = config["scratch_access"][min(landlock, len(config["scratch_access"])) - 1]
    rule = struct.pack("=Qi", access, folder)
    ok(
        libc.syscall(ctypes.c_long(config["sys_landlock_add_rule"]), RULESET, 1, rule, 0),
        "allowing the scratch folder",
    )
    os.close(folder)
else:
    landlock = 0


class HostError(Exception):
    """The host did not do what was asked."""


def frame(kind, body):
    data = kind + struct.pack("<I", len(body)) + body
    while data:
        data = data[os.write(CHANNEL, data) :]


def exactly(count):
    parts = []
    while count:
        part = os.read(CHANNEL, min(count, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def filtered(made):
    ok(libc.prctl(PR_SET_SECCOMP, 2, ctypes.addressof(made), 0, 0), "filtering system calls")


def barriers(scratch, inodes):
    ok(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "asking to die with the parent")
    os.setsid()

    # A user of its own, so that limits count this instance alone, and a scratch folder of its own.
    ok(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "becoming visible")
    ok(libc.unshare(NEWUSER | NEWNS), "entering a user and mount namespace")
    put("self/setgroups", b"deny")
    put("self/uid_map", b"1000 0 1")
    put("self/gid_map", b"1000 0 1")
    ok(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "becoming invisible")
    options = f"size={scratch},nr_inodes={inodes},mode=700".encode()
    ok(
        libc.mount(b"scratch", b"/box/scratch", b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options),
        "mounting the scratch folder",
    )
    os.chdir("/box/scratch")

    os.close(PROC)

    for name, value in config["rlimits"]:
        resource.setrlimit(name, (value, value))
    ok(libc.prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0), "giving up ways to rights")
    ok(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "dropping ambient rights")
    ok(libc.capset(*no_capabilities), "dropping rights")
    ok(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "refusing new rights")
    if landlock:
        number = ctypes.c_long(config["sys_landlock_restrict_self"])
        ok(libc.syscall(number, RULESET, 0), "restricting files")
    os.close(RULESET)
    filtered(instance_filter)


CODE = "<code>"


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
    told = {"kind": type(error).__name__[:200], "message": message[:4000], "frames": frames[-32:]}
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
        names["input"] = json.loads(given)
        exec(compile(source, CODE, "exec", dont_inherit=True), names)
        main = names.get("main")
        result = main(names["input"]) if callable(main) else names.get("result")
        told = b"V", json.dumps(result, allow_nan=False, check_circular=True).encode()
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


LIMITS = (
    resource.RLIMIT_CPU,
    resource.RLIMIT_AS,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_FSIZE,
)


def limited(*values):
    for name, value in zip(LIMITS, values):
        resource.setrlimit(name, (value, value))


def fresh():
    return {"__name__": "__main__", "__builtins__": __builtins__}


def instance(order, descriptors):
    """Does not return."""
    try:
        # First of all the channel: it takes the place of the control socket, which is no instance's business.
        for number, place in zip(descriptors, (CHANNEL, 1, 2)):
            os.dup2(number, place)
        number = ctypes.c_long(config["sys_close_range"])
        ok(libc.syscall(number, ctypes.c_uint(RULESET + 1), ctypes.c_uint(0xFFFFFFFF), 0), "closing descriptors")
        _, scratch, inodes, ahead = order
        barriers(scratch, inodes)
        if ahead:
            # The first run of anything touches pages that are still shared: do it before anybody waits.
            limited(*(resource.getrlimit(name)[1] for name in LIMITS))
            warm_up = "def main(input):\n    return {'sum': sum(n for n in input['n']), 'text': f'{input!r:>10}'}\n"
            run(warm_up, b'{"n": [1, 2, 3]}', fresh())
            run("raise ValueError(1)", b"{}", fresh())
    except BaseException as error:
        frame(b"X", f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(70)
    frame(b"R", b"")
    # What follows comes from the server, until the code.
    cpu, memory, files, threads, size, hosts, source, given = struct.unpack("<QQQQQQII", exactly(56))
    limited(cpu, address_space + memory + threads * STACK, files + CHANNEL + 1, threads, size)
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


def serve():
    control = socket.socket(fileno=CONTROL)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    running = {}
    # What an instance would otherwise have to do itself. Its streams are made on pipes, as they will be.
    os.dup2(2, 1)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    threading.stack_size(STACK)
    for name in [name for name in sys.modules if name.split(".")[0] in ("ctypes", "_ctypes")]:
        sys.modules[name] = None
    sys.modules["__main__"] = type(sys)("__main__")
    ok(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "becoming invisible")
    # Of this root, not of the one that was left.
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    for text in config["interpreter_filters"]:
        filtered(program(text))
    gc.collect()
    gc.freeze()
    gc.disable()
    control.send(struct.pack("<cQiQQQ", b"H", 0, landlock, 0, 0, 0) + " ".join(missing).encode()[:1000])
    while True:
        for number, _ in poll.poll():
            if number != CONTROL:
                identity, pid = running.pop(number)
                poll.unregister(number)
                os.close(number)
                _, status, usage = os.wait4(pid, 0)
                used = int(usage.ru_utime * 1e6), int(usage.ru_stime * 1e6), usage.ru_maxrss
                control.send(struct.pack("<cQiQQQ", b"E", identity, status, *used))
                continue
            data, descriptors, _, _ = socket.recv_fds(control, 32, 3)
            if not data:
                os._exit(0)
            order = struct.unpack("<QQQQ", data)
            try:
                # Only the children of a process are born into its new namespace, and it may make one at a time.
                ok(libc.setns(own_namespace, NEWPID), "returning to the process namespace")
                ok(libc.unshare(NEWPID), "making a process namespace")
                pid = os.fork()
            except OSError as error:
                control.send(struct.pack("<cQiQQQ", b"F", order[0], error.errno or 0, 0, 0, 0))
            else:
                if pid == 0:
                    try:
                        gc.enable()
                        instance(order, descriptors)
                    finally:
                        os._exit(71)
                process = os.pidfd_open(pid)
                running[process] = order[0], pid
                poll.register(process, select.POLLIN)
                socket.send_fds(control, [struct.pack("<cQiQQQ", b"P", order[0], 0, 0, 0, 0)], [process])
            for number in descriptors:
                os.close(number)


serve()
