//! Each limit, run into: the result names it, and the sandbox serves on.

use std::time::Duration;

use toolgate_contracts::ErrorCode;
use toolgate_sandbox::{Limits, SandboxError, SandboxRequest};

use crate::world::{limits, run, sandbox, told};

const CASES: &[(&str, &str, &str, &str)] = &[
    ("endless work", "while True: pass", "cpu", "cpu"),
    ("work in native code", "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)", "cpu", "cpu"),
    ("a number too large", "x = len(str(10 ** 10000000))", "cpu", "cpu"),
    ("sleep", "import time\ntime.sleep(1000)", "wall", "wall"),
    ("a lock nobody frees", "import threading\nthreading.Event().wait()", "wall", "wall"),
    ("one large object", "x = bytearray(10**9)", "memory_bytes", "memory"),
    ("many small objects", "x = []\nwhile True: x.append(x[:])\nx.append(1)", "memory_bytes", "memory"),
    ("a growing list", "x = [0]\nwhile True: x += x", "memory_bytes", "memory"),
    ("a mapping", "import mmap\nmmap.mmap(-1, 10**9)", "memory_bytes", "memory"),
    ("endless output", "while True: print('x' * 10000)", "output_bytes", "output"),
    ("endless complaints", "import sys\nwhile True: sys.stderr.write('x' * 10000)", "output_bytes", "output"),
    ("output past Python", "import os\nwhile True: os.write(1, b'x' * 10000)", "output_bytes", "output"),
    ("a large result", "result = 'x' * (3 << 20)", "output_bytes", "output"),
    ("many files", "x = [open(f'{n}', 'w') for n in range(1000)]", "open_files", "files"),
    ("many descriptors", "import os\nwhile True: os.dup(1)", "open_files", "files"),
    ("many pipes", "import os\nwhile True: os.pipe()", "open_files", "files"),
    (
        "many threads",
        "import threading, time\nfor n in range(1000): threading.Thread(target=time.sleep, args=(1000,)).start()",
        "processes",
        "processes",
    ),
    ("a large file", "with open('x', 'wb') as f:\n  while True: f.write(b'x' * 100000)", "scratch_bytes", "disk"),
    (
        "several files",
        "for n in range(1000):\n  with open(f'{n}', 'wb') as f: f.write(b'x' * 1000000)",
        "scratch_bytes",
        "disk",
    ),
    ("many empty files", "for n in range(10**6): open(f'{n}', 'w').close()", "scratch_bytes", "disk"),
    ("many folders", "import os\nfor n in range(10**6): os.mkdir(f'{n}')", "scratch_bytes", "disk"),
    ("a hole", "import os\nos.truncate(os.open('x', os.O_CREAT | os.O_WRONLY), 10**12)", "scratch_bytes", "disk"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_ends_the_run_and_is_named() {
    let Some(sandbox) = sandbox().await else { return };
    for (name, code, limit, reason) in CASES {
        let mut limits = limits();
        match *limit {
            "cpu" => limits.cpu = Duration::from_millis(150),
            "wall" => limits.wall = Duration::from_millis(300),
            _ => {}
        }
        let result = sandbox.run(&SandboxRequest::new(*code).limits(limits)).await.unwrap();
        assert_eq!(
            told(&result.ended),
            format!("limit {limit}"),
            "{name}: {}",
            String::from_utf8_lossy(&result.stderr)
        );
        assert!(result.stdout.len() as u64 <= limits.output_bytes, "{name}");
        let error = result.outcome(&limits).unwrap_err();
        let code = if *limit == "wall" { ErrorCode::Timeout } else { ErrorCode::SandboxError };
        assert_eq!((error.code, error.reason()), (code, *reason), "{name}");
        assert!(error.message.contains(&format!("`{limit}`")), "{name}: {}", error.message);
        assert_eq!(told(&run(&sandbox, "result = 1").await.ended), "1", "after {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_within_its_limits_is_not_hindered() {
    let Some(sandbox) = sandbox().await else { return };
    for (code, expected) in [
        ("x = bytearray(100 << 20)\nresult = len(x)", "104857600"),
        ("open('x', 'wb').write(b'x' * (15 << 20))\nimport os\nresult = os.path.getsize('x')", "15728640"),
        ("x = [open(f'{n}', 'w') for n in range(60)]\nresult = len(x)", "60"),
        (
            "import threading\nx = []\nt = [threading.Thread(target=x.append, args=(n,)) for n in range(15)]\n\
             [n.start() for n in t]\n[n.join() for n in t]\nresult = len(x)",
            "15",
        ),
        ("print('x' * 1000000)\nresult = 1", "1"),
    ] {
        assert_eq!(told(&run(&sandbox, code).await.ended), expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_the_limit_is_kept() {
    let Some(sandbox) = sandbox().await else { return };
    let limits = Limits { wall: Duration::from_millis(300), ..limits() };
    let code = "import sys, time\nprint('out')\nprint('err', file=sys.stderr)\ntime.sleep(1000)";
    let result = sandbox.run(&SandboxRequest::new(code).limits(limits)).await.unwrap();
    assert_eq!(
        (told(&result.ended).as_str(), &*result.stdout, &*result.stderr),
        ("limit wall", &b"out\n"[..], &b"err\n"[..])
    );
    assert!(result.usage.wall >= limits.wall);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_is_told() {
    let Some(sandbox) = sandbox().await else { return };
    let code =
        "import time\nx = bytearray(50 << 20)\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass";
    let result = run(&sandbox, code).await;
    assert_eq!(told(&result.ended), "null");
    let used = result.usage;
    assert!(used.cpu >= Duration::from_millis(150) && used.wall >= used.cpu / 2, "{used:?}");
    assert!(used.peak_memory_bytes >= 50 << 20, "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_make_no_sense_and_sizes_that_are_too_large_are_refused() {
    let Some(sandbox) = sandbox().await else { return };
    let refused = |request: SandboxRequest| {
        let sandbox = sandbox.clone();
        async move { sandbox.run(&request).await.unwrap_err() }
    };
    for (name, change) in [
        ("cpu", Limits { cpu: Duration::ZERO, ..limits() }),
        ("wall", Limits { wall: Duration::from_secs(1 << 30), ..limits() }),
        ("memory_bytes", Limits { memory_bytes: 1, ..limits() }),
        ("output_bytes", Limits { output_bytes: u64::MAX, ..limits() }),
        ("open_files", Limits { open_files: 0, ..limits() }),
        ("processes", Limits { processes: 0, ..limits() }),
        ("scratch_bytes", Limits { scratch_bytes: 0, ..limits() }),
    ] {
        let error = refused(SandboxRequest::new("result = 1").limits(change)).await;
        assert!(matches!(error, SandboxError::Limit { limit, .. } if limit == name), "{name}: {error}");
    }
    let error = refused(SandboxRequest::new("#".repeat(2 << 20))).await;
    assert!(matches!(error, SandboxError::TooLarge { what: "the code", .. }), "{error}");
}
