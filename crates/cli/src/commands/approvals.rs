//! `toolgate approvals …`, `toolgate tool approve|reject` and `toolgate grant …`: what waits for a person, looked at and
//! decided on.
//!
//! Everything that is shown comes from the stored bytes, whole: what is long is printed at length, what does not show
//! itself is written out. Nothing that a caller says about its call stands anywhere but in the input.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use tokio::time::{Duration, Instant};

use super::list;
use crate::args::{Approvals, ApprovalsCommand, Approve, GrantCommand, ListApprovals, NewGrant, Reject};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, clean_line, items_of, print, text_of, time_of};

const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn run(approvals: Approvals, client: &Client, output: &Output) -> Done {
    match approvals.command.unwrap_or(ApprovalsCommand::List(approvals.list)) {
        ApprovalsCommand::List(wanted) => {
            let ListApprovals { state, all, tool, agent, workspace, limit } = wanted;
            let query =
                [("state", (!all).then_some(state)), ("tool", tool), ("agent", agent), ("workspace", workspace)];
            list::show(&["approvals"], &query, limit, (client, output), table).await
        }
        ApprovalsCommand::Show { id } => {
            let card = client.get(&["approvals", &id], &[]).await?;
            output.show(&card, whole)
        }
        ApprovalsCommand::Approve(approve) => self::approve(approve, client, output).await,
        ApprovalsCommand::Reject(reject) => self::reject(reject, client, output).await,
        ApprovalsCommand::Watch => watch(client, output).await,
    }
}

pub async fn approve(approve: Approve, client: &Client, output: &Output) -> Done {
    let Approve { ids, input, reason, wait } = approve;
    let body = json!({"decision": "approve", "reason": reason});
    let [id] = ids.as_slice() else {
        if input.is_some() {
            return Err(Failure::usage("--input with several calls", "edit them one by one"));
        }
        return several(&ids, body, client, output).await;
    };
    let mut body = body;
    if let Some(text) = &input {
        body["input"] = input::json_or_file(text, "--input")?;
    }
    let decided = client.post(&["approvals", id, "decide"], body).await?;
    let call = text_of(&decided, "call_id");
    let ended = ended(&call, wait, client).await?;
    let status = text_of(&ended, "status");
    output.show(&json!({"approval": decided, "call": ended}), |_, _| told(&decided, &ended))?;
    Ok(match status.as_str() {
        "completed" => Exit::Done,
        "pending" | "approved" | "running" | "outcome_unknown" => Exit::Waiting,
        _ => Exit::Failed,
    })
}

/// The call after a decision. Without a server it runs in this process, which therefore stays.
async fn ended(call: &str, wait: u32, client: &Client) -> Result<Value, Failure> {
    let until = Instant::now() + Duration::from_secs(wait.into());
    loop {
        let found = client.get(&["calls", call], &[]).await?;
        let goes_on = matches!(found["status"].as_str(), Some("approved" | "running"));
        let elsewhere = found["status"] == "running" && runs_elsewhere(&found, client).await;
        let patient = client.is_local() || Instant::now() < until;
        if !goes_on || elsewhere || !patient {
            return Ok(found);
        }
        // Not longer: more may be asked meanwhile, and a call that waits for people has no end to wait for.
        client.get(&["calls", call], &[("wait", Some("1".to_owned()))]).await?;
    }
}

/// Whoever asked, or a worker, carries it out: that goes on without us.
async fn runs_elsewhere(call: &Value, client: &Client) -> bool {
    if call["mode"] == "record" {
        return true;
    }
    let reference = format!("{}@{}", text_of(call, "name"), text_of(call, "version"));
    let tool = client.get(&["tools", &reference], &[]).await;
    tool.is_ok_and(|tool| tool["runner"]["kind"] == "external")
}

