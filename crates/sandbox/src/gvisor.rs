//! The tier `gvisor`: each run in a container of its own, behind a kernel in user space that the operator provides.
//!
//! Used only where the operator names `runsc`. Deliberately absent: a pool, because who asks for this tier asks for
//! strength; the platform `kvm`, because a device that opens proves nothing about what is behind it.

mod bundle;
mod container;
mod members;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};

use container::{Container, Way};

use crate::child::{Child, ChildEnd, ChildLimits, ChildRequest};
use crate::error::SandboxError;
use crate::process::check;
use crate::process::interpreter::Interpreter;
use crate::request::{SandboxRequest, Settings};
use crate::result::SandboxResult;
use crate::spawner::Spawner;

/// How gVisor catches system calls, best first.
const PLATFORMS: [&str; 2] = ["systrap", "ptrace"];
/// The day of the oldest release that is taken where the operator does not say otherwise: one that is not maintained is a
/// risk by itself, whatever limits it keeps.
const OLDEST: &str = "20240101";
const ASKING: Duration = Duration::from_secs(20);

pub struct GvisorTier {
    spawner: Spawner,
    settings: Settings,
    runsc: PathBuf,
    running: Semaphore,
    started: Mutex<Option<Started>>,
}

/// What was found out about this machine.
#[derive(Clone)]
struct Started {
    interpreter: std::sync::Arc<Interpreter>,
    version: String,
    platform: &'static str,
}

impl GvisorTier {
    pub fn new(spawner: Spawner, settings: Settings, runsc: PathBuf) -> Self {
        let running = Semaphore::new(settings.concurrent.max(1));
        Self { spawner, settings, runsc, running, started: Mutex::default() }
    }

    pub async fn run(&self, request: &SandboxRequest) -> Result<SandboxResult, SandboxError> {
        check(&request.limits)?;
        let started = self.started().await?;
        let gone = |_| SandboxError::Start { why: "the sandbox is closed".to_owned() };
        let _place = self.running.acquire().await.map_err(gone)?;
        let way = self.way(&started.interpreter, started.platform);
        Container::start(way, request).await?.run(request).await
    }

    /// Finds out what there is, and says it.
    pub async fn about(&self) -> Result<Vec<String>, SandboxError> {
        let Started { interpreter, version, platform } = self.started().await?;
        let mut about = vec![
            format!("gVisor {version} at `{}`, platform `{platform}`", self.runsc.display()),
            format!("Python {} at `{}`", interpreter.version, interpreter.executable.display()),
        ];
        if platform == "ptrace" {
            about.push("this gVisor has no `systrap`: a current release is faster and safer".to_owned());
        }
        if let Some(oldest) = self.settings.gvisor_oldest.as_deref().filter(|oldest| *oldest < OLDEST) {
            about.push(format!(
                "releases since {oldest} are taken because `sandbox.gvisor.oldest` says so, not since {OLDEST}"
            ));
        }
        if !rustix::process::geteuid().is_root() {
            about.push("without root: gVisor's own processes have the rights of this user".to_owned());
        }
        Ok(about)
    }

    fn way<'a>(&'a self, interpreter: &'a Interpreter, platform: &'a str) -> Way<'a> {
        Way { spawner: &self.spawner, settings: &self.settings, interpreter, runsc: &self.runsc, platform }
    }

    async fn started(&self) -> Result<Started, SandboxError> {
        let mut started = self.started.lock().await;
        if let Some(started) = started.as_ref() {
            return Ok(started.clone());
        }
        let version = self.version().await?;
        let interpreter = Interpreter::find(&self.spawner, &self.settings).await?;
        let mut reasons = Vec::new();
        for platform in PLATFORMS {
            match Container::start(self.way(&interpreter, platform), &SandboxRequest::new("")).await {
                Ok(_) => {
                    let found = Started { interpreter: interpreter.into(), version, platform };
                    *started = Some(found.clone());
                    return Ok(found);
                }
                Err(SandboxError::Start { why }) => reasons.push(format!("on `{platform}`: {why}")),
                Err(error) => return Err(error),
            }
        }
        let why = format!("`{}` starts no container; {}", self.runsc.display(), reasons.join("; "));
        Err(SandboxError::Start { why })
    }

    async fn version(&self) -> Result<String, SandboxError> {
        let path = self.runsc.display();
        let refused = |why: String| SandboxError::Start { why };
        if !self.runsc.exists() {
            return Err(refused(format!("there is no `{path}`")));
        }
        let oldest = self.settings.gvisor_oldest.as_deref().unwrap_or(OLDEST);
        if day(oldest) != Some(oldest) {
            return Err(refused(format!(
                "`sandbox.gvisor.oldest`, `{oldest}`, is no day; expected one such as `{OLDEST}`"
            )));
        }
        let mut request = ChildRequest::new(&self.runsc);
        request.arguments = vec!["--version".into()];
        request.limits = ChildLimits { wall: ASKING, output_bytes: 64 << 10, ..ChildLimits::default() };
        let told = Child::capture(&self.spawner, request, None).await?;
        let text = String::from_utf8_lossy(&told.stdout);
        let version = text.lines().find_map(|line| line.strip_prefix("runsc version "));
        match (told.end, version) {
            (ChildEnd::Exited(0), Some(version)) => match day(version) {
                Some(day) if day >= oldest => Ok(version.trim().to_owned()),
                Some(_) => {
                    let why = format!("`{path}` is too old, {}: releases since {oldest} will do", version.trim());
                    Err(refused(format!("{why}; `sandbox.gvisor.oldest` of the entries can say another day")))
                }
                None => Err(refused(format!("`{path}` does not say of which day it is: `{}`", version.trim()))),
            },
            _ => Err(refused(format!("`{path}` is no gVisor: it does not tell its version"))),
        }
    }
}

/// The day of a release, as its version says it: eight digits, which sort as days do.
fn day(version: &str) -> Option<&str> {
    version.split(|letter: char| !letter.is_ascii_digit()).find(|part| part.len() == 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_of_a_release_is_in_its_version() {
        let check = |version: &str, expected: Option<&str>| assert_eq!(day(version), expected, "{version}");
        check("release-20260302.0", Some("20260302"));
        check("0.0~20221219.0", Some("20221219"));
        check("release-20210125.0-12-gabcdef0", Some("20210125"));
        check("VERSION_MISSING", None);
        check("1.0.2-dev", None);
    }
}
