//! The specifications' shapes, each against its golden file: keys, their order, and the form of numbers.
//!
//! A golden file is a JSON object from the name of a case to what it must be, text for text. To write one anew after a
//! change that is meant, delete it and run the tests: the first run writes it and fails.

use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_contracts::call::{Attachment, AttachmentKind};
use toolgate_contracts::definition::{EgressClass, HitlMode, Risk};
use toolgate_contracts::event::EventType;
use toolgate_contracts::{
    ApprovalStatus, Digest, Envelope, ErrorCode, Fault, FaultKind, Mode, Principal, Source, Status, Timestamp,
    ToolError,
};
use toolgate_registry::search::Kind;
use toolgate_server::compat::capability::{CapabilityEntry, mode_word, risk_word};
use toolgate_server::compat::execution::Execution;
use toolgate_server::compat::invocation::{Invocation, InvocationStatus};
use toolgate_server::compat::tool_layer::{Answer, AuditEvent, METADATA};
use toolgate_server::compat::tool_result::tool_result;
use toolgate_server::compat::tool_run::{ToolRun, ToolRunSource};
use toolgate_store::calls::CallRecord;

#[track_caller]
fn golden(name: &str, cases: Vec<(&str, Value)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    let cases: Map<String, Value> = cases.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let text = format!("{}\n", serde_json::to_string_pretty(&cases).unwrap());
    let Ok(kept) = std::fs::read_to_string(&path) else {
        std::fs::write(&path, &text).unwrap();
        panic!("{} was not there and is now: look at it", path.display());
    };
    let difference = similar::TextDiff::from_lines(&kept, &text).unified_diff().context_radius(2).to_string();
    assert_eq!(kept, text, "{name}:\n{difference}");
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(last: u8) -> T {
    format!("01930000-0000-7000-8000-0000000000{last:02x}").parse().unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_794_700_000_000 + millis)
}

fn record(status: Status) -> CallRecord {
    CallRecord {
        id: id(1),
        call_id: "c_aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
        run: id(2),
        root_run: id(3),
        in_run: true,
        step: Some(id(4)),
        step_title: Some("Send it".to_owned()),
        seq: 0,
        tool: id(5),
        tool_name: "monorepo_cli.run_script".to_owned(),
        tool_version: "1.0.0".to_owned(),
        agent: Some(id(6)),
        workspace: None,
        principal: Principal::User(id(7)),
        source: Source::Agent,
        mode: Mode::Execute,
        class: EgressClass::Write,
        effect_free: false,
        status,
        approval_status: ApprovalStatus::Approved,
        approval_required: true,
        person_required: true,
        approval: None,
        grant: None,
        token: None,
        secrets: None,
        approval_decided_by: Some(format!("user:{}", id::<uuid::Uuid>(8))),
        approval_reason: None,
        cost_estimate: Some("0.10".parse().unwrap()),
        cost: None,
        reported_cost: None,
        reserved: None,
        usage: None,
        attempts: 1,
        cached: false,
        truncated: false,
        holder: None,
        cancel_requested_by: None,
        definition_digest: Digest::of(b"definition"),
        policy_revision: 0,
        created_at: at(0),
        started_at: Some(at(500)),
        completed_at: Some(at(2000)),
        labels: Vec::new(),
        metadata: None,
        decision: json!({}),
        input: Some(json!({"script_name": "forge:benchmark", "args": ["--target=core"]})),
        proposed_input: None,
        output: None,
        error: None,
        attachments: Vec::new(),
        salt: None,
    }
}

fn completed() -> CallRecord {
    let output = json!({"duration_ms": 1500, "exit_code": 0, "stderr": "", "stdout": "..."});
    CallRecord { output: Some(output), ..record(Status::Completed) }
}

fn failed(status: Status) -> CallRecord {
    let error = ToolError::because(ErrorCode::Timeout, "timeout", "the script took longer than 30000 ms");
    CallRecord { error: Some(error), ..record(status) }
}

/// One that nobody asked a person about, made on a local folder, outside any run.
fn alone() -> CallRecord {
    CallRecord {
        run: id(1),
        root_run: id(1),
        in_run: false,
        step: None,
        step_title: None,
        tool_name: "echo".to_owned(),
        agent: None,
        principal: Principal::Local(1000),
        source: Source::Cli,
        class: EgressClass::None,
        approval_status: ApprovalStatus::NotRequired,
        approval_required: false,
        approval_decided_by: None,
        cost_estimate: None,
        output: Some(json!("hello")),
        ..record(Status::Completed)
    }
}

