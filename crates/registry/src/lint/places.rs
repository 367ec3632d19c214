//! What a runner's own texts say: addresses with places, templates and expressions, each read as its runner will read
//! it. What cannot be read is refused here, so that no call finds out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toolgate_contracts::definition::Definition;
use toolgate_contracts::json::escape;
use toolgate_contracts::runner::{
    Http, HttpAuth, Method, Openapi, OperationParameter, ParameterPlace, ParameterStyle, Runner, Sql,
};
use toolgate_contracts::sql::judge::{Refusal, judge_anywhere};
use toolgate_egress::Template;
use toolgate_expression::{Expression, Text};

use super::steps::{Missing, members, missing};
use crate::finding::{Finding, nearest, shown};
use crate::floor::Known;

pub(super) fn check(definition: &Definition, known: Option<&dyn Known>, findings: &mut Vec<Finding>) {
    let mut places = Places { input: &definition.input_schema, findings };
    match &definition.runner {
        Runner::Http(http) => places.request(http),
        Runner::Openapi(operation) => places.operation(operation),
        Runner::Expression(expression) => places.expression("/runner/cel", &expression.cel, &INPUT),
        Runner::Composition(composition) => places.composition(composition, known),
        Runner::Prompt(prompt) => {
            places.text("/runner/template", &prompt.template);
            if let Some(agent) = &prompt.agent {
                places.text("/runner/agent", agent);
            }
            if let Some(skill) = &prompt.skill {
                places.skill(skill, known);
            }
        }
        Runner::Task(task) => {
            places.text("/runner/task", &task.task);
            if let Some(agent) = &task.agent {
                places.text("/runner/agent", agent);
            }
        }
        Runner::Sql(sql) => places.statement(sql),
        _ => {}
    }
}

/// Every text in a value, with its place.
pub(super) fn each_text(pointer: &str, value: &Value, look: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => look(pointer, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_text(&format!("{pointer}/{index}"), item, look);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                each_text(&format!("{pointer}/{}", escape(name)), member, look);
            }
        }
        _ => {}
    }
}

pub(super) struct Places<'a> {
    /// The schema of the tool's input.
    pub(super) input: &'a Value,
    pub(super) findings: &'a mut Vec<Finding>,
}

/// What an expression may ask for by name.
pub(super) struct Names<'a> {
    pub roots: &'static [&'static str],
    /// Each step of a composition, with the schema of its output.
    pub steps: Option<&'a BTreeMap<&'a str, Option<&'a Value>>>,
}

const INPUT: Names<'_> = Names { roots: &["input"], steps: None };
const RESPONSE: Names<'_> = Names { roots: &["status", "headers", "body", "input"], steps: None };

