//! The kind `script`: a command that the operator named, with arguments that the operator's patterns admit.
//! [`Scripts`] starts it, for tools of this kind and for `monorepo_cli.run_script` alike.
//!
//! Invariant: a definition names an entry; program, first arguments, patterns and folder are the operator's. There is no
//! shell anywhere: an argument is one element of a vector, whatever characters it has.
//! Invariant: a program has the environment that its entry makes, nothing of the server's. A secret stands in it only in
//! the variable that the operator named for it, and only in a call of a tool that declares it and was given it.
//! Deliberately absent: a jail. A command of the operator's runs with the rights of the server's user.

mod entry;
mod output;
mod variables;

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::entries::{Entries, WrongEntries};
use toolgate_contracts::{Definition, ErrorCode, Slug, ToolError};
use toolgate_engine::runner::Need;
use toolgate_engine::secrets::Secrets;
use toolgate_engine::{Call, Outcome, Permit, Runner};
use toolgate_sandbox::{Child, ChildEnd, ChildLimits, ChildOutput, ChildRequest, LimitKind, SandboxError, Spawner};

use self::entry::Entry;
pub use self::variables::runs_programs;
use crate::expression::other_kind;

/// How long a program may take to leave when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// What a caller may say about a run of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptInput {
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Below the entry's folder.
    pub working_dir: Option<String>,
    pub dry_run: bool,
}

/// The operator's commands.
#[derive(Clone)]
pub struct Scripts {
    entries: Arc<BTreeMap<String, Entry>>,
    wrong: WrongEntries,
    spawner: Spawner,
}

/// A run whose words were judged, before anything of it was started.
struct Prepared<'a> {
    entry: &'a Entry,
    program: PathBuf,
    /// Behind the first arguments of the entry's command.
    input: ScriptInput,
    folder: entry::Folder,
}

/// Which command of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Command,
    DryRun,
}

impl Scripts {
    /// What is wrong with an entry makes that entry unusable, and is told by [`Scripts::problems`] and when it is used.
    pub fn new(entries: &Entries, spawner: Spawner) -> Self {
        let wrong = entries.wrong.clone();
        let entries = entries.scripts.iter().map(|(name, entry)| (name.clone(), Entry::read(entry))).collect();
        Self { entries: Arc::new(entries), wrong, spawner }
    }

    /// What is wrong with entries, for whoever starts the server.
    pub fn problems(&self) -> Vec<String> {
        let wrong = |(name, entry): (&String, &Entry)| entry.problem().map(|why| format!("`{name}`: {why}"));
        self.entries.iter().filter_map(wrong).collect()
    }

    /// The names of a tenant's entries, with what the operator says about them.
    pub fn of(&self, tenant: &Slug) -> impl Iterator<Item = (&str, Option<&str>)> {
        let is_for = move |(_, entry): &(&String, &Entry)| entry.is_for(tenant);
        self.entries.iter().filter(is_for).map(|(name, entry)| (name.as_str(), entry.about()))
    }

    /// Runs an entry, or with `dry_run` what the entry has for that.
    pub async fn run(&self, call: &Call, name: &str, input: ScriptInput, secrets: &Secrets) -> Outcome {
        let is_dry = input.dry_run;
        let prepared = match self.prepare(call, name, input) {
            Ok(prepared) => prepared,
            Err(error) => return error.into(),
        };
        if is_dry {
            return match self.rehearse(call, prepared).await {
                Ok(plan) => Outcome::structured(rehearsed(plan)),
                Err(error) => error.into(),
            };
        }
        if call.cancel.is_cancelled() {
            return ToolError::cancelled().into();
        }
        match self.start(call, &prepared, Which::Command, Some(secrets)).await {
            Ok(Ended::Itself(output)) => Outcome::structured(output),
            // It was in the middle of something, and only it knew how far.
            Ok(Ended::ByUs(why)) => {
                Outcome::Unknown(format!("`{name}` {}; what it had done by then is not known", why.told()))
            }
            Err(error) => error.into(),
        }
    }

    /// What a run would start. Where the entry has a command for that, it is run.
    pub async fn plan(&self, call: &Call, name: &str, input: ScriptInput) -> Result<Value, ToolError> {
        let prepared = self.prepare(call, name, input)?;
        self.rehearse(call, prepared).await
    }

    fn ready(&self, definition: &Definition) -> Result<(), ToolError> {
        let name = entry_name(definition)?;
        if let Some(why) = self.wrong.told("scripts", Some(name), None) {
            return Err(unusable(why));
        }
        let message = || format!("there is no script `{}` among the operator's entries", name.escape_debug());
        let entry = self.entries.get(name).ok_or_else(|| not_found(message()))?;
        if let Some(why) = entry.problem() {
            return Err(unusable(format!("the operator's entry `{name}`: {why}")));
        }
        taken(entry, name, definition)
    }

