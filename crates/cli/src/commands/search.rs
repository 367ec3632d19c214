//! `toolgate search` and `tool search`.

use crate::client::Client;
use crate::failure::Done;
use crate::output::{Output, Table, items_of, text_of};

pub async fn run(client: &Client, output: &Output, query: &str, kind: Option<String>, limit: u32) -> Done {
    let parameters = [("q", Some(query.to_owned())), ("kind", kind), ("limit", Some(limit.to_string()))];
    let found = client.get(&["search"], &parameters).await?;
    output.show(&found, |found, paint| {
        let mut table = Table::new(["KIND", "NAME", "CLASS", "CATEGORY", "DESCRIPTION"]).drops(["CATEGORY", "CLASS"]);
        for item in items_of(found) {
            table.row(["kind", "name", "egress_class", "category", "description"].map(|member| text_of(item, member)));
        }
        table.render(paint, "Nothing found; try other words, or `toolgate tool list`.")
    })
}
