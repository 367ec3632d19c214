//! What becomes of a runner's result, in this order: validate, redact, attach, cap. What is kept and what is answered
//! is the same value.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use toolgate_contracts::call::{AttachmentKind, Content};
use toolgate_contracts::definition::{OUTPUT_BYTES_DEFAULT, SectionType};
use toolgate_contracts::fault::REASONS;
use toolgate_contracts::{ErrorCode, ToolError, ToolResult, json as strict};
use toolgate_registry::schema::Validator;
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_vault::Redactor;

use crate::runner::{Done, NewAttachment};

/// An error of a tool is for reading; the rest of a long one helps nobody. The same for each text of its details.
const ERROR_BYTES_MAX: usize = 8 * 1024;
/// An output with tables that is no larger has no copies of them: whoever reads it sees all of it.
const AT_A_GLANCE_BYTES_MAX: usize = 16 * 1024;
/// Rows of a table attachment.
const TABLE_ROWS_MAX: usize = 100_000;
/// What stands where something was cut.
const CUT: &str = "…";

/// A result that can be kept.
#[derive(Debug, Default)]
pub struct Shaped {
    pub output: Option<Value>,
    /// The canonical text of `output`.
    pub text: Option<String>,
    pub error: Option<ToolError>,
    pub truncated: bool,
    pub attachments: Vec<NewAttachment>,
    /// The output before it was cut, where it was.
    whole: Option<Value>,
    /// Guardrails that would have withheld it, and were only to be logged.
    pub logged: Vec<String>,
}

