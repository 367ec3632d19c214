//! The class floor: a definition may not claim less effect than its runner has (`contracts.md` §15).
//!
//! This is what registration refuses, not what a linter advises: class, risk and sink decide whether a person
//! is asked, so a tool that understates them would walk past the gate. What a builtin function does is its
//! own to say, what a composition does is what its strongest step does, and what a workflow does what its strongest
//! node does; all are looked up.

use toolgate_contracts::agent::{MAX_DEPTH_DEFAULT, MAX_TOOL_CALLS_DEFAULT};
use toolgate_contracts::definition::{Definition, EgressClass, Risk, Sink};
use toolgate_contracts::name::ToolRef;
use toolgate_contracts::plugin::Plugin;
use toolgate_contracts::runner::{Composition, Runner, Wasm, WorkflowRunner};
use toolgate_store::workflows::HeldWorkflow;

use crate::finding::{Finding, nearest, shown};
use crate::flows;

/// Compositions of compositions, counted from the outermost: as deep as runs stand under each other.
pub const COMPOSITION_DEPTH_MAX: usize = MAX_DEPTH_DEFAULT as usize;
/// Steps of one composition, and of all compositions below it together: as many calls as a run has.
pub const COMPOSITION_STEPS_MAX: usize = MAX_TOOL_CALLS_DEFAULT as usize;

/// The least that a definition must own up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    pub class: EgressClass,
    pub risk: Risk,
    pub sink: Sink,
    /// The tenant's own records are changed, which is no egress and yet must not be retried or cached.
    pub changes_state: bool,
}

impl Floor {
    pub const NOTHING: Self =
        Self { class: EgressClass::None, risk: Risk::Safe, sink: Sink::None, changes_state: false };

    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            class: self.class.max(other.class),
            risk: self.risk.max(other.risk),
            sink: self.sink.max(other.sink),
            changes_state: self.changes_state || other.changes_state,
        }
    }

    /// An agent that a workflow asks: it goes out to a model, and what it calls is judged when it calls it.
    const AGENT: Self =
        Self { class: EgressClass::ReadOnly, risk: Risk::Safe, sink: Sink::Fixed, changes_state: false };

    /// What a registered tool does, as a step of another.
    fn of_step(definition: &Definition) -> Self {
        Self {
            class: definition.class(),
            risk: definition.effective_risk(),
            sink: definition.effective_sink(),
            changes_state: definition.changes_state(),
        }
    }
}

/// What the registry knows about others.
pub trait Known {
    /// What a function compiled into Toolgate does; `None` when there is none of that name.
    fn function(&self, name: &str) -> Option<Floor>;
    /// The names of all functions, for a suggestion.
    fn functions(&self) -> Vec<&str>;
    /// The tool that a step would call.
    fn tool(&self, reference: &ToolRef) -> Option<&Definition>;
    /// What is installed; `None` where that cannot be looked up.
    fn plugins(&self) -> Option<&[Plugin]> {
        None
    }
    /// Whether there is a skill of that name; `None` where that cannot be looked up.
    fn has_skill(&self, _name: &str) -> Option<bool> {
        None
    }
    /// A saved workflow; `None` where they cannot be looked up, `Some(None)` where there is none of that name.
    fn workflow(&self, _name: &str) -> Option<Option<&HeldWorkflow>> {
        None
    }
}

/// The plug-in that a definition means: by its digest, or the newest of its name.
pub fn plugin_of<'p>(wasm: &Wasm, plugins: &'p [Plugin]) -> Option<&'p Plugin> {
    let named = plugins.iter().filter(|plugin| plugin.name.as_str() == wasm.plugin);
    match wasm.digest {
        Some(digest) => named.into_iter().find(|plugin| plugin.digest == digest),
        None => named.into_iter().max_by(|left, right| left.version.cmp(&right.version)),
    }
}

