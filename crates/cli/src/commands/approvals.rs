//! `toolgate approvals …` and `toolgate tool approve|reject`: what waits for a person, looked at and decided on.
//!
//! Everything that is shown comes from the stored bytes, whole: what is long is printed at length, what does not show
//! itself is written out. Nothing that a caller says about its call stands anywhere but in the input.

mod foreseen;
mod watch;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::lines::{self, pretty};
use super::{grant, list};
use crate::args::{Approvals, ApprovalsCommand, Approve, ListApprovals, Reject};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{
    Detail, Output, Paint, Table, clean, clean_line, items_of, note, person_and_id, person_of, text_of, time_of,
};

/// How long a command may wait without saying for what.
const SILENT: Duration = Duration::from_secs(1);

pub async fn run(approvals: Approvals, client: &Client, output: &Output) -> Done {
    match approvals.command.unwrap_or(ApprovalsCommand::List(approvals.list)) {
        ApprovalsCommand::List(wanted) => {
            let ListApprovals { state, all, tool, agent, workspace, paging } = wanted;
            let query =
                [("state", (!all).then_some(state)), ("tool", tool), ("agent", agent), ("workspace", workspace)];
            list::show(&["approvals"], &query, paging, (client, output), table).await
        }
        ApprovalsCommand::Show { id } => {
            let card = client.get(&["approvals", &id], &[]).await?;
            output.show(&card, whole)
        }
        ApprovalsCommand::Approve(approve) => self::approve(approve, client, output).await,
        ApprovalsCommand::Reject(reject) => self::reject(reject, client, output).await,
        ApprovalsCommand::Watch => watch::run(client, output).await,
    }
}

pub async fn approve(approve: Approve, client: &Client, output: &Output) -> Done {
    let Approve { ids, input, reason, standing, wait } = approve;
    let mut body = json!({"decision": "approve", "reason": reason});
    let [id] = ids.as_slice() else {
        if input.is_some() {
            return Err(Failure::usage("--input with several calls", "edit them one by one"));
        }
        if standing.wanted {
            return Err(Failure::usage("--standing with several calls", "a standing grant is made with one decision"));
        }
        return several(&ids, body, client, output).await;
    };
    if let Some(text) = &input {
        body["input"] = input::json_or_file(text, "--input")?;
    }
    let wanted = standing.wanted;
    if wanted {
        body["standing"] = grant::wanted(standing, id, client).await?;
    }
    let decided = client.post(&["approvals", id, "decide"], body).await?;
    let allowed = if wanted { grant::made(&decided, client).await } else { String::new() };
    let call = text_of(&decided, "call_id");
    let ended = ended(&call, wait, client, output).await?;
    let status = text_of(&ended, "status");
    output.show(&json!({"approval": decided, "call": ended}), |_, _| format!("{}{allowed}", told(&decided, &ended)))?;
    if client.is_local() && !output.is_json() {
        stands_still(&decided, client).await;
    }
    Ok(match status.as_str() {
        "completed" => Exit::Done,
        "pending" | "approved" | "running" | "outcome_unknown" => Exit::Waiting,
        _ => Exit::Failed,
    })
}

/// Without a server nobody goes on with the run that waited: says by which command it does.
async fn stands_still(decided: &Value, client: &Client) {
    let run = text_of(decided, "run_id");
    let Ok(shown) = client.get(&["runs", &run], &[]).await else { return };
    if matches!(shown["state"].as_str(), Some("completed" | "failed" | "cancelled")) {
        return;
    }
    let command = match shown["kind"].as_str() {
        Some("agent") => format!("toolgate run resume {run}"),
        Some("workflow") => format!("toolgate workflow follow {run}"),
        _ => return,
    };
    note(&format!("The run that waited for it stands still: no server is running. Go on with `{command}`."));
}

