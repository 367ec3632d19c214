# An instance in a container of gVisor. All barriers around it stand before it begins: the container was made with no
# network, no rights and a root that shows the interpreter alone. It adds the filter for system calls and its limits, and
# is then the same as an instance of any other tier.
import mmap


def addresses():
    """How many addresses are taken: the least limit under which one more page can be had. There is no `/proc` to ask."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    low, high = 0, 1 << 40
    while high - low > 1 << 16:
        middle = (low + high) // 2
        resource.setrlimit(resource.RLIMIT_AS, (middle, most))
        try:
            mmap.mmap(-1, mmap.PAGESIZE).close()
            high = middle
        except (MemoryError, OSError):
            low = middle
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return high


def boot():
    try:
        # A container is handed the standard streams and no more, so the channel comes as the first of them.
        os.dup2(0, CHANNEL)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        native_tidied()
        os.chdir("/box/scratch")
        taken = addresses()
        for text in config["filters"]:
            filtered(program(text))
    except BaseException as error:
        frame(b"X", f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(70)
    one_run(bounded(taken))


try:
    boot()
finally:
    os._exit(71)
