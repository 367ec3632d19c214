//! A run begins: who may, what the agent is given, and the commit that makes it one that goes on by itself.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::call::RunKind;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{AgentState, CallId, Caller, Fault, FaultKind, Limits, Permission, RunId};
use toolgate_engine::Engine;
use toolgate_engine::runs::NewRun;
use toolgate_expression::Text;
use toolgate_policy::labels::Origins;
use toolgate_store::agent_runs::{AgentRun, ModelUsed};
use toolgate_store::approvals::Asker;
use toolgate_store::calls::RequestKey;
use toolgate_store::catalog::StoredAgent;
use utoipa::ToSchema;

use super::Host;
use crate::conversation::{BoundBy, Plan, answer_of};

pub const PROMPT_BYTES_MAX: usize = 256 * 1024;
/// What of a prompt stands in lists of runs.
const BEGINNING_CHARS_MAX: usize = 160;
/// Skills of one agent together; a skill that does not fit is named, and its text is left out.
const SKILLS_BYTES_MAX: usize = 128 * 1024;
/// What a model may write in one answer, where the agent does not say.
const OUTPUT_TOKENS_DEFAULT: u32 = 8_192;
/// The names by which authors say how much a model may write.
const OUTPUT_PARAMS: [&str; 3] = ["max_tokens", "max_output_tokens", "max_completion_tokens"];

/// What somebody asks of an agent.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewAgentRun {
    /// Chosen beforehand by whoever must find it again, also after they were cut off. Nobody outside chooses one.
    #[serde(skip)]
    pub id: Option<RunId>,
    /// The caller's idempotency key, for 24 hours: the same request again gets the same run.
    pub request_id: Option<String>,
    pub prompt: String,
    /// With them, `prompt` is a template that has places for them.
    #[schema(value_type = Option<Object>)]
    pub variables: Option<Map<String, Value>>,
    pub title: Option<String>,
    /// They only tighten what the agent's own say.
    pub limits: Limits,
    /// Another run, under whose root and within whose limits this one stands.
    pub parent_run_id: Option<RunId>,
    pub labels: Vec<Label>,
}

impl NewAgentRun {
    /// What makes two requests the same.
    fn body(&self, agent: &StoredAgent) -> Value {
        let Self { id: _, request_id: _, prompt, variables, title, limits, parent_run_id, labels } = self;
        json!({
            "agent": agent.id, "prompt": prompt, "variables": variables, "title": title, "limits": limits,
            "parent_run_id": parent_run_id, "labels": labels,
        })
    }
}

/// The call by which an agent was asked.
#[derive(Clone, Debug)]
pub(crate) struct BegunBy {
    pub call: CallId,
    /// The call ends with the run, and says what the run says.
    pub answers: bool,
    /// The label context of whoever reads the answer.
    pub reader: String,
}

impl Host {
    /// Begins a run of an agent, by its name or id. It goes on by itself.
    pub async fn start(&self, caller: &Caller, agent: &str, new: NewAgentRun) -> Result<RunId, Fault> {
        self.start_for(caller, agent, new, None).await
    }

    /// The same for a call that began it.
    pub(crate) async fn start_for(
        &self,
        caller: &Caller,
        agent: &str,
        mut new: NewAgentRun,
        begun_by: Option<BegunBy>,
    ) -> Result<RunId, Fault> {
        caller.require(&Permission::AGENTS_RUN)?;
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let unknown = || Fault::not_found("agent", agent).at("/agent");
        let agent = registry.agent(agent).filter(|agent| agent.tenant == caller.tenant).ok_or_else(unknown)?;
        // Neither for a call nor for a workflow, which chose the run's id.
        check_credential(caller, agent, begun_by.is_none() && new.id.is_none())?;
        let key = match new.request_id.take() {
            Some(id) => Some(Engine::key_to_begin(caller, id, &new.body(agent))?),
            None => None,
        };
        let engine = &self.0.engine;
        engine.begin_once(caller.tenant, key, |key| Box::pin(self.begin(caller, agent, new, begun_by, key))).await
    }

