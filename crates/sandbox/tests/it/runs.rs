//! What code gets and gives, and how runs begin, end and follow each other.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::Pid;
use serde_json::{Value, json};
use toolgate_sandbox::{
    Ended, HostCall, HostCalls, Network, Sandbox, SandboxError, SandboxRequest, Settings, Spawner, Stream, Tier, Warmth,
};

use crate::world::{limits, run, sandbox, sandbox_with, told};

#[tokio::test(flavor = "multi_thread")]
async fn the_result_is_what_main_returns_or_what_result_was_set_to() {
    let Some(sandbox) = sandbox().await else { return };
    for (code, expected) in [
        ("result = 6 * 7", "42"),
        ("def main(input):\n    return {'a': [1, 2.5, None, True, 'ü']}", r#"{"a":[1,2.5,null,true,"ü"]}"#),
        ("x = 1", "null"),
        ("result = 1\ndef main(input): return 2", "2"),
        ("import sys\nresult = 3\nsys.exit()", "3"),
        ("import sys\nsys.exit(2)", "SystemExit: 2"),
        ("def main(input): return set()", "TypeError: Object of type set is not JSON serializable"),
        ("result = float('nan')", "ValueError: Out of range float values are not JSON compliant"),
        ("result = 2 ** 53 + 1", "unreadable: the integer 9007199254740993 is beyond"),
        ("if __name__ == '__main__': result = 1", "1"),
        ("from __future__ import annotations\nresult = 1", "1"),
        ("def main():\n    return 1", "TypeError: main() takes 0 positional arguments but 1 was given"),
    ] {
        let said = told(&run(&sandbox, code).await.ended);
        assert!(said.starts_with(expected), "{code}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_a_dictionary_and_output_is_captured() {
    let Some(sandbox) = sandbox().await else { return };
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let mut request =
        SandboxRequest::new("import sys\nprint(input['name'])\nprint('\\ud800', file=sys.stderr)\nresult = input")
            .input(&json!({"name": "Ada", "n": [1, {"x": null}]}))
            .limits(limits());
    request.output = Some(Arc::new(move |stream, bytes| seen.lock().unwrap().push((stream, bytes.to_vec()))));
    let result = sandbox.run(&request).await.unwrap();
    assert_eq!(result.ended, Ended::Finished(json!({"name": "Ada", "n": [1, {"x": null}]})));
    assert_eq!((&*result.stdout, &*result.stderr), (&b"Ada\n"[..], &b"\\ud800\n"[..]));
    assert!(shown.lock().unwrap().contains(&(Stream::Stdout, b"Ada\n".to_vec())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_traceback_shows_the_lines_of_the_code_and_no_others() {
    let Some(sandbox) = sandbox().await else { return };
    let code = "import json\n\ndef inner(x):\n    return json.loads(x)\n\ndef main(input):\n    return inner('{')\n";
    let result = run(&sandbox, code).await;
    let Ended::Raised(raised) = &result.ended else { panic!("{:?}", result.ended) };
    let traceback = raised.traceback();
    assert_eq!(
        traceback,
        "Traceback (most recent call last):\n  line 7, in main\n    return inner('{')\n  line 4, in inner\n    \
         return json.loads(x)\nJSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    );
    let error = result.outcome(&limits()).unwrap_err();
    let line = error.details.as_ref().map(|details| &details["line"]);
    assert_eq!((error.reason(), line), ("exception", Some(&json!(4))));

    let result = run(&sandbox, "x = 1\ny = = 2\n").await;
    let Ended::Raised(raised) = result.ended else { panic!() };
    assert_eq!(
        raised.traceback(),
        "Traceback (most recent call last):\n  line 2, in <module>\n    y = = 2\nSyntaxError: invalid syntax"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_run_is_fresh() {
    let Some(sandbox) = sandbox().await else { return };
    let code = "import builtins, json, os\nseen = [hasattr(builtins, 'left'), hasattr(json, 'left'), os.listdir('.')]\n\
                builtins.left = json.left = 1\nopen('left', 'w').close()\nresult = seen";
    for _ in 0..3 {
        assert_eq!(told(&run(&sandbox, code).await.ended), "[false,false,[]]");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standard_library_can_be_used() {
    let Some(sandbox) = sandbox().await else { return };
    let code = r#"
import sys, importlib, warnings
warnings.simplefilter("ignore")
left_out = {"antigravity", "this", "audioop", "cProfile", "crypt", "pty", "ssl", "termios", "tty", "idlelib", "lib2to3", "ctypes", "tkinter", "turtle", "turtledemo", "curses", "_ctypes",
    "readline", "ossaudiodev", "nis", "spwd", "dbm", "test", "winreg", "winsound", "msvcrt", "nt", "ntpath"}
failed = {}
for name in sorted(sys.stdlib_module_names):
    if name in left_out or name.startswith("_"):
        continue
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = str(error)
result = {name: why for name, why in failed.items() if "No module named" not in why}
"#;
    assert_eq!(told(&run(&sandbox, code).await.ended), "{}");
    let code = "import datetime, zoneinfo, decimal, sqlite3, re, hashlib, random, uuid, tempfile, csv, io\n\
                with tempfile.TemporaryFile() as f: f.write(b'x')\n\
                result = [sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0], hashlib.sha256(b'x').hexdigest()[:4]]";
    assert_eq!(told(&run(&sandbox, code).await.ended), r#"[2,"2d71"]"#);
    let first = told(&run(&sandbox, "import random, uuid\nresult = [random.random(), str(uuid.uuid4())]").await.ended);
    let second = told(&run(&sandbox, "import random, uuid\nresult = [random.random(), str(uuid.uuid4())]").await.ended);
    assert_ne!(first, second, "chance is not shared between runs");
}

struct Host {
    calls: AtomicUsize,
}

impl HostCalls for Host {
    fn call(&self, call: HostCall) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            match call.name.as_str() {
                "fetch" if call.argument["url"] == "https://good.test/" => Ok(json!({"status": 200, "body": "hello"})),
                "fetch" => Err("the host is not on the list".to_owned()),
                "slow" => {
                    tokio::time::sleep(Duration::from_mins(10)).await;
                    Ok(Value::Null)
                }
                _ => Err(format!("no `{}`", call.name)),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_way_out_is_through_the_host() {
    let Some(sandbox) = sandbox().await else { return };
    let host = Arc::new(Host { calls: AtomicUsize::new(0) });
    let through = |code: &str| {
        let network = Network::Through(host.clone());
        SandboxRequest::new(code).limits(limits()).network(network)
    };
    for (code, expected) in [
        ("result = fetch('https://good.test/')['body']", r#""hello""#),
        ("fetch('http://169.254.169.254/')", "HostError: the host is not on the list"),
        (
            "try:\n  fetch('https://evil.test/')\nexcept HostError as e:\n  result = str(e)",
            r#""the host is not on the list""#,
        ),
        ("result = host_call('other', [1])", "HostError: no `other`"),
        ("host_call('fetch', 'x' * (2 << 20))", "unreadable: a frame of"),
        (
            "while True:\n  try: host_call('other')\n  except HostError: pass",
            "unreadable: it called the host more than 1000 times",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor as T\nwith T(8) as t: result = [r['status'] for r in \
             t.map(fetch, ['https://good.test/'] * 20)]",
            "[200,200,200",
        ),
    ] {
        let said = told(&sandbox.run(&through(code)).await.unwrap().ended);
        assert!(said.starts_with(expected), "{code}: {said}");
    }
    let mut slow = through("host_call('slow')");
    slow.limits.wall = Duration::from_millis(300);
    assert_eq!(told(&sandbox.run(&slow).await.unwrap().ended), "limit wall");
    // Without a host there are no words for it, and no frame that stands for them.
    let before = host.calls.load(Ordering::SeqCst);
    assert!(told(&run(&sandbox, "fetch('https://good.test/')").await.ended).starts_with("NameError"));
    let forged = "import os\nbody = b'{\"name\": \"fetch\", \"argument\": {}}'\nos.write(3, b'H' + len(body).to_bytes(4, 'little') + body)\nos.read(3, 1)";
    assert_eq!(told(&run(&sandbox, forged).await.ended), "unreadable: it called the host, and has none");
    assert_eq!(host.calls.load(Ordering::SeqCst), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_do_not_meet() {
    let Some(sandbox) = sandbox().await else { return };
    let runs = (0..24).map(|number| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move {
            let request = SandboxRequest::new(
                "open('mine', 'w').write(str(input['n']))\nresult = [input['n'], open('mine').read()]",
            )
            .input(&json!({"n": number}))
            .limits(limits());
            assert_eq!(told(&sandbox.run(&request).await.unwrap().ended), format!("[{number},\"{number}\"]"));
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.unwrap();
    }
}

/// A sandbox whose processes can be told from those of other tests: by the path of a folder of modules.
async fn marked() -> Option<(tempfile::TempDir, Sandbox)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("mine.py"), "answer = 42").unwrap();
    let libraries = vec![folder.path().to_owned()];
    let settings =
        Settings { libraries, preload: vec!["mine".to_owned()], warm: 1, limits: limits(), ..Settings::default() };
    Some((folder, sandbox_with(settings).await?))
}

fn processes(folder: &Path) -> Vec<Pid> {
    let mark = folder.to_str().unwrap().as_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if arguments.windows(mark.len()).any(|part| part == mark) {
            found.push(pid);
        }
    }
    found
}

async fn until(mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..600 {
        if holds() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_and_closing_leave_nothing_running() {
    let Some((folder, sandbox)) = marked().await else { return };
    assert_eq!(told(&run(&sandbox, "import mine\nresult = mine.answer").await.ended), "42");
    let request = SandboxRequest::new("while True: pass").limits(limits());
    let cancelled = tokio::time::timeout(Duration::from_millis(300), sandbox.run(&request)).await;
    assert!(cancelled.is_err());
    // The interpreter and the instance that waits ready.
    assert!(until(|| processes(folder.path()).len() == 2).await, "{:?}", processes(folder.path()));
    assert_eq!(told(&run(&sandbox, "result = 1").await.ended), "1");
    drop(sandbox);
    assert!(until(|| processes(folder.path()).is_empty()).await, "{:?}", processes(folder.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_interpreter_is_replaced() {
    let Some((folder, sandbox)) = marked().await else { return };
    let found = processes(folder.path());
    assert!(!found.is_empty());
    for pid in found {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let served = async {
        loop {
            if let Ok(result) = sandbox.run(&SandboxRequest::new("result = 1").limits(limits())).await
                && told(&result.ended) == "1"
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("it serves again");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_scratch_size_and_no_pool_work_too() {
    let Some(sandbox) = sandbox_with(Settings { warm: 0, limits: limits(), ..Settings::default() }).await else {
        return;
    };
    let mut request =
        SandboxRequest::new("import os\ns = os.statvfs('.')\nresult = s.f_blocks * s.f_frsize").limits(limits());
    request.limits.scratch_bytes = 1 << 20;
    for warmth in [Warmth::Ready, Warmth::Fresh] {
        assert_eq!(told(&sandbox.run_from(&request, warmth).await.unwrap().ended), "1048576");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_that_is_not_there_is_refused_in_words() {
    let Some(sandbox) = sandbox().await else { return };
    let cases =
        [(Tier::Wasm, "not configured"), (Tier::Gvisor, "not configured"), (Tier::Vm, "left out of this version")];
    for (tier, why) in cases {
        let mut request = SandboxRequest::new("result = 1").limits(limits());
        request.tier = Some(tier);
        let error = sandbox.run(&request).await.unwrap_err();
        assert!(matches!(error, SandboxError::NoTier { wanted, .. } if wanted == tier), "{error}");
        assert!(error.to_string().contains(&format!("`{tier}` is not there: {why}")), "{error}");
    }
    let settings = Settings { python: Some("/nowhere/python3".into()), ..Settings::default() };
    let sandbox = Sandbox::new(Spawner::new().unwrap(), settings);
    let error = sandbox.run(&SandboxRequest::new("result = 1")).await.unwrap_err();
    assert!(error.to_string().contains("there is no interpreter at `/nowhere/python3`"), "{error}");
    let settings = Settings { python: Some("/bin/true".into()), ..Settings::default() };
    let offers = Sandbox::new(Spawner::new().unwrap(), settings);
    let refused = offers.offers().await[0].refused.clone().unwrap();
    assert!(refused.contains("`/bin/true` is no Python that we can use"), "{refused}");
}
