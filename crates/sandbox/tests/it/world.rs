//! A sandbox to try things in, and words to say what is expected.

use std::time::Duration;

use toolgate_sandbox::{Ended, Limits, Sandbox, SandboxRequest, SandboxResult, Settings, Spawner};

pub fn limits() -> Limits {
    Limits { cpu: Duration::from_secs(20), wall: Duration::from_mins(1), memory_bytes: 128 << 20, ..Limits::default() }
}

/// `None`, with a loud word, only where the kernel really has no user namespaces.
pub async fn sandbox() -> Option<Sandbox> {
    let limits = limits();
    sandbox_with(Settings { limits, warm: 1, concurrent: 4, ..Settings::default() }).await
}

pub async fn sandbox_with(settings: Settings) -> Option<Sandbox> {
    let none = std::fs::read_to_string("/proc/sys/user/max_user_namespaces").map_or(true, |text| text.trim() == "0");
    if none {
        eprintln!("SKIPPED: this kernel has no user namespaces, so the process tier cannot be tried");
        return None;
    }
    let sandbox = Sandbox::new(Spawner::new().unwrap(), settings);
    let offers = sandbox.offers().await;
    let offer = &offers[0];
    assert!(offer.is_open(), "{offer}\n{offer:#?}");
    Some(sandbox)
}

pub async fn run(sandbox: &Sandbox, code: &str) -> SandboxResult {
    sandbox.run(&SandboxRequest::new(code).limits(limits())).await.unwrap()
}

/// How it ended, in a few words.
pub fn told(ended: &Ended) -> String {
    match ended {
        Ended::Finished(value) => value.to_string(),
        Ended::Raised(raised) => format!("{}: {}", raised.kind, raised.message),
        Ended::Limit(limit) => format!("limit {}", limit.word()),
        Ended::Failed(error) => format!("{:?}: {}", error.code, error.message),
        Ended::Died { how } => format!("died: {how}"),
        Ended::Unreadable { why } => format!("unreadable: {why}"),
    }
}