fn told(decided: &Value, call: &Value) -> String {
    let (tool, id) = (text_of(decided, "tool"), text_of(call, "id"));
    let line = match (decided["state"].as_str(), call["status"].as_str().unwrap_or_default()) {
        (Some("open"), _) => {
            let (votes, need) = (items_of(&json!({"items": decided["votes"]})).len(), &decided["need"]);
            format!("Voted: {votes} of {need} have approved {tool}.")
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
    output.say(&decided, &format!("Rejected {}.", text_of(&decided, "tool")))
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

/// Prints what begins to wait. Nothing else can happen while a command has the data folder, so it needs a server.
async fn watch(client: &Client, output: &Output) -> Done {
    if client.is_local() {
        return Err(Failure::usage(
            "nothing can be asked while this command has the data folder",
            "start a server with `toolgate serve`, and watch that",
        ));
    }
    let mut known = BTreeSet::new();
    loop {
        let page = client.list(&["approvals"], &[("state", Some("open".to_owned()))], 500).await?;
        for card in items_of(&page) {
            if known.insert(text_of(card, "id")) {
                if output.is_json() {
                    output.show_line(card, |_, _| String::new())?;
                } else {
                    let by = text_of(card, "agent");
                    let by = if by.is_empty() { text_of(card, "asked_by") } else { by };
                    let until = time_of(card, "expires_at");
                    let line = format!("{}  {}  {by}  until {until}", text_of(card, "id"), text_of(card, "tool"));
                    print(&clean_line(&line))?;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Done),
        }
    }
}

fn table(approvals: &Value, paint: Paint) -> String {
    let mut table = Table::new(["UNTIL", "ID", "STATE", "TOOL", "BY", "WHY"]);
    for card in items_of(approvals) {
        let [id, state, tool, agent, asker] =
            ["id", "state", "tool", "agent", "asked_by"].map(|member| text_of(card, member));
        let by = if agent.is_empty() { asker } else { agent };
        table.row([time_of(card, "expires_at"), id, state, tool, by, codes(card)]);
    }
    table.render(paint, "Nothing waits for a decision.")
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
            let line = format!("{} {} {}", text_of(vote, "voter"), text_of(vote, "vote"), text_of(vote, "reason"));
            clean_line(&line)
        })
        .collect();
    let need = match card["need"].as_u64() {
        Some(need) if need > 1 => format!("{need} people, {} so far", votes.len()),
        _ => String::new(),
    };
    let asked = format!("{} {}", text_of(card, "asked_by"), text_of(card, "principal"));
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
        .field("Until", format!("{}{frozen}", time_of(card, "expires_at")))
        .field("Decided by", text_of(card, "decided_by"))
        .field("Because", text_of(card, "decision_reason"))
        .field("Hidden", hidden(card))
        .field("Digest", text_of(card, "input_digest"))
        .section("Why a person is asked", &reasons.join("\n"))
        .section("What will run", &pretty(&card["input"]))
        .section("What was asked for first", &proposal(card))
        .section("Compared with the call before", &compared(card, paint))
        .section("Votes", &votes.join("\n"))
        .end()
}

/// The whole value, with every character that does not show itself written out.
fn pretty(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => clean(&serde_json::to_string_pretty(value).unwrap_or_default()),
    }
}

fn proposal(card: &Value) -> String {
    match &card["proposed_input"] {
        Value::Null => String::new(),
        proposed => format!("{}\nedited by {}", pretty(proposed), clean_line(&text_of(card, "edited_by"))),
    }
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
    let (before, now) = (pretty(&earlier["input"]), pretty(&card["input"]));
    let heading = format!("{} {}", text_of(earlier, "call_id"), text_of(earlier, "status"));
    if before == now {
        return format!("{heading}: the same input");
    }
    let diff = TextDiff::from_lines(&before, &now);
    let lines = diff.iter_all_changes().map(|change| {
        let line = change.value().trim_end_matches('\n');
        match change.tag() {
            ChangeTag::Delete => paint.red(&format!("- {line}")),
            ChangeTag::Insert => paint.green(&format!("+ {line}")),
            ChangeTag::Equal => format!("  {line}"),
        }
    });
    format!("{heading}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

pub async fn grant(command: GrantCommand, client: &Client, output: &Output) -> Done {
    match command {
        GrantCommand::List { limit } => list::show(&["grants"], &[], limit, (client, output), grants).await,
        GrantCommand::Create(new) => {
            let NewGrant { tool, agent, constraints, uses, expires, run, reason } = new;
            let mut read = Vec::with_capacity(constraints.len());
            for constraint in &constraints {
                read.push(input::json_or_file(constraint, "--constraint")?);
            }
            let body = json!({
                "tool": tool, "agent": agent, "constraints": read, "uses": uses, "expires_s": expires, "run_id": run,
                "reason": reason,
            });
            let grant = client.post(&["grants"], body).await?;
            // The id alone, for a script to go on with.
            output.show(&grant, |grant, _| text_of(grant, "id"))
        }
        GrantCommand::Revoke { id } => {
            let grant = client.delete(&["grants", &id]).await?;
            output.say(&grant, &format!("Took back the grant for {}.", text_of(&grant, "tool")))
        }
    }
}

fn grants(grants: &Value, paint: Paint) -> String {
    let mut table = Table::new(["UNTIL", "ID", "HOLDS", "USED", "TOOL", "BY", "FOR"]);
    for grant in items_of(grants) {
        let [id, tool, agent, principal] = ["id", "tool", "agent", "principal"].map(|member| text_of(grant, member));
        let used = format!("{}/{}", grant["uses"], grant["uses_max"]);
        let holds = if grant["holds"] == true { "yes" } else { "no" };
        let whom = if agent.is_empty() { principal } else { agent };
        let constraints: Vec<String> = grant["constraints"].as_array().into_iter().flatten().map(constraint).collect();
        table.row([time_of(grant, "expires_at"), id, holds.to_owned(), used, tool, whom, constraints.join("; ")]);
    }
    table.render(paint, "No standing grants.")
}

/// `{"pointer": "/path", "prefix": "out/"}` as `path prefix "out/"`.
fn constraint(constraint: &Value) -> String {
    let members = constraint.as_object().into_iter().flatten();
    let demands: Vec<String> =
        members.filter(|(name, _)| *name != "pointer").map(|(name, value)| format!("{name} {value}")).collect();
    let pointer = text_of(constraint, "pointer");
    format!("{} {}", pointer.trim_start_matches('/'), demands.join(", "))
}