fn envelope(record: CallRecord) -> Envelope {
    Envelope {
        id: record.id,
        status: record.status,
        run_id: record.run,
        call_id: record.call_id,
        name: record.tool_name,
        version: record.tool_version,
        input: record.input.unwrap_or_default(),
        output: record.output,
        error: record.error,
        t_start: record.started_at.unwrap_or(record.created_at),
        t_end: record.completed_at.unwrap_or(record.created_at),
        cached: record.cached,
        truncated: record.truncated,
        attachments: record.attachments,
        labels: Vec::new(),
        cost: Some("0.05".parse().unwrap()),
        receipt: None,
        warnings: Vec::new(),
        edited: record.proposed_input.is_some(),
    }
}

fn pending() -> CallRecord {
    CallRecord {
        approval_status: ApprovalStatus::Pending,
        approval_decided_by: None,
        started_at: None,
        completed_at: None,
        ..record(Status::Pending)
    }
}

#[test]
fn an_invocation_has_the_seventeen_columns_and_the_view_four_more() {
    let row = |record: &CallRecord| serde_json::to_value(Invocation::of(record)).unwrap();
    let rejected = CallRecord {
        approval_status: ApprovalStatus::Rejected,
        approval_reason: Some("unsafe egress target".to_owned()),
        started_at: None,
        error: Some(ToolError::because(ErrorCode::PolicyDenied, "rejected", "a person rejected the call")),
        ..record(Status::Rejected)
    };
    let by_timeout = CallRecord { approval_decided_by: Some("system:timeout".to_owned()), ..completed() };
    let reported = CallRecord {
        cost: Some("2.00".parse().unwrap()),
        reported_cost: Some("0.000125".parse().unwrap()),
        ..completed()
    };
    let counted = CallRecord { cost: Some("2.00".parse().unwrap()), ..completed() };
    let cancelled = ToolError::because(ErrorCode::PolicyDenied, "cancelled", "the call was cancelled");
    golden(
        "invocation",
        vec![
            ("completed", row(&completed())),
            ("view", serde_json::to_value(Invocation::joined(&completed(), "Run a script")).unwrap()),
            ("pending", row(&pending())),
            ("rejected", row(&rejected)),
            ("failed", row(&failed(Status::Failed))),
            ("cancelled is failed", row(&CallRecord { error: Some(cancelled), ..record(Status::Cancelled) })),
            ("outcome_unknown is running", row(&failed(Status::OutcomeUnknown))),
            ("nobody decided who has a uuid", row(&by_timeout)),
            ("reported cost", row(&reported)),
            ("counted cost", row(&counted)),
            ("alone", row(&alone())),
        ],
    );
}

#[test]
fn the_states_of_an_invocation_are_six_and_cover_all() {
    let words = Status::ALL.iter().map(|status| json!([status, InvocationStatus::of(*status)])).collect();
    golden(
        "invocation-states",
        vec![
            ("status", words),
            ("approval_status", ApprovalStatus::ALL.iter().map(|status| json!(status)).collect()),
            ("egress_class", EgressClass::ALL.iter().map(|class| json!(class)).collect()),
        ],
    );
    for status in Status::ALL {
        assert!(InvocationStatus::of(*status).ours().contains(status));
    }
}

#[test]
fn a_tool_run_has_twelve_members_and_is_one_that_ended() {
    let run = |record: &CallRecord| json!(ToolRun::of(id(9), record));
    golden(
        "tool-run",
        vec![
            ("success", run(&completed())),
            ("error", run(&failed(Status::Failed))),
            ("cancelled", run(&record(Status::Cancelled))),
            ("alone", run(&alone())),
            ("pending", run(&pending())),
            ("outcome_unknown", run(&failed(Status::OutcomeUnknown))),
            ("sources", Source::ALL.iter().map(|source| json!([source, ToolRunSource::of(*source)])).collect()),
        ],
    );
}

#[test]
fn an_execution_has_four_members() {
    let of = |record: CallRecord| json!(Execution::of(&envelope(record)));
    golden(
        "execution",
        vec![
            ("done", of(completed())),
            ("failed", of(failed(Status::Failed))),
            ("pending", of(pending())),
            ("outcome_unknown", of(failed(Status::OutcomeUnknown))),
        ],
    );
}

