//! A mail to people, over the operator's relay and from the operator's address.
//!
//! Deliberately absent: another sender, HTML and attachments. Whoever reads the mail must be able to trust who sent it,
//! and whoever approves it must see all of it.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::call::Content;
use toolgate_contracts::unseen::is_unseen;
use toolgate_contracts::{ErrorCode, ToolError, ToolResult};
use toolgate_egress::Sent;
use toolgate_egress::mail::{Mail, Mailer};
use toolgate_engine::runner::Done;
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, cancelled, input, invalid};

const RECIPIENTS_MAX: usize = 50;
const SUBJECT_CHARS_MAX: usize = 200;
const BODY_CHARS_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    to: String,
    subject: String,
    body: String,
    #[serde(default)]
    cc: String,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    if call.cancel.is_cancelled() {
        return cancelled().into();
    }
    let (mailer, mail) = match written(tools, call) {
        Ok(written) => written,
        Err(error) => return error.into(),
    };
    match mailer.send(&mail).await {
        Ok(()) => sent(&mail),
        Err(error) if error.sent() == Sent::Perhaps => Outcome::Unknown(error.to_string()),
        Err(error) => ToolError::from(error).into(),
    }
}

fn sent(mail: &Mail) -> Outcome {
    let recipients: Vec<&String> = mail.to.iter().chain(&mail.cc).collect();
    let to = mail.to.join(", ");
    let result = ToolResult {
        content: vec![Content::Text { text: format!("Email sent to {to}") }],
        structured: Some(json!({"recipients": recipients, "message_id": mail.message_id})),
        app_data: Some(json!({"recipients": recipients})),
        ..ToolResult::default()
    };
    Outcome::Done(Done { result, ..Done::default() })
}

/// The mail as it would go out.
pub(crate) fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (_, Mail { from, to, cc, subject, text, message_id: _ }) = written(tools, call)?;
    Ok(json!({"would_run": true, "from": from, "to": to, "cc": cc, "subject": subject, "body": text}))
}

pub(crate) fn ready(tools: &Tools) -> Result<(), ToolError> {
    mailer(tools).map(drop)
}

fn mailer(tools: &Tools) -> Result<&Mailer, ToolError> {
    tools.mailer.as_ref().ok_or_else(|| {
        let message = "no mail relay is configured; the operator sets `smtp` and `mail_from`";
        ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
    })
}

fn written<'a>(tools: &'a Tools, call: &Call) -> Result<(&'a Mailer, Mail), ToolError> {
    let Input { to, subject, body, cc } = input(call)?;
    let (to, cc) = (addresses("to", &to)?, addresses("cc", &cc)?);
    if to.is_empty() {
        return Err(invalid("to", "it is empty; write `ada@example.com`"));
    }
    let recipients = to.len() + cc.len();
    if recipients > RECIPIENTS_MAX {
        return Err(invalid("to", format!("there are {recipients} recipients, the limit is {RECIPIENTS_MAX}")));
    }
    let chars = subject.chars().count();
    if !(1..=SUBJECT_CHARS_MAX).contains(&chars) {
        return Err(invalid("subject", format!("it has {chars} characters; expected 1 to {SUBJECT_CHARS_MAX}")));
    }
    seen("subject", &subject)?;
    let chars = body.chars().count();
    if chars > BODY_CHARS_MAX {
        return Err(invalid("body", format!("it has {chars} characters, the limit is {BODY_CHARS_MAX}")));
    }
    let mailer = mailer(tools)?;
    let host = mailer.sender().rsplit_once('@').map_or("localhost", |(_, host)| host.trim_end_matches('>'));
    // The same for every attempt, so that a second copy is known as such.
    let message_id = format!("{}@{host}", call.id);
    let mail = Mail { from: mailer.sender().to_owned(), to, cc, subject, text: body, message_id };
    mailer.check(&mail).map_err(ToolError::from)?;
    Ok((mailer, mail))
}

/// Addresses between commas.
fn addresses(member: &str, text: &str) -> Result<Vec<String>, ToolError> {
    seen(member, text)?;
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            if part.contains('@') {
                return Ok(part.to_owned());
            }
            let shown: String = part.chars().take(80).collect();
            Err(invalid(member, format!("`{shown}` is no address; write `name@host`, several with commas between")))
        })
        .collect()
}

/// A header has one line, and whoever approves it sees every character of it.
fn seen(member: &str, text: &str) -> Result<(), ToolError> {
    match text.chars().find(|c| is_unseen(*c)) {
        Some(hidden) => {
            let shown = hidden.escape_unicode();
            Err(invalid(member, format!("it holds the character `{shown}`, which cannot be seen; leave it out")))
        }
        None => Ok(()),
    }
}