impl Shaped {
    /// Nothing but what its reader is told.
    pub fn refused(error: ToolError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// With the names of guardrails that would have withheld it.
    #[must_use]
    pub fn with_logged(self, logged: Vec<String>) -> Self {
        Self { logged, ..self }
    }

    /// Everything in it that can be read, each with the place it is said to be at: what was cut off counts, and an error's
    /// words, and what goes along as text.
    pub fn to_examine(&self) -> Vec<(String, Value)> {
        let mut values = Vec::new();
        values.extend(self.whole.as_ref().or(self.output.as_ref()).map(|output| (String::new(), output.clone())));
        if let Some(ToolError { message, details, .. }) = &self.error {
            values.push(("/error".to_owned(), json!({"message": message, "details": details})));
        }
        for (index, NewAttachment { bytes, .. }) in self.attachments.iter().enumerate() {
            // What it calls itself says little about what it is.
            if let Ok(text) = std::str::from_utf8(bytes) {
                values.push((format!("/attachments/{index}"), Value::from(text)));
            }
        }
        values
    }
}

/// Makes a runner's result one that can be kept and shown.
pub fn shape(tool: &ResolvedTool, done: Done, redactor: &Redactor, bytes_max: Option<u64>) -> Shaped {
    let Done { result, attachments, .. } = done;
    let mut attachments: Vec<NewAttachment> =
        attachments.into_iter().map(|one| without_secrets(one, redactor)).collect();
    let ToolResult { content, structured, is_error, app_data: _ } = result;
    if is_error {
        let text = joined(&content).or_else(|| structured.as_ref().map(Value::to_string));
        let message = text.unwrap_or_else(|| "the tool reported an error without words".to_owned());
        let error = ToolError::because(ErrorCode::ProviderError, "upstream_4xx", message);
        return Shaped { error: Some(redacted(error, redactor)), attachments, ..Shaped::default() };
    }
    let (content, images) = take_media(content);
    attachments.extend(images.into_iter().map(|image| without_secrets(image, redactor)));
    let mut output = structured.or_else(|| joined(&content).map(Value::from)).unwrap_or_else(|| json!(content));
    if let Err(error) = strict::normalize(&mut output) {
        return failed(format!("the tool's output cannot be exchanged: {error}"), redactor, attachments);
    }
    let validator = tool.version.output_validator().and_then(Result::ok);
    if let Some(broken) = validator.and_then(|validator| violation(validator, &output)) {
        let message = format!("the tool's output does not match its output_schema: {broken}");
        return failed(message, redactor, attachments);
    }
    let output = redactor.redact_json(output);
    let (text, limit) = (strict::canonical(&output), limit_of(tool, bytes_max));
    if text.len() > limit.min(AT_A_GLANCE_BYTES_MAX) {
        attachments.extend(tables(tool, &output));
    }
    capped(output, text, attachments, validator, limit)
}

/// The same for what would happen: it is no output, so the schema of outputs says nothing about it.
pub fn shape_plan(tool: &ResolvedTool, mut plan: Value, bytes_max: Option<u64>) -> Shaped {
    if let Err(error) = strict::normalize(&mut plan) {
        return failed(format!("the plan cannot be exchanged: {error}"), &Redactor::none(), Vec::new());
    }
    let (text, limit) = (strict::canonical(&plan), limit_of(tool, bytes_max));
    capped(plan, text, Vec::new(), None, limit)
}

fn limit_of(tool: &ResolvedTool, bytes_max: Option<u64>) -> usize {
    let declared = tool.definition.max_output_bytes.unwrap_or(OUTPUT_BYTES_DEFAULT);
    usize::try_from(bytes_max.map_or(declared, |max| max.min(declared))).unwrap_or(usize::MAX)
}

/// What is too large is cut, and the whole goes along.
fn capped(
    output: Value,
    text: String,
    mut attachments: Vec<NewAttachment>,
    validator: Option<&Validator>,
    limit: usize,
) -> Shaped {
    if text.len() <= limit {
        return Shaped { output: Some(output), text: Some(text), attachments, ..Shaped::default() };
    }
    let small = cap(&output, limit, validator);
    let whole =
        NewAttachment { kind: AttachmentKind::Blob, content_type: "application/json".into(), bytes: text.into_bytes() };
    attachments.push(whole);
    let text = strict::canonical(&small);
    Shaped {
        output: Some(small),
        text: Some(text),
        truncated: true,
        attachments,
        whole: Some(output),
        ..Shaped::default()
    }
}

fn without_secrets(attachment: NewAttachment, redactor: &Redactor) -> NewAttachment {
    if redactor.is_empty() {
        return attachment;
    }
    let NewAttachment { kind, content_type, bytes } = attachment;
    let content_type = media_type(&redactor.redact_text(&content_type));
    NewAttachment { kind, content_type, bytes: redactor.redact_bytes(&bytes).into_owned() }
}

fn failed(message: String, redactor: &Redactor, attachments: Vec<NewAttachment>) -> Shaped {
    let error = ToolError::because(ErrorCode::ProviderError, "output_schema", message);
    Shaped { error: Some(redacted(error, redactor)), attachments, ..Shaped::default() }
}

fn violation(validator: &Validator, value: &Value) -> Option<String> {
    if validator.is_valid(value) {
        return None;
    }
    let violations = validator.validate(value);
    Some(violations.first().map_or_else(|| "it is too large to be judged".to_owned(), |first| first.message.clone()))
}

/// An error as it may be told: without secrets, and only then cut. A runner hands over what it was told whole, since half
/// a secret is found by nobody.
pub fn redacted(error: ToolError, redactor: &Redactor) -> ToolError {
    let ToolError { code, message, details, retry_after_s } = known(error);
    let mut message = redactor.redact_text(&message).into_owned();
    if message.len() > ERROR_BYTES_MAX {
        message = cut_text(&message, ERROR_BYTES_MAX);
    }
    let details = details.map(|details| cut(&redactor.redact_json(details), ERROR_BYTES_MAX, true));
    ToolError { code, message, details, retry_after_s }
}

/// Reasons are words of a closed list: they stand in the log for ever. What somebody else calls it goes beside.
fn known(error: ToolError) -> ToolError {
    let reasons = REASONS.iter().find(|(code, _)| *code == error.code).map_or(&[][..], |(_, reasons)| reasons);
    match error.details.as_ref().and_then(|details| details.get("reason")) {
        Some(Value::String(reason)) if reasons.contains(&reason.as_str()) => error,
        None if reasons.is_empty() => error,
        given => {
            let given = given.cloned();
            let error = error.with("reason", reasons.first().copied().unwrap_or_default());
            match given {
                Some(given) => error.with("reported_reason", given),
                None => error,
            }
        }
    }
}

/// The text of a result that is nothing but text.
fn joined(content: &[Content]) -> Option<String> {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|item| match item {
            Content::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join("\n"))
}

/// Pictures and sounds are kept as files; what remains is for reading.
fn take_media(content: Vec<Content>) -> (Vec<Content>, Vec<NewAttachment>) {
    let mut media = Vec::new();
    let rest = content
        .into_iter()
        .filter_map(|item| {
            let (kind, data, mime_type) = match item {
                Content::Image { data, mime_type } => (AttachmentKind::Image, data, mime_type),
                Content::Audio { data, mime_type } => (AttachmentKind::Blob, data, mime_type),
                other => return Some(other),
            };
            match BASE64.decode(data.as_bytes()) {
                Ok(bytes) => {
                    media.push(NewAttachment { kind, content_type: media_type(&mime_type), bytes });
                    None
                }
                Err(_) => Some(Content::Text { text: format!("[{mime_type}: not base64, left out]") }),
            }
        })
        .collect();
    (rest, media)
}

/// A type that is not spelled like one is a file like any other.
fn media_type(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'+' | b'.');
    let good = text.len() <= 100 && text.matches('/').count() == 1 && text.bytes().all(plain);
    if good { text.to_ascii_lowercase() } else { "application/octet-stream".to_owned() }
}