    /// What a call of a tool of this kind asks for.
    fn asked<'a>(&self, call: &'a Call) -> Result<(&'a str, ScriptInput), ToolError> {
        let name = entry_name(&call.tool.definition)?;
        taken(self.entry(&call.tenant_slug, name)?, name, &call.tool.definition)?;
        Ok((name, input(call)?))
    }

    fn prepare(&self, call: &Call, name: &str, input: ScriptInput) -> Result<Prepared<'_>, ToolError> {
        let entry = self.entry(&call.tenant_slug, name)?;
        let judged = entry.judge(&input)?;
        let program = judged.program().map_err(|why| unusable(format!("the operator's entry `{name}`: {why}")))?;
        let folder = judged.folder(input.working_dir.as_deref())?;
        Ok(Prepared { entry, program, input, folder })
    }

    /// An entry of another tenant is one that is not there.
    fn entry(&self, tenant: &Slug, name: &str) -> Result<&Entry, ToolError> {
        if let Some(entry) = self.entries.get(name).filter(|entry| entry.is_for(tenant)) {
            return Ok(entry);
        }
        if let Some(why) = self.wrong.told("scripts", Some(name), Some(tenant)) {
            return Err(unusable(why));
        }
        let known: Vec<&str> = self.of(tenant).map(|(name, _)| name).take(20).collect();
        let known = if known.is_empty() {
            "the operator has allowed none to this tenant".to_owned()
        } else {
            format!("there are `{}`", known.join("`, `"))
        };
        Err(not_found(format!("there is no script `{}`; {known}", name.escape_debug())))
    }

    /// What would be started, and what the entry's command for that says.
    async fn rehearse(&self, call: &Call, prepared: Prepared<'_>) -> Result<Value, ToolError> {
        let Prepared { entry, program, input, folder } = &prepared;
        let mut command = vec![program.display().to_string()];
        command.extend(entry.first_arguments(Which::Command).iter().cloned());
        command.extend(input.args.iter().cloned());
        let variables = entry.variables(&input.env).map(|(name, _)| name);
        let variables: Vec<&str> = variables.chain(entry.secrets().keys().map(String::as_str)).collect();
        let mut plan = json!({
            "would_run": true,
            "command": command,
            "env": variables,
            "working_dir": folder.shown(),
            "timeout_ms": u64::try_from(entry.wall(call.timeout).as_millis()).unwrap_or(u64::MAX),
        });
        if entry.has_dry_run() {
            let said = match self.start(call, &prepared, Which::DryRun, None).await? {
                Ended::Itself(output) => output,
                Ended::ByUs(why) => return Err(why.error()),
            };
            plan["dry_run"] = said;
        }
        Ok(plan)
    }

    async fn start(
        &self,
        call: &Call,
        prepared: &Prepared<'_>,
        which: Which,
        secrets: Option<&Secrets>,
    ) -> Result<Ended, ToolError> {
        let Prepared { entry, program, input, folder } = prepared;
        let program = match which {
            Which::Command => program.clone(),
            Which::DryRun => entry.dry_run_program().map_err(unusable)?,
        };
        let mut request = ChildRequest::new(program);
        request.arguments = entry.first_arguments(which).iter().chain(&input.args).map(Into::into).collect();
        request.environment = entry.variables(&input.env).map(|(name, value)| (name.into(), value.into())).collect();
        for (variable, name) in entry.secrets() {
            // One that is not required and that nobody has: the program goes without.
            let value = secrets.and_then(|secrets| secrets.get(name)).and_then(|secret| secret.expose_text());
            request.environment.extend(value.map(|value| (variable.into(), value.into())));
        }
        // The descriptor, not the name: whoever swaps a folder meanwhile changes nothing. It is held until the end.
        request.folder = Some(PathBuf::from(format!("/proc/self/fd/{}", folder.descriptor().as_raw_fd())));
        let wall = entry.wall(call.timeout);
        request.limits =
            ChildLimits { wall, grace: GRACE, output_bytes: entry.output_bytes(), ..ChildLimits::default() };
        let (sink, relayed) = output::relay(call.output.clone(), call.cancel.clone());
        let capture = Child::capture_until(&self.spawner, request, Some(sink), call.cancel.cancelled());
        let (captured, ()) = tokio::join!(capture, relayed);
        match captured {
            Ok(output) => {
                let ended = Ended::of(output, wall, entry.output_bytes());
                if matches!(ended, Ended::ByUs(_)) {
                    call.output.break_off();
                }
                Ok(ended)
            }
            Err(error @ SandboxError::Program { .. }) => Err(unusable(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

enum Ended {
    /// Its own doing: what it printed, and its exit code.
    Itself(Value),
    ByUs(Stopped),
}

enum Stopped {
    Cancelled,
    Wall(Duration),
    Output(u64),
    Limit(LimitKind),
}

impl Stopped {
    fn told(&self) -> String {
        match self {
            Self::Cancelled => "was stopped, because the call was cancelled or its time was over".to_owned(),
            Self::Wall(wall) => format!("was stopped after {} s, the limit of its time", wall.as_secs_f64()),
            Self::Output(bytes) => format!("was stopped, because it wrote more than {bytes} bytes"),
            Self::Limit(kind) => format!("was stopped at its limit of {kind:?}"),
        }
    }

    /// For what changes nothing.
    fn error(&self) -> ToolError {
        let (code, reason) = match self {
            Self::Cancelled => (ErrorCode::PolicyDenied, "cancelled"),
            Self::Wall(_) => (ErrorCode::Timeout, "wall"),
            Self::Output(_) => (ErrorCode::SandboxError, "output"),
            Self::Limit(_) => (ErrorCode::SandboxError, "cpu"),
        };
        ToolError::because(code, reason, format!("the command for dry runs {}", self.told()))
    }
}

impl Ended {
    fn of(output: ChildOutput, wall: Duration, output_bytes: u64) -> Self {
        let ChildOutput { end, stdout, stderr, usage } = output;
        let exit_code = match end {
            ChildEnd::Limit(LimitKind::Wall) => return Self::ByUs(Stopped::Wall(wall)),
            ChildEnd::Limit(LimitKind::Output) => return Self::ByUs(Stopped::Output(output_bytes)),
            ChildEnd::Limit(kind) => return Self::ByUs(Stopped::Limit(kind)),
            ChildEnd::Stopped => return Self::ByUs(Stopped::Cancelled),
            ChildEnd::Exited(code) => code,
            // As shells count.
            ChildEnd::Signalled(signal) => 128 + signal,
        };
        Self::Itself(json!({
            "exit_code": exit_code,
            "stdout": output::text(&stdout),
            "stderr": output::text(&stderr),
            "duration_ms": u64::try_from(usage.wall.as_millis()).unwrap_or(u64::MAX),
        }))
    }
}

impl Runner for Scripts {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let call = permit.call();
            match self.asked(call) {
                Ok((name, input)) => self.run(call, name, input, permit.secrets()).await,
                Err(error) => error.into(),
            }
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { self.plan(call, entry_name(&call.tool.definition)?, input(call)?).await })
    }

    /// For nobody's tenant: it says whether the entry is there and whole, and nothing about whose it is.
    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(self.ready(definition)))
    }

    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        let mut needs: Vec<Need> =
            self.problems().into_iter().map(|problem| Need { name: "script", found: problem, is_met: false }).collect();
        let whole = self.entries.len() - needs.len();
        if whole > 0 {
            needs.push(Need { name: "scripts", found: format!("{whole} can be run"), is_met: true });
        }
        Box::pin(std::future::ready(needs))
    }
}

