//! Tools made and changed by an agent, through the same commands as by people: with the caller's rights, or with the one
//! that whoever approved the call lent it, and never unasked.
//!
//! The input is flat, because clients read no union at the top of a schema; which members an action needs is checked
//! here, in the words of the specification.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::definition::Origin;
use toolgate_contracts::{Caller, Fault, FaultKind, Permission, ToolError, ToolName};
use toolgate_engine::{Call, Lent, Outcome};
use toolgate_registry::commands::{LentRight, Registration, RegistrationAction, Submitted};
use toolgate_registry::snapshot::ResolvedTool;

use crate::builtin::{Tools, input, invalid};
use crate::catalog::{line, with_view};

/// The members of a definition, as they are called here and there.
const MEMBERS: [(&str, &str); 20] = [
    ("title", "title"),
    ("description", "description"),
    ("version", "version"),
    ("inputSchema", "input_schema"),
    ("outputSchema", "output_schema"),
    ("runner", "runner"),
    ("egressClass", "egress_class"),
    ("risk", "risk"),
    ("permissionPolicy", "permission_policy"),
    ("requiredPermission", "required_permission"),
    ("category", "category"),
    ("group", "group"),
    ("tags", "tags"),
    ("icon", "icon"),
    ("docs", "docs"),
    ("secrets", "secrets"),
    ("hosts", "hosts"),
    ("timeoutMs", "timeout_ms"),
    ("examples", "examples"),
    ("form", "form"),
];

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Create,
    Update,
    Delete,
    List,
    Get,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Get => "get",
        }
    }

    const fn right(self) -> Option<Permission> {
        match self {
            Self::Create => Some(Permission::TOOLS_TENANT_CREATE),
            Self::Update => Some(Permission::TOOLS_TENANT_UPDATE),
            Self::Delete => Some(Permission::TOOLS_TENANT_DELETE),
            Self::List | Self::Get => None,
        }
    }

    const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Create => &["slug", "description", "inputSchema", "runner"],
            Self::Update | Self::Delete | Self::Get => &["slug"],
            Self::List => &[],
        }
    }
}

#[derive(Deserialize)]
struct Input {
    action: Action,
    #[serde(default)]
    slug: Option<String>,
    #[serde(flatten)]
    members: Map<String, Value>,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    match managed(tools, call).await {
        Ok(output) => Outcome::structured(output),
        Err(error) => error.into(),
    }
}

/// What an action comes to, its parts checked.
enum Work {
    Answer(Value),
    Delete(ToolName),
    /// The definition as it will be, and as it was.
    Register {
        definition: Value,
        before: Option<Value>,
    },
}

/// The right to change a tenant's tools, which no agent has.
pub(crate) fn borrows(input: &Value) -> Option<Permission> {
    serde_json::from_value::<Action>(input.get("action")?.clone()).ok()?.right()
}

async fn managed(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (action, work) = worked(tools, call)?;
    let lent = call.lent.as_ref().map(|Lent { right, approval, by }| LentRight {
        right,
        call: call.id,
        approval: *approval,
        by,
    });
    let caller = &call.caller;
    match work {
        Work::Answer(answer) => Ok(answer),
        Work::Delete(name) => {
            let deleted = tools.registry.delete_tool_lent(caller, lent.as_ref(), &name).await;
            deleted.map_err(|fault| refused(&fault, action))?;
            Ok(json!({"action": action.name(), "slug": name}))
        }
        Work::Register { definition, .. } => {
            let submitted = Submitted::Json(definition.to_string().into_bytes());
            let registered = tools.registry.register_lent(caller, lent.as_ref(), &submitted, true).await;
            let Registration { name, action: done, version, findings, .. } =
                registered.map_err(|fault| refused(&fault, action))?;
            let unchanged = done == RegistrationAction::Unchanged;
            let mut output = json!({
                "action": action.name(), "slug": name, "version": version, "unchanged": unchanged,
                "findings": findings,
            });
            if let Some(next) = left_to_do(tools, call, &name)? {
                output["next"] = next.into();
            }
            Ok(output)
        }
    }
}

/// Who makes a tool does not get it by that: whoever approved the call saw a definition, not an assignment. Says what has to
/// be done, and by whom, until the caller has the tool; nothing where it has it.
fn left_to_do(tools: &Tools, call: &Call, name: &str) -> Result<Option<String>, ToolError> {
    let name = name.parse::<ToolName>().map_err(|error| invalid("slug", error))?;
    if resolved(tools, call, &name).is_ok() {
        return Ok(None);
    }
    with_view(tools, call, |_, registry| {
        let agent = call.agent.and_then(|id| registry.agents.get(&id)).map(|agent| &agent.spec.name);
        Ok(agent.map(|agent| {
            format!(
                "`{name}` is not among the tools of `{agent}` yet, so you cannot call it: a person who may assign tools \
                 (`{}`) gives it to you with `toolgate tool assign --tool {name} --agent {agent}` or on the page of the \
                 agent; tell them so",
                Permission::TOOLS_ASSIGN
            )
        }))
    })
}

/// What would change, and by which right; nothing is written.
pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (action, work) = worked(tools, call)?;
    let right = action.right();
    let mut plan = match work {
        // To answer is what it would do, and whoever approves that it does is not asked by the answer.
        Work::Answer(_) => return Ok(json!({"would_run": true})),
        Work::Delete(name) => json!({"would_run": true, "action": action.name(), "slug": name}),
        Work::Register { definition, before } => {
            // As if it were lent: only whether it would be taken is looked at.
            let permissions = call.caller.permissions.iter().chain(&right).cloned().collect();
            let caller = Caller { permissions, ..call.caller.clone() };
            let submitted = Submitted::Json(definition.to_string().into_bytes());
            let registered = tools.registry.register(&caller, &submitted, false).await;
            let Registration { name, version, findings, .. } = registered.map_err(|fault| refused(&fault, action))?;
            let mut plan = json!({
                "would_run": true, "action": action.name(), "slug": name, "version": version, "findings": findings,
            });
            if let Some(before) = before {
                plan["difference"] = difference(&name, &before, &definition).into();
            }
            plan
        }
    };
    plan["needs"] = json!(right);
    Ok(plan)
}

