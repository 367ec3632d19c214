//! The escape suite: known tricks against Python jails and against what is around them. Each is contained, what lies
//! outside is untouched, and the sandbox serves on.

use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::time::Duration;

use serde_json::json;
use toolgate_sandbox::{Limits, SandboxRequest};

use crate::world::{limits, run, sandbox, told};

/// Put before each trick. `attempt` says how something was refused, or `ESCAPED`; `native` finds the bootstrap's own
/// handle on the C library, as hostile code would, because hiding it protects nothing.
const PRELUDE: &str = r#"
import errno, os, sys
def attempt(trick, *arguments, **named):
    try:
        got = trick(*arguments, **named)
    except OSError as error:
        return errno.errorcode.get(error.errno, "OSError")
    except Exception as error:
        return type(error).__name__
    return f"ESCAPED {got!r:.200}"
def native():
    frame = sys._getframe()
    while frame:
        if "libc" in frame.f_globals:
            return frame.f_globals["libc"], frame.f_globals["ctypes"]
        frame = frame.f_back
def call(number, *arguments):
    libc, ctypes = native()
    ctypes.set_errno(0)
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    if libc.syscall(ctypes.c_long(number), *words) >= 0:
        return "ESCAPED"
    return errno.errorcode.get(ctypes.get_errno(), "?")
"#;

