# What an instance needs of a kernel: the C library, the filter for system calls, limits. Read after what all instances
# share, and before what puts up the barriers of a tier.
import ctypes
import gc
import resource
import signal

# Of a thread: reserved rather than used, so it is not taken from what the code may allocate.
STACK = 2 << 20
PR_SET_SECCOMP = 22

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def ok(returned, doing):
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
    return returned


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def program(text):
    instructions = bytes.fromhex(text)
    kept = ctypes.create_string_buffer(instructions, len(instructions))
    made = Program(len(instructions) // 8, ctypes.cast(kept, ctypes.c_void_p))
    made.kept = kept
    return made


def filtered(made):
    ok(libc.prctl(PR_SET_SECCOMP, 2, ctypes.addressof(made), 0, 0), "filtering system calls")


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


def bounded(address_space):
    """Sets the limits of a run, beyond the addresses that are taken already."""

    def bound(cpu, memory, files, threads, size):
        limited(cpu, address_space + memory + threads * STACK, files + CHANNEL + 1, threads, size)

    return bound


def native_tidied():
    tidied()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    threading.stack_size(STACK)
    for name in [name for name in sys.modules if name.split(".")[0] in ("ctypes", "_ctypes")]:
        sys.modules[name] = None
