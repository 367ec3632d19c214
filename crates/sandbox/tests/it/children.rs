//! Trusted children: what they get, what they leave, and that nothing of them stays.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use toolgate_sandbox::{
    Child, ChildEnd, ChildLimits, ChildOutput, ChildRequest, Duplex, LimitKind, SandboxError, Spawner,
};

fn shell(script: &str) -> ChildRequest {
    let mut request = ChildRequest::new("/bin/sh");
    request.arguments = vec!["-c".into(), script.into()];
    request.limits.grace = Duration::from_millis(200);
    request
}

async fn capture(request: ChildRequest) -> ChildOutput {
    Child::capture(&Spawner::new().unwrap(), request, None).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn gone(pid: &str) {
    for _ in 0..200 {
        if !alive(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{pid} is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_a_vector_and_the_environment_is_what_was_given() {
    let mut request = shell("env | sort; for word in \"$@\"; do echo \"[$word]\"; done; pwd; cat >&2; exit 3");
    request.arguments.extend(["name".into(), "a b".into(), "$(id)".into(), "; id".into()]);
    request.environment = vec![("WORD".into(), "a=b c".into())];
    request.folder = Some("/usr".into());
    request.input = b"told".to_vec();
    let output = capture(request).await;
    assert_eq!(output.end, ChildEnd::Exited(3));
    assert_eq!(text(&output.stdout), "PWD=/usr\nWORD=a=b c\n[a b]\n[$(id)]\n[; id]\n/usr\n");
    assert_eq!(text(&output.stderr), "told");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_descriptor_of_ours_is_inherited_and_the_session_is_its_own() {
    let file = tempfile::tempfile().unwrap();
    let leaked = rustix::io::dup(&file).unwrap();
    let script = format!(
        "ls /proc/self/fd | tr '\\n' ' '; [ -e /proc/$$/fd/{} ] && echo leaked; cut -d' ' -f1,5,6 /proc/$$/stat",
        leaked.as_raw_fd()
    );
    let output = capture(shell(&script)).await;
    let said = text(&output.stdout);
    let (descriptors, stat) = said.split_at(said.find("3 ").unwrap() + 2);
    assert_eq!(descriptors, "0 1 2 3 ", "{said}");
    let numbers: Vec<&str> = stat.split_whitespace().collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|number| *number == numbers[0]), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_end_the_whole_group() {
    let limits =
        ChildLimits { wall: Duration::from_millis(400), grace: Duration::from_millis(100), ..ChildLimits::default() };
    let stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $!; echo $$; wait";
    for (name, script, limits, expected) in [
        ("sleep", "echo $$; sleep 1000", limits, LimitKind::Wall),
        ("ignores termination", stubborn, limits, LimitKind::Wall),
        (
            "output",
            "echo $$; while :; do echo xxxxxxxxxx; done",
            ChildLimits { output_bytes: 1000, ..limits },
            LimitKind::Output,
        ),
        (
            "processor time",
            "echo $$; while :; do :; done",
            ChildLimits { cpu: Some(Duration::from_secs(1)), wall: Duration::from_mins(1), ..limits },
            LimitKind::Cpu,
        ),
    ] {
        let output = capture(ChildRequest { limits, ..shell(script) }).await;
        assert_eq!(output.end, ChildEnd::Limit(expected), "{name}");
        assert!(output.stdout.len() as u64 <= limits.output_bytes);
        let said = text(&output.stdout);
        for pid in said.lines().filter(|line| line.chars().all(|letter| letter.is_ascii_digit())) {
            gone(pid).await;
        }
    }
    let output = capture(ChildRequest {
        limits: ChildLimits { open_files: Some(8), file_bytes: Some(1000), ..ChildLimits::default() },
        ..shell("ulimit -n; ulimit -f; ulimit -c; cd /tmp; f=$(mktemp); head -c 100000 /dev/zero > $f; echo $?; rm $f")
    })
    .await;
    assert!(text(&output.stdout).starts_with("8\n1\n0\n"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_leaves_behind_in_its_group_is_ended() {
    let output = capture(shell("sleep 1000 & echo $!; exit 0")).await;
    assert_eq!(output.end, ChildEnd::Exited(0));
    gone(&text(&output.stdout)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_spoken_with_and_dies_when_it_is_dropped() {
    let spawner = Spawner::new().unwrap();
    let script = "trap '' TERM; sleep 1000 & echo $!; while read line; do echo \"got $line\"; done; sleep 1000";
    let mut duplex = Child::duplex(&spawner, shell(script)).await.unwrap();
    let mut lines = BufReader::new(&mut duplex.stdout).lines();
    let sleeper = lines.next_line().await.unwrap().unwrap();
    duplex.stdin.write_all(b"one\ntwo\n").await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("got one"));
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("got two"));
    let pid = duplex.child.pid().to_string();
    assert!(alive(&pid) && alive(&sleeper));
    drop(duplex);
    gone(&pid).await;
    gone(&sleeper).await;
    assert!(!Path::new(&format!("/proc/{pid}")).exists() || !alive(&pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_die_with_the_thread_that_started_them() {
    let spawner = Spawner::new().unwrap();
    let duplex = Child::duplex(&spawner, shell("sleep 1000")).await.unwrap();
    let pid = duplex.child.pid().to_string();
    drop(spawner);
    assert!(alive(&pid), "the child itself holds the thread");
    drop(duplex);
    gone(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_shown_as_it_comes() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let sink: toolgate_sandbox::OutputSink = Arc::new(move |_, bytes| seen.lock().unwrap().push(bytes.to_vec()));
    let spawner = Spawner::new().unwrap();
    let output = Child::capture(&spawner, shell("echo one; sleep 0.3; echo two"), Some(sink)).await.unwrap();
    assert_eq!(text(&output.stdout), "one\ntwo\n");
    assert_eq!(*shown.lock().unwrap(), [b"one\n".to_vec(), b"two\n".to_vec()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_program_is_refused() {
    for program in ["/nowhere/at/all", "sh", "/etc/passwd", "/tmp"] {
        let spawner = Spawner::new().unwrap();
        let refused = Child::capture(&spawner, ChildRequest::new(program), None).await.unwrap_err();
        assert!(matches!(refused, SandboxError::Program { .. }), "{program}: {refused}");
    }
}

/// A real daemon: two forks, a session of its own, an environment without anything, none of our streams.
const DAEMON: &str = r#"
( setsid sh -c 'echo $$ > "$1.new"; mv "$1.new" "$1"; exec env -i sleep 1000' sh "$1" </dev/null >/dev/null 2>&1 & )
while [ ! -s "$1" ]; do sleep 0.01; done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_does_not_outlive_the_program_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let spawner = Spawner::new().unwrap();
    // One that is nobody's of these stays, although it runs at the same time.
    let (other, other_ran) = daemon(&folder.path().join("other"), "read word");
    let Duplex { stdin, child: other_child, .. } = Child::duplex(&spawner, other).await.unwrap();
    let other_pid = other_ran().await;
    for (name, then, expected) in [
        ("it ends", "exit 7", Some(ChildEnd::Exited(7))),
        ("its time is over", "sleep 1000", Some(ChildEnd::Limit(LimitKind::Wall))),
        ("it ignores that", "trap '' TERM; while :; do sleep 0.1; done", Some(ChildEnd::Limit(LimitKind::Wall))),
        ("nobody waits any more", "sleep 1000", None),
    ] {
        let (mut request, ran) = daemon(&folder.path().join(name), then);
        if expected == Some(ChildEnd::Limit(LimitKind::Wall)) {
            request.limits.wall = Duration::from_millis(1500);
        }
        let capture = Child::capture(&spawner, request, None);
        let pid = if let Some(expected) = expected {
            assert_eq!(capture.await.unwrap().end, expected, "{name}");
            let pid = ran().await;
            assert!(!alive(&pid), "{name}: {pid} is still there");
            pid
        } else {
            tokio::select! {
                output = capture => panic!("{output:?}"),
                pid = ran() => pid,
            }
        };
        gone(&pid).await;
        assert!(alive(&other_pid), "{name}: another program's is gone too");
    }
    drop((stdin, other_child));
    gone(&other_pid).await;
}

/// A program that starts a daemon and goes on with `then`, and what waits for the daemon's number.
fn daemon(file: &Path, then: &str) -> (ChildRequest, impl AsyncFn() -> String + use<>) {
    let mut request = shell(&format!("{DAEMON}\n{then}"));
    request.arguments.extend(["sh".into(), file.into()]);
    request.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let file = file.to_owned();
    let ran = async move || {
        for _ in 0..400 {
            if let Ok(pid) = std::fs::read_to_string(&file) {
                return pid.trim().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("there is no {}", file.display());
    };
    (request, ran)
}