/// What is tried, how, and how it must end.
const TRICKS: &[(&str, &str, &str)] = &[
    // Inside Python: everything is reachable, and none of it helps.
    (
        "walk up to object and down to Popen",
        "import subprocess\npopen = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'][0]\n\
         result = attempt(popen, ['/usr/bin/python3.11', '-c', 'pass'])",
        "\"EPERM\"",
    ),
    ("recover the builtins from a function", "result = attempt(print.__self__.open, '/etc/passwd')", "\"ENOENT\""),
    (
        "recover a loader from a class",
        "load = [c for c in object.__subclasses__() if c.__name__ == 'BuiltinImporter'][0].load_module\n\
         result = attempt(load('posix').system, 'id') in ('ESCAPED -1', 'ESCAPED 32512', 'EPERM')",
        "true",
    ),
    (
        "walk the frames into the bootstrap and call the C library",
        "libc, ctypes = native()\nresult = [libc.fork(), libc.socket(2, 1, 0), libc.system(b'id') != 0, \
         libc.unshare(0x10000000), libc.setuid(0)]",
        "[-1,-1,true,-1,-1]",
    ),
    (
        "forge a function of the bootstrap's globals",
        "import types\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back\n\
         code = compile('def f(): return ok(libc.unshare(0x10000000), \"x\")', 'x', 'exec').co_consts[0]\n\
         result = attempt(types.FunctionType(code, frame.f_globals))",
        "\"EPERM\"",
    ),
    ("import ctypes", "result = attempt(__import__, 'ctypes')", "\"ModuleNotFoundError\""),
    (
        "import ctypes after clearing what hides it",
        "for name in [n for n in sys.modules if 'ctypes' in n]: del sys.modules[name]\nimport ctypes\n\
         result = [ctypes.CDLL(None).fork(), ctypes.CDLL(None).system(b'id') != 0]",
        "[-1,true]",
    ),
    (
        "find a module with gc",
        "import gc, types\nm = [o for o in gc.get_objects() if isinstance(o, types.ModuleType) and \
         o.__name__ == 'ctypes']\nresult = all(module.CDLL(None).fork() == -1 for module in m)",
        "true",
    ),
    (
        "a callback, which is new native code",
        "libc, ctypes = native()\nresult = attempt(ctypes.CFUNCTYPE(ctypes.c_int), lambda: 1)",
        "", // Where the library has them ready-made it works, and is no more than a function.
    ),
    (
        "unpickle a call",
        "import pickle\nresult = attempt(pickle.loads, b\"cos\\nsystem\\n(S'id'\\ntR.\") != 'ESCAPED 0'",
        "true",
    ),
    (
        "attributes through a format string",
        "class C:\n    def __init__(self): pass\nresult = 'TOOLGATE' in '{0.__init__.__globals__}'.format(C())",
        "false",
    ),
    (
        "an import hook that serves native code from the scratch folder",
        "import glob, importlib.machinery, importlib.util, shutil\n\
         source = glob.glob([p for p in sys.path if 'dynload' in p][0] + '/_bz2*.so')[0]\nshutil.copy(source, 'mine.so')\n\
         loader = importlib.machinery.ExtensionFileLoader('mine', '/box/scratch/mine.so')\n\
         spec = importlib.util.spec_from_file_location('mine', '/box/scratch/mine.so', loader=loader)\n\
         result = attempt(importlib.util.module_from_spec, spec)",
        "\"ImportError\"",
    ),
    (
        "map memory that can execute",
        "import mmap\nresult = [attempt(mmap.mmap, -1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC), \
         call(10, sys.maxsize & ~4095, 4096, 7)]",
        r#"["EPERM","EPERM"]"#,
    ),
    ("replace the audit and trace hooks", "sys.settrace(lambda *a: None)\nsys.addaudithook(print)\nresult = 1", "1"),
    (
        "raise what nobody catches",
        "class Evil(BaseException):\n    def __str__(self): raise self\nraise Evil()",
        "Evil: its message cannot be read",
    ),
    ("crash the interpreter", "libc, ctypes = native()\nctypes.string_at(0)", "died: signal 11 ended it"),
    ("leave without a word", "os._exit(3)", "died: it left with status 3"),
    ("recurse without end", "def f(): f()\nf()", "RecursionError"),
    (
        "recurse without a limit",
        "sys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)",
        "", // Killed by a signal or by memory, whichever comes first.
    ),
    // Processes and signals.
    ("fork", "result = attempt(os.fork)", "\"EPERM\""),
    (
        "a fork bomb",
        "import threading\nfor n in range(1000):\n    try: os.fork()\n    except OSError: pass\nresult = os.getpid()",
        "1",
    ),
    (
        "processes by every name",
        "import subprocess, multiprocessing\nresult = ['ESCAPED' in attempt(os.forkpty), attempt(os.posix_spawn, '/usr/bin/python3.11', \
         ['x'], {}), attempt(subprocess.run, ['/bin/sh']), attempt(os.execv, '/usr/bin/python3.11', ['x']), \
         attempt(multiprocessing.Process(target=print).start), call(56, 17, 0, 0, 0, 0), call(58), call(435, 0, 0)]",
        r#"[false,"EPERM","EPERM","EPERM","EPERM","EPERM","EPERM","ENOSYS"]"#,
    ),
    (
        "kill the group, everybody, the parent, neighbours",
        "result = [attempt(os.kill, pid, 9) for pid in (0, -1, -2, os.getppid(), 2, 3, 4, 100)]",
        r#"["EPERM","EPERM","EPERM","EPERM","EPERM","EPERM","EPERM","EPERM"]"#,
    ),
    (
        "signals by other calls",
        "result = [call(200, 2, 9), call(234, 2, 2, 9), call(129, 1, 9, 0), call(424, 3, 9, 0, 0), call(434, 1, 0)]",
        r#"["EPERM","EPERM","EPERM","EPERM","EPERM"]"#,
    ),
    (
        "have the kernel signal somebody",
        "import fcntl\nresult = attempt(fcntl.fcntl, 3, fcntl.F_SETOWN, -1)",
        "\"EPERM\"",
    ),
    ("it is alone", "result = [os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0)]", "[1,0,1,1]"),
    // Files.
    (
        "read the machine",
        "result = [attempt(open, path) for path in ('/etc/passwd', '/etc/shadow', '/var/lib/dpkg/status', '/proc/self/environ', \
         '/proc/1/' 'root/etc/passwd', '/proc/self/mem', '/sys/kernel/notes', '/old/etc/passwd', '/dev/mem', '/dev/kmsg', \
         '/dev/vda', '/var/run/docker.sock', input['secret'], '/box/scratch/../../..' + input['secret'])]",
        r#"["ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT","ENOENT"]"#,
    ),
    ("look at the root", "result = sorted(os.listdir('/'))", ""),
    (
        "write outside",
        "paths = ['/x', '/box/x', '/dev/x', '/usr/x', os.__file__, sys.executable, os.path.dirname(os.__file__) + '/x.py', \
         '/dev/shm/x', '/tmp/x']\nresult = [path for path in paths if 'ESCAPED' in attempt(open, path, 'a')]",
        "[]",
    ),
    (
        "change what is there",
        "result = [attempt(os.chmod, os.__file__, 0o777), attempt(os.utime, os.__file__), attempt(os.truncate, os.__file__, 0), \
         attempt(os.rename, os.__file__, '/box/scratch/os.py'), attempt(os.unlink, os.__file__), attempt(os.rmdir, '/box/scratch'), \
         attempt(os.link, os.__file__, '/box/scratch/os.py')]\nresult = [said for said in result if 'ESCAPED' in said]",
        "[]",
    ),
    (
        "links out of the scratch folder",
        "os.symlink('/etc/passwd', 'a')\nos.symlink('/proc/1/root', 'b')\nos.symlink('../../../..' + input['secret'], 'c')\n\
         os.symlink('/', 'd')\nresult = [attempt(open, name) for name in ('a', 'b', 'c', 'd/etc/passwd')]",
        r#"["ENOENT","ENOENT","ENOENT","ENOENT"]"#,
    ),
    (
        "mounts, roots and namespaces",
        "libc, ctypes = native()\nresult = [libc.mount(b'/', b'/box/scratch', None, 4096, None), libc.mount(b'proc', \
         b'/box/scratch', b'proc', 0, None), libc.umount2(b'/box/scratch', 2), libc.chroot(b'.'), libc.unshare(0x20000), \
         libc.setns(3, 0), libc.mount(None, b'/', None, 32 | 4096, None)]",
        "[-1,-1,-1,-1,-1,-1,-1]",
    ),
    (
        "devices and sockets as files",
        "result = [attempt(os.mknod, 'a', 0o600 | 0o020000, os.makedev(1, 1)), attempt(os.mkfifo, 'b'), \
         attempt(os.mknod, 'c', 0o600 | 0o140000)]",
        r#"["EPERM","EPERM","EPERM"]"#,
    ),
    (
        "a program in the scratch folder",
        "open('x', 'w').write('#!/bin/sh\\n')\nos.chmod('x', 0o4777)\nresult = attempt(os.execv, './x', ['x'])",
        "\"EPERM\"",
    ),
    (
        "inherited descriptors",
        "found = []\nfor number in range(60):\n    try:\n        os.fstat(number)\n        found.append(number)\n    \
         except OSError: pass\nresult = found",
        "[0,1,2,3]",
    ),
    (
        "use the channel to get descriptors",
        "import socket\nresult = [attempt(socket.socket, fileno=3), call(46, 3, 0, 0), call(47, 3, 0, 0), \
         attempt(os.open, '/proc/self/fd/0', 0), call(438, 3, 0, 0)]",
        r#"["EPERM","EPERM","EPERM","ENOENT","EPERM"]"#,
    ),
    (
        "the environment",
        "libc, ctypes = native()\nenviron = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')\nn, names = 0, []\n\
         while environ and environ[n]:\n    names.append(environ[n].split(b'=')[0].decode())\n    n += 1\n\
         result = [dict(os.environ), names]",
        "[{},[]]",
    ),
    (
        "who runs this, and with which rights",
        "libc, ctypes = native()\ndata = ctypes.create_string_buffer(24)\nhead = ctypes.create_string_buffer(\
         (0x20080522).to_bytes(4, 'little') + bytes(4), 8)\nresult = [os.getuid(), os.geteuid(), set(os.getgroups()) <= {1000, 65534}, \
         attempt(os.setuid, 0), attempt(os.setgid, 0), attempt(os.setgroups, [0]), libc.capset(head, data), \
         os.uname().nodename]",
        r#"[1000,1000,true,"EPERM","EPERM","EPERM",-1,"sandbox"]"#,
    ),
    (
        "raise one's own limits",
        "import resource\nwords = [resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, \
         resource.RLIMIT_FSIZE, resource.RLIMIT_CORE]\nresult = [attempt(resource.setrlimit, w, (-1, -1)) for w in words]",
        r#"["ValueError","ValueError","ValueError","ValueError","ValueError","ValueError"]"#,
    ),
    // The network.
    (
        "sockets of every family and kind",
        "import socket\nresult = sorted({attempt(socket.socket, family, kind) for family in range(46) for kind in range(1, 7)})",
        r#"["EPERM"]"#,
    ),
    (
        "pairs, and servers of metadata",
        "import socket, urllib.request\nresult = [attempt(socket.socketpair), attempt(socket.create_connection, \
         ('169.254.169.254', 80)), attempt(socket.create_connection, ('fd00:ec2::254', 80)), attempt(socket.create_connection, \
         ('127.0.0.1', input['port'])), 'ESCAPED' in attempt(urllib.request.urlopen, 'http://metadata.google.internal/'), \
         'ESCAPED' in attempt(socket.getaddrinfo, 'metadata', 80)]",
        r#"["EPERM","EPERM","EPERM","EPERM",false,false]"#,
    ),
    // The channel to the server.
    ("no frame at all", "os.write(3, b'Z' * 100)\nos.read(3, 1)", "unreadable: `0x5a` begins no frame"),
    ("a frame without end", "os.write(3, b'V\\xff\\xff\\xff\\xff')\nos.read(3, 1)", "limit output_bytes"),
    (
        "a message without end",
        "os.write(3, b'E\\xff\\xff\\xff\\xff')\nos.read(3, 1)",
        "unreadable: a frame of 4294967295",
    ),
    ("no JSON", "os.write(3, b'V\\x02\\0\\0\\0{]')\nos.read(3, 1)", "unreadable: "),
    ("no text", "os.write(3, b'V\\x03\\0\\0\\0\"\\xff\"')\nos.read(3, 1)", "unreadable: "),
    (
        "JSON a thousand levels deep",
        "body = b'[' * 100000 + b']' * 100000\nos.write(3, b'V' + len(body).to_bytes(4, 'little') + body)\nos.read(3, 1)",
        "unreadable: ",
    ),
    (
        "one key twice",
        "body = b'{\"a\":1,\"a\":2}'\nos.write(3, b'V' + len(body).to_bytes(4, 'little') + body)\nos.read(3, 1)",
        "unreadable: ",
    ),
    ("an exception of another shape", "os.write(3, b'E\\x02\\0\\0\\0{}')\nos.read(3, 1)", "unreadable: "),
    ("a limit that does not exist", "os.write(3, b'L\\x01\\0\\0\\0x')\nos.read(3, 1)", "unreadable: it names no limit"),
    ("ready once more", "os.write(3, b'R\\0\\0\\0\\0')\nos.read(3, 1)", "unreadable: it said Ready while it ran"),
    ("two answers", "os.write(3, b'V\\x01\\0\\0\\x001' + b'V\\x01\\0\\0\\x002')\nresult = 3", "1"),
    ("a closed channel", "os.close(3)\nimport time\ntime.sleep(1000)", "died: "),
    ("closed streams", "os.close(1)\nos.close(2)\nsys.stdout = None\nresult = 1", "1"),
    (
        "a broken encoder",
        "import json\njson.dumps = lambda *a, **k: b'x'\nresult = 1",
        "", // It only harms its own answer.
    ),
    // After the answer.
    (
        "threads that go on after the answer",
        "import threading\nfor n in range(8): threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)], \
         daemon=True).start()\nresult = 1",
        "",
    ),
];