/// Errors where class, risk, sink or `changes_state` is below the floor, where a function or step does not
/// exist, and where compositions call each other in a circle.
pub fn check(definition: &Definition, known: &dyn Known) -> Result<(), Vec<Finding>> {
    let mut findings = Vec::new();
    let floor = of(definition, known, &mut findings);
    compare(definition, floor, &mut findings);
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The same without looking anything up: functions and steps are taken on trust.
pub fn check_alone(definition: &Definition) -> Result<(), Vec<Finding>> {
    let mut findings = Vec::new();
    compare(definition, own(definition), &mut findings);
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

fn own(definition: &Definition) -> Floor {
    Floor {
        class: definition.runner.class_floor(),
        risk: Risk::Safe,
        sink: definition.runner.sink_floor(),
        changes_state: matches!(definition.runner, Runner::Record(_) | Runner::Task(_)),
    }
}

/// The floor of a definition, and what could not be looked up.
pub fn of(definition: &Definition, known: &dyn Known, findings: &mut Vec<Finding>) -> Floor {
    let own = own(definition);
    match &definition.runner {
        Runner::Builtin(builtin) => {
            let function = known.function(&builtin.function);
            if function.is_none() {
                let names = known.functions();
                let fix = match nearest(&builtin.function, names.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "name a function that this build has, or choose another kind of runner".to_owned(),
                };
                let message = format!("there is no builtin function `{}`", shown(&builtin.function));
                findings.push(Finding::error("floor.function", "/runner/function", message, fix));
            }
            own.join(function.unwrap_or(Floor::NOTHING))
        }
        Runner::Composition(composition) => {
            let mut walk =
                Walk { outermost: definition, known, path: vec![definition.name.to_string()], steps: 0, findings };
            own.join(walk.composition(composition))
        }
        Runner::Workflow(workflow) => own.join(of_workflow(definition, workflow, known, findings)),
        Runner::Wasm(wasm) => {
            if let Some(plugins) = known.plugins()
                && plugin_of(wasm, plugins).is_none()
            {
                findings.push(no_plugin(wasm, plugins));
            }
            own
        }
        _ => own,
    }
}

/// What the nodes of a saved workflow do together.
fn of_workflow(
    definition: &Definition,
    runner: &WorkflowRunner,
    known: &dyn Known,
    findings: &mut Vec<Finding>,
) -> Floor {
    let Some(found) = known.workflow(&runner.workflow) else { return Floor::NOTHING };
    let mut refuse = |code: &'static str, at: &str, message: String, fix: &str| {
        findings.push(Finding::error(code, at, message, fix));
    };
    let name = shown(&runner.workflow);
    let Some(held) = found else {
        let fix = "save it first with `toolgate workflow save`, or correct the name";
        refuse("floor.workflow", "/runner/workflow", format!("there is no workflow `{name}`"), fix);
        return Floor::NOTHING;
    };
    if let Some(revision) = runner.revision.filter(|revision| *revision != held.revision) {
        let message =
            format!("revision {revision} of the workflow `{name}` does not hold, revision {} does", held.revision);
        let fix = "leave `revision` out for the one that holds, or save that graph again";
        refuse("floor.workflow", "/runner/revision", message, fix);
    }
    let mut floor = if held.uses.agents { Floor::AGENT } else { Floor::NOTHING };
    for tool in &held.uses.tools {
        let Ok(reference) = tool.parse::<ToolRef>() else { continue };
        if reference.name.folded() == definition.name.folded() {
            let message = format!("the workflow calls the tool that it would be: {name} → {reference}");
            refuse("floor.circle", "/runner/workflow", message, "take the node out, or publish it under another name");
            continue;
        }
        if let Some(way) = flows::way(known, &reference, &runner.workflow, &definition.name) {
            let message = format!("the workflow calls itself: {name} → {way}");
            refuse("floor.circle", "/runner/workflow", message, "take one of the nodes or steps out");
        }
        if let Some(tool) = known.tool(&reference) {
            floor = floor.join(Floor::of_step(tool));
        } else {
            let message = format!("there is no tool `{reference}`, which the workflow `{name}` calls");
            refuse("floor.step", "/runner/workflow", message, "register it first, or save the workflow without it");
        }
    }
    floor
}

fn no_plugin(wasm: &Wasm, plugins: &[Plugin]) -> Finding {
    let name = shown(&wasm.plugin);
    let (pointer, message, fix) = match nearest(&wasm.plugin, plugins.iter().map(|plugin| plugin.name.as_str())) {
        Some(meant) if meant == wasm.plugin => (
            "/runner/digest",
            format!("no version of the plug-in `{name}` that is installed has this digest"),
            "leave `digest` out for the newest, or install the version that you mean".to_owned(),
        ),
        Some(meant) => {
            ("/runner/plugin", format!("the plug-in `{name}` is not installed"), format!("did you mean `{meant}`?"))
        }
        None => (
            "/runner/plugin",
            format!("the plug-in `{name}` is not installed"),
            "install it first with `toolgate plugin install FILE`".to_owned(),
        ),
    };
    Finding::error("floor.plugin", pointer, message, fix)
}

fn compare(definition: &Definition, floor: Floor, findings: &mut Vec<Finding>) {
    let kind = definition.runner.kind();
    let class = definition.class();
    if class < floor.class {
        let said = definition.egress_class.map_or_else(
            || "`egress_class` is not set, which means `none`".to_owned(),
            |said| format!("`egress_class` is `{said}`"),
        );
        let message = format!("{said}, but the `{kind}` runner {} at least `{}`", because(definition), floor.class);
        findings.push(Finding::error(
            "floor.class",
            "/egress_class",
            message,
            format!("write `egress_class: {}`", floor.class),
        ));
    }
    // `write` never goes below `sensitive`, whatever the runner.
    let least = if class.max(floor.class) == EgressClass::Write { floor.risk.max(Risk::Sensitive) } else { floor.risk };
    // A risk that was not written follows the class, also when the class is corrected.
    let risk = definition.risk.unwrap_or_else(|| class.max(floor.class).default_risk());
    if risk < least {
        let message = format!("the risk is `{risk}`, but {} is at least `{least}`", what(definition, class));
        findings.push(Finding::error(
            "floor.risk",
            "/risk",
            message,
            format!("write `risk: {least}`, or leave it out"),
        ));
    }
    let sink = definition.sink.unwrap_or_else(|| definition.runner.sink_floor());
    if sink < floor.sink {
        let message = format!("the sink is `{sink}`, but what the `{kind}` runner does is `{}`", floor.sink);
        findings.push(Finding::error("floor.sink", "/sink", message, format!("write `sink: {}`", floor.sink)));
    }
    if floor.changes_state && !definition.changes_state() {
        let message = format!("the `{kind}` runner changes the tenant's own records, and `changes_state` is not set");
        findings.push(Finding::error(
            "floor.state",
            "/changes_state",
            message,
            "write `changes_state: true`, so that a call is never repeated by itself",
        ));
    }
    if class == EgressClass::Write && definition.changes_state == Some(false) {
        let message = "`changes_state` is false for a tool of class `write`";
        findings.push(Finding::error(
            "floor.state",
            "/changes_state",
            message,
            "leave `changes_state` out: `write` always changes state",
        ));
    }
}

fn because(definition: &Definition) -> &'static str {
    match definition.runner {
        Runner::Http(_) | Runner::Openapi(_) => "with this method is",
        Runner::Sql(_) => "with this statement is",
        Runner::Python(_) | Runner::Wasm(_) => "with these hosts is",
        Runner::Composition(_) => "has a step that is",
        Runner::Workflow(_) => "has a node that is",
        Runner::Builtin(_) => "with this function is",
        _ => "is",
    }
}