/// Sections of type `table` as files, for whoever goes on with a spreadsheet.
fn tables(tool: &ResolvedTool, output: &Value) -> Vec<NewAttachment> {
    let sections = tool.definition.output_sections.iter().filter(|section| section.section_type == SectionType::Table);
    sections
        .filter_map(|section| {
            let rows = output.get(&section.key)?.as_array()?;
            let bytes = csv(rows)?.into_bytes();
            Some(NewAttachment { kind: AttachmentKind::Table, content_type: "text/csv".into(), bytes })
        })
        .collect()
}

/// Rows that are objects, with a heading of all their members in the order in which they first appear.
fn csv(rows: &[Value]) -> Option<String> {
    let rows: Vec<&Map<String, Value>> =
        rows.iter().take(TABLE_ROWS_MAX).map(Value::as_object).collect::<Option<_>>()?;
    let mut heading: Vec<&str> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for name in rows.iter().flat_map(|row| row.keys()) {
        if known.insert(name.as_str()) {
            heading.push(name);
        }
    }
    let mut text = heading.iter().map(|name| field(name)).collect::<Vec<_>>().join(",");
    for row in rows {
        text.push_str("\r\n");
        let cells = heading.iter().map(|name| match row.get(*name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => field(text),
            Some(other) => field(&other.to_string()),
        });
        text.push_str(&cells.collect::<Vec<_>>().join(","));
    }
    Some(text)
}

/// A spreadsheet takes what begins like a formula for one, so such a text gets a mark before it.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A smaller value of the same shape: the longest texts and lists lose their ends first. It still matches the schema
/// where the schema lets it.
pub fn cap(value: &Value, bytes_max: usize, validator: Option<&Validator>) -> Value {
    let mut best = Value::from(CUT);
    // From generous to nothing: the first that fits is the largest that fits.
    let mut length = bytes_max;
    loop {
        for marked in [true, false] {
            let candidate = cut(value, length, marked);
            if strict::canonical(&candidate).len() <= bytes_max {
                let valid = validator.is_none_or(|validator| validator.is_valid(&candidate));
                if valid {
                    return candidate;
                }
                if best == CUT {
                    best = candidate;
                }
            }
        }
        if length == 0 {
            return best;
        }
        length /= 2;
    }
}

/// Every text at most `length` bytes, every list at most `length` items, every object at most `length` members.
fn cut(value: &Value, length: usize, marked: bool) -> Value {
    match value {
        Value::String(text) if text.len() > length => Value::from(cut_text(text, length)),
        Value::Array(items) => {
            let mut kept: Vec<Value> = items.iter().take(length).map(|item| cut(item, length, marked)).collect();
            if marked && kept.len() < items.len() {
                kept.push(Value::from(CUT));
            }
            Value::from(kept)
        }
        Value::Object(members) => {
            let kept = members.iter().take(length.max(64));
            Value::Object(kept.map(|(name, value)| (name.clone(), cut(value, length, marked))).collect())
        }
        other => other.clone(),
    }
}

fn cut_text(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{CUT}", &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".{0,200}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::vec(("[a-z]{1,8}", inner), 0..12)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_capped_fits_and_is_json(value in any_json(), bytes_max in 3usize..4000) {
            let small = cap(&value, bytes_max, None);
            let text = strict::canonical(&small);
            let widest = strict::canonical(&Value::from(CUT)).len().max(bytes_max);
            prop_assert!(text.len() <= widest, "{} > {bytes_max}", text.len());
            prop_assert_eq!(strict::read(text.as_bytes(), usize::MAX).unwrap(), small);
        }

        #[test]
        fn what_fits_is_left_alone(value in any_json()) {
            let length = strict::canonical(&value).len();
            prop_assert_eq!(cap(&value, length, None), value);
        }
    }

    #[test]
    fn the_schema_still_holds_where_it_can() {
        let schema = json!({"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": {"type": "integer"}}}});
        let validator = Validator::new(&schema).unwrap();
        let value = json!({"rows": (0..10_000).collect::<Vec<_>>()});
        let small = cap(&value, 1000, Some(&validator));
        assert!(validator.is_valid(&small), "{small}");
        assert!(small["rows"].as_array().unwrap().len() > 50);
    }

    #[test]
    fn a_table_is_a_file_that_a_spreadsheet_reads_as_text() {
        let rows = [json!({"name": "a,b", "n": 1}), json!({"name": "=cmd()", "extra": "x\"y"}), json!({"n": -5})];
        assert_eq!(csv(&rows).unwrap(), "name,n,extra\r\n\"a,b\",1,\r\n'=cmd(),,\"x\"\"y\"\r\n,-5,");
        assert_eq!(csv(&[json!(1)]), None);
    }
}
