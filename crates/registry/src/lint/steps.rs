//! Steps of a composition beside the tools that they call: what a tool does not take, what it needs and is not given, and
//! what its output does not have. Only what is surely wrong is told; a schema that leaves a thing open is taken at its word.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toolgate_contracts::definition::Definition;
use toolgate_contracts::json::escape;
use toolgate_contracts::name::ToolRef;
use toolgate_contracts::runner::{Composition, CompositionStep};
use toolgate_expression::Text;

use super::places::{Names, Places, each_text};
use crate::finding::{Finding, nearest, shown};
use crate::floor::Known;

/// References that are followed, one after another.
const REFS_MAX: usize = 16;

impl Places<'_> {
    pub(super) fn composition(&mut self, composition: &Composition, known: Option<&dyn Known>) {
        let tools: Vec<Option<&Definition>> = composition.steps.iter().map(|step| tool_of(step, known)).collect();
        let outputs: BTreeMap<&str, Option<&Value>> = composition
            .steps
            .iter()
            .zip(&tools)
            .map(|(step, tool)| (step.id.as_str(), tool.and_then(|tool| tool.output_schema.as_ref())))
            .collect();
        // The steps that have surely ended when each begins.
        let mut before: Vec<BTreeSet<&str>> = Vec::with_capacity(composition.steps.len());
        for (index, (step, tool)) in composition.steps.iter().zip(&tools).enumerate() {
            let waits_for: Vec<usize> = match &step.after {
                None => index.checked_sub(1).into_iter().collect(),
                Some(after) => {
                    let earlier = &composition.steps[..index];
                    after.iter().filter_map(|id| earlier.iter().position(|step| step.id == *id)).collect()
                }
            };
            let mut ended = BTreeSet::new();
            for earlier in waits_for {
                ended.extend(before[earlier].iter().copied());
                ended.insert(composition.steps[earlier].id.as_str());
            }
            let pointer = format!("/runner/steps/{index}/input");
            if let Some(tool) = tool {
                self.taken(&pointer, step, tool);
            }
            for (name, value) in &step.input {
                self.step_input(&format!("{pointer}/{}", escape(name)), value, &ended, &outputs);
            }
            before.push(ended);
        }
        if let Some(output) = &composition.output {
            self.expression("/runner/output", output, &Names { roots: &["input", "steps"], steps: Some(&outputs) });
        }
    }

    /// The members of a step's input beside those of the tool's.
    fn taken(&mut self, pointer: &str, step: &CompositionStep, tool: &Definition) {
        let schema = &tool.input_schema;
        let (id, called) = (shown(&step.id), &tool.name);
        for name in step.input.keys() {
            let Some(members) = members(schema).filter(|members| !members.contains(name.as_str())) else { continue };
            let message = format!("`{called}` takes no `{}`, which the step `{id}` gives it", shown(name));
            let fix = match nearest(name, members.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("give it what `toolgate tool show {called}` lists"),
            };
            self.findings.push(Finding::error(
                "composition.input",
                format!("{pointer}/{}", escape(name)),
                message,
                fix,
            ));
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            if step.input.contains_key(name) || property.is_some_and(|property| property.get("default").is_some()) {
                continue;
            }
            let name = shown(name);
            let message = format!("`{called}` needs `{name}`, which the step `{id}` does not give it");
            let fix = format!("add `{name}` to the step's `input`");
            self.findings.push(Finding::error("composition.input", pointer, message, fix));
        }
    }

    fn step_input(
        &mut self,
        pointer: &str,
        value: &Value,
        ended: &BTreeSet<&str>,
        outputs: &BTreeMap<&str, Option<&Value>>,
    ) {
        each_text(pointer, value, &mut |pointer, text| match Text::parse(text) {
            Ok(text) => {
                for path in text.paths() {
                    let parts: Vec<&str> = path.split('.').collect();
                    self.step_place(pointer, &parts, ended, outputs);
                }
            }
            Err(error) => {
                let fix = "write a place as `{{ input.name }}` or `{{ steps.id.name }}`";
                self.findings.push(Finding::error("runner.template", pointer, error.to_string(), fix));
            }
        });
    }

    fn step_place(
        &mut self,
        pointer: &str,
        path: &[&str],
        ended: &BTreeSet<&str>,
        outputs: &BTreeMap<&str, Option<&Value>>,
    ) {
        match path {
            ["input" | "steps"] => {}
            ["input", within @ ..] => self.argument(pointer, within),
            ["steps", id, within @ ..] if ended.contains(id) => self.output_of(pointer, id, within, outputs),
            ["steps", id, ..] => {
                let message = format!("the step `{}` has not surely ended before this one begins", shown(id));
                let fix = "name it in `after`, or name another step";
                self.findings.push(Finding::error("composition.reference", pointer, message, fix));
            }
            path => {
                let message = format!("there is no `{}` here", shown(path.first().unwrap_or(&"")));
                let fix = "write `{{ input.name }}` for an argument, `{{ steps.id.name }}` for a step's output";
                self.findings.push(Finding::error("composition.reference", pointer, message, fix));
            }
        }
    }

    /// What is asked for in the output of a step that has ended.
    pub(super) fn output_of(
        &mut self,
        pointer: &str,
        id: &str,
        within: &[&str],
        outputs: &BTreeMap<&str, Option<&Value>>,
    ) {
        let (message, fix) = match outputs.get(id) {
            None => {
                let fix = match nearest(id, outputs.keys().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name one of the steps".to_owned(),
                };
                (format!("there is no step `{}`", shown(id)), fix)
            }
            Some(None) => return,
            Some(Some(schema)) => match missing(schema, within) {
                None => return,
                Some(Missing { name, has }) => {
                    let fix = match nearest(name, has.iter().map(String::as_str)) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None if has.is_empty() => "leave off what is behind it".to_owned(),
                        None => format!("there is `{}`", has.iter().cloned().collect::<Vec<_>>().join("`, `")),
                    };
                    (format!("the output of the step `{}` has no `{}`", shown(id), shown(name)), fix)
                }
            },
        };
        self.findings.push(Finding::error("composition.reference", pointer, message, fix));
    }
}