/// Calls that a filter must refuse, whatever the arguments: `ENOSYS` where this kernel does not have them at all.
const CALLS: &str = r"
numbers = dict(socket=41, connect=42, accept=43, sendto=44, sendmsg=46, bind=49, listen=50, socketpair=53, setsockopt=54,
    fork=57, vfork=58, execve=59, shmget=29, semget=64, msgget=68, ptrace=101, setuid=105, setgid=106, syslog=103,
    setresuid=117, setgroups=116, capset=126, rt_sigqueueinfo=129, mknod=133, personality=135, modify_ldt=154,
    pivot_root=155, adjtimex=159, chroot=161, acct=163, settimeofday=164, mount=165, umount2=166, swapon=167, reboot=169,
    sethostname=170, iopl=172, ioperm=173, init_module=175, delete_module=176, quotactl=179, setxattr=188, tkill=200,
    io_setup=206, lookup_dcookie=212, epoll_create=213, timer_create=222, clock_settime=227, tgkill=234, mbind=237,
    mq_open=240, kexec_load=246, add_key=248, request_key=249, keyctl=250, ioprio_set=251, inotify_init=253,
    migrate_pages=256, mknodat=259, unshare=272, splice=275, tee=276, vmsplice=278, move_pages=279, signalfd=282,
    timerfd_create=283, eventfd=284, epoll_create1=291, inotify_init1=294, rt_tgsigqueueinfo=297, perf_event_open=298,
    fanotify_init=300, name_to_handle_at=303, open_by_handle_at=304, clock_adjtime=305, sendmmsg=307, setns=308,
    process_vm_readv=310, process_vm_writev=311, kcmp=312, finit_module=313, sched_setattr=314, seccomp=317,
    memfd_create=319, kexec_file_load=320, bpf=321, execveat=322, userfaultfd=323, membarrier=324, pkey_mprotect=329,
    pidfd_send_signal=424, io_uring_setup=425, io_uring_enter=426, io_uring_register=427, open_tree=428, move_mount=429,
    fsopen=430, fsconfig=431, fsmount=432, fspick=433, pidfd_open=434, clone3=435, openat2=437, pidfd_getfd=438,
    process_madvise=440, epoll_pwait2=441, mount_setattr=442, landlock_create_ruleset=444, landlock_restrict_self=446,
    memfd_secret=447, process_mrelease=448, cachestat=451, fchmodat2=452, map_shadow_stack=453, statmount=457)