/// The call after a decision. Without a server it runs in this process, which therefore stays.
async fn ended(call: &str, wait: u32, client: &Client, output: &Output) -> Result<Value, Failure> {
    let began = Instant::now();
    let until = began + Duration::from_secs(wait.into());
    let mut is_told = output.is_json();
    loop {
        let found = client.get(&["calls", call], &[]).await?;
        let goes_on = matches!(found["status"].as_str(), Some("approved" | "running"));
        let elsewhere = found["status"] == "running" && runs_elsewhere(&found, client).await;
        let patient = client.is_local() || Instant::now() < until;
        if !goes_on || elsewhere || !patient {
            return Ok(found);
        }
        if !is_told && began.elapsed() >= SILENT {
            is_told = true;
            let most = if client.is_local() { String::new() } else { format!(", {wait} s at most") };
            note(&format!("Approved; waiting for {} to end{most}.", clean_line(&text_of(&found, "name"))));
        }
        // Not longer: more may be asked meanwhile, and a call that waits for people has no end to wait for.
        client.get(&["calls", call], &[("wait", Some("1".to_owned()))]).await?;
    }
}

/// Whoever asked carries it out, or a worker, who gets at it only when we have let go of the data folder: that goes on
/// without us.
async fn runs_elsewhere(call: &Value, client: &Client) -> bool {
    if call["mode"] == "record" || !client.is_local() {
        return call["mode"] == "record";
    }
    let reference = format!("{}@{}", text_of(call, "name"), text_of(call, "version"));
    let tool = client.get(&["tools", &reference], &[]).await;
    tool.is_ok_and(|tool| tool["runner"]["kind"] == "external")
}

fn told(decided: &Value, call: &Value) -> String {
    let (tool, id) = (text_of(decided, "tool"), text_of(call, "id"));
    let line = match (decided["state"].as_str(), call["status"].as_str().unwrap_or_default()) {
        (Some("open"), _) if decided["wanted"].is_string() => {
            format!("Edited {tool}; {}.", clean_line(&text_of(decided, "wanted")))
        }
        (Some("open"), _) => {
            format!("Voted: {} of {} have approved {tool}.", decided["approved"], decided["need"])
        }
        (_, "completed") => format!("Approved {tool}; it completed."),
        (_, "pending") => format!("Approved {tool}, and more is asked by now; look at it again."),
        (_, "approved" | "running") => format!("Approved {tool}; it runs."),
        (_, status) => {
            format!("Approved {tool}; it is {status}: {}", clean_line(&text_of(&call["error"], "message")))
        }
    };
    let result = match &call["output"] {
        Value::Null => String::new(),
        output => format!("\n{}", clean(&serde_json::to_string_pretty(output).unwrap_or_default())),
    };
    format!("{line}\nSee `toolgate calls show {id}`.{result}")
}

pub async fn reject(reject: Reject, client: &Client, output: &Output) -> Done {
    let Reject { ids, reason } = reject;
    let body = json!({"decision": "reject", "reason": reason});
    let [id] = ids.as_slice() else { return several(&ids, body, client, output).await };
    let decided = client.post(&["approvals", id, "decide"], body).await?;
    let done = output.say(&decided, &format!("Rejected {}.", text_of(&decided, "tool")))?;
    if client.is_local() && !output.is_json() {
        stands_still(&decided, client).await;
    }
    Ok(done)
}

async fn several(ids: &[String], mut body: Value, client: &Client, output: &Output) -> Done {
    body["ids"] = json!(ids);
    let answers = client.post(&["approvals", "decide"], body).await?;
    output.show(&answers, |answers, paint| {
        let mut table = Table::new(["ID", "STATE", "REFUSED"]);
        for answer in items_of(answers) {
            table.row(["id", "state", "refused"].map(|member| text_of(answer, member)));
        }
        table.render(paint, "Nothing was decided.")
    })?;
    let refused = items_of(&answers).iter().any(|answer| !answer["refused"].is_null());
    Ok(if refused { Exit::Failed } else { Exit::Done })
}

fn table(approvals: &Value, paint: Paint) -> String {
    let mut table = Table::new(["UNTIL", "ID", "STATE", "TOOL", "BY", "WHY"]).drops(["STATE", "UNTIL", "WHY", "BY"]);
    for card in items_of(approvals) {
        let [id, state, tool] = ["id", "state", "tool"].map(|member| text_of(card, member));
        table.row([time_of(card, "expires_at"), id, state, tool, asker(card), codes(card)]);
    }
    table.render(paint, "Nothing waits for a decision.")
}

/// Who asks: the agent, else the person.
fn asker(card: &Value) -> String {
    match text_of(card, "agent") {
        agent if agent.is_empty() => text_of(card, "asked_by"),
        agent => format!("agent {agent}"),
    }
}

