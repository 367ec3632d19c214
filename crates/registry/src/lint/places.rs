//! What a runner's own texts say: addresses with places, templates and expressions, each read as its runner will read
//! it. What cannot be read is refused here, so that no call finds out.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_contracts::definition::Definition;
use toolgate_contracts::json::escape;
use toolgate_contracts::runner::{Composition, Http, Method, Runner};
use toolgate_egress::Template;
use toolgate_expression::{Expression, Text};

use crate::finding::{Finding, nearest, shown};

pub(super) fn check(definition: &Definition, findings: &mut Vec<Finding>) {
    let mut places = Places { arguments: arguments(definition), findings };
    match &definition.runner {
        Runner::Http(http) => places.request(http),
        Runner::Expression(expression) => places.expression("/runner/cel", &expression.cel),
        Runner::Composition(Composition { output: Some(output), .. }) => places.expression("/runner/output", output),
        Runner::Prompt(prompt) => places.text("/runner/template", &prompt.template),
        _ => {}
    }
}

/// The members of the input, where the schema says which there are.
fn arguments(definition: &Definition) -> Option<BTreeSet<String>> {
    let schema = &definition.input_schema;
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = schema.get("properties").and_then(Value::as_object)?;
    closed.then(|| properties.keys().cloned().collect())
}

struct Places<'a> {
    arguments: Option<BTreeSet<String>>,
    findings: &'a mut Vec<Finding>,
}

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
        if let Some(response) = &http.response {
            self.expression("/runner/response", response);
        }
    }

    fn body(&mut self, pointer: &str, body: &Value) {
        match body {
            Value::String(text) => self.text(pointer, text),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.body(&format!("{pointer}/{index}"), item);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.body(&format!("{pointer}/{}", escape(name)), member);
                }
            }
            _ => {}
        }
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

    fn expression(&mut self, pointer: &str, cel: &str) {
        if let Err(error) = Expression::parse(cel) {
            let fix = "write one CEL expression, such as `{'total': input.price * input.count}`";
            self.findings.push(Finding::error("runner.expression", pointer, error.to_string(), fix));
        }
    }

    /// A place that no argument can fill.
    fn named<'n>(&mut self, pointer: &str, names: impl Iterator<Item = &'n str>) {
        let Some(arguments) = &self.arguments else { return };
        for name in names {
            let first = name.split('.').next().unwrap_or(name);
            if arguments.contains(name) || arguments.contains(first) {
                continue;
            }
            let message = format!("there is no argument `{}` to fill this place", shown(first));
            let fix = match nearest(first, arguments.iter().map(String::as_str)) {
                None => "add it to `input_schema`, or remove the place".to_owned(),
                Some(near) => format!("did you mean `{near}`?"),
            };
            self.findings.push(Finding::error("runner.place", pointer, message, fix));
        }
    }
}
