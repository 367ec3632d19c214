//! What may be asked and what may be answered: texts within bounds, a schema that compiles, an answer that fits it.

use serde_json::{Value, json};
use toolgate_contracts::Fault;
use toolgate_contracts::input_request::QUESTION_SCHEMA_BYTES_MAX;
use toolgate_registry::schema::{self, Dialect, Validator};
use toolgate_registry::{Finding, Severity};

pub fn check_text(text: &str, member: &str, bytes_max: usize) -> Result<(), Fault> {
    let at = format!("/{member}");
    if text.trim().is_empty() || text.len() > bytes_max {
        let told = format!("`{member}` has {} bytes", text.len());
        return Err(Fault::invalid(told, format!("use 1 to {bytes_max} bytes")).at(at));
    }
    let breaks = |c: char| member != "title" && matches!(c, '\n' | '\r' | '\t');
    match text.chars().find(|c| c.is_control() && !breaks(*c)) {
        Some(control) => {
            let told = format!("`{member}` holds the character {}", control.escape_unicode());
            Err(Fault::invalid(told, "write plain text").at(at))
        }
        None => toolgate_contracts::unseen::check_text(member, text),
    }
}

/// The schema as it is kept: of one dialect, within bounds, and one that compiles.
pub fn checked_schema(schema: Value) -> Result<Value, Fault> {
    const AT: &str = "/schema";
    let bytes = schema.to_string().len();
    if bytes > QUESTION_SCHEMA_BYTES_MAX {
        let told = format!("the schema has {bytes} bytes");
        let remedy = format!("keep it under {QUESTION_SCHEMA_BYTES_MAX}; a person has to fill it in");
        return Err(Fault::invalid(told, remedy).at(AT));
    }
    let converted = schema::convert(&schema, Dialect::Draft202012, AT).map_err(refused)?;
    let schema = converted.map_or(schema, |converted| converted.schema);
    let findings: Vec<Finding> =
        schema::check(&schema, AT).into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    if !findings.is_empty() {
        return Err(refused(findings));
    }
    Validator::new(&schema).map_err(|finding| refused(vec![finding]))?;
    Ok(schema)
}

fn refused(findings: Vec<Finding>) -> Fault {
    let first = findings.first();
    let told = first.map_or("", |finding| finding.message.as_str());
    let pointer = first.map(|finding| finding.pointer.clone()).unwrap_or_default();
    let remedy = first.map(|finding| finding.fix.clone()).unwrap_or_default();
    let told = format!("the question's schema is refused: {told}");
    Fault::invalid(told, remedy).at(pointer).with_details(json!({"reason": "schema", "findings": findings}))
}

pub fn check_answer(schema: &Value, answer: &Value) -> Result<(), Fault> {
    let validator = Validator::new(schema)
        .map_err(|finding| Fault::internal(format!("a question's schema: {}", finding.message)))?;
    let violations = validator.validate(answer);
    let Some(first) = violations.first() else { return Ok(()) };
    let more = match violations.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let listed: Vec<Value> = violations
        .iter()
        .map(|violation| {
            let schema::Violation { pointer, expected, found, message } = violation;
            json!({"pointer": pointer, "expected": expected, "found": found, "message": message})
        })
        .collect();
    let remedy = "correct the answer and send it again; the question is still open";
    Err(Fault::invalid(format!("{}{more}", first.message), remedy)
        .at(format!("/answer{}", first.pointer))
        .with_details(json!({"reason": "schema", "violations": listed})))
}
