//! `toolgate grant …`, and the standing grant that is made with a decision.

use serde_json::{Value, json};

use super::{counted, list};
use crate::args::{GrantCommand, NewGrant, Standing};
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Output, Paint, Table, clean_line, items_of, person_of, text_of, time_of};

/// Among so many of the newest grants is the one that was just made.
const LOOKED_AT: u32 = 50;
/// How many members of an input are named where nothing is said about them.
const SUGGESTED_MAX: usize = 3;

pub async fn run(command: GrantCommand, client: &Client, output: &Output) -> Done {
    match command {
        GrantCommand::List { paging } => list::show(&["grants"], &[], paging, (client, output), table).await,
        GrantCommand::Create(new) => {
            let NewGrant { tool, agent, constraints, uses, expires, run, reason } = new;
            let body = json!({
                "tool": tool, "agent": agent, "constraints": input::constraints(&constraints)?, "uses": uses,
                "expires_s": expires, "run_id": run, "reason": reason,
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

/// What a decision allows besides the call itself.
pub async fn wanted(standing: Standing, id: &str, client: &Client) -> Result<Value, Failure> {
    let Standing { wanted: _, constraints, uses, expires, this_run } = standing;
    if constraints.is_empty() || this_run {
        let card = client.get(&["approvals", id], &[]).await?;
        if constraints.is_empty() {
            return Err(unconstrained(&card));
        }
        let run = &card["run_id"];
        return Ok(body(json!({"constraints": input::constraints(&constraints)?, "run_id": run}), uses, expires));
    }
    Ok(body(json!({"constraints": input::constraints(&constraints)?}), uses, expires))
}

fn body(mut grant: Value, uses: Option<u32>, expires: Option<u64>) -> Value {
    if let Value::Object(members) = &mut grant {
        members.extend(uses.map(|uses| ("uses".to_owned(), uses.into())));
        members.extend(expires.map(|seconds| ("expires_s".to_owned(), seconds.into())));
    }
    grant
}

/// Says what could be demanded of calls like this one, with what this one was given.
fn unconstrained(card: &Value) -> Failure {
    let members = card["input"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_object());
    let written = |(name, value): (&String, &Value)| {
        let pointer = name.replace('~', "~0").replace('/', "~1");
        format!("--constraint '/{pointer} const {value}'")
    };
    let suggested: Vec<String> = members.map(written).take(SUGGESTED_MAX).collect();
    let example =
        if suggested.is_empty() { "--constraint '/path path_under out'".to_owned() } else { suggested.join(" ") };
    Failure::usage(
        "--standing does not say which calls it allows",
        format!("say what must hold of their input, for example {}", clean_line(&example)),
    )
}

/// What was allowed, in words; empty lines before it belong to it.
pub async fn made(decided: &Value, client: &Client) -> String {
    let Some(id) = decided["standing"].as_str() else {
        return "\n\nNo standing grant was made: it is made with the last vote that approves.".to_owned();
    };
    let found = client.list(&["grants"], &[], LOOKED_AT).await.unwrap_or_default();
    let words = match items_of(&found).iter().find(|grant| grant["id"] == id) {
        Some(grant) => in_words(grant),
        None => "Calls like it need nobody for a while.".to_owned(),
    };
    format!("\n\n{words}\nTake it back with `toolgate grant revoke {id}`.")
}

fn in_words(grant: &Value) -> String {
    let run = if grant["run_id"].is_null() { "" } else { " in the same run" };
    let left = counted(&grant["uses_max"], "more call");
    let of = format!("of {} by {}{run}", text_of(grant, "tool"), whom(grant));
    clean_line(&format!(
        "From now on nobody is asked for up to {left} {of}, until {}, where {}.",
        time_of(grant, "expires_at"),
        constraints(grant).join(" and ")
    ))
}

fn table(grants: &Value, paint: Paint) -> String {
    let mut table = Table::new(["UNTIL", "ID", "HOLDS", "USED", "TOOL", "FOR", "WHERE", "BY"])
        .cuts("WHERE")
        .drops(["BY", "UNTIL", "USED", "WHERE", "HOLDS"]);
    for grant in items_of(grants) {
        let used = format!("{}/{}", grant["uses"], grant["uses_max"]);
        let holds = if grant["holds"] == true { "yes" } else { "no" };
        table.row([
            time_of(grant, "expires_at"),
            text_of(grant, "id"),
            holds.to_owned(),
            used,
            text_of(grant, "tool"),
            whom(grant),
            constraints(grant).join("; "),
            person_of(grant, "issued_by"),
        ]);
    }
    table.render(paint, "No standing grants; make one with `toolgate grant create`.")
}

/// Whose calls it allows.
fn whom(grant: &Value) -> String {
    match text_of(grant, "agent") {
        agent if agent.is_empty() => person_of(grant, "principal"),
        agent => format!("agent {agent}"),
    }
}

fn constraints(grant: &Value) -> Vec<String> {
    grant["constraints"].as_array().into_iter().flatten().map(constraint).collect()
}

/// `{"pointer": "/path", "prefix": "out/"}` as `/path prefix "out/"`, which is how it can be written too.
fn constraint(constraint: &Value) -> String {
    let members = constraint.as_object().into_iter().flatten();
    let demands: Vec<String> =
        members.filter(|(name, _)| *name != "pointer").map(|(name, value)| format!("{name} {value}")).collect();
    format!("{} {}", text_of(constraint, "pointer"), demands.join(", "))
}
