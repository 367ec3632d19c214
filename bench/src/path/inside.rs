//! The path in process: `Engine::submit` with nothing around it, and everything behind it: the log is sequenced, usage
//! is summed up and calls are attended to while it is measured, as in a server. All CPU time of the process counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{
    CallRequest, Caller, Clock, Fault, Id, Mode, Permissions, Principal, Rng, Role, Slug, Source, Status, ToolRef,
};
use toolgate_engine::admit::Question;
use toolgate_engine::audit::Sequencer;
use toolgate_policy::labels::Labels;
use toolgate_server::App;

use super::dressed::{self, Reads};
use super::process::{cpu_by_thread, cpu_time};
use super::servers::{CODE, configuration};
use super::{MEASURED, WARM_UP};
use crate::Failure;
use crate::report::{self, Measured, micros, of};

/// Names of threads, by which their CPU time is told apart; the kernel keeps fifteen characters.
const CALLERS: &str = "callers";
const BACKGROUND: &str = "background";
/// The store's own name for its thread, where there is one.
const WRITER: &str = "store-writer";
const STEPS_TIMES: usize = 20_000;

pub struct Inside {
    pub app: App,
    caller: Caller,
    callers: Runtime,
    background: Runtime,
    stop: CancellationToken,
}

/// What a series of calls cost.
pub struct Cost {
    pub per_second: f64,
    pub measured: Measured,
    /// Microseconds of CPU per call, by the thread that spent them.
    pub callers: f64,
    pub writer: f64,
    pub background: f64,
}

/// Microseconds of CPU of the steps that are pure.
pub struct Steps {
    /// 2 and 5: what can be said whatever the arguments are.
    pub standing: f64,
    /// 3 and 4.
    pub arguments: f64,
}

impl Inside {
    pub fn open(folder: &Path, database: &str, durability: &str) -> Result<Self, Failure> {
        let runtime = |name: &str| tokio::runtime::Builder::new_multi_thread().enable_all().thread_name(name).build();
        let (callers, background) = (runtime(CALLERS)?, runtime(BACKGROUND)?);
        let config = configuration(database, durability)?;
        let (app, caller) = callers.block_on(async {
            let app = App::open(config, folder, CODE, Clock::System, Rng::System).await.map_err(told)?;
            let caller = caller(&app).await?;
            Ok::<_, Failure>((app, caller))
        })?;
        let stop = CancellationToken::new();
        let (engine, until) = (app.engine.clone(), stop.clone());
        background.spawn(async move { engine.attend_background(until).await });
        background.spawn(Sequencer::new(app.audit.clone()).run(stop.clone()));
        background.spawn(toolgate_engine::usage::follow(app.store.clone(), stop.clone()));
        Ok(Self { app, caller, callers, background, stop })
    }

    pub fn calls(&self, input: &Value, callers: usize) -> Result<Cost, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        let from = Instant::now() + WARM_UP;
        for _ in 0..callers {
            let (engine, caller, input) = (self.app.engine.clone(), self.caller.clone(), input.clone());
            let over = Arc::clone(&over);
            tasks.push(self.callers.spawn(async move {
                let mut walls = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    let request = CallRequest::new("echo", input.clone());
                    let envelope = engine.submit(&caller, Source::Api, request).await.map_err(shown)?;
                    if envelope.status != Status::Completed {
                        return Err(format!("a call ended as {:?}: {:?}", envelope.status, envelope.error));
                    }
                    if start >= from {
                        walls.push(start.elapsed());
                    }
                }
                Ok(walls)
            }));
        }
        std::thread::sleep(WARM_UP);
        let this = std::process::id();
        let (start, threads, cpu) = (Instant::now(), cpu_by_thread(this), cpu_time(this));
        std::thread::sleep(MEASURED);
        let (took, cpu) = (start.elapsed(), cpu_time(this).saturating_sub(cpu));
        let threads = difference(&threads, &cpu_by_thread(this));
        over.store(true, Ordering::Relaxed);
        let mut walls: Vec<Duration> = Vec::new();
        for task in tasks {
            walls.extend(self.callers.block_on(task)??);
        }
        let count = f64::from(u32::try_from(walls.len().max(1)).unwrap_or(u32::MAX));
        let of_thread = |name: &str| threads.get(name).map_or(0.0, |spent| micros(spent) / count);
        Ok(Cost {
            per_second: count / took.as_secs_f64(),
            measured: of(walls, cpu),
            callers: of_thread(CALLERS),
            writer: of_thread(WRITER),
            background: of_thread(BACKGROUND),
        })
    }

    /// The pure steps, over and over on one thread.
    pub fn steps(&self, input: &Value) -> Result<Steps, Failure> {
        let snapshot = self.app.registry.snapshot();
        let registry = snapshot.tenant(self.caller.tenant).map_err(told)?;
        let (tool, today): (ToolRef, String) = ("echo".parse()?, Clock::System.now().day());
        let question = Question {
            registry,
            revision: snapshot.revision,
            caller: &self.caller,
            agent: None,
            run: None,
            today: &today,
            tool: &tool,
            mode: Mode::Execute,
            source: Source::Api,
            now: Clock::System.now(),
            depth: 0,
            labels: Labels::NONE,
            examining: false,
        };
        question.answer(input.clone()).map_err(|refusal| format!("{refusal:?}"))?;
        // The other threads of this process are idle now.
        let clone = report::time(STEPS_TIMES, || input.clone()).cpu;
        let standing = report::time(STEPS_TIMES, || question.standing()).cpu;
        let all = report::time(STEPS_TIMES, || question.answer(input.clone())).cpu;
        Ok(Steps { standing, arguments: (all - standing - clone).max(0.0) })
    }

    /// With this many policies, and guardrails if wanted.
    pub fn dress(&self, policies: usize, reads: Reads, guardrails: bool) -> Result<(), Failure> {
        self.callers.block_on(async {
            dressed::decide_by(&self.app, policies, reads).await?;
            if guardrails { dressed::guard(&self.app).await } else { Ok(()) }
        })
    }

    pub fn close(self) {
        self.stop.cancel();
        self.callers.block_on(self.app.close());
        self.background.shutdown_timeout(Duration::from_secs(2));
    }
}

/// With the rights of a key as `key create` makes it, for the first administrator.
async fn caller(app: &App) -> Result<Caller, Failure> {
    let slug: Slug = "default".parse()?;
    let tenant = app.registry.snapshot().tenant_by_slug(slug.as_str()).map_err(told)?.tenant.id;
    let users = app.store.users(tenant, "", 1).await?;
    let user = users.first().ok_or("there is no user")?;
    Ok(Caller {
        tenant,
        tenant_slug: slug,
        principal: Principal::User(user.id),
        display_name: user.name.clone(),
        permissions: Permissions::from_scopes(["tools:execute", "calls.read.own"])?,
        roles: [Role::Admin].into(),
        agent: None,
        credential: Credential::ApiKey(Id::new(&Clock::System, &Rng::System)),
        token: None,
    })
}

fn difference(before: &BTreeMap<String, Duration>, after: &BTreeMap<String, Duration>) -> BTreeMap<String, Duration> {
    let since = |(name, time): (&String, &Duration)| {
        (name.clone(), time.saturating_sub(before.get(name).copied().unwrap_or_default()))
    };
    after.iter().map(since).collect()
}

fn shown(fault: Fault) -> String {
    fault.logged().unwrap_or(fault.told()).to_owned()
}

pub fn told(fault: Fault) -> Failure {
    shown(fault).into()
}