impl Places<'_> {
    fn request(&mut self, http: &Http) {
        // Another scheme is told elsewhere, in fewer words.
        if http.url.starts_with("https://") || http.url.starts_with("http://") {
            match Template::parse(&http.url) {
                Ok(template) => self.named("/runner/url", template.values()),
                Err(error) => {
                    let fix = "write scheme, host and port out, and each place behind them as `{name}`";
                    self.findings.push(Finding::error("runner.url", "/runner/url", error.to_string(), fix));
                }
            }
        }
        for (name, text) in &http.query {
            self.text(&format!("/runner/query/{}", escape(name)), text);
        }
        for (name, text) in &http.headers {
            self.text(&format!("/runner/headers/{}", escape(name)), text);
        }
        if let Some(body) = &http.body {
            self.body("/runner/body", body);
        }
        if http.pagination.is_some() && http.method != Method::Get {
            let message = format!("pages are asked for with GET; with {} each page would act again", http.method);
            self.findings.push(Finding::error("runner.pages", "/runner/pagination", message, "remove `pagination`"));
        }
        self.credential(http.auth.as_ref());
        if let Some(response) = &http.response {
            self.expression("/runner/response", response, &RESPONSE);
        }
    }

    fn operation(&mut self, operation: &Openapi) {
        let template = match Template::parse(&format!("{}{}", operation.server, operation.path)) {
            Ok(template) => template,
            Err(error) => {
                let fix = "write scheme, host and port as `server`, and each place of `path` as `{name}`";
                return self.findings.push(Finding::error("runner.url", "/runner/server", error.to_string(), fix));
            }
        };
        self.credential(operation.auth.as_ref());
        let mut filled = BTreeSet::new();
        for (index, parameter) in operation.parameters.iter().enumerate() {
            let pointer = format!("/runner/parameters/{index}");
            self.parameter(parameter, &pointer);
            self.named(&pointer, std::iter::once(parameter.argument()));
            if parameter.place == ParameterPlace::Path {
                filled.insert(parameter.name.as_str());
            }
        }
        for name in template.values().filter(|name| !filled.contains(name)) {
            let message = format!("no parameter in the path is called `{}`", shown(name));
            self.findings.push(Finding::error("runner.place", "/runner/path", message, "add it to `parameters`"));
        }
        if let Some(body) = &operation.body {
            let said = usize::from(body.argument.is_some()) + usize::from(!body.members.is_empty());
            if said != 1 {
                let message = "the body is neither one `argument` nor some `members`, or both";
                let fix = "write the one or the other";
                self.findings.push(Finding::error("runner.body", "/runner/body", message, fix));
            }
            let is_multipart = body.content_type.starts_with("multipart/form-data");
            if !is_multipart && !body.files.is_empty() {
                let message = format!("`{}` has no files", shown(&body.content_type));
                let fix = "write `content_type: multipart/form-data`, or leave `files` out";
                self.findings.push(Finding::error("runner.body", "/runner/body/files", message, fix));
            }
            self.named("/runner/body", body.argument.iter().chain(&body.members).map(String::as_str));
        }
    }

    fn credential(&mut self, auth: Option<&HttpAuth>) {
        let Some(header) = auth.and_then(|auth| auth.header.as_deref()) else { return };
        if let Err(error) = toolgate_egress::header(header, "") {
            let fix = "name the header that the other side reads the credential from";
            self.findings.push(Finding::error("runner.auth", "/runner/auth/header", error.to_string(), fix));
        }
    }

    fn parameter(&mut self, parameter: &OperationParameter, pointer: &str) {
        let (style, place) = (parameter.effective_style(), parameter.place);
        let fits = match style {
            ParameterStyle::Json => true,
            ParameterStyle::Simple => place != ParameterPlace::Query,
            ParameterStyle::Label | ParameterStyle::Matrix => place == ParameterPlace::Path,
            ParameterStyle::Form
            | ParameterStyle::SpaceDelimited
            | ParameterStyle::PipeDelimited
            | ParameterStyle::DeepObject => place == ParameterPlace::Query,
        };
        if !fits {
            let message = format!("the style `{style}` has no meaning in a {place}");
            let fix = "leave `style` out, or choose another";
            self.findings.push(Finding::error("runner.parameter", format!("{pointer}/style"), message, fix));
        }
        if place == ParameterPlace::Header
            && let Err(error) = toolgate_egress::header(&parameter.name, "")
        {
            let fix = "leave it out";
            self.findings.push(Finding::error("runner.parameter", format!("{pointer}/name"), error.to_string(), fix));
        }
    }

    fn skill(&mut self, name: &str, known: Option<&dyn Known>) {
        if known.and_then(|known| known.has_skill(name)) == Some(false) {
            let message = format!("there is no skill `{}`", shown(name));
            let fix = "add it first with `toolgate skill add`";
            self.findings.push(Finding::error("runner.skill", "/runner/skill", message, fix));
        }
    }

    fn body(&mut self, pointer: &str, body: &Value) {
        each_text(pointer, body, &mut |pointer, text| self.text(pointer, text));
    }

    fn text(&mut self, pointer: &str, text: &str) {
        match Text::parse(text) {
            Ok(text) => self.named(pointer, text.variables().iter().map(String::as_str)),
            Err(error) => {
                let fix = "write a place as `{{ name }}`";
                self.findings.push(Finding::error("runner.template", pointer, error.to_string(), fix));
            }
        }
    }

    pub(super) fn expression(&mut self, pointer: &str, cel: &str, names: &Names<'_>) {
        let expression = match Expression::parse(cel) {
            Ok(expression) => expression,
            Err(error) => {
                let fix = "write one CEL expression, such as `{'total': input.price * input.count}`";
                return self.findings.push(Finding::error("runner.expression", pointer, error.to_string(), fix));
            }
        };
        for path in expression.paths() {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            match (path.as_slice(), names.steps) {
                (["input", within @ ..], _) => self.argument(pointer, within),
                (["steps", id, within @ ..], Some(steps)) => self.output_of(pointer, id, within, steps),
                ([root, ..], _) if names.roots.contains(root) => {}
                (path, _) => {
                    let message = format!("there is no `{}` here", shown(path.first().unwrap_or(&"")));
                    let fix = format!("ask for `{}`; a text stands in quotes", names.roots.join("`, `"));
                    self.findings.push(Finding::error("runner.name", pointer, message, fix));
                }
            }
        }
        for function in expression.unknown_functions() {
            let message = format!("there is no function `{}` for these arguments in CEL", shown(function));
            let fix = "use those that `docs/runners.md` lists";
            self.findings.push(Finding::error("runner.name", pointer, message, fix));
        }
    }

    /// What no database would be sent. Which database it is for is not known here.
    fn statement(&mut self, sql: &Sql) {
        for (index, name) in sql.parameters.iter().enumerate() {
            let pointer = format!("/runner/parameters/{index}");
            if name.contains('.') {
                let message = format!("`{}` is not the name of an argument", shown(name));
                let fix = "name a member of the input, not what is inside it";
                self.findings.push(Finding::error("runner.place", pointer, message, fix));
            } else {
                self.named(&pointer, std::iter::once(name.as_str()));
            }
        }
        match judge_anywhere(&sql.statement) {
            // Told elsewhere, in fewer words.
            Err(Refusal::Empty) => {}
            Err(refusal) => {
                let fix = "write one query or one change of rows, with `$1`, `$2` for the parameters";
                self.findings.push(Finding::error("runner.statement", "/runner/statement", refusal.to_string(), fix));
            }
            Ok(Some(takes)) if takes != sql.parameters.len() => {
                let given = sql.parameters.len();
                let message = format!("the statement takes {takes} parameters, and `parameters` names {given}");
                let fix = "name one argument for each `$n`, in their order";
                self.findings.push(Finding::error("runner.parameters", "/runner/parameters", message, fix));
            }
            Ok(_) => {}
        }
    }

    /// Places that no argument can fill.
    fn named<'n>(&mut self, pointer: &str, names: impl Iterator<Item = &'n str>) {
        for name in names {
            // A parameter's name may hold dots of its own.
            if members(self.input).is_some_and(|arguments| arguments.contains(name)) {
                continue;
            }
            self.argument(pointer, &name.split('.').take(1).collect::<Vec<_>>());
        }
    }

    /// What no argument has.
    pub(super) fn argument(&mut self, pointer: &str, path: &[&str]) {
        let Some(Missing { name, has }) = missing(self.input, path) else { return };
        let name = shown(name);
        let message = match path {
            [_] => format!("there is no argument `{name}` to fill this place"),
            path => format!("there is no `{name}` in the arguments to fill `{}`", shown(&path.join("."))),
        };
        let fix = match nearest(&name, has.iter().map(String::as_str)) {
            None => "add it to `input_schema`, or remove the place".to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
        };
        self.findings.push(Finding::error("runner.place", pointer, message, fix));
    }
}
