//! The kind `composition`: other tools in an order, each a call of its own through the gate, what one answers given to
//! the next.
//!
//! Invariant: a step has the rights of whoever made the outer call and no others, and is asked about where it would be
//! asked about alone.
//! Deliberately absent: going on after a crash. What is a step and has effects has a record of its own; whoever needs
//! more than a chain that ends in its time writes a workflow.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Map, Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{Definition, Envelope, ErrorCode, Fault, Status, ToolError, ToolResult};
use toolgate_engine::runner::Done;
use toolgate_engine::within::Within;
use toolgate_engine::{Call, Outcome, Permit, Runner};
use toolgate_expression::{Expression, ExpressionError, JsonTemplate};

use crate::compiled::Compiled;
use crate::expression::other_kind;
use crate::failure::Failure;

pub struct Compositions {
    known: Compiled<Plan>,
}

impl Default for Compositions {
    fn default() -> Self {
        Self { known: Compiled::new() }
    }
}

struct Plan {
    steps: Vec<Step>,
    output: Option<Arc<Expression>>,
}

struct Step {
    id: String,
    tool: String,
    input: Vec<(String, JsonTemplate)>,
    /// Places of the steps that must have ended.
    after: Vec<usize>,
}

/// What is known while the steps run.
struct Progress {
    /// `{input, steps}`, for the places of the steps.
    values: Value,
    begun: Vec<bool>,
    /// Each step that ended, with its call.
    done: Vec<Value>,
    labels: Vec<Label>,
    effect_free: bool,
    /// A step had not ended: it is asked to stop.
    left_running: bool,
    failure: Option<Failure>,
}

impl Compositions {
    async fn carry_out(&self, permit: &Permit) -> Result<Outcome, ToolError> {
        let call = permit.call();
        let plan = self.known.of(&call.tool, || Plan::read(&call.tool.definition))?;
        let within = permit.within(call.tool.name.as_str()).await.map_err(|fault| ToolError::of(&fault))?;
        let progress = steps(&plan, call, &within).await;
        let Progress { values, done, labels, left_running, failure, .. } = progress;
        let (state, reason) = match &failure {
            None => (RunState::Completed, None),
            Some(_) if left_running => (RunState::Cancelled, None),
            Some(Failure::Told(error)) if error.reason() == "cancelled" => (RunState::Cancelled, None),
            Some(Failure::Told(error)) => (RunState::Failed, Some(error.message.clone())),
            Some(Failure::Unknown(why)) => (RunState::Failed, Some(why.clone())),
        };
        within.end(state, reason.as_deref()).await;
        match failure {
            Some(Failure::Told(error)) => {
                Err(error.with("run_id", within.run().to_string()).with("done", Value::Array(done)))
            }
            Some(Failure::Unknown(why)) => Ok(Outcome::Unknown(why)),
            None => {
                let mut result = ToolResult::structured(self.output(&plan, values).await?);
                result.app_data = Some(json!({"run_id": within.run(), "steps": done}));
                Ok(Outcome::Done(Done { result, labels, ..Done::default() }))
            }
        }
    }

    async fn output(&self, plan: &Plan, mut values: Value) -> Result<Value, ToolError> {
        let Some(expression) = &plan.output else {
            let last = plan.steps.last().and_then(|step| values["steps"].get_mut(step.id.as_str()));
            return Ok(last.map(Value::take).unwrap_or_default());
        };
        let expression = Arc::clone(expression);
        // Bounded, and yet long enough to keep others waiting.
        let evaluated = tokio::task::spawn_blocking(move || {
            expression.evaluate(&[("input", &values["input"]), ("steps", &values["steps"])])
        });
        let value = evaluated.await.unwrap_or_else(|error| Err(ExpressionError::Failed(error.to_string())));
        value.map_err(|error| wrong("`output`", &error))
    }
}

/// Runs what can run until everything has, or something has failed; what is under way then is waited for.
async fn steps(plan: &Plan, call: &Call, within: &Within<'_>) -> Progress {
    let mut progress = Progress {
        values: json!({"input": *call.input, "steps": {}}),
        begun: vec![false; plan.steps.len()],
        done: Vec::new(),
        labels: Vec::new(),
        effect_free: call.is_effect_free(),
        left_running: false,
        failure: None,
    };
    let mut running = FuturesUnordered::new();
    let mut is_stopped = false;
    loop {
        for (index, input) in progress.next(plan) {
            let step = &plan.steps[index];
            running.push(async move { (index, within.call(&step.tool, input).await) });
        }
        let next = tokio::select! {
            next = running.next() => next,
            () = call.cancel.cancelled(), if !is_stopped => {
                is_stopped = true;
                progress.failure.get_or_insert_with(|| ToolError::cancelled().into());
                within.end(RunState::Cancelled, None).await;
                continue;
            }
        };
        match next {
            Some((index, Ok(envelope))) => progress.ended(&plan.steps[index], envelope),
            Some((index, Err(fault))) => progress.refused(&plan.steps[index], &fault),
            None => return progress,
        }
    }
}

impl Progress {
    /// The steps that can begin now, with their inputs.
    fn next(&mut self, plan: &Plan) -> Vec<(usize, Value)> {
        let mut ready = Vec::new();
        for (index, step) in plan.steps.iter().enumerate() {
            let has_ended = |earlier: &usize| self.values["steps"].get(plan.steps[*earlier].id.as_str()).is_some();
            if self.failure.is_some() || self.begun[index] || !step.after.iter().all(has_ended) {
                continue;
            }
            match step.filled(&self.values) {
                Ok(input) => {
                    self.begun[index] = true;
                    ready.push((index, input));
                }
                Err(error) => self.failure = Some(Failure::Told(error)),
            }
        }
        ready
    }

