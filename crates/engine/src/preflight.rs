//! Whether a call would go through now, without making it: the same questions, no record, no effect.

use serde::Serialize;
use toolgate_contracts::definition::Definition;
use toolgate_contracts::{Caller, ErrorCode, Fault, Mode, Permission, Source, ToolRef};
use utoipa::ToSchema;

use crate::admit::Question;
use crate::engine::Engine;
use crate::secrets::SecretStanding;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    Ready,
    /// It may work later by itself.
    Transient,
    /// Somebody has to do something first.
    NeedsPerson,
    UnknownTool,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Preflight {
    pub tool: String,
    pub version: Option<String>,
    pub state: Readiness,
    /// Why it is not simply ready.
    pub reasons: Vec<String>,
    /// Those of the reasons for which a call is made all the same, and then waits for a person.
    pub asks: Vec<String>,
    /// The secrets that the tool declares, and where a call would find them.
    pub secrets: Vec<SecretStanding>,
}

impl Preflight {
    fn ask(&mut self, reasons: Vec<String>) {
        self.state = Readiness::NeedsPerson;
        self.reasons.extend(reasons.iter().cloned());
        self.asks.extend(reasons);
    }
}

impl Engine {
    /// Why no call of such a tool runs on this server, whoever makes it: it has no runner of the kind.
    pub fn why_not_runnable(&self, definition: &Definition) -> Option<String> {
        let refused = match self.runners.get(definition) {
            Ok(runner) => runner.refuses(definition),
            Err(error) => Some(error),
        };
        refused.map(|error| error.message)
    }

    pub async fn preflight(&self, caller: &Caller, name: &str) -> Result<Preflight, Fault> {
        caller.require(&Permission::TOOLS_READ)?;
        let unknown = || Preflight {
            tool: name.to_owned(),
            version: None,
            state: Readiness::UnknownTool,
            reasons: vec![format!("no tool `{name}` for this caller")],
            asks: Vec::new(),
            secrets: Vec::new(),
        };
        let Ok(reference) = name.parse::<ToolRef>() else { return Ok(unknown()) };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let today = self.clock.now().day();
        let question = Question {
            registry,
            revision: snapshot.revision,
            caller,
            agent: caller.agent.and_then(|id| registry.agents.get(&id)),
            run: None,
            today: &today,
            tool: &reference,
            mode: Mode::Execute,
            source: Source::Api,
            now: self.clock.now(),
            depth: 0,
            labels: self.seen_by(caller).await?.labels,
            examining: false,
        };
        let Ok((tool, mut decision, standing)) = question.standing() else { return Ok(unknown()) };
        let mut found = Preflight {
            tool: tool.name.to_string(),
            version: Some(tool.version.version.to_string()),
            state: Readiness::Ready,
            reasons: Vec::new(),
            asks: Vec::new(),
            secrets: self.secret_standings(caller, std::slice::from_ref(&tool)).await?.pop().unwrap_or_default(),
        };
        if let Err(error) = standing {
            (found.state, found.reasons) = (Readiness::NeedsPerson, vec![error.message]);
            return Ok(found);
        }
        if !caller.may(&Permission::CALLS_CREATE) {
            found.state = Readiness::NeedsPerson;
            found.reasons.push(format!("calling needs the permission `{}`", Permission::CALLS_CREATE));
        }
        if let Some(asking) = decision.asking.take() {
            found.ask(asking.reasons.into_iter().map(|reason| reason.text).collect());
        }
        match question.foresee_policies(&tool, &mut decision) {
            Ok(reasons) if reasons.is_empty() => {}
            Ok(reasons) => found.ask(reasons),
            Err(error) => {
                found.state = Readiness::NeedsPerson;
                found.reasons.push(error.message);
            }
        }
        let wanting = self.secrets_wanting(caller, &tool).await?;
        if !wanting.is_empty() {
            found.state = Readiness::NeedsPerson;
            found.reasons.extend(wanting);
        }
        let ready = match self.runners.get(&tool.definition) {
            Ok(runner) => runner.ready_for(&caller.tenant_slug, &tool.definition).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ready {
            let passing = matches!(error.code, ErrorCode::NetworkError | ErrorCode::RateLimit | ErrorCode::Timeout);
            if found.state == Readiness::Ready {
                found.state = if passing { Readiness::Transient } else { Readiness::NeedsPerson };
            }
            found.reasons.push(error.message);
        }
        Ok(found)
    }
}