    async fn begin(
        &self,
        caller: &Caller,
        agent: &StoredAgent,
        new: NewAgentRun,
        begun_by: Option<BegunBy>,
        key: Option<RequestKey>,
    ) -> Result<RunId, Fault> {
        let is_direct = begun_by.is_none() && new.id.is_none();
        if agent.state == AgentState::Frozen {
            let told = format!("the agent {} is frozen", agent.spec.name);
            return Err(Fault::conflict(told, "an administrator lets it go on with `toolgate agent unfreeze`"));
        }
        let acting = Engine::acting_as(caller, agent.id);
        let NewAgentRun { id, request_id: _, prompt, variables, title, limits, parent_run_id, mut labels } = new;
        let prompt = rendered(prompt, variables)?;
        let limits = strictest(limits, &agent.spec.limits);
        // Not what is asked: a title stands in the log, where nothing is erased.
        let title = title.unwrap_or_else(|| agent.spec.name.to_string());
        let replica = self.0.engine.replica().to_owned();
        let asker = Asker::of(&acting, None);
        // Whoever shows a token for one run begins what is below it all the same.
        let opener = Caller { token: None, ..acting.clone() };
        // Below a run of whoever asks, which the agent itself could not name.
        let parent = match parent_run_id {
            Some(id) => {
                let above = self.0.engine.own_run(&Caller { token: None, ..caller.clone() }, id).await;
                Some(above.map_err(|fault| fault.at("/parent_run_id"))?)
            }
            None => None,
        };
        let (mut origins, mut reader) = (Origins::default(), None);
        if is_direct {
            // Asking an agent washes nothing off.
            let (seen, from, context) = self.0.engine.seen_of(caller).await?;
            labels.extend(seen);
            (origins, reader) = (from, Some(context));
        }
        let (for_call, begun_by, reader) = match begun_by {
            None => (None, None, reader),
            Some(BegunBy { call, answers, reader }) => (answers.then_some(call), Some(call), Some(reader)),
        };
        // With the limits that the run will have: what stands above it bounds it too.
        let bounds = self.0.engine.limits_below(&opener, agent.id, limits.clone(), parent.as_ref())?;
        let plan = Box::pin(self.plan(&acting, agent, prompt, bounds)).await?;
        let plan_text = serde_json::to_value(&plan).map_err(Fault::internal)?;
        let kind = RunKind::Agent;
        let title = Some(title);
        let new = NewRun { id, request_id: None, kind, title, agent: None, parent_run_id, limits, labels, origins };
        let engine = &self.0.engine;
        let opened = engine.open_run_below(&opener, parent, new, |change, run| {
            if let Some(key) = &key {
                engine.remember_begun(change, key, run.id);
            }
            change.insert_agent_run(&AgentRun {
                run: run.id,
                plan: plan_text,
                asker,
                holder: Some(replica),
                waits_for: None,
                for_call,
                begun_by,
                reader,
                asked: beginning(&plan.prompt),
                asked_labels: run.labels.clone(),
                outputs: None,
                is_open: true,
                unanswered: 0,
                unanswered_use: ModelUsed::default(),
                created_at: run.created_at,
            });
        });
        let run = Box::pin(opened).await?;
        self.drive_soon(caller.tenant, run.id);
        Ok(run.id)
    }

    /// What the agent is given, as it stands now.
    async fn plan(&self, acting: &Caller, agent: &StoredAgent, prompt: String, limits: Limits) -> Result<Plan, Fault> {
        let spec = &agent.spec;
        if spec.model.is_empty() {
            let told = format!("the agent {} has no model", spec.name);
            return Err(Fault::conflict(told, "set its `model` to `PROVIDER/MODEL`; see `toolgate provider list`"));
        }
        self.0.models.known(acting.tenant, &spec.model).map_err(|error| {
            Fault::conflict(error.error().message.clone(), "add the provider, or set another `model` for the agent")
        })?;
        let mut params = spec.model_params.clone().unwrap_or_default();
        let stated = OUTPUT_PARAMS.iter().filter_map(|name| params.remove(*name)).find_map(|value| value.as_u64());
        let mut output_tokens_max = stated.and_then(|most| u32::try_from(most).ok()).unwrap_or(OUTPUT_TOKENS_DEFAULT);
        if let Some(most) = limits.max_tokens {
            output_tokens_max = output_tokens_max.min(answer_of(most)).max(1);
        }
        let (tools, by_name) = self.offered(acting, agent, &limits)?;
        Ok(Plan {
            version: 1,
            agent: spec.name.clone(),
            agent_id: agent.id,
            revision: agent.revision,
            model: spec.model.clone(),
            params,
            system: self.system(acting, agent).await,
            prompt,
            tools,
            by_name,
            limits: limits.effective(),
            output_tokens_max,
            bound_by: self.bound_by(agent)?,
        })
    }

