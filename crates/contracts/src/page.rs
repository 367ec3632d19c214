//! The one shape of a list.

use serde::{Deserialize, Serialize};

pub const PAGE_ITEMS_DEFAULT: u32 = 50;
pub const PAGE_ITEMS_MAX: u32 = 500;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Sent back as `cursor`, it continues exactly this list; `null` at the end.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A list that always fits one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }

    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(convert).collect(), next_cursor: self.next_cursor }
    }
}