fn tool_of<'k>(step: &CompositionStep, known: Option<&'k dyn Known>) -> Option<&'k Definition> {
    known?.tool(&step.tool.parse::<ToolRef>().ok()?)
}

/// What a value of a schema surely does not have.
pub(super) struct Missing<'p> {
    pub name: &'p str,
    /// What it has instead.
    pub has: BTreeSet<String>,
}

/// The first part of a path that no value of this schema has.
pub(super) fn missing<'p>(root: &Value, path: &[&'p str]) -> Option<Missing<'p>> {
    const SCALARS: [&str; 5] = ["string", "number", "integer", "boolean", "null"];
    let mut schema = root;
    for name in path {
        schema = target(root, schema)?;
        let kind = schema.get("type").and_then(Value::as_str);
        if kind.is_some_and(|kind| SCALARS.contains(&kind)) {
            return Some(Missing { name, has: BTreeSet::new() });
        }
        let members = members(schema)?;
        if !members.contains(name) {
            return Some(Missing { name, has: members.into_iter().map(str::to_owned).collect() });
        }
        schema = schema.get("properties").and_then(|properties| properties.get(*name))?;
    }
    None
}

/// Which members there can be, where the schema says which.
pub(super) fn members(schema: &Value) -> Option<BTreeSet<&str>> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    (closed && schema.get("patternProperties").is_none()).then(|| properties.keys().map(String::as_str).collect())
}

