//! What a request carries: JSON, a form, a form with files or text. The members of an object stand beside the parameters, so that a model
//! fills in one flat set of arguments; what has no fixed members, or would collide, is the argument `body`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolgate_contracts::runner::{Method, OperationBody};

use super::document::{Document, Part};
use super::parameters::Arguments;
use super::prose;
use super::schema::Schemas;
use crate::finding::{Finding, shown};

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";
const WHOLE: &str = "body";
const PROSE_CHARS_MAX: usize = 1_000;
/// Objects that are made of objects.
const NESTING_MAX: usize = 16;

pub(super) fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media.ends_with("+json") || media == "*/*" || media == "application/*"
}

pub(super) fn read<'d>(
    document: &'d Document,
    method: Method,
    operation: &Part<'d>,
    schemas: &mut Schemas<'d>,
    arguments: &mut Arguments,
    findings: &mut Vec<Finding>,
) -> Result<Option<OperationBody>, Finding> {
    let Some(body) = operation.member("requestBody") else { return Ok(None) };
    if matches!(method, Method::Get | Method::Head) {
        let message = format!("a body with {method} means nothing and is left out");
        let fix = "describe what is asked for by parameters";
        findings.push(Finding::warning("openapi.body", body.pointer, message, fix));
        return Ok(None);
    }
    let body = document.resolved(&body)?;
    let Some((content_type, media)) = chosen(&body) else {
        let offered: Vec<String> =
            body.member("content").iter().flat_map(Part::members).map(|(name, _)| shown(name)).collect();
        let message = format!("the body is `{}`, which cannot be sent", offered.join("`, `"));
        let fix = "JSON, a form, a form with files or text can be sent; leave the operation out";
        return Err(Finding::error("openapi.body", body.pointer, message, fix));
    };
    let required = body.flag("required");
    let schema = media.member("schema");
    let described = |schema: &mut Value| {
        if let Value::Object(keywords) = schema
            && let Some(text) = body.text("description").filter(|text| !text.trim().is_empty())
        {
            keywords.entry("description").or_insert_with(|| prose::text(text, PROSE_CHARS_MAX).into());
        }
    };
    let is_text = !is_json(&content_type) && content_type != FORM && content_type != MULTIPART;
    let takes_files = content_type == MULTIPART;
    if !is_text && let Some(schema) = &schema {
        let mut flat = Flat::default();
        if flat.gather(document, schemas, schema, NESTING_MAX) && flat.is_free(arguments) {
            let mut files = Vec::new();
            let members = flat.members.iter().map(|(name, _)| name.clone()).collect();
            for (name, member) in flat.members {
                let member_required = required && flat.required.contains(&name);
                let file = if takes_files { File::of(document, &member) } else { None };
                let converted = match &file {
                    Some(file) => file.schema(),
                    None => schemas.convert(&member)?,
                };
                files.extend(file.map(|_| name.clone()));
                arguments.add(
                    &name,
                    if converted == Value::Bool(true) { json!({}) } else { converted },
                    member_required,
                );
            }
            return Ok(Some(OperationBody { content_type, argument: None, members, files, required }));
        }
    }
    if takes_files {
        let message = "the body is a form with files, and its members are not all known, or collide with parameters";
        let fix = "describe each part under `properties`, by a name of its own; or leave the operation out";
        return Err(Finding::error("openapi.body", body.pointer, message, fix));
    }
    let mut converted = match &schema {
        _ if is_text => json!({"type": "string"}),
        Some(schema) => schemas.convert(schema)?,
        None => json!({}),
    };
    if converted == Value::Bool(true) {
        converted = json!({});
    }
    described(&mut converted);
    let argument = arguments.free(WHOLE, "content");
    arguments.add(&argument, converted, required);
    Ok(Some(OperationBody { content_type, argument: Some(argument), members: Vec::new(), files: Vec::new(), required }))
}

