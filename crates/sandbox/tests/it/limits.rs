//! Each limit, run into: the result names it, and the sandbox serves on.

use std::time::Duration;

use toolgate_contracts::ErrorCode;
use toolgate_sandbox::{Limits, SandboxError, SandboxRequest, Settings};

use crate::world::{limits, run, sandbox, sandbox_with, told};

/// What is tried, how, which limit it runs into, and the reason that is told.
pub const CASES: &[(&str, &str, &str, &str)] = &[
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

/// The folders of this machine's control groups, where we may make some; version 2 in one, version 1 in two.
pub fn groups() -> Vec<std::path::PathBuf> {
    let whole = std::path::Path::new("/sys/fs/cgroup");
    let candidates: &[&[&str]] = &[&["."], &["memory", "pids"]];
    for names in candidates {
        let parents: Vec<_> = names.iter().map(|name| whole.join(name)).collect();
        let ours = |parent: &std::path::PathBuf| {
            let probe = parent.join(format!("toolgate-probe-{}", std::process::id()));
            let made = std::fs::create_dir(&probe).is_ok();
            let limited =
                ["memory.max", "memory.limit_in_bytes", "pids.max"].iter().any(|file| probe.join(file).exists());
            let _ = std::fs::remove_dir(&probe);
            made && limited
        };
        if parents.iter().all(ours) {
            return parents;
        }
    }
    Vec::new()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_group_holds_all_instances_together_and_goes_with_them() {
    let cgroups = groups();
    if cgroups.is_empty() {
        eprintln!("SKIPPED: no control group of this machine lets us make groups in it");
        return;
    }
    let settings =
        Settings { limits: limits(), warm: 1, concurrent: 1, cgroups: cgroups.clone(), ..Settings::default() };
    let Some(sandbox) = sandbox_with(settings).await else { return };
    assert_eq!(told(&run(&sandbox, "result = 6 * 7").await.ended), "42");
    let prefix = format!("toolgate-{}-", std::process::id());
    let made = |parent: &std::path::PathBuf| {
        let folders = std::fs::read_dir(parent).unwrap().flatten().map(|entry| entry.path());
        let ours = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
        folders.filter(ours).collect::<Vec<_>>()
    };
    for parent in &cgroups {
        let [folder] = made(parent).try_into().unwrap();
        let inside = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap();
        assert!(inside.lines().count() >= 2, "the interpreter and what it forked: {inside}");
        let most = |file: &str| {
            std::fs::read_to_string(folder.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok())
        };
        let each = limits().memory_bytes + limits().scratch_bytes;
        if let Some(memory) = most("memory.max").or_else(|| most("memory.limit_in_bytes")) {
            assert_eq!(memory, 2 * each + (128 << 20));
        }
        if let Some(processes) = most("pids.max") {
            assert_eq!(processes, 2 * limits().processes + 16);
        }
    }
    drop(sandbox);
    for _ in 0..200 {
        if cgroups.iter().all(|parent| made(parent).is_empty()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the groups are left over");
}
