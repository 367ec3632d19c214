//! Tables and lists in the documents against the code they describe.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contracts::agent::{AgentSpec, Limits, Profile, TenantLimits};
use toolgate_contracts::fault::REASONS;
use toolgate_contracts::{Definition, FaultKind, Permission, Role, json as strict};

use super::{documents, root, text_of};

/// Every named thing must stand in backticks in the document.
#[track_caller]
fn names_all<'a>(document: &str, what: &str, names: impl IntoIterator<Item = &'a str>) {
    let text = text_of(document);
    let missing: Vec<&str> = names.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{document} does not name the {what}: {missing:?}");
}

/// The members that a type accepts, as serde lists them; spellings accepted for others' sake are left out.
fn members<T: DeserializeOwned>() -> Vec<String> {
    let error = match strict::decode::<T>(json!({"?": 0})) {
        Ok(_) => panic!("an unknown member was accepted"),
        Err(error) => error.message,
    };
    let names =
        error.split("expected one of").nth(1).unwrap_or_else(|| panic!("{error}")).split('`').skip(1).step_by(2);
    names.filter(|name| !name.contains(|c: char| c.is_uppercase())).map(str::to_owned).collect()
}

#[test]
fn every_command_is_in_the_reference() {
    let text = text_of("docs/cli.md");
    let commands = text_of("docs/commands.txt");
    let missing: Vec<&str> =
        commands.lines().filter(|path| !path.is_empty() && !text.contains(&format!("toolgate {path}"))).collect();
    assert!(missing.is_empty(), "docs/cli.md does not show: {missing:?}");
}

#[test]
fn every_test_of_an_incident_is_there() {
    let mut count = 0;
    for row in text_of("docs/incidents.md").lines().filter(|row| row.starts_with("| ") && row.contains('/')) {
        let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
        let [.., file, name] = cells.as_slice() else { panic!("{row}") };
        let kind = std::path::Path::new(file).extension().and_then(|kind| kind.to_str());
        if !matches!(kind, Some("rs" | "mjs")) {
            continue;
        }
        let text = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(name), "{file} has no `{name}`");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn the_table_of_roles_is_the_code_s() {
    let mut table = String::from("| permission |");
    for role in Role::ALL {
        let _ = write!(table, " {role} |");
    }
    table.push_str("\n| --- |");
    table.push_str(&" --- |".repeat(Role::ALL.len()));
    table.push('\n');
    for permission in Permission::ALL {
        let _ = write!(table, "| `{permission}` |");
        for role in Role::ALL {
            table.push_str(if role.permissions().contains(permission) { " yes |" } else { " |" });
        }
        table.push('\n');
    }
    assert!(text_of("docs/access.md").contains(&table), "docs/access.md should hold:\n{table}");
}

#[test]
fn every_tool_that_ships_is_in_the_table_with_its_class_and_risk() {
    let page = text_of("docs/toolbox.md");
    for tool in toolgate_toolbox::TOOLS {
        let definition = toolgate_registry::tool_md::parse(tool.text).map(|authored| authored.definition).unwrap();
        let row = format!("| `{}` | `{}` | {} | ", definition.name, definition.class(), definition.effective_risk());
        assert!(page.contains(&row), "docs/toolbox.md should have a row `{row}…`");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, toolgate_toolbox::TOOLS.len(), "a row of a tool that does not ship");
}

#[test]
fn every_reason_has_a_page() {
    use FaultKind::{
        Conflict, Forbidden, Internal, Invalid, NotFound, RateLimited, TooLarge, Unauthenticated, Unavailable,
    };
    let kinds = [Invalid, Unauthenticated, Forbidden, NotFound, Conflict, TooLarge, RateLimited, Unavailable, Internal];
    for kind in kinds {
        let page = text_of(&format!("docs/errors/{}.md", kind.reason()));
        let code = serde_json::to_value(kind.code()).unwrap();
        assert!(page.contains(&format!("HTTP {}", kind.status())), "{}: its status", kind.reason());
        assert!(page.contains(&format!("`{}`", code.as_str().unwrap_or_default())), "{}: its code", kind.reason());
    }
}

#[test]
fn every_reason_of_a_failed_call_is_explained() {
    let page = text_of("docs/errors/calls.md");
    let mut rows = 0;
    for (code, reasons) in REASONS {
        let code = serde_json::to_value(code).unwrap();
        for reason in reasons {
            let row = format!("| `{}` | `{reason}` | ", code.as_str().unwrap_or_default());
            assert!(page.contains(&row), "docs/errors/calls.md should have a row `{row}…`");
            rows += 1;
        }
    }
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), rows, "a row of a reason that is none");
}

