//! The tier `gvisor`, where this machine has a `runsc`: the same code, the same limits and the same tricks as everywhere,
//! and nothing left when a container is gone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_sandbox::{
    HostCall, HostCalls, Limits, Network, Offer, Sandbox, SandboxError, SandboxRequest, Settings, Spawner, Tier,
};

use crate::world::{limits, told};

const PLACES: [&str; 2] = ["/usr/bin/runsc", "/usr/local/bin/runsc"];

fn settings(runsc: impl Into<PathBuf>) -> Settings {
    // Debian's package is of December 2022.
    let gvisor_oldest = Some("20221201".to_owned());
    Settings {
        limits: limits(),
        warm: 0,
        concurrent: 4,
        runsc: Some(runsc.into()),
        gvisor_oldest,
        ..Settings::default()
    }
}

/// `None`, with a loud word, only where there is no `runsc`.
fn installed() -> Option<&'static str> {
    let found = PLACES.into_iter().find(|place| Path::new(place).exists());
    if found.is_none() {
        eprintln!("SKIPPED: there is no `runsc` at {}: install Debian's package `runsc`", PLACES.join(" or "));
    }
    found
}

fn sandbox() -> Option<Sandbox> {
    Some(Sandbox::new(Spawner::new().unwrap(), settings(installed()?)))
}

fn request(code: &str) -> SandboxRequest {
    let mut request = SandboxRequest::new(code).limits(limits());
    request.tier = Some(Tier::Gvisor);
    request
}

async fn run(sandbox: &Sandbox, request: &SandboxRequest) -> String {
    let result = sandbox.run(request).await.unwrap();
    assert_eq!(result.tier, Tier::Gvisor);
    told(&result.ended)
}

