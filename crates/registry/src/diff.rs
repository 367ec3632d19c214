//! What changed between two definitions of one tool, and what that means for those who call it.
//!
//! - `description`: only what a reader sees.
//! - `widening`: every call that worked still works and means at least what it meant. New optional input, more
//!   output, a longer timeout; also new insides (runner, cache) behind the same contract.
//! - `narrowing`: some calls that worked are now refused or asked about. A tighter bound, an optional member made
//!   required, a stricter class, risk or approval, a shorter timeout, a new required secret.
//! - `breaking`: callers must change, or people must look again. A member removed or renamed, a type changed, a
//!   new required input, output that readers relied on gone, another kind of runner, and any protection loosened
//!   (class, risk, approval, permission, guardrails, labels): that one breaks the promise made to approvers.
//!
//! Versions follow (`contracts.md` §14): breaking and narrowing are major, widening minor, description patch.

mod keywords;
mod members;
mod schema;

use std::collections::BTreeSet;
use std::fmt::Display;

use semver::Version;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use toolgate_contracts::definition::Definition;
use utoipa::ToSchema;

use crate::finding::shown;
use crate::tool_md;

/// Mildest first, so that the gravest of many is their `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeClass {
    #[default]
    None,
    Description,
    Widening,
    Narrowing,
    Breaking,
}

impl ChangeClass {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Description => "description",
            Self::Widening => "widening",
            Self::Narrowing => "narrowing",
            Self::Breaking => "breaking",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    pub pointer: String,
    pub class: ChangeClass,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    pub class: ChangeClass,
    pub changes: Vec<Change>,
}

/// Compares two definitions; the version itself is not a change.
pub fn compare(old: &Definition, new: &Definition) -> Difference {
    let mut changes = Changes::default();
    members::members(old, new, &mut changes);
    schema::input(&old.input_schema, &new.input_schema, &mut changes);
    schema::output(old.output_schema.as_ref(), new.output_schema.as_ref(), &mut changes);
    let Changes(mut changes) = changes;
    if changes.is_empty() && old.definition_digest() != new.definition_digest() {
        let message = "written differently, with the same meaning".to_owned();
        changes.push(Change { pointer: String::new(), class: ChangeClass::Description, message });
    }
    changes.sort_by(|left, right| {
        right
            .class
            .cmp(&left.class)
            .then_with(|| left.pointer.cmp(&right.pointer))
            .then_with(|| left.message.cmp(&right.message))
    });
    changes.dedup();
    let class = changes.first().map(|change| change.class).unwrap_or_default();
    Difference { class, changes }
}

/// The version that follows from the class of a change.
pub fn next_version(current: &Version, class: ChangeClass) -> Version {
    match class {
        ChangeClass::None => current.clone(),
        // A pre-release stands before its own release, so its release is the next patch.
        ChangeClass::Description if !current.pre.is_empty() => {
            Version::new(current.major, current.minor, current.patch)
        }
        ChangeClass::Description => Version::new(current.major, current.minor, current.patch.saturating_add(1)),
        ChangeClass::Widening => Version::new(current.major, current.minor.saturating_add(1), 0),
        ChangeClass::Narrowing | ChangeClass::Breaking => Version::new(current.major.saturating_add(1), 0, 0),
    }
}

/// The first version the server counts.
pub const fn first_version() -> Version {
    Version::new(1, 0, 0)
}

/// Both as `TOOL.md`, line by line, in the unified form people know.
pub fn text(old: &Definition, new: &Definition) -> String {
    let (before, after) = (tool_md::write(old), tool_md::write(new));
    let label = |definition: &Definition| match &definition.version {
        Some(version) => format!("{}@{version}", definition.name),
        None => definition.name.to_string(),
    };
    TextDiff::from_lines(before.as_str(), after.as_str())
        .unified_diff()
        .context_radius(3)
        .header(&label(old), &label(new))
        .to_string()
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn add(&mut self, pointer: &str, class: ChangeClass, message: impl Into<String>) {
        if class != ChangeClass::None {
            self.0.push(Change { pointer: pointer.to_owned(), class, message: message.into() });
        }
    }

    /// A member that only a reader sees.
    fn prose<T: PartialEq>(&mut self, pointer: &str, old: &T, new: &T) {
        if old != new {
            self.add(pointer, ChangeClass::Description, format!("`{}` changed", &pointer[1..]));
        }
    }

    /// A member that changes what happens inside, not what a caller may send or will get.
    fn inside<T: PartialEq>(&mut self, pointer: &str, old: &T, new: &T) {
        if old != new {
            self.add(pointer, ChangeClass::Widening, format!("`{}` changed", &pointer[1..]));
        }
    }

    /// A protection: stricter is narrowing, looser is breaking. Values grow with strictness.
    fn protection<T: PartialOrd + Display>(&mut self, pointer: &str, old: &T, new: &T) {
        let name = &pointer[1..];
        if new > old {
            self.add(
                pointer,
                ChangeClass::Narrowing,
                format!("`{name}` went from `{old}` to `{new}`, which is stricter"),
            );
        } else if new < old {
            self.add(
                pointer,
                ChangeClass::Breaking,
                format!("`{name}` went from `{old}` to `{new}`, which loosens a protection"),
            );
        }
    }

    /// A limit on what a call may use: less is narrowing, more is widening.
    fn allowance(&mut self, pointer: &str, old: u64, new: u64) {
        let class = if new < old { ChangeClass::Narrowing } else { ChangeClass::Widening };
        if new != old {
            self.add(pointer, class, format!("`{}` went from {old} to {new}", &pointer[1..]));
        }
    }

    fn switch(&mut self, pointer: &str, old: bool, new: bool, on: ChangeClass, off: ChangeClass) {
        if old != new {
            let class = if new { on } else { off };
            self.add(pointer, class, format!("`{}` went from `{old}` to `{new}`", &pointer[1..]));
        }
    }

    /// Members of a set that came and went.
    fn set<'a>(
        &mut self,
        pointer: &str,
        old: impl IntoIterator<Item = &'a str>,
        new: impl IntoIterator<Item = &'a str>,
        came: ChangeClass,
        went: ChangeClass,
    ) {
        let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (old.into_iter().collect(), new.into_iter().collect());
        for name in new.difference(&old) {
            self.add(pointer, came, format!("`{}` was added to `{}`", shown(name), &pointer[1..]));
        }
        for name in old.difference(&new) {
            self.add(pointer, went, format!("`{}` was removed from `{}`", shown(name), &pointer[1..]));
        }
    }
}

#[cfg(test)]
mod tests;