result = {name: said for name, number in numbers.items() if (said := call(number, 0, 0, 0, 0, 0, 0)) not in ('EPERM', 'ENOSYS')}
result.update({f'x32 {number}': said for number in (0, 1, 2, 41, 56, 57, 59, 512, 520, 545) \
    if (said := call(0x40000000 | number, 0, 0, 0, 0, 0, 0)) not in ('EPERM', 'ENOSYS')})
result.update({f'unknown {number}': said for number in range(470, 520) \
    if (said := call(number, 0, 0, 0, 0, 0, 0)) not in ('EPERM', 'ENOSYS')})
";

/// The whole code of a trick.
pub fn with_prelude(trick: &str) -> String {
    format!("{PRELUDE}\n{trick}")
}

/// What is tried, its code, and how it must end.
pub fn tricks() -> Vec<(&'static str, String, &'static str)> {
    let calls = [("system calls", CALLS, "{}")];
    let calls = if cfg!(target_arch = "x86_64") { &calls[..] } else { &[] };
    TRICKS.iter().chain(calls).map(|(name, trick, expected)| (*name, with_prelude(trick), *expected)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trick_is_contained_and_the_sandbox_serves_on() {
    let Some(sandbox) = sandbox().await else { return };
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    secret.write_all(b"secret").unwrap();
    // Inheritable on purpose: who starts a process must not rely on others to have marked theirs.
    let leaked = rustix::io::dup(secret.as_file()).unwrap();
    assert!(rustix::io::fcntl_getfd(&leaked).unwrap().is_empty(), "{}", leaked.as_raw_fd());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let input = json!({"secret": secret.path(), "port": listener.local_addr().unwrap().port()});

    let mut wrong = Vec::new();
    for (name, trick, expected) in tricks() {
        let request = SandboxRequest::new(trick).input(&input).limits(limits());
        let result = sandbox.run(&request).await.unwrap();
        let said = told(&result.ended);
        if !said.starts_with(expected) || said.contains("ESCAPED") {
            wrong.push(format!("{name}: {said}\n    {:?}", result.ended));
        }
        let after = told(&run(&sandbox, "result = 1").await.ended);
        assert_eq!(after, "1", "after {name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(listener.accept().is_err(), "somebody connected");
    assert_eq!(std::fs::read(secret.path()).unwrap(), b"secret");
}

/// What tries to outlive its time.
pub const LONG: &[(&str, &str)] = &[
    (
        "every signal ignored",
        "import signal\nfor number in signal.valid_signals():\n    try: signal.signal(number, signal.SIG_IGN)\n    \
             except (OSError, ValueError): pass\nwhile True: pass",
    ),
    ("every signal blocked", "import signal, time\nsignal.pthread_sigmask(0, range(1, 65))\ntime.sleep(1000)"),
    (
        "threads that start threads",
        "import threading\ndef again():\n    while True:\n        try: threading.Thread(target=again).start()\n        \
             except RuntimeError: pass\nagain()",
    ),
    ("a lock that is held", "sys.setswitchinterval(1e6)\nx = 0\nwhile True: x += 1"),
    ("exceptions that are caught", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
    ("a frame that never comes", "os.write(3, b'V\\x10\\0\\0\\0\"')\nos.read(3, 1)"),
    ("drops of output", "import time\nwhile True:\n    print('x')\n    time.sleep(0.01)"),
    ("an exit that hangs", "import atexit, time\natexit.register(time.sleep, 1000)\nos.read(3, 1)"),
    ("deep in native code", "'a' * 30 == __import__('re').match(r'(a|aa)+$', 'a' * 60 + 'b')"),
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_its_time() {
    let Some(sandbox) = sandbox().await else { return };
    let limits = Limits { wall: Duration::from_millis(500), cpu: Duration::from_millis(400), ..limits() };
    for (name, trick) in LONG {
        let request = SandboxRequest::new(with_prelude(trick)).limits(limits);
        let said = told(&sandbox.run(&request).await.unwrap().ended);
        assert!(said == "limit wall" || said == "limit cpu", "{name}: {said}");
        assert_eq!(told(&run(&sandbox, "result = 1").await.ended), "1", "after {name}");
    }
}