/// Runs all, some of them at once: a container takes half a second.
async fn each(sandbox: &Sandbox, cases: Vec<(String, SandboxRequest, String)>) {
    let runs = cases.into_iter().map(|(name, request, expected)| async move {
        let said = run(sandbox, &request).await;
        (!said.starts_with(&expected) || said.contains("ESCAPED")).then(|| format!("{name}: {said}, not {expected}"))
    });
    let wrong: Vec<String> =
        futures_util::stream::iter(runs).buffered(4).filter_map(std::future::ready).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn offered(sandbox: &Sandbox) -> Offer {
    sandbox.offers().await.iter().find(|offer| offer.tier == Tier::Gvisor).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_proves_itself_and_says_which_release_it_is() {
    let Some(sandbox) = sandbox() else { return };
    let offer = offered(&sandbox).await;
    assert!(offer.is_open(), "{offer}\n{offer:#?}");
    assert!(offer.proofs.len() >= 13 && offer.proofs.iter().all(|proof| proof.miss.is_none()), "{offer:#?}");
    let notes = offer.notes.join("; ");
    assert!(notes.contains("because `sandbox.gvisor.oldest` says so"), "{notes}");
    assert!(notes.contains("gVisor ") && notes.contains("platform `") && notes.contains("Python 3."), "{notes}");
    // Who does not ask for it gets what is cheaper.
    let result = sandbox.run(&SandboxRequest::new("result = 1").limits(limits())).await.unwrap();
    assert_eq!(result.tier, Tier::Process);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_demands_it_gets_it_or_is_told_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, says: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{says}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let debian = "echo runsc version 0.0~20221219.0";
    for (runsc, oldest, expected) in [
        (None, None, "not configured"),
        (Some(PathBuf::from("/nowhere/runsc")), None, "there is no `/nowhere/runsc`"),
        (Some(script("other", "echo hello")), None, "is no gVisor: it does not tell its version"),
        (
            Some(script("old", debian)),
            None,
            "is too old, 0.0~20221219.0: releases since 20240101 will do; `sandbox.gvisor.",
        ),
        (Some(script("old", debian)), Some("20221220"), "is too old, 0.0~20221219.0: releases since 20221220 will do"),
        (Some(script("old", debian)), Some("20221219"), "starts no container"),
        (Some(script("old", debian)), Some("2022-12-19"), "`sandbox.gvisor.oldest`, `2022-12-19`, is no day"),
        (Some(script("own", "echo runsc version VERSION_MISSING")), None, "does not say of which day it is"),
        (
            Some(script(
                "broken",
                "[ $1 = --version ] && echo runsc version release-20300101.0 || echo no platform >&2",
            )),
            None,
            "starts no container; on `systrap`: no platform; on `ptrace`: no platform",
        ),
    ] {
        let settings = Settings { runsc, gvisor_oldest: oldest.map(str::to_owned), ..settings("") };
        let sandbox = Sandbox::new(Spawner::new().unwrap(), settings);
        let error = sandbox.run(&request("result = 1")).await.unwrap_err();
        assert!(matches!(error, SandboxError::NoTier { wanted: Tier::Gvisor, .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        let error = ToolError::from(error);
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "tier_unavailable"));
    }
}

pub struct Host;

impl HostCalls for Host {
    fn call(&self, call: HostCall) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            match call.name.as_str() {
                "fetch" if call.argument["url"] == "https://good.test/" => Ok(json!({"status": 200, "body": "hello"})),
                _ => Err("the host is not on the list".to_owned()),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_gets_and_gives_the_same_as_in_other_tiers() {
    let Some(sandbox) = sandbox() else { return };
    let through = |code: &str| request(code).network(Network::Through(Arc::new(Host)));
    let cases = [
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
                "import datetime, decimal, hashlib, json, re, sqlite3, statistics, uuid, zoneinfo\n\
            result = [sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0], hashlib.sha256(b'x').hexdigest()[:4]]",
            ),
            r#"[2,"2d71"]"#,
        ),
        ("a page", through("result = fetch('https://good.test/')['body']"), r#""hello""#),
        (
            "a page that is refused",
            through("fetch('http://169.254.169.254/')"),
            "HostError: the host is not on the list",
        ),
        ("no host", request("fetch('https://good.test/')"), "NameError"),
    ];
    each(&sandbox, cases.map(|(name, request, expected)| (name.to_owned(), request, expected.to_owned())).to_vec())
        .await;
    let result = sandbox.run(&request("import sys\nprint('out')\nprint('err', file=sys.stderr)")).await.unwrap();
    assert_eq!((&*result.stdout, &*result.stderr), (&b"out\n"[..], &b"err\n"[..]));
    // By an amount of work: gVisor's own clock also counts the time for which others have the processor.
    let used = sandbox.run(&request("x = bytearray(b'x') * (50 << 20)\nsum(range(10**7))")).await.unwrap().usage;
    assert!(used.cpu >= Duration::from_millis(20) && used.wall >= used.cpu / 4, "{used:?}");
    assert!(used.peak_memory_bytes >= 50 << 20, "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_ends_the_run_and_is_named() {
    let Some(sandbox) = sandbox() else { return };
    let cases = crate::limits::CASES
        .iter()
        // gVisor counts no files in a folder of memory: these run into the time they take, or the memory.
        .filter(|(name, ..)| !["many empty files", "many folders"].contains(name))
        .map(|(name, code, limit, _)| {
            let mut request = request(code);
            match *limit {
                "cpu" => request.limits.cpu = Duration::from_millis(150),
                "wall" => request.limits.wall = Duration::from_millis(300),
                _ => {}
            }
            ((*name).to_owned(), request, format!("limit {limit}"))
        });
    each(&sandbox, cases.collect()).await;
    let mut files = request("import os\nfor n in range(10**7): os.mkdir(f'{n}')");
    files.limits.cpu = Duration::from_secs(2);
    let said = run(&sandbox, &files).await;
    assert!(["limit cpu", "limit memory_bytes"].contains(&said.as_str()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trick_is_contained_and_the_sandbox_serves_on() {
    let Some(sandbox) = sandbox() else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), b"secret").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let input = json!({"secret": secret.path(), "port": listener.local_addr().unwrap().port()});
    let cases = crate::escapes::tricks().into_iter().map(|(name, code, expected)| {
        // Old releases forget what follows a link to the root, and open that.
        let expected =
            expected.strip_suffix(r#""ENOENT"]"#).filter(|_| name.starts_with("links out")).unwrap_or(expected);
        let request = request(&code).input(&input);
        (name.to_owned(), request, expected.to_owned())
    });
    each(&sandbox, cases.collect()).await;
    assert!(listener.accept().is_err(), "somebody connected");
    assert_eq!(std::fs::read(secret.path()).unwrap(), b"secret");
    assert_eq!(run(&sandbox, &request("result = 1")).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_its_time() {
    let Some(sandbox) = sandbox() else { return };
    let limits = Limits { wall: Duration::from_millis(800), cpu: Duration::from_millis(500), ..limits() };
    let cases = crate::escapes::LONG.iter().map(|(name, trick)| {
        ((*name).to_owned(), request(&crate::escapes::with_prelude(trick)).limits(limits), "limit ".to_owned())
    });
    each(&sandbox, cases.collect()).await;
}

/// Folders of containers, and processes that name one, of this test's own process.
fn left() -> Vec<String> {
    let mark = format!("toolgate-gvisor-{}-", std::process::id());
    let names = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = names("/tmp").filter(|path| path.to_string_lossy().contains(&mark));
    let running = names("/proc").filter(|path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|text| String::from_utf8_lossy(&text).contains(&mark))
    });
    folders.chain(running).map(|path| path.display().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ending_and_closing_leave_nothing_behind() {
    let Some(sandbox) = sandbox() else { return };
    assert_eq!(run(&sandbox, &request("result = 1")).await, "1");
    // While it starts, while it runs, and after it has crashed.
    for patience in [20, 200, 3000] {
        let request = request("while True: pass");
        let cancelled = tokio::time::timeout(Duration::from_millis(patience), sandbox.run(&request)).await;
        assert!(cancelled.is_err());
    }
    assert_eq!(run(&sandbox, &request("import os\nos._exit(3)")).await, "died: it left with status 3");
    drop(sandbox);
    for _ in 0..400 {
        if left().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("left over: {:?}", left());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_container_is_in_a_control_group_of_its_own_that_goes_with_it() {
    let Some(runsc) = installed() else { return };
    let cgroups = crate::limits::groups();
    if cgroups.is_empty() {
        eprintln!("SKIPPED: no control group of this machine lets us make groups in it");
        return;
    }
    let sandbox = Sandbox::new(Spawner::new().unwrap(), Settings { cgroups: cgroups.clone(), ..settings(runsc) });
    assert_eq!(run(&sandbox, &request("result = 1")).await, "1");
    let prefix = format!("toolgate-{}-", std::process::id());
    let inside = || -> Vec<usize> {
        let folders = cgroups.iter().flat_map(|parent| std::fs::read_dir(parent).unwrap().flatten());
        let ours = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        let count = |text: String| text.lines().count();
        ours.map(|entry| std::fs::read_to_string(entry.path().join("cgroup.procs")).map_or(0, count)).collect()
    };
    let waiting = request("import time\ntime.sleep(1000)");
    let running = sandbox.run(&waiting);
    let seen = async {
        for _ in 0..400 {
            // `runsc`, what serves files, gVisor's kernel, and what code runs in.
            if inside().iter().filter(|processes| **processes >= 4).count() == cgroups.len() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        false
    };
    tokio::select! {
        result = running => panic!("{result:?}"),
        seen = seen => assert!(seen, "{:?}", inside()),
    }
    drop(sandbox);
    for _ in 0..400 {
        if inside().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the groups are left over: {:?}", inside());
}
