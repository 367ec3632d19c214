//! A list, however many pages of the API it takes.

use serde_json::Value;

use crate::args::Paging;
use crate::client::{Client, Parameter};
use crate::failure::Done;
use crate::output::{Output, Paint, note};

/// Shows up to `limit` items from `cursor` on, and says how to see more where there are.
pub async fn show(
    path: &[&str],
    query: &[Parameter<'_>],
    Paging { limit, cursor }: Paging,
    (client, output): (&Client, &Output),
    table: impl FnOnce(&Value, Paint) -> String,
) -> Done {
    let query: Vec<Parameter<'_>> = query.iter().cloned().chain([("cursor", cursor)]).collect();
    let page = client.list(path, &query, limit).await?;
    let done = output.show(&page, table)?;
    if let Some(cursor) = page["next_cursor"].as_str() {
        // A time that was said as so long ago is another one by then, and a cursor is for one list.
        let moments = query.iter().filter(|(name, _)| matches!(*name, "since" | "until"));
        let moments = moments.filter_map(|(name, moment)| Some(format!(" --{name} {}", moment.as_ref()?)));
        let same = moments.collect::<String>();
        note(&format!(
            "There are more than these {limit}: ask for more with --limit, or go on with{same} --cursor {cursor}"
        ));
    }
    Ok(done)
}