/// What a reference leads to; `None` where that is not the whole of it.
fn target<'s>(root: &'s Value, mut schema: &'s Value) -> Option<&'s Value> {
    for _ in 0..REFS_MAX {
        let Some(reference) = schema.get("$ref") else { return Some(schema) };
        let pointer = reference.as_str()?.strip_prefix('#')?;
        schema = root.pointer(pointer)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contracts::json;

    use super::*;
    use crate::floor::Floor;
    use crate::lint::refusals;

    struct Shelf(Vec<Definition>);

    impl Known for Shelf {
        fn function(&self, _: &str) -> Option<Floor> {
            None
        }

        fn functions(&self) -> Vec<&str> {
            Vec::new()
        }

        fn tool(&self, reference: &ToolRef) -> Option<&Definition> {
            self.0.iter().find(|tool| tool.name == reference.name)
        }
    }

    fn definition(name: &str, runner: Value, output: Value) -> Definition {
        json::decode(json!({
            "name": name, "version": "1.0.0", "description": "x", "runner": runner, "output_schema": output,
            "input_schema": {
                "type": "object", "additionalProperties": false, "required": ["text"],
                "properties": {
                    "text": {"type": "string"}, "count": {"type": "integer", "default": 1},
                    "user": {"$ref": "#/$defs/user"},
                },
                "$defs": {"user": {"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}}}},
            },
        }))
        .unwrap()
    }

    /// Each finding as `code pointer: message (fix)`.
    fn told(steps: Value, output: Option<&str>) -> Vec<String> {
        let plain = json!({"kind": "expression", "cel": "input"});
        let closed = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "result": {"type": "number"}, "page": {"$ref": "#/$defs/page"}, "open": {"type": "object"},
            },
            "$defs": {"page": {"type": "object", "additionalProperties": false, "properties": {"items": {"type": "array"}}}},
        });
        let shelf = Shelf(vec![
            definition("sum", plain.clone(), closed),
            definition("loose", plain, json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        ]);
        let mut runner = json!({"kind": "composition", "steps": steps});
        if let Some(output) = output {
            runner["output"] = output.into();
        }
        let composed = definition("composed", runner, json!({"type": "object"}));
        let findings = refusals(&composed, Some(&shelf));
        findings
            .iter()
            .map(|finding| format!("{} {}: {} ({})", finding.code, finding.pointer, finding.message, finding.fix))
            .collect()
    }

    #[test]
    fn a_step_gives_its_tool_what_it_takes() {
        let check = |input: Value, expected: &[&str]| {
            assert_eq!(told(json!([{"id": "a", "tool": "sum", "input": input}]), None), expected);
        };
        check(json!({"text": "{{ input.text }}", "count": 2}), &[]);
        check(
            json!({"txet": "{{ input.text }}"}),
            &[
                "composition.input /runner/steps/0/input/txet: `sum` takes no `txet`, which the step `a` gives it (did you mean `text`?)",
                "composition.input /runner/steps/0/input: `sum` needs `text`, which the step `a` does not give it (add `text` to the step's `input`)",
            ],
        );
        check(
            json!({"text": "x", "else": 1}),
            &[
                "composition.input /runner/steps/0/input/else: `sum` takes no `else`, which the step `a` gives it (give it what `toolgate tool show sum` lists)",
            ],
        );
    }

    #[test]
    fn a_place_asks_for_what_a_step_answers() {
        let check = |tool: &str, place: &str, expected: &[&str]| {
            let steps = json!([
                {"id": "a", "tool": tool, "input": {"text": "x"}},
                {"id": "b", "tool": "loose", "input": {"text": format!("{{{{ {place} }}}}")}},
            ]);
            assert_eq!(told(steps.clone(), None), expected, "{place}");
            // The same in the expression that makes the output.
            let steps = json!([steps[0]]);
            let told = told(steps, Some(place));
            let expected: Vec<String> =
                expected.iter().map(|told| told.replace("/runner/steps/1/input/text", "/runner/output")).collect();
            assert_eq!(told, expected, "{place}");
        };
        for place in [
            "steps.a",
            "steps.a.result",
            "steps.a.page.items",
            "steps.a.open.anything.at.all",
            "input.user.name",
            "input.count",
        ] {
            check("sum", place, &[]);
        }
        check("loose", "steps.a.nope.at.all", &[]);
        for (place, message) in [
            (
                "steps.a.reslut",
                "composition.reference AT: the output of the step `a` has no `reslut` (did you mean `result`?)",
            ),
            (
                "steps.a.other",
                "composition.reference AT: the output of the step `a` has no `other` (there is `open`, `page`, `result`)",
            ),
            (
                "steps.a.page.itmes",
                "composition.reference AT: the output of the step `a` has no `itmes` (did you mean `items`?)",
            ),
            (
                "steps.a.result.value",
                "composition.reference AT: the output of the step `a` has no `value` (leave off what is behind it)",
            ),
            ("input.cuont", "runner.place AT: there is no argument `cuont` to fill this place (did you mean `count`?)"),
            (
                "input.user.nmae",
                "runner.place AT: there is no `nmae` in the arguments to fill `user.nmae` (did you mean `name`?)",
            ),
        ] {
            check("sum", place, &[&message.replace("AT", "/runner/steps/1/input/text")]);
        }
    }

    #[test]
    fn an_expression_asks_for_what_there_is() {
        let steps = || json!([{"id": "first", "tool": "sum", "input": {"text": "x"}}]);
        let check = |output: &str, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|told| told.replace("AT", "/runner/output")).collect();
            assert_eq!(told(steps(), Some(output)), expected, "{output}");
        };
        check("steps.map(id, id).size() > 0 && has(input.user) ? steps.first : {'type': int}", &[]);
        check("steps.fist.result", &["composition.reference AT: there is no step `fist` (did you mean `first`?)"]);
        check(
            "result",
            &["runner.name AT: there is no `result` here (ask for `input`, `steps`; a text stands in quotes)"],
        );
        check(
            "round(steps.first.result)",
            &[
                "runner.name AT: there is no function `round` for these arguments in CEL (use those that `docs/runners.md` lists)",
            ],
        );
        let plain = |cel: &str| {
            let runner = json!({"kind": "expression", "cel": cel});
            let findings = refusals(&definition("plain", runner, json!({"type": "object"})), None);
            findings.iter().map(|finding| finding.code.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(plain("input.text + string(input.count)"), [""; 0]);
        assert_eq!(plain("input.txt"), ["runner.place"]);
        assert_eq!(plain("text"), ["runner.name"]);
        assert_eq!(plain("steps.a"), ["runner.name"]);
        assert_eq!(plain("body"), ["runner.name"]);
    }
}
