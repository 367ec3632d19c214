//! Guardrails: what a tenant, a tool or a profile has arguments and results examined for.
//!
//! Builtin detectors are pure, so they take part in step 5 and in whatever asks the same question without calling.
//! Detectors that are tools are asked after it, through the same path as any call. A detector that fails is a tripwire.
//! On a result the effect has happened: the call stays as it is, and the output is withheld.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::guardrail::{DetectorKind, Examined, Finding, Guardrail, OnMatch, Stage};
use toolgate_contracts::runner::Runner;
use toolgate_contracts::{
    AgentId, AskCode, CallId, CallRequest, Caller, ErrorCode, Fault, Permission, Principal, Source, Status, TenantId,
    ToolError,
};
use toolgate_policy::detect::Detector;
use toolgate_registry::deciding::Guard;
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::names_tool;
use toolgate_store::catalog::StoredAgent;

use crate::admit::{Decision, Question, profiles_of};
use crate::asking::Asks;
use crate::call::{Call, is_effect_free};
use crate::engine::Engine;
use crate::output::Shaped;
use crate::submit::Manner;

/// How long a detector that is a tool may take.
const DETECTOR_WAIT_S: u64 = 20;

const SOMETHING: &str = "something was found";
const GONE: &str = "the tenant is gone";
/// Said to whoever did nothing wrong.
const REPAIR: &str =
    "other arguments do not help: ask somebody with the permission `guardrails.edit` to repair or remove it";

/// Whose result is looked at.
#[derive(Clone, Copy)]
pub(crate) struct ResultOf<'a> {
    pub tenant: TenantId,
    pub call: CallId,
    pub principal: Principal,
    pub agent: Option<AgentId>,
    pub tool: &'a ResolvedTool,
}

impl<'a> From<&'a Call> for ResultOf<'a> {
    fn from(call: &'a Call) -> Self {
        let Call { tenant, id, principal, agent, tool, .. } = call;
        Self { tenant: *tenant, call: *id, principal: *principal, agent: *agent, tool }
    }
}

/// What looked, and what it found.
struct Hit<'a> {
    name: &'a str,
    on_match: OnMatch,
    log_only: bool,
    looked: Looked,
}

/// What came of looking.
enum Looked {
    Found(Finding),
    /// Nobody looked, which stops a call like a tripwire: the caller did nothing wrong.
    Failed(String),
}

impl Looked {
    /// For whoever tries a guardrail out.
    fn finding(self) -> Finding {
        match self {
            Self::Found(finding) => finding,
            Self::Failed(why) => Finding { matched: true, reason: Some(why), paths: Vec::new() },
        }
    }

    /// Why a call or its result is stopped, if it is.
    fn trouble(&self) -> Option<Trouble<'_>> {
        match self {
            Self::Found(finding) if !finding.matched => None,
            Self::Found(Finding { reason, paths, .. }) => {
                Some(Trouble { reason: reason.as_deref().unwrap_or(SOMETHING), paths, is_failure: false })
            }
            Self::Failed(why) => Some(Trouble { reason: why, paths: &[], is_failure: true }),
        }
    }
}

#[derive(Clone, Copy)]
struct Trouble<'a> {
    reason: &'a str,
    paths: &'a [String],
    is_failure: bool,
}

/// One that looks at this tool.
enum Watch<'a> {
    Guard(&'a Guard),
    /// A builtin detector that the tool or a profile demands by its name: a match is a tripwire.
    Demanded(&'a str, Detector),
}

impl<'a> Watch<'a> {
    fn name(&self) -> &'a str {
        match self {
            Self::Guard(guard) => guard.guardrail.name.as_str(),
            Self::Demanded(name, _) => name,
        }
    }

    fn hit(&self, looked: Looked) -> Hit<'a> {
        match self {
            Self::Guard(Guard { guardrail, .. }) => {
                Hit { name: self.name(), on_match: guardrail.on_match, log_only: guardrail.log_only, looked }
            }
            Self::Demanded(..) => Hit { name: self.name(), on_match: OnMatch::Tripwire, log_only: false, looked },
        }
    }
}