fn what(definition: &Definition, class: EgressClass) -> String {
    if class == EgressClass::Write {
        "a tool of class `write`".to_owned()
    } else {
        format!("what the `{}` runner does", definition.runner.kind())
    }
}

struct Walk<'a> {
    outermost: &'a Definition,
    known: &'a dyn Known,
    /// Names from the outermost composition to the one being read.
    path: Vec<String>,
    steps: usize,
    findings: &'a mut Vec<Finding>,
}

impl Walk<'_> {
    fn composition(&mut self, composition: &Composition) -> Floor {
        let mut floor = Floor::NOTHING;
        for (index, step) in composition.steps.iter().enumerate() {
            // Only steps of the definition itself have a place in its file.
            let pointer =
                if self.path.len() == 1 { format!("/runner/steps/{index}/tool") } else { "/runner/steps".to_owned() };
            self.steps += 1;
            if self.steps > COMPOSITION_STEPS_MAX {
                let message = format!("more than {COMPOSITION_STEPS_MAX} steps, counting those of compositions inside");
                self.refuse("floor.steps", pointer, message, "split it into tools that are called apart");
                return floor;
            }
            let reference: ToolRef = match step.tool.parse() {
                Ok(reference) => reference,
                Err(error) => {
                    self.refuse("floor.step", pointer, format!("{error}"), "write `name` or `name@version`");
                    continue;
                }
            };
            floor = floor.join(self.step(&reference, pointer));
        }
        floor
    }

    fn step(&mut self, reference: &ToolRef, pointer: String) -> Floor {
        let itself = reference.name.folded() == self.outermost.name.folded()
            && (reference.version.is_none() || reference.version == self.outermost.version);
        if itself {
            let message = format!("the composition calls itself: {} → {reference}", self.path.join(" → "));
            self.refuse("floor.circle", pointer, message, "take the step out, or call another tool");
            return Floor::NOTHING;
        }
        let Some(tool) = self.known.tool(reference) else {
            let message = match self.path.as_slice() {
                [_] => format!("there is no tool `{reference}`"),
                path => format!("there is no tool `{reference}`, which {} calls", path.join(" → ")),
            };
            self.refuse("floor.step", pointer, message, "register it first, or correct the name");
            return Floor::NOTHING;
        };
        let floor = Floor::of_step(tool);
        let Runner::Composition(inner) = &tool.runner else { return floor };
        let name = reference.to_string();
        if self.path.len() >= COMPOSITION_DEPTH_MAX && !self.path.contains(&name) {
            let message = format!(
                "compositions stand more than {COMPOSITION_DEPTH_MAX} deep: {} → {name}",
                self.path.join(" → ")
            );
            self.refuse("floor.steps", pointer, message, "put the inner steps into the outer one");
            return floor;
        }
        if self.path.contains(&name) {
            let message = format!("compositions call each other: {} → {name}", self.path.join(" → "));
            self.refuse("floor.circle", pointer, message, "take one of the steps out");
            return floor;
        }
        self.path.push(name);
        let inner = self.composition(inner);
        self.path.pop();
        floor.join(inner)
    }

    fn refuse(&mut self, code: &'static str, pointer: String, message: String, fix: &str) {
        self.findings.push(Finding::error(code, pointer, message, fix));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_contracts::json;

    use super::*;

    struct Shelf(Vec<Definition>);

    impl Known for Shelf {
        fn function(&self, name: &str) -> Option<Floor> {
            match name {
                "calculator" => Some(Floor::NOTHING),
                "web_search" => Some(Floor {
                    class: EgressClass::ReadOnly,
                    risk: Risk::Safe,
                    sink: Sink::Open,
                    changes_state: false,
                }),
                "append_note" => Some(Floor { changes_state: true, ..Floor::NOTHING }),
                _ => None,
            }
        }

        fn functions(&self) -> Vec<&str> {
            vec!["calculator", "web_search", "append_note"]
        }

        fn tool(&self, reference: &ToolRef) -> Option<&Definition> {
            self.0.iter().find(|tool| tool.name == reference.name)
        }
    }

    fn definition(name: &str, extra: Value) -> Definition {
        let mut value = json!({"name": name, "description": "x", "input_schema": {"type": "object"}});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json::decode(value).unwrap()
    }

    fn chain(name: &str, steps: &[&str], extra: Value) -> Definition {
        let steps: Vec<_> =
            steps.iter().enumerate().map(|(n, tool)| json!({"id": format!("s{n}"), "tool": tool})).collect();
        let mut definition = definition(name, json!({"runner": {"kind": "composition", "steps": steps}}));
        let mut value = serde_json::to_value(&definition).unwrap();
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        definition = json::decode(value).unwrap();
        definition
    }

    #[track_caller]
    fn check_with(shelf: Vec<Definition>, definition: &Definition, expected: &[&str]) -> Vec<Finding> {
        let findings = check(definition, &Shelf(shelf)).err().unwrap_or_default();
        let codes: Vec<_> = findings.iter().map(|finding| finding.code.as_ref()).collect();
        assert_eq!(codes, expected, "{findings:#?}");
        findings
    }

    #[track_caller]
    fn check_one(extra: Value, expected: &[&str]) {
        check_with(vec![], &definition("doIt", extra), expected);
    }

    #[test]
    fn a_claim_below_the_runner_s_is_refused() {
        let get = json!({"kind": "http", "method": "GET", "url": "https://a.test/"});
        let post = json!({"kind": "http", "method": "POST", "url": "https://a.test/"});
        check_one(json!({"runner": get, "egress_class": "read_only"}), &[]);
        check_one(json!({"runner": get, "egress_class": "read_only", "risk": "safe"}), &[]);
        check_one(json!({"runner": get}), &["floor.class"]);
        check_one(json!({"runner": post, "egress_class": "read_only"}), &["floor.class"]);
        check_one(json!({"runner": post, "egress_class": "write", "risk": "sensitive"}), &[]);
        check_one(json!({"runner": post, "egress_class": "write", "risk": "safe"}), &["floor.risk"]);
        check_one(json!({"runner": post, "egress_class": "write", "sink": "none"}), &["floor.sink"]);
        check_one(json!({"runner": post, "egress_class": "write", "changes_state": false}), &["floor.state"]);
        check_one(
            json!({"runner": {"kind": "external"}, "egress_class": "none", "risk": "safe"}),
            &["floor.class", "floor.risk"],
        );
        check_one(json!({"runner": {"kind": "record", "entity_type": "note"}}), &["floor.state"]);
        check_one(json!({"runner": {"kind": "record", "entity_type": "note"}, "changes_state": true}), &[]);
        check_one(json!({"runner": {"kind": "expression", "cel": "1"}}), &[]);
    }

    #[test]
    fn a_function_says_what_it_does() {
        check_one(json!({"runner": {"kind": "builtin", "function": "calculator"}}), &[]);
        check_one(
            json!({"runner": {"kind": "builtin", "function": "web_search"}, "egress_class": "read_only", "sink": "open"}),
            &[],
        );
        check_one(json!({"runner": {"kind": "builtin", "function": "web_search"}}), &["floor.class", "floor.sink"]);
        check_one(json!({"runner": {"kind": "builtin", "function": "append_note"}}), &["floor.state"]);
        let findings = check_with(
            vec![],
            &definition("x", json!({"runner": {"kind": "builtin", "function": "calculater"}})),
            &["floor.function"],
        );
        assert_eq!(findings[0].fix, "did you mean `calculator`?");
    }

    #[test]
    fn a_composition_is_as_strong_as_its_strongest_step() {
        let read = definition(
            "readIt",
            json!({"runner": {"kind": "http", "method": "GET", "url": "https://a.test/"}, "egress_class": "read_only"}),
        );
        let send = definition("sendIt", json!({"runner": {"kind": "external"}, "egress_class": "write"}));
        let shelf = vec![read, send, chain("inner", &["sendIt"], json!({"egress_class": "write", "sink": "open"}))];
        let strong = json!({"egress_class": "write", "sink": "open"});
        check_with(shelf.clone(), &chain("both", &["readIt", "sendIt"], strong.clone()), &[]);
        check_with(
            shelf.clone(),
            &chain("both", &["readIt", "sendIt"], json!({"egress_class": "read_only", "sink": "open"})),
            &["floor.class", "floor.state"],
        );
        check_with(
            shelf.clone(),
            &chain(
                "outer",
                &["inner"],
                json!({"egress_class": "read_only", "changes_state": true, "risk": "sensitive"}),
            ),
            &["floor.class", "floor.risk", "floor.sink"],
        );
        check_with(shelf, &chain("outer", &["inner"], strong), &[]);
    }

    #[test]
    fn circles_and_missing_steps_are_named_by_their_path() {
        let a = chain("a", &["b"], json!({}));
        let b = chain("b", &["c", "gone"], json!({}));
        let c = chain("c", &["a"], json!({}));
        let findings = check_with(vec![a.clone(), b.clone(), c], &a, &["floor.circle", "floor.step"]);
        assert_eq!(findings[0].message, "the composition calls itself: a → b → c → a");
        assert_eq!(findings[1].message, "there is no tool `gone`, which a → b calls");
        let findings = check_with(
            vec![chain("d", &["e"], json!({})), chain("e", &["d"], json!({}))],
            &chain("x", &["d"], json!({})),
            &["floor.circle"],
        );
        assert_eq!(findings[0].message, "compositions call each other: x → d → e → d");
        check_with(vec![], &chain("x", &["not a name", "X"], json!({})), &["floor.step", "floor.circle"]);
        check_with(vec![], &chain("x", &["calculator@1"], json!({})), &["floor.step"]);
    }

    #[test]
    fn compositions_do_not_multiply_without_end() {
        let level = |n: usize| chain(&format!("c{n}"), &[&*format!("c{}", n + 1); 10], json!({}));
        let shelf: Vec<_> = (1..12)
            .map(level)
            .chain([definition("c12", json!({"runner": {"kind": "expression", "cel": "1"}}))])
            .collect();
        let findings = check(&level(0), &Shelf(shelf)).unwrap_err();
        assert!(findings.iter().all(|finding| finding.code == "floor.steps"), "{findings:#?}");
        assert!(findings.len() < 50);
    }
}
