//! Pages of lists that are in memory: the same query, the same cursors, the same limits for every one of them.

use serde::Deserialize;
use toolgate_contracts::page::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use toolgate_contracts::{Fault, Page};
use toolgate_store::cursor::ListOf;
use utoipa::IntoParams;

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// 1 to 500; 50 without it.
    pub limit: Option<u32>,
}

/// A list without parameters: any is refused by its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoQuery {}

pub fn page_limit(wanted: Option<u32>) -> Result<u32, Fault> {
    match wanted {
        None => Ok(PAGE_ITEMS_DEFAULT),
        Some(limit) if (1..=PAGE_ITEMS_MAX).contains(&limit) => Ok(limit),
        Some(limit) => Err(Fault::invalid(
            format!("`limit` is {limit}"),
            format!("ask for 1 to {PAGE_ITEMS_MAX} items, and follow `next_cursor`"),
        )
        .at("/limit")),
    }
}

/// One page of `items`, which `key` orders and tells apart.
pub fn page_of<T>(
    mut items: Vec<T>,
    key: impl Fn(&T) -> String,
    list: &ListOf<'_>,
    cursor: Option<&str>,
    limit: Option<u32>,
) -> Result<Page<T>, Fault> {
    let limit = page_limit(limit)? as usize;
    let after = cursor.map(|cursor| list.key(cursor)).transpose()?;
    items.sort_by_cached_key(&key);
    if let Some(after) = after {
        items.retain(|item| key(item) > after);
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = if more { items.last().map(|last| list.cursor(&key(last))) } else { None };
    Ok(Page { items, next_cursor })
}
