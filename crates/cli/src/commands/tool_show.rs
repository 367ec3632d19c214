//! `toolgate tool show`, `versions`, `diff`.

use serde_json::Value;

use super::{list, tool_list, tool_view};
use crate::args::Paging;
use crate::client::Client;
use crate::failure::Done;
use crate::output::{Output, Paint, Table, clean, items_of, person_of, text_of, time_of};

pub async fn run(name: &str, form: Option<String>, all: bool, client: &Client, output: &Output) -> Done {
    let rendered = form.is_some();
    let parameters = [("as", form), ("all", all.then(|| "true".to_owned()))];
    let failure = match client.get(&["tools", name], &parameters).await {
        Ok(tool) if rendered => return output.show(&tool, rendering),
        Ok(tool) => return output.show(&tool, tool_view::whole),
        Err(failure) => failure,
    };
    if failure.is_not_found()
        && let Some(functions) = tool_list::namespace(name, all, client).await?
    {
        return output.show(&functions, |functions, paint| tool_list::tools_table(functions, all, paint));
    }
    Err(failure)
}

/// A rendering is for a machine, so it is JSON also for people; a text is itself.
fn rendering(value: &Value, _: Paint) -> String {
    match value {
        Value::String(text) => clean(text),
        other => clean(&serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}

pub async fn versions(name: &str, paging: Paging, client: &Client, output: &Output) -> Done {
    list::show(&["tools", name, "versions"], &[], paging, (client, output), |versions, paint| {
        let mut table =
            Table::new(["VERSION", "STATE", "PUBLISHED", "BY", "DIGEST", "NOTE"]).drops(["DIGEST", "PUBLISHED", "BY"]);
        for version in items_of(versions) {
            let digest = text_of(version, "definition_digest").chars().take(12).collect();
            let note = [
                text_of(version, "message"),
                prefixed("until ", &text_of(version, "remove_by")),
                prefixed("use ", &text_of(version, "replaced_by")),
            ];
            let note = note.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
            table.row([
                text_of(version, "version"),
                text_of(version, "state"),
                time_of(version, "created_at"),
                person_of(version, "published_by"),
                digest,
                note,
            ]);
        }
        table.render(paint, "No versions.")
    })
    .await
}

fn prefixed(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
}

pub async fn diff(name: &str, from: Option<String>, to: Option<String>, client: &Client, output: &Output) -> Done {
    let diff = client.get(&["tools", name, "diff"], &[("from", from), ("to", to)]).await?;
    output.show(&diff, |diff, paint| {
        let (from, to) = (text_of(diff, "from"), text_of(diff, "to"));
        if from == to {
            return format!("{} has one version, {}: nothing to compare.", clean(name), clean(&to));
        }
        let heading = format!("{} {from} → {to}: {}", clean(name), text_of(diff, "class"));
        let changes = tool_view::changes(diff, paint);
        let text = colored(&clean(&text_of(diff, "text")), paint);
        [paint.bold(&clean(&heading)), changes, text]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    })
}

/// A unified diff in its usual colours.
pub fn colored(text: &str, paint: Paint) -> String {
    let color = |line: &str| match line.chars().next() {
        _ if line.starts_with("+++") || line.starts_with("---") => paint.bold(line),
        Some('+') => paint.green(line),
        Some('-') => paint.red(line),
        Some('@') => paint.dim(line),
        _ => line.to_owned(),
    };
    text.trim_end().lines().map(color).collect::<Vec<_>>().join("\n")
}