fn difference(name: &str, before: &Value, after: &Value) -> String {
    let text = |value: &Value| serde_json::to_string_pretty(value).map(|text| text + "\n").unwrap_or_default();
    let (before, after) = (text(before), text(after));
    similar::TextDiff::from_lines(&before, &after).unified_diff().context_radius(2).header(name, name).to_string()
}

fn worked(tools: &Tools, call: &Call) -> Result<(Action, Work), ToolError> {
    let Input { action, slug, members } = input(call)?;
    let given = |member: &str| match member {
        "slug" => slug.as_deref().is_some_and(|slug| !slug.is_empty()),
        other => members.get(other).is_some_and(|value| !value.is_null()),
    };
    if let Some(missing) = action.needs().iter().find(|member| !given(member)) {
        let message = format!("manageTools.{} requires '{missing}'", action.name());
        return Err(ToolError { message, ..invalid(missing, "it is missing") });
    }
    if let Some(unknown) = members.keys().find(|name| MEMBERS.iter().all(|(own, _)| own != name)) {
        let known: Vec<&str> = MEMBERS.iter().map(|(own, _)| *own).collect();
        return Err(invalid(unknown, format!("there is no such member; there are {}", known.join(", "))));
    }
    let name = || slug.as_deref().unwrap_or_default().parse::<ToolName>().map_err(|error| invalid("slug", error));
    let work = match action {
        Action::List => Work::Answer(with_view(tools, call, |view, _| {
            let own = view.tools().map(|(tool, _)| tool).filter(|tool| tool.tool.origin == Origin::Tenant);
            Ok(json!({"action": action.name(), "tools": own.map(|tool| line(call, &tool)).collect::<Vec<_>>()}))
        })?),
        Action::Get => {
            let tool = resolved(tools, call, &name()?)?;
            Work::Answer(json!({"action": action.name(), "tool": whole(&tool)}))
        }
        Action::Delete => {
            let name = name()?;
            let tool = resolved(tools, call, &name)?;
            if tool.tool.origin != Origin::Tenant {
                return Err(invalid(
                    "slug",
                    format!("`{name}` is not a tool that was made here; switch it off instead"),
                ));
            }
            Work::Delete(name)
        }
        Action::Create => {
            let name = name()?;
            if is_taken(tools, call, &name)? {
                return Err(invalid("slug", format!("there is a tool `{name}`; change it with the action `update`")));
            }
            let mut definition = json!({"name": name, "version": "1.0.0"});
            lay_over(&mut definition, members);
            Work::Register { definition, before: None }
        }
        Action::Update => {
            let name = name()?;
            let tool = resolved(tools, call, &name)?;
            if tool.tool.origin != Origin::Tenant {
                return Err(invalid("slug", format!("`{name}` is not a tool that was made here; override it instead")));
            }
            // What people saw was the change of another version: two harmless changes may make one that nobody saw.
            if tool.version.created_at > call.created_at {
                return Err(invalid("slug", format!("`{name}` changed after this was asked for; ask again")));
            }
            // Without one the registry counts by what changed.
            let mut definition = whole(&tool);
            if let Value::Object(own) = &mut definition {
                own.shift_remove("version");
            }
            let before = Some(definition.clone());
            lay_over(&mut definition, members);
            Work::Register { definition, before }
        }
    };
    Ok((action, work))
}

/// Whoever has the name, and whether the caller sees it or not.
fn is_taken(tools: &Tools, call: &Call, name: &ToolName) -> Result<bool, ToolError> {
    with_view(tools, call, |view, registry| {
        let reference = name.as_str().parse().map_err(Fault::internal)?;
        Ok(registry.resolve(&reference, view.today).is_some())
    })
}

fn resolved(tools: &Tools, call: &Call, name: &ToolName) -> Result<ResolvedTool, ToolError> {
    with_view(tools, call, |view, _| {
        let reference = name.as_str().parse().map_err(Fault::internal)?;
        view.resolve(&reference).map(|(tool, _)| tool)
    })
}

fn whole(tool: &ResolvedTool) -> Value {
    let mut definition = serde_json::to_value(&*tool.definition).unwrap_or_default();
    definition["version"] = tool.version.version.to_string().into();
    definition
}

fn lay_over(definition: &mut Value, members: Map<String, Value>) {
    for (name, value) in members {
        if let Some((_, member)) = MEMBERS.iter().find(|(own, _)| *own == name) {
            definition[*member] = value;
        }
    }
}

/// With what is wrong with the definition, so that a model can correct it, and of a right that is missing, whence it
/// comes.
fn refused(fault: &Fault, action: Action) -> ToolError {
    let error = ToolError::of(fault);
    // To change one may take the right to make or to change, and the first that is missing is named.
    let lacks = fault.kind() == FaultKind::Forbidden && fault.told().contains("`tools.tenant.");
    if let Some(right) = action.right().filter(|_| lacks) {
        let remedy = format!("a person who has `{right}` approves the call, which lends it; nothing else does");
        return error.with("remedy", remedy);
    }
    match fault.details().and_then(|details| details.get("findings")) {
        Some(findings) => error.with("findings", findings.clone()),
        None => error,
    }
}