#[test]
fn an_answer_of_the_tool_layer_has_its_members_and_codes() {
    let of = |record: CallRecord| {
        Value::Object(Answer::of("7c5e3f6a-0000-4000-8000-000000000001", &envelope(record)).unsigned())
    };
    let refused = |kind: FaultKind| Value::Object(Answer::refused("r", &Fault::new(kind, "told", "remedy")).unsigned());
    let codes = [
        ErrorCode::ValidationError,
        ErrorCode::Timeout,
        ErrorCode::RateLimit,
        ErrorCode::PolicyDenied,
        ErrorCode::AuthRequired,
        ErrorCode::ProviderError,
        ErrorCode::NetworkError,
        ErrorCode::SandboxError,
        ErrorCode::Unknown,
    ];
    let numbered = codes.map(|code| {
        let error = ToolError { code, message: "told".to_owned(), details: None, retry_after_s: None };
        let answer = of(CallRecord { error: Some(error), ..record(Status::Failed) });
        json!([code, answer["status"], answer["code"]])
    });
    golden(
        "tool-layer-answer",
        vec![
            ("script", of(completed())),
            ("other tool", of(CallRecord { output: Some(json!({"sum": 42})), ..completed() })),
            ("no object", of(alone())),
            ("failed", of(failed(Status::Failed))),
            ("pending", of(pending())),
            ("rejected", of(failed(Status::Rejected))),
            ("no right", refused(FaultKind::Forbidden)),
            ("no token", refused(FaultKind::Unauthenticated)),
            ("codes", json!(numbered)),
        ],
    );
}

#[test]
fn an_audit_event_of_the_tool_layer_has_its_members() {
    let event = |record: &CallRecord, schema: Value| Value::Object(AuditEvent::of(record, Some(&schema)).unsigned());
    let metadata = json!({
        "pr_id": 42, METADATA: {"request_id": "7c5e3f6a-0000-4000-8000-000000000001", "caller_id": "builder"},
    });
    let secret = json!({"properties": {"script_name": {"writeOnly": true}}});
    golden(
        "tool-layer-event",
        vec![
            ("invoked", event(&CallRecord { metadata: Some(metadata), ..completed() }, json!({}))),
            ("by another door", event(&alone(), json!({}))),
            ("redacted", event(&failed(Status::Failed), secret)),
            ("erased", event(&CallRecord { input: None, ..completed() }, json!({}))),
        ],
    );
}

#[test]
fn a_tool_result_has_three_members() {
    let of = |record: CallRecord| tool_result(&envelope(record));
    let attachment = Attachment {
        kind: AttachmentKind::Blob,
        url: "/api/v1/blobs/1".to_owned(),
        content_type: Some("text/plain".to_owned()),
        bytes: Some(3_000_000),
    };
    golden(
        "tool-result",
        vec![
            ("structured", of(completed())),
            ("text", of(alone())),
            ("attached", of(CallRecord { attachments: vec![attachment], ..alone() })),
            ("failed", of(failed(Status::Failed))),
            ("pending", of(pending())),
        ],
    );
}

#[test]
fn an_envelope_and_an_error_are_the_specification_s() {
    let attachment =
        Attachment { kind: AttachmentKind::Table, url: "/api/v1/blobs/1".to_owned(), content_type: None, bytes: None };
    let whole = CallRecord { cached: true, truncated: true, attachments: vec![attachment], ..completed() };
    let error = ToolError::because(ErrorCode::RateLimit, "rate", "10 calls in 60 s").retry_after(7);
    let bare = ToolError { code: ErrorCode::Unknown, message: "broken".to_owned(), details: None, retry_after_s: None };
    golden(
        "envelope",
        vec![
            ("completed", envelope(completed()).seed()),
            ("whole", envelope(whole).seed()),
            ("failed", envelope(failed(Status::Failed)).seed()),
        ],
    );
    golden("tool-error", vec![("whole", json!(error)), ("bare", json!(bare))]);
}

#[test]
fn words_are_the_specifications() {
    let entry = CapabilityEntry {
        name: "send_email".to_owned(),
        description: "Send an email to a recipient".to_owned(),
        kind: Kind::Tool,
        tags: vec!["email".to_owned(), "notify".to_owned()],
    };
    let tool_events = EventType::ALL.iter().filter(|event| event.as_str().starts_with("tool."));
    golden(
        "words",
        vec![
            ("capability", json!(entry)),
            ("risks", Risk::ALL.iter().map(|risk| json!([risk, risk_word(*risk)])).collect()),
            ("modes", HitlMode::ALL.iter().map(|mode| json!([mode, mode_word(*mode)])).collect()),
            ("events", tool_events.map(|event| json!(event)).collect()),
        ],
    );
}
