//! `toolgate tool preflight`: whether a tool could be called now, as an exit status.

use super::call::nearest;
use crate::client::Client;
use crate::failure::{Done, Exit};
use crate::output::{Output, clean, note, text_of};

pub async fn run(name: &str, client: &Client, output: &Output) -> Done {
    let found = client.get(&["tools", name, "preflight"], &[]).await?;
    let tool = format!("{} {}", text_of(&found, "tool"), text_of(&found, "version"));
    let (exit, heading) = match found["state"].as_str() {
        Some("ready") => (Exit::Done, format!("{tool} is ready.")),
        Some("transient") => (Exit::Transient, format!("{tool} does not work now, and may later:")),
        Some("needs_person") => (Exit::NeedsPerson, format!("{tool} needs a person first:")),
        _ => (Exit::UnknownTool, String::new()),
    };
    output.show(&found, |found, _| {
        let reasons = found["reasons"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        let lines = Some(heading.clone()).filter(|heading| !heading.is_empty()).into_iter();
        clean(&lines.chain(reasons.map(|reason| format!("  {reason}"))).collect::<Vec<_>>().join("\n"))
            .trim_start()
            .to_owned()
    })?;
    if exit == Exit::UnknownTool
        && let Some(nearest) = nearest(name, client).await
    {
        note(&format!("Did you mean `{nearest}`?"));
    }
    Ok(exit)
}