/// All that look at this tool at this stage, in their order. `Err`: something that must look cannot.
fn watches<'a>(
    registry: &'a TenantRegistry,
    demanded: &[&'a str],
    tool: &ResolvedTool,
    stage: Stage,
) -> Result<Vec<Watch<'a>>, ToolError> {
    let broken = |why: &str| tripped("guardrails", Trouble { reason: why, paths: &[], is_failure: true });
    let guards = registry.deciding.guards().map_err(broken)?;
    let mut watches = Vec::new();
    for guard in guards.iter().filter(|guard| guard.guardrail.stage == stage) {
        let Guardrail { name, tools, .. } = &guard.guardrail;
        let named = tools.as_ref().is_none_or(|tools| names_tool(tools, tool));
        if named || demanded.contains(&name.as_str()) {
            watches.push(Watch::Guard(guard));
        }
    }
    for name in demanded {
        if guards.iter().any(|guard| guard.guardrail.name.as_str() == *name) {
            continue;
        }
        let detector = Detector::parse(name, &Value::Null)
            .map_err(|_| broken(&format!("the guardrail `{name}` is demanded and there is none")))?;
        watches.push(Watch::Demanded(name, detector));
    }
    Ok(watches)
}

impl Question<'_> {
    fn demanded_guardrails<'q>(&'q self, tool: &'q ResolvedTool) -> Vec<&'q str> {
        demanded_of(self.registry, self.agent, tool)
    }

    /// The builtin detectors, on the arguments.
    pub(crate) fn examine_input(
        &self,
        tool: &ResolvedTool,
        input: &Value,
        asks: &mut Asks,
        decision: &mut Decision,
    ) -> Result<(), ToolError> {
        let unwatched = self.registry.deciding.guardrails.is_empty()
            && tool.definition.guardrails.is_empty()
            && self.agent.is_none();
        if unwatched || self.examining {
            return Ok(());
        }
        let demanded = self.demanded_guardrails(tool);
        for watch in watches(self.registry, &demanded, tool, Stage::ToolCall)? {
            let detector = match &watch {
                Watch::Guard(Guard { detector: Some(detector), .. }) | Watch::Demanded(_, detector) => detector,
                Watch::Guard(Guard { detector: None, .. }) => continue,
            };
            take_in(tool, &watch.hit(Looked::Found(detector.examine(input))), asks, decision)?;
        }
        Ok(())
    }
}

