# An instance in a WebAssembly machine. All that is around it stands before it begins: the machine has no folder, no socket,
# no thread and no process to give, and its limits are counted outside. It is then the same as one of any other tier.
import io

of_any = limit_of


def limit_of(error):
    """There are no threads here at all, so wanting one is an error of the code and no limit."""
    limit = of_any(error)
    return None if limit == b"processes" else limit


try:
    try:
        tidied()
        # The channel is where standard input would be.
        sys.stdin = sys.__stdin__ = io.StringIO()
    except BaseException as error:
        frame(b"X", f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(70)
    one_run(lambda *limits: None)
finally:
    os._exit(71)
