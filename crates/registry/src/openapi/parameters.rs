//! The parameters of an operation: where each goes, how it is written, and which argument fills it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_contracts::runner::{OperationParameter, ParameterPlace, ParameterStyle};

use super::document::{Document, Part};
use super::prose;
use super::schema::Schemas;
use crate::finding::{Finding, shown};

const ARGUMENT_CHARS_MAX: usize = 64;
const PROSE_CHARS_MAX: usize = 1_000;
/// What OpenAPI describes elsewhere, and a parameter of that name is ignored.
const ELSEWHERE: [&str; 3] = ["accept", "content-type", "authorization"];

/// What a call gives, as it is gathered.
#[derive(Default)]
pub(super) struct Arguments {
    pub properties: Map<String, Value>,
    pub required: Vec<String>,
}

impl Arguments {
    /// A name that is free, as near to the wanted one as model providers take it.
    pub fn free(&self, wanted: &str, otherwise: &str) -> String {
        let plain: String = wanted
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
            .take(ARGUMENT_CHARS_MAX - 8)
            .collect();
        let plain = plain.trim_matches('_').to_owned();
        let plain = if plain.is_empty() { otherwise.to_owned() } else { plain };
        let others = std::iter::once(format!("{plain}_{otherwise}"));
        let numbered = (2..).map(|number| format!("{plain}_{number}"));
        std::iter::once(plain.clone())
            .chain(others)
            .chain(numbered)
            .find(|name| !self.properties.contains_key(name))
            .unwrap_or(plain)
    }

    pub fn add(&mut self, name: &str, schema: Value, required: bool) {
        self.properties.insert(name.to_owned(), schema);
        if required {
            self.required.push(name.to_owned());
        }
    }
}

/// The operation's own parameters, and those of its path that it does not replace.
fn declared<'d>(document: &'d Document, path: &Part<'d>, operation: &Part<'d>) -> Result<Vec<Part<'d>>, Finding> {
    let mut found: Vec<Part<'d>> = Vec::new();
    for part in [path, operation] {
        let Some(list) = part.member("parameters") else { continue };
        for parameter in list.items() {
            let parameter = document.resolved(&parameter)?;
            let same = |other: &Part<'_>| {
                other.text("name") == parameter.text("name") && other.text("in") == parameter.text("in")
            };
            match found.iter().position(same) {
                Some(place) => found[place] = parameter,
                None => found.push(parameter),
            }
        }
    }
    Ok(found)
}

/// Reads the parameters into `arguments`; answers them and the path, with each place named by its argument.
pub(super) fn read<'d>(
    document: &'d Document,
    template: &str,
    path: &Part<'d>,
    operation: &Part<'d>,
    schemas: &mut Schemas<'d>,
    arguments: &mut Arguments,
    findings: &mut Vec<Finding>,
) -> Result<(Vec<OperationParameter>, String), Finding> {
    let mut parameters = Vec::new();
    let mut places = places(template, path)?;
    for part in declared(document, path, operation)? {
        let required = part.flag("required") || part.text("in") == Some("path");
        let read = parameter(&part, schemas, arguments, &places);
        match read {
            Ok(Some((parameter, schema))) => {
                let argument = parameter.argument().to_owned();
                if parameter.place == ParameterPlace::Path {
                    places.iter_mut().filter(|place| place.name == parameter.name).for_each(|place| {
                        place.argument = Some(argument.clone());
                    });
                }
                arguments.add(&argument, schema, required);
                // In a path the place has the argument's name.
                parameters.push(match parameter.place {
                    ParameterPlace::Path => OperationParameter { name: argument, argument: None, ..parameter },
                    _ => parameter,
                });
            }
            Ok(None) => {}
            Err(finding) if required => return Err(finding),
            Err(mut finding) => {
                // The operation works without it.
                finding.severity = crate::Severity::Warning;
                "the parameter is left out".clone_into(&mut finding.fix);
                findings.push(finding);
            }
        }
    }
    let unfilled: BTreeSet<String> =
        places.iter().filter(|place| place.argument.is_none()).map(|place| place.name.clone()).collect();
    for name in unfilled {
        let message = format!("the path has a place `{{{}}}` that no parameter describes", shown(&name));
        let fix = "it is taken for text that has to be given; describe it among the `parameters`";
        findings.push(Finding::warning("openapi.place", path.pointer.clone(), message, fix));
        let argument = arguments.free(&name, "path");
        arguments.add(&argument, json!({"type": "string"}), true);
        let (name_, place) = (argument.clone(), ParameterPlace::Path);
        parameters.push(OperationParameter { name: name_, place, argument: None, style: None, explode: None });
        places.iter_mut().filter(|place| place.name == name).for_each(|place| place.argument = Some(argument.clone()));
    }
    Ok((parameters, rewritten(template, &places)))
}

struct Place {
    name: String,
    argument: Option<String>,
}

fn places(template: &str, path: &Part<'_>) -> Result<Vec<Place>, Finding> {
    let mut places = Vec::new();
    let mut rest = template;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            let message = format!("the path `{}` has a place that is not closed", shown(template));
            return Err(Finding::error("openapi.place", path.pointer.clone(), message, "close it with `}`"));
        };
        places.push(Place { name: name.to_owned(), argument: None });
        rest = after;
    }
    Ok(places)
}

