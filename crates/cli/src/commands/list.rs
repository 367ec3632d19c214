//! A list, however many pages of the API it takes.

use serde_json::Value;

use crate::args::Limit;
use crate::client::{Client, Parameter};
use crate::failure::Done;
use crate::output::{Output, Paint, note};

/// Shows up to `limit` items, and says when there are more.
pub async fn show(
    path: &[&str],
    query: &[Parameter<'_>],
    Limit { limit }: Limit,
    (client, output): (&Client, &Output),
    table: impl FnOnce(&Value, Paint) -> String,
) -> Done {
    let page = client.list(path, query, limit).await?;
    let done = output.show(&page, table)?;
    if page["next_cursor"].is_string() {
        note(&format!("There are more than these {limit}; ask for more with --limit."));
    }
    Ok(done)
}