/// JSON before a form before one with files before text; of several of a kind the first.
fn chosen<'d>(body: &Part<'d>) -> Option<(String, Part<'d>)> {
    let content = body.member("content")?;
    let ranked = content.members().filter_map(|(name, media)| {
        let bare = name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let rank = match bare.as_str() {
            "application/json" => 0,
            _ if is_json(&bare) => 1,
            FORM => 2,
            MULTIPART => 3,
            "text/plain" => 4,
            text if text.starts_with("text/") && !text.contains('*') => 5,
            _ => return None,
        };
        let sent = if bare.contains('*') { "application/json".to_owned() } else { bare };
        Some((rank, sent, media))
    });
    ranked.min_by_key(|(rank, _, _)| *rank).map(|(_, name, media)| (name, media))
}

/// A part that is bytes, and no text.
struct File {
    many: bool,
    about: Option<String>,
}

impl File {
    fn of(document: &Document, member: &Part<'_>) -> Option<Self> {
        let member = document.resolved(member).ok()?;
        let about = member.text("description").map(|text| prose::text(text, PROSE_CHARS_MAX));
        if member.text("type") == Some("array") {
            let items = document.resolved(&member.member("items")?).ok()?;
            return is_bytes(&items).then_some(Self { many: true, about });
        }
        is_bytes(&member).then_some(Self { many: false, about })
    }

    fn schema(&self) -> Value {
        let file = json!({"type": "string", "contentEncoding": "base64"});
        let mut schema = if self.many { json!({"type": "array", "items": file}) } else { file };
        let about = self.about.as_deref().unwrap_or("A file").trim_end_matches('.');
        schema["description"] = format!("{about}. In base64.").into();
        schema
    }
}

/// `format: binary` of 3.0; in 3.1 a media type, or nothing that says it were text.
fn is_bytes(schema: &Part<'_>) -> bool {
    let is_string = matches!(schema.text("type"), None | Some("string"));
    let is_media = schema.text("contentMediaType").is_some_and(|media| !media.starts_with("text/"));
    is_string && (schema.text("format") == Some("binary") || is_media && schema.text("contentEncoding").is_none())
}

/// An object that is made of more than this is taken as it is.
const SCHEMAS_MAX: usize = 200;

/// The members of an object, also of one that is made of several.
#[derive(Default)]
struct Flat<'d> {
    /// How many schemas were looked at: the same one may be named many times over.
    visited: usize,
    members: Vec<(String, Part<'d>)>,
    required: BTreeSet<String>,
}

impl<'d> Flat<'d> {
    /// False for anything that is more than its members.
    fn gather(&mut self, document: &'d Document, schemas: &Schemas<'d>, schema: &Part<'d>, nesting: usize) -> bool {
        self.visited += 1;
        if self.visited > SCHEMAS_MAX {
            return false;
        }
        let Ok(schema) = document.resolved(schema) else { return false };
        let Value::Object(keywords) = schema.value else { return false };
        let more = [
            "anyOf",
            "oneOf",
            "not",
            "if",
            "patternProperties",
            "propertyNames",
            "unevaluatedProperties",
            "enum",
            "const",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "$dynamicRef",
        ];
        let is_open = keywords.get("additionalProperties").is_some_and(|open| *open != Value::Bool(false));
        let is_object = match keywords.get("type") {
            None => keywords.contains_key("properties") || keywords.contains_key("allOf"),
            Some(named) => named == "object",
        };
        if nesting == 0
            || is_open
            || !is_object
            || schema.flag("nullable")
            || more.iter().any(|keyword| keywords.contains_key(*keyword))
        {
            return false;
        }
        if let Some(all) = schema.member("allOf")
            && !all.items().all(|part| self.gather(document, schemas, &part, nesting - 1))
        {
            return false;
        }
        for (name, member) in schema.member("properties").iter().flat_map(Part::members) {
            if schemas.hides(&member) {
                continue;
            }
            match self.members.iter_mut().find(|(other, _)| other == name) {
                Some((_, other)) if other.value == member.value => {}
                Some(_) => return false,
                None => self.members.push((name.to_owned(), member)),
            }
        }
        let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        self.required.extend(required.filter_map(Value::as_str).map(str::to_owned));
        true
    }

    fn is_free(&self, arguments: &Arguments) -> bool {
        let sane = |name: &str| {
            name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        !self.members.is_empty()
            && self.members.iter().all(|(name, _)| sane(name) && !arguments.properties.contains_key(name))
    }
}