fn rewritten(template: &str, places: &[Place]) -> String {
    let mut path = String::new();
    let mut rest = template;
    for place in places {
        let Some((before, after)) = rest.split_once('{') else { break };
        path.push_str(before);
        path.push('{');
        path.push_str(place.argument.as_deref().unwrap_or(&place.name));
        path.push('}');
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    path + rest
}

/// `None` for what is left out without a word, as OpenAPI says.
fn parameter<'d>(
    part: &Part<'d>,
    schemas: &mut Schemas<'d>,
    arguments: &Arguments,
    places: &[Place],
) -> Result<Option<(OperationParameter, Value)>, Finding> {
    let refused =
        |code: &'static str, message: String, fix: &str| Err(Finding::error(code, part.pointer.clone(), message, fix));
    let name = part.text("name").unwrap_or_default();
    let shown_name = shown(name);
    let place = match part.text("in") {
        Some("path") if places.iter().any(|place| place.name == name) => ParameterPlace::Path,
        // A parameter of the path that this path does not have.
        Some("path") => return Ok(None),
        Some("query") if !name.is_empty() => ParameterPlace::Query,
        Some("header") if ELSEWHERE.contains(&name.to_ascii_lowercase().as_str()) => return Ok(None),
        Some("header") if toolgate_egress::header(name, "").is_ok() => ParameterPlace::Header,
        Some("header") => {
            let message = format!("the header `{shown_name}` cannot be sent");
            return refused("openapi.parameter", message, "leave the operation out");
        }
        Some("cookie") => {
            let message = format!("the parameter `{shown_name}` is a cookie, and cookies are not sent");
            return refused("openapi.cookie", message, "leave the operation out");
        }
        _ => {
            let message = format!("the parameter `{shown_name}` has no place that is known");
            return refused("openapi.parameter", message, "write `in: path`, `query` or `header`, and a `name`");
        }
    };
    let by_default = match place {
        ParameterPlace::Query => ParameterStyle::Form,
        ParameterPlace::Path | ParameterPlace::Header => ParameterStyle::Simple,
    };
    let (style, schema) = match (part.member("schema"), part.member("content")) {
        (Some(schema), _) => {
            let said = match part.text("style") {
                None => Ok(by_default),
                Some(word) => word.parse::<ParameterStyle>().ok().filter(|style| fits(*style, place)).ok_or(word),
            };
            match said {
                Ok(style) => (style, schema),
                Err(word) => {
                    let message = format!("the parameter `{shown_name}` has the style `{}`", shown(word));
                    return refused(
                        "openapi.style",
                        message,
                        "`simple`, `label`, `matrix`, `form`, `spaceDelimited`, `pipeDelimited` and `deepObject` can be sent",
                    );
                }
            }
        }
        (None, Some(content)) => {
            let json = content.members().find(|(media, _)| super::body::is_json(media));
            let Some((_, media)) = json else {
                let message = format!("the parameter `{shown_name}` is neither plain nor JSON");
                return refused("openapi.parameter", message, "leave the operation out");
            };
            (ParameterStyle::Json, media.member("schema").unwrap_or(media))
        }
        (None, None) => (by_default, Part::new(&Value::Bool(true), part.pointer.clone())),
    };
    let explode = part.value.get("explode").and_then(Value::as_bool);
    let natural = matches!(style, ParameterStyle::Form | ParameterStyle::DeepObject);
    let explode = explode.filter(|explode| *explode != natural && style != ParameterStyle::Json);
    let said_style = (style != by_default).then_some(style);
    let mut schema = schemas.convert(&schema)?;
    describe(&mut schema, part);
    let argument = arguments.free(name, place.as_str());
    if style == ParameterStyle::Matrix && argument != name {
        // Its name goes out with it, and the place has the argument's.
        let message = format!("the parameter `{shown_name}` has the style `matrix` and a name that no argument has");
        return refused("openapi.style", message, "leave the operation out");
    }
    let argument_said = (argument != name).then_some(argument);
    Ok(Some((
        OperationParameter { name: name.to_owned(), place, argument: argument_said, style: said_style, explode },
        schema,
    )))
}

fn fits(style: ParameterStyle, place: ParameterPlace) -> bool {
    match (style, place) {
        (ParameterStyle::Json, _) => false,
        (ParameterStyle::Simple, place) => place != ParameterPlace::Query,
        (ParameterStyle::Label | ParameterStyle::Matrix, place) => place == ParameterPlace::Path,
        (_, place) => place == ParameterPlace::Query,
    }
}

/// What is said of the parameter says more of the argument than what is said of its schema.
fn describe(schema: &mut Value, part: &Part<'_>) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Value::Object(keywords) = schema else { return };
    if let Some(text) = part.text("description").filter(|text| !text.trim().is_empty()) {
        keywords.insert("description".into(), prose::text(text, PROSE_CHARS_MAX).into());
    }
    if part.flag("deprecated") {
        keywords.insert("deprecated".into(), true.into());
    }
    if let Some(example) = part.value.get("example").filter(|example| example.to_string().len() <= 500) {
        keywords.entry("examples").or_insert_with(|| json!([example]));
    }
}