fn codes(card: &Value) -> String {
    let reasons = card["reasons"].as_array().into_iter().flatten();
    reasons.map(|reason| text_of(reason, "code")).collect::<Vec<_>>().join(", ")
}

/// The card: what is decided on, and what there is to know about it.
pub fn whole(card: &Value, paint: Paint) -> String {
    let reasons = card["reasons"].as_array().into_iter().flatten();
    let reasons: Vec<String> = reasons
        .map(|reason| {
            let by = text_of(reason, "by");
            let by = if by.is_empty() { String::new() } else { format!(" ({by})") };
            format!("- {}{by}", clean_line(&text_of(reason, "text")))
        })
        .collect();
    let votes = card["votes"].as_array().into_iter().flatten();
    let votes: Vec<String> = votes
        .map(|vote| {
            let line = format!("{} {} {}", person_of(vote, "voter"), text_of(vote, "vote"), text_of(vote, "reason"));
            let void = if vote["counts"] == false { " (does not count: may not decide any more)" } else { "" };
            format!("{}{void}", clean_line(line.trim_end()))
        })
        .collect();
    let need = match card["need"].as_u64() {
        Some(need) if need > 1 => format!("{need} people, {} so far", card["approved"]),
        _ => String::new(),
    };
    let asked = format!("{} ({})", text_of(card, "asked_by"), text_of(card, "principal"));
    let heading = format!("{} — {}", text_of(card, "tool"), text_of(card, "state"));
    let frozen = if card["frozen_at"].is_null() { "" } else { " (stands still: a kill switch is on)" };
    Detail::new(paint, &heading)
        .field("Id", text_of(card, "id"))
        .field("Call", text_of(card, "call_id"))
        .field("Run", text_of(card, "run_id"))
        .field("Agent", text_of(card, "agent"))
        .field("Asked by", asked)
        .field("Class", format!("{}, risk {}", text_of(card, "egress_class"), text_of(card, "risk")))
        .field("Reaches", text_of(card, "reaches"))
        .field("Secrets", secrets(card))
        .field("Labels", text_of(card, "labels"))
        .field("From", text_of(card, "origins"))
        .field("Mode", text_of(card, "mode"))
        .field("Needs", need)
        .field("Lends", lends(card))
        .field("Until", format!("{}{frozen}", time_of(card, "expires_at")))
        .field("Decided by", person_and_id(card, "decided_by"))
        .field("Because", text_of(card, "decision_reason"))
        .field("Hidden", hidden(card))
        .field("Digest", text_of(card, "input_digest"))
        .section("Why a person is asked", &reasons.join("\n"))
        .section("What will run", &pretty(&card["input"]))
        .section("What it would do", &foreseen::shown(&card["preview"], paint))
        .section("What was asked for first", &proposal(card))
        .section("Compared with the call before", &compared(card, paint))
        .section("Votes", &votes.join("\n"))
        .end()
}

/// The whole value, with every character that does not show itself written out.
fn proposal(card: &Value) -> String {
    match &card["proposed_input"] {
        Value::Null => String::new(),
        proposed => format!("{}\nedited by {}", pretty(proposed), clean_line(&person_of(card, "edited_by"))),
    }
}

fn lends(card: &Value) -> String {
    let right = text_of(card, "borrows");
    if right.is_empty() { right } else { format!("{right}: whoever approves has it, and lends it to this call") }
}

fn hidden(card: &Value) -> String {
    let found = text_of(card, "hidden_characters");
    if found.is_empty() { found } else { format!("{found}: the input holds characters that eyes do not see") }
}

fn secrets(card: &Value) -> String {
    let secrets = card["secrets"].as_array().into_iter().flatten();
    let named = secrets.map(|secret| format!("{} ({})", text_of(secret, "name"), text_of(secret, "scope")));
    named.collect::<Vec<_>>().join(", ")
}

/// Line by line: what is gone and what is new since the same caller used the tool last.
fn compared(card: &Value, paint: Paint) -> String {
    let earlier = &card["earlier"];
    if earlier["input"].is_null() {
        return String::new();
    }
    let heading = format!("{} {}", text_of(earlier, "call_id"), text_of(earlier, "status"));
    let lines = lines::compared(&earlier["input"], &card["input"], paint);
    if lines.is_empty() { format!("{heading}: the same input") } else { format!("{heading}\n{lines}") }
}