/// Guardrails that the tool itself or a profile of the agent names.
fn demanded_of<'a>(registry: &'a TenantRegistry, agent: Option<&StoredAgent>, tool: &'a ResolvedTool) -> Vec<&'a str> {
    let of_tool = tool.definition.guardrails.iter();
    let of_profiles = profiles_of(registry, agent, tool).flat_map(|profile| profile.guardrails.iter());
    let mut names: Vec<&str> = of_tool.chain(of_profiles).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What a finding means for a call that has not run.
fn take_in(tool: &ResolvedTool, hit: &Hit<'_>, asks: &mut Asks, decision: &mut Decision) -> Result<(), ToolError> {
    let Hit { name, on_match, log_only, looked } = hit;
    let Some(trouble) = looked.trouble() else { return Ok(()) };
    let reason = trouble.reason;
    // Only logging never loosens what writes.
    if *log_only && tool.definition.class() != EgressClass::Write {
        decision.logged.push(format!("guardrail {name}: {reason}"));
        return Ok(());
    }
    match on_match {
        OnMatch::Tripwire => Err(tripped(name, trouble)),
        // A person cannot say what a detector did not look at.
        OnMatch::Ask if trouble.is_failure => Err(tripped(name, trouble)),
        OnMatch::Ask => {
            asks.add(
                AskCode::Guardrail,
                format!("the guardrail {name} found something: {reason}"),
                Some((*name).to_owned()),
                None,
            );
            Ok(())
        }
    }
}

fn tripped(name: &str, trouble: Trouble<'_>) -> ToolError {
    let Trouble { reason, paths, is_failure } = trouble;
    let message = if is_failure {
        format!("the guardrail `{name}` could not run, so nothing is let through: {reason}; {REPAIR}")
    } else {
        format!("the guardrail `{name}` stopped it: {reason}; change the arguments, or ask a person to do it")
    };
    ToolError::because(ErrorCode::PolicyDenied, "guardrail", message)
        .with("guardrail", name)
        .with("paths", paths.to_vec())
}

impl Engine {
    /// Detectors that are tools, on the arguments: after step 5, because they run.
    pub(crate) async fn examine_by_tools(
        &self,
        question: &Question<'_>,
        tool: &ResolvedTool,
        input: &Value,
        decision: &mut Decision,
    ) -> Result<(), ToolError> {
        let demanded = question.demanded_guardrails(tool);
        if question.registry.deciding.guardrails.is_empty() {
            return Ok(());
        }
        let mut asks = Asks::default();
        for watch in watches(question.registry, &demanded, tool, Stage::ToolCall)? {
            let Watch::Guard(guard @ Guard { detector: None, .. }) = &watch else { continue };
            let looked = self.ask_detector(question.caller, guard, Stage::ToolCall, tool, input).await;
            take_in(tool, &watch.hit(looked), &mut asks, decision)?;
        }
        asks.join_into(decision, tool, question.mode);
        Ok(())
    }

    /// Every detector, on a result as it would be kept: with what was cut off, and with what goes along as text. If one
    /// finds something nothing of the result is left, only what its reader is told.
    pub(crate) async fn examine_result(&self, of: &ResultOf<'_>, shaped: Shaped) -> Shaped {
        let snapshot = self.registry.snapshot();
        let Ok(registry) = snapshot.tenant(of.tenant) else {
            return Shaped::refused(withheld("guardrails", Trouble { reason: GONE, paths: &[], is_failure: true }));
        };
        if registry.deciding.guardrails.is_empty() {
            return shaped;
        }
        let demanded = demanded_of(registry, of.agent.and_then(|id| registry.agents.get(&id)), of.tool);
        let watches = match watches(registry, &demanded, of.tool, Stage::ToolResult) {
            Ok(watches) => watches,
            Err(error) => {
                let trouble = Trouble { reason: &error.message, paths: &[], is_failure: true };
                return Shaped::refused(withheld("guardrails", trouble));
            }
        };
        if watches.is_empty() {
            return shaped;
        }
        let mut logged = Vec::new();
        for (place, value) in shaped.to_examine() {
            let Some((name, looked)) = self.find(of, registry, &watches, &value, &mut logged).await else { continue };
            let Some(trouble) = looked.trouble() else { continue };
            let paths: Vec<String> = trouble.paths.iter().map(|path| format!("{place}{path}")).collect();
            let trouble = Trouble { paths: &paths, ..trouble };
            // What failed has no result to withhold, only words that nobody should read.
            let error = match &shaped.error {
                Some(error) => unspoken(error, name, trouble),
                None => withheld(name, trouble),
            };
            return Shaped::refused(error).with_logged(logged);
        }
        shaped.with_logged(logged)
    }

    /// The words of a failure are read like a result.
    pub(crate) async fn examine_error(&self, of: &ResultOf<'_>, error: ToolError) -> ToolError {
        let examined = self.examine_result(of, Shaped::refused(error.clone())).await;
        examined.error.unwrap_or(error)
    }

    /// The first that finds something in this value.
    async fn find<'w>(
        &self,
        of: &ResultOf<'_>,
        registry: &TenantRegistry,
        watches: &[Watch<'w>],
        value: &Value,
        logged: &mut Vec<String>,
    ) -> Option<(&'w str, Looked)> {
        let caller = &Self::server_for(of.tenant, registry.tenant.slug.clone(), of.principal);
        for watch in watches {
            let looked = match watch {
                // What is demanded by a detector's name is demanded of the arguments.
                Watch::Demanded(..) => continue,
                Watch::Guard(Guard { detector: Some(detector), .. }) => Looked::Found(detector.examine(value)),
                Watch::Guard(guard) => self.ask_detector(caller, guard, Stage::ToolResult, of.tool, value).await,
            };
            let hit = watch.hit(looked);
            let Some(trouble) = hit.looked.trouble() else { continue };
            if hit.log_only && of.tool.definition.class() != EgressClass::Write {
                // The log holds names alone: a detector that is a tool may say anything.
                tracing::info!(call = %of.call, guardrail = hit.name, "a result would be withheld: {}", trouble.reason);
                if !logged.iter().any(|name| name == hit.name) {
                    logged.push(hit.name.to_owned());
                }
                continue;
            }
            return Some((hit.name, hit.looked));
        }
        None
    }

    /// Whether a result is looked at before anybody reads it: then nothing of it is shown as it comes.
    pub(crate) fn withholds(&self, call: &Call) -> bool {
        !call.examining && self.withholds_of(call.tenant, call.agent, &call.tool)
    }

    /// The same for a call that somebody else carries out.
    pub(crate) fn withholds_of(&self, tenant: TenantId, agent: Option<AgentId>, tool: &ResolvedTool) -> bool {
        let snapshot = self.registry.snapshot();
        let Ok(registry) = snapshot.tenant(tenant) else { return true };
        if registry.deciding.guardrails.is_empty() {
            return false;
        }
        let demanded = demanded_of(registry, agent.and_then(|id| registry.agents.get(&id)), tool);
        watches(registry, &demanded, tool, Stage::ToolResult)
            .map_or(true, |watches| watches.iter().any(|watch| matches!(watch, Watch::Guard(_))))
    }

    /// What a guardrail would find in a value, whether or not it is kept.
    pub async fn try_guardrail(
        &self,
        caller: &Caller,
        guardrail: Guardrail,
        tool: Option<&str>,
        value: Value,
    ) -> Result<Finding, Fault> {
        let guardrail = self.registry.check_guardrail(caller, guardrail)?;
        if let Some(detector) = Detector::of(&guardrail.detector)? {
            return Ok(detector.examine(&value));
        }
        caller.require(&Permission::CALLS_CREATE)?;
        let named = tool.unwrap_or(&guardrail.detector.name).to_owned();
        let unknown = || Fault::not_found("tool", &named).at("/tool");
        let resolved = {
            let snapshot = self.registry.snapshot();
            let reference = named.parse().map_err(|_| unknown())?;
            snapshot.tenant(caller.tenant)?.resolve(&reference, &self.clock.now().day()).ok_or_else(unknown)?
        };
        let (stage, guard) = (guardrail.stage, Guard { guardrail, detector: None });
        Ok(self.ask_detector(caller, &guard, stage, &resolved, &value).await.finding())
    }

    /// Refuses a guardrail whose detector is a tool that nothing here runs: it would stop every call that it looks at.
    pub fn check_detector_runs(&self, caller: &Caller, guardrail: &Guardrail) -> Result<(), Fault> {
        if guardrail.detector.kind == DetectorKind::Builtin {
            return Ok(());
        }
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let reference = guardrail.detector.name.parse().ok();
        let tool = reference.and_then(|reference| registry.resolve(&reference, &self.clock.now().day()));
        // One that is not there is refused by whoever keeps guardrails.
        let Some(tool) = tool else { return Ok(()) };
        let leased = matches!(tool.definition.runner, Runner::External(_));
        match self.runners.get(&tool.definition) {
            Err(error) if !leased => {
                let told = format!("the detector `{}` would stop every call: {}", tool.name, error.message);
                let remedy = "use a builtin detector, or a tool that runs here: `toolgate tool preflight NAME` says so";
                Err(Fault::invalid(told, remedy).at("/detector/name"))
            }
            _ => Ok(()),
        }
    }

    /// Asks a detector that is a tool. It must have no effect of its own; whatever goes wrong is a match.
    /// Boxed, because the path leads back here.
    fn ask_detector<'a>(
        &'a self,
        caller: &'a Caller,
        guard: &'a Guard,
        stage: Stage,
        tool: &'a ResolvedTool,
        value: &'a Value,
    ) -> BoxFuture<'a, Looked> {
        Box::pin(async move { self.detector_says(caller, guard, stage, tool, value).await })
    }

    async fn detector_says(
        &self,
        caller: &Caller,
        guard: &Guard,
        stage: Stage,
        tool: &ResolvedTool,
        value: &Value,
    ) -> Looked {
        let failed = Looked::Failed;
        let detector = &guard.guardrail.detector;
        let snapshot = self.registry.snapshot();
        let today = self.clock.now().day();
        let found = snapshot
            .tenant(caller.tenant)
            .ok()
            .and_then(|registry| registry.resolve(&detector.name.parse().ok()?, &today));
        match found {
            Some(found) if is_effect_free(&found) => {}
            Some(_) => return failed(format!("the detector `{}` changes something itself", detector.name)),
            None => return failed(format!("there is no detector `{}`", detector.name)),
        }
        let examined = Examined { stage, tool: tool.tool.name.clone(), value: value.clone() };
        let mut input = serde_json::to_value(examined).unwrap_or_default();
        if let Some(config) = &detector.config {
            input["config"] = config.clone();
        }
        let mut request = CallRequest::new(detector.name.clone(), input);
        request.wait = Some(DETECTOR_WAIT_S);
        let server = Self::for_the_server(caller);
        let answer = Box::pin(self.submit_with(&server, Source::Api, request, Manner::Examining)).await;
        let answer = match answer {
            Ok(answer) if answer.status == Status::Completed => answer.output.unwrap_or(json!(null)),
            Ok(answer) => {
                let why = answer.error.map_or_else(|| answer.status.to_string(), |error| error.message);
                return failed(format!("the detector `{}` failed: {why}", detector.name));
            }
            Err(fault) => return failed(format!("the detector `{}` failed: {}", detector.name, fault.told())),
        };
        serde_json::from_value(answer).map_or_else(
            |_| failed(format!("the detector `{}` did not answer {{matched, reason?, paths?}}", detector.name)),
            Looked::Found,
        )
    }
}

/// The same failure without its words.
fn unspoken(error: &ToolError, name: &str, trouble: Trouble<'_>) -> ToolError {
    let message = if trouble.is_failure {
        format!("it failed, and the guardrail `{name}` could not look at what it said: {}; {REPAIR}", trouble.reason)
    } else {
        format!("it failed, and the guardrail `{name}` withholds what it said: {}", trouble.reason)
    };
    let told = ToolError::because(error.code, error.reason(), message).with("guardrail", name);
    ToolError { retry_after_s: error.retry_after_s, ..told }
}

fn withheld(name: &str, trouble: Trouble<'_>) -> ToolError {
    let Trouble { reason, paths, is_failure } = trouble;
    let message = if is_failure {
        format!(
            "it ran, and its result is withheld because the guardrail `{name}` could not run: {reason}; do not run it again, {REPAIR}"
        )
    } else {
        format!(
            "it ran, and the guardrail `{name}` withholds its result: {reason}; do not run it again, ask a person to look at the call"
        )
    };
    ToolError::because(ErrorCode::PolicyDenied, "result_withheld", message)
        .with("guardrail", name)
        .with("paths", paths.to_vec())
}