#[test]
fn every_member_of_a_file_is_described() {
    let of = |members: Vec<String>, document: &str, what: &str| {
        names_all(document, what, members.iter().map(String::as_str));
    };
    of(members::<Definition>(), "docs/tools.md", "members of a TOOL.md");
    of(members::<AgentSpec>(), "docs/agents.md", "members of an agent");
    of(members::<Limits>(), "docs/agents.md", "limits");
    of(members::<Profile>(), "docs/agents.md", "members of a profile");
    of(members::<TenantLimits>(), "docs/limits.md", "limits of a tenant");
}

/// Words in quotes that follow one of `openers` in the sources of a crate.
fn literals_after(folder: &str, openers: &[&str]) -> BTreeSet<String> {
    fn walk(folder: &std::path::Path, found: &mut String) {
        for entry in folder.read_dir().unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if !path.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                found.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
            }
        }
    }
    let mut text = String::new();
    walk(&root().join(folder), &mut text);
    let after = |opener: &&str| {
        text.split(*opener)
            .skip(1)
            .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    openers.iter().flat_map(after).collect()
}

#[test]
fn every_finding_is_described() {
    let openers = ["Finding::error(", "Finding::warning(", "Finding::note(", ".refuse(", ".warn(", ".error("];
    let codes: BTreeSet<String> = ["crates/registry/src", "crates/workflows/src", "crates/cli/src"]
        .iter()
        .flat_map(|folder| literals_after(folder, &openers))
        .collect();
    let codes: Vec<&str> = codes.iter().map(String::as_str).filter(|code| code.contains('.')).collect();
    assert!(codes.len() > 50, "only {codes:?} were found");
    names_all("docs/findings.md", "findings", codes);
}

#[test]
fn every_rule_of_the_database_is_described() {
    let mut rules = BTreeSet::new();
    for file in root().join("crates/store/migrations").read_dir().unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || matches!(c, '\'' | '(' | ')'))
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(3) {
            let rule = match pair {
                ["CONSTRAINT", name, next] if *next != "=" && *name != "=" => Some(name),
                ["rule:", name, _] if *name != "%" => Some(name),
                ["UNIQUE", "INDEX", name] => Some(name),
                ["toolgate_refuse" | "append_only", name, _] if name.contains('_') && !name.contains('[') => Some(name),
                _ => None,
            };
            rules.extend(rule.map(|rule| (*rule).to_owned()));
        }
    }
    assert!(rules.len() > 20, "only {rules:?} were found");
    names_all("docs/database.md", "rules", rules.iter().map(String::as_str));
}

#[test]
fn every_route_is_listed() {
    let document = serde_json::to_value(toolgate_server::api::document()).unwrap();
    let text = text_of("docs/rest.md");
    let mut missing = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().into_iter().flat_map(serde_json::Map::keys) {
            let route = format!("`{} {path}`", method.to_uppercase());
            if !text.contains(&route) {
                missing.push(route);
            }
        }
    }
    assert!(missing.is_empty(), "docs/rest.md does not list: {missing:?}");
    let known = |route: &str| {
        let (method, path) = route.split_once(' ').unwrap_or_default();
        document["paths"][path].get(method.to_lowercase()).is_some_and(Value::is_object)
    };
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let gone: Vec<&str> = rows.filter(|cell| cell.contains(" /")).filter(|route| !known(route)).collect();
    assert!(gone.is_empty(), "docs/rest.md lists what is not there: {gone:?}");
}

/// Pages of a folder are listed in its own index, the others in `docs/index.md`.
#[test]
fn every_document_is_in_the_contents() {
    for name in documents() {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", &name));
        let (index, link) = match (folder, file) {
            ("docs", "index.md") => continue,
            ("", _) => ("docs/index.md".to_owned(), format!("](../{file})")),
            ("docs", _) => ("docs/index.md".to_owned(), format!("]({file})")),
            (_, "index.md") => {
                ("docs/index.md".to_owned(), format!("]({}/index.md)", folder.trim_start_matches("docs/")))
            }
            _ => (format!("{folder}/index.md"), format!("]({file})")),
        };
        assert!(text_of(&index).contains(&link), "{index} does not link to {name}");
    }
}
