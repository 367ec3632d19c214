# The prepared interpreter. It forks an instance for each order that comes through its control socket, and tells when one
# has ended. It reads nothing that came from outside: code and input go from the server to the instance directly.
#
# An instance puts up every barrier before it reads its first byte, the filter for system calls last. From then on it is
# as hostile as the code it runs: what it says is believed by nobody.
import select
import socket

CONTROL, PROC, RULESET = 3, 4, 5

libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS = 1, 4, 28, 38
# No right by being user 0, none kept when users change, none raised as ambient; and each of these for good.
SECUREBITS = 0b11101111
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


def put(path, text):
    file = os.open(path, os.O_WRONLY, dir_fd=PROC)
    try:
        os.write(file, text)
    finally:
        os.close(file)


instance_filter = program(config["instance_filter"])
# Version 3 of the interface: two halves of three words each, all zero.
no_capabilities = (ctypes.create_string_buffer(struct.pack("<II", 0x20080522, 0), 8), ctypes.create_string_buffer(24))

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
    one_run(bounded(address_space))


def serve():
    control = socket.socket(fileno=CONTROL)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    running = {}
    # What an instance would otherwise have to do itself. Its streams are made on pipes, as they will be.
    os.dup2(2, 1)
    native_tidied()
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