    fn bound_by(&self, agent: &StoredAgent) -> Result<BoundBy, Fault> {
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(agent.tenant)?;
        let guards = registry.deciding.guards().unwrap_or_default();
        let guardrails = guards.iter().map(|guard| {
            let guardrail = &guard.guardrail;
            json!({
                "name": guardrail.name, "stage": guardrail.stage, "on_match": guardrail.on_match,
                "log_only": guardrail.log_only,
            })
        });
        let profile = agent.profile.and_then(|id| registry.profiles.get(&id));
        let profile = profile.and_then(|stored| serde_json::to_value(&stored.profile).ok());
        Ok(BoundBy { guardrails: guardrails.collect(), profile })
    }

    /// Instructions, then the agent's skills: what stays the same comes first.
    async fn system(&self, acting: &Caller, agent: &StoredAgent) -> String {
        let mut system = agent.spec.instructions.trim_end().to_owned();
        let mut left = SKILLS_BYTES_MAX;
        for name in &agent.spec.skills {
            let filled = self.0.registry.fill_skill(acting, name, &Map::new()).await;
            let Ok(skill) = filled else { continue };
            let description = &skill.skill.spec.description;
            let text = if skill.text.len() <= left { skill.text.trim() } else { "" };
            left -= text.len();
            let added = format!("{system}\n\n# Skill {name}: {description}\n\n{text}");
            added.trim().clone_into(&mut system);
        }
        system
    }
}

/// Whoever holds a token has what it says, and it says for which agent. An agent asks others through the gate, where its
/// tools and policies are judged.
fn check_credential(caller: &Caller, agent: &StoredAgent, is_direct: bool) -> Result<(), Fault> {
    let is_token = matches!(caller.credential, Credential::Token(_));
    if is_token && caller.agent != Some(agent.id) {
        return Err(Fault::new(
            FaultKind::Forbidden,
            format!("this token is not for the agent {}", agent.spec.name),
            "mint one for that agent, or use a key",
        ));
    }
    if is_direct && caller.agent.is_some_and(|own| own != agent.id) {
        return Err(Fault::new(
            FaultKind::Forbidden,
            format!("an agent's key does not begin runs of the agent {}", agent.spec.name),
            "let the agent ask it with `delegateToAgent`, or use a key of a person",
        ));
    }
    Ok(())
}

fn rendered(prompt: String, variables: Option<Map<String, Value>>) -> Result<String, Fault> {
    let prompt = match variables {
        None => prompt,
        Some(variables) => {
            let text = Text::parse(&prompt).and_then(|text| text.render(&Value::Object(variables)));
            text.map_err(|error| Fault::invalid(format!("the prompt: {error}"), "correct the template").at("/prompt"))?
        }
    };
    if prompt.trim().is_empty() || prompt.len() > PROMPT_BYTES_MAX {
        let told = format!("a prompt of {} bytes", prompt.len());
        return Err(Fault::invalid(told, format!("use 1 to {PROMPT_BYTES_MAX} bytes")).at("/prompt"));
    }
    Ok(prompt)
}

/// Of a prompt what a list shows: so much of it in one line.
fn beginning(prompt: &str) -> Option<String> {
    let mut line = String::with_capacity(BEGINNING_CHARS_MAX);
    let mut chars = 0;
    for word in prompt.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
            chars += 1;
        }
        for char in word.chars() {
            if chars == BEGINNING_CHARS_MAX {
                line.push('…');
                return Some(line);
            }
            line.push(char);
            chars += 1;
        }
    }
    (!line.is_empty()).then_some(line)
}

/// Of both, the stricter, each by itself. Which tools an agent has is the tool set's business.
fn strictest(run: Limits, agent: &Limits) -> Limits {
    fn least<T: Ord + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
        one.into_iter().chain(other).min()
    }
    Limits {
        side_effects: least(run.side_effects, agent.side_effects),
        max_iterations: least(run.max_iterations, agent.max_iterations),
        max_tool_calls: least(run.max_tool_calls, agent.max_tool_calls),
        // The agent's own is for a month, and held apart.
        max_budget: run.max_budget,
        max_tokens: least(run.max_tokens, agent.max_tokens),
        max_wall_s: least(run.max_wall_s, agent.max_wall_s),
        max_parallel: least(run.max_parallel, agent.max_parallel),
        max_depth: least(run.max_depth, agent.max_depth),
        max_output_bytes: least(run.max_output_bytes, agent.max_output_bytes),
        enabled_tools: run.enabled_tools,
        rate_limit: run.rate_limit,
    }
}