/// A rehearsal in the form of a run: what the command for that printed, or nothing, and the plan beside it.
fn rehearsed(mut plan: Value) -> Value {
    let said = plan.as_object_mut().and_then(|plan| plan.shift_remove("dry_run"));
    let mut output = said.unwrap_or_else(|| json!({"exit_code": 0, "stdout": "", "stderr": "", "duration_ms": 0}));
    output["plan"] = plan;
    output
}

fn entry_name(definition: &Definition) -> Result<&str, ToolError> {
    match &definition.runner {
        toolgate_contracts::Runner::Script(script) => Ok(&script.entry),
        _ => Err(other_kind(definition, "script")),
    }
}

/// That a secret which a tool declares has a place in the program's environment: otherwise nobody would ever have it.
fn taken(entry: &Entry, name: &str, definition: &Definition) -> Result<(), ToolError> {
    let has_place = |declared: &&str| entry.secrets().values().any(|secret| secret == declared);
    match definition.secrets.iter().map(|secret| secret.name.as_str()).find(|declared| !has_place(declared)) {
        None => Ok(()),
        Some(secret) => Err(unusable(format!(
            "the operator's entry `{name}` has no variable for the secret `{secret}`; write `secrets: {{VARIABLE: {secret}}}` into it"
        ))),
    }
}

fn input(call: &Call) -> Result<ScriptInput, ToolError> {
    toolgate_contracts::json::decode((*call.input).clone()).map_err(|error| {
        let message = format!("the input is not what a script takes: {error}");
        ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", error.pointer)
    })
}

fn not_found(message: String) -> ToolError {
    ToolError::because(ErrorCode::PolicyDenied, "not_found", message)
}

fn unusable(message: String) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
}