    fn ended(&mut self, step: &Step, envelope: Envelope) {
        let Envelope { id, status, output, error, labels, truncated, .. } = envelope;
        self.done.push(json!({"step": step.id, "tool": step.tool, "call": id, "status": status}));
        self.labels.extend(labels);
        let failure = match (status, error) {
            // Half of a value is another value, and what comes after it would be made of that.
            (Status::Completed, None) if truncated => Failure::Told(of_step(step, cut(&step.tool))),
            (Status::Completed, None) => {
                self.values["steps"][step.id.as_str()] = output.unwrap_or_default();
                return;
            }
            (Status::OutcomeUnknown, _) => {
                Failure::Unknown(format!("nobody knows what became of the step `{}` (call {id})", step.id))
            }
            (Status::Pending | Status::Approved, _) => {
                let message = format!("the step `{}` still waited for a person's decision and was taken back", step.id);
                Failure::Told(ToolError::because(ErrorCode::Timeout, "timeout", message))
            }
            (Status::Running, _) => {
                self.left_running = true;
                let message = format!("the step `{}` (call {id}) had not ended in the time that there is", step.id);
                // It may have its effect yet.
                if self.effect_free {
                    Failure::Told(ToolError::because(ErrorCode::Timeout, "timeout", message))
                } else {
                    Failure::Unknown(message)
                }
            }
            (_, Some(error)) => Failure::Told(of_step(step, error)),
            (_, None) => {
                let message = format!("the step `{}` is {status}", step.id);
                Failure::Told(ToolError::because(ErrorCode::PolicyDenied, "rejected", message))
            }
        };
        // What nobody knows outweighs what is known.
        if self.failure.is_none() || matches!(failure, Failure::Unknown(_)) {
            self.failure = Some(failure);
        }
    }

    fn refused(&mut self, step: &Step, fault: &Fault) {
        self.failure.get_or_insert_with(|| Failure::Told(of_step(step, ToolError::of(fault))));
    }
}

/// The step's own error, and whose it is.
fn of_step(step: &Step, error: ToolError) -> ToolError {
    let message = format!("the step `{}` ({}): {}", step.id, step.tool, error.message);
    ToolError { message, ..error }.with("step", step.id.as_str())
}

fn cut(tool: &str) -> ToolError {
    let message = format!(
        "its output is larger than it may be and was cut; ask it for less, or raise `max_output_bytes` of `{tool}`"
    );
    ToolError::because(ErrorCode::ValidationError, "too_large", message)
}

impl Plan {
    fn read(definition: &Definition) -> Result<Self, ToolError> {
        let toolgate_contracts::Runner::Composition(composition) = &definition.runner else {
            return Err(other_kind(definition, "composition"));
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut steps = Vec::with_capacity(composition.steps.len());
        for (index, step) in composition.steps.iter().enumerate() {
            let after = match &step.after {
                None => index.checked_sub(1).into_iter().collect(),
                // INVARIANT: registration lets a step wait for earlier ones only.
                Some(after) => after.iter().filter_map(|id| places.get(id.as_str()).copied()).collect(),
            };
            let input = step.input.iter().map(|(name, value)| Ok((name.clone(), JsonTemplate::parse(value)?)));
            let input = input.collect::<Result<_, ExpressionError>>().map_err(|error| wrong(&step.id, &error))?;
            steps.push(Step { id: step.id.clone(), tool: step.tool.clone(), input, after });
            places.insert(step.id.as_str(), index);
        }
        let output = composition.output.as_deref().map(Expression::parse).transpose();
        Ok(Self { steps, output: output.map_err(|error| wrong("`output`", &error))?.map(Arc::new) })
    }
}

impl Step {
    fn filled(&self, values: &Value) -> Result<Value, ToolError> {
        let mut input = Map::with_capacity(self.input.len());
        for (name, template) in &self.input {
            let place = || format!("`{name}` of the step `{}`", self.id);
            if let Some(value) = template.filled(values).map_err(|error| wrong(&place(), &error))? {
                input.insert(name.clone(), value);
            }
        }
        Ok(Value::Object(input))
    }
}

fn wrong(place: &str, error: &ExpressionError) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, "exception", format!("the composition, {place}: {error}"))
}

impl Runner for Compositions {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.carry_out(&permit).await.unwrap_or_else(Outcome::Failed) })
    }

    /// The steps in their order; inputs as far as the arguments alone make them.
    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let plan = self.known.of(&call.tool, || Plan::read(&call.tool.definition))?;
            let values = json!({"input": *call.input, "steps": {}});
            let shown = |step: &Step| {
                let after: Vec<&str> = step.after.iter().map(|index| plan.steps[*index].id.as_str()).collect();
                let mut shown = json!({"step": step.id, "tool": step.tool, "after": after});
                if let Ok(input) = step.filled(&values) {
                    shown["input"] = input;
                }
                shown
            };
            let steps: Vec<Value> = plan.steps.iter().map(shown).collect();
            Ok(json!({"would_call": steps}))
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Plan::read(definition).map(drop)))
    }
}
