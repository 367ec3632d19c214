//! Queries as people and models put them, over a registry as it would be.

use super::*;

fn entry(name: &str, description: &str, tags: &[&str], category: &str) -> Entry {
    Entry {
        kind: Kind::Tool,
        name: name.to_owned(),
        title: String::new(),
        description: description.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        category: category.to_owned(),
        aliases: Vec::new(),
    }
}

fn registry() -> Vec<Entry> {
    let mut entries = vec![
        entry(
            "calculator",
            "Evaluate an arithmetic expression. Use this for any sum instead of guessing.",
            &["math"],
            "system",
        ),
        entry(
            "web_search",
            "Search the web for current facts. Do not use it for files of the tenant.",
            &["search", "internet"],
            "research",
        ),
        entry("read_file", "Read a text file from the workspace.", &["file"], "data"),
        entry("write_file", "Write text into a file of the workspace.", &["file"], "data"),
        entry("delete_file", "Delete a file for ever.", &["file"], "data/management"),
        entry("list_files", "List the files in a folder.", &["file"], "data/exploration"),
        entry("http_get", "Fetch a page over HTTP.", &["http"], "development"),
        entry(
            "http_request",
            "Send an HTTP request with any method and body to an API.",
            &["http", "api"],
            "development",
        ),
        entry("send_email", "Send an email to a recipient.", &["email", "notify"], "communication"),
        entry("database_read", "Run a read-only SQL query.", &["sql"], "data/exploration"),
        entry("run_sql_write", "Run a SQL statement that changes data.", &["sql"], "data/management"),
        entry("run_python", "Run Python code in a sandbox.", &["code"], "development/execution"),
        entry("now", "The current date and time.", &["clock"], "system"),
        entry("wait", "Pause for some seconds.", &[], "system"),
        entry("json_query", "Select parts of a JSON document by a pointer.", &["json"], "data"),
        entry("request_input", "Ask a person a question and wait for the answer.", &["human"], "productivity"),
        entry("generate-image", "Generate a picture from a text.", &["image"], "media"),
        entry("listAgents", "List the agents that can be delegated to.", &["agents"], "productivity"),
        entry("delegateToAgent", "Hand a task to another agent and wait for its answer.", &["agents"], "productivity"),
        entry("listNotifications", "List what the user was told lately.", &["inbox"], "productivity"),
        entry("calculateRoi", "Calculate net present value and payback period.", &["finance"], "data"),
    ];
    entries[1].aliases.push("webSearch".to_owned());
    entries.push(Entry {
        kind: Kind::Skill,
        ..entry("weekly-report", "How to write the weekly report from tickets.", &["report"], "productivity")
    });
    entries.push(Entry {
        kind: Kind::Agent,
        ..entry("researcher", "Answers questions from the web with sources.", &["research"], "research")
    });
    entries
}

#[track_caller]
fn first(query: &str, expected: &str) {
    let index = Index::build(registry());
    let names: Vec<_> =
        index.search(query, LIMIT_DEFAULT, |_, _| true).iter().map(|hit| hit.entry.name.clone()).collect();
    assert_eq!(names.first().map(String::as_str), Some(expected), "{query}: {names:?}");
}

#[test]
fn a_wish_finds_its_tool() {
    first("send a notification", "send_email");
    first("mail a colleague", "send_email");
    first("how do I do maths", "calculator");
    first("add two numbers with arithmetic", "calculator");
    first("look something up on the internet", "web_search");
    first("remove a document", "delete_file");
    first("what time is it", "now");
    first("draw a picture", "generate-image");
    first("query the database", "database_read");
    first("ask the user a question", "request_input");
    first("which assistants are there", "listAgents");
    first("execute some code", "run_python");
    first("weekly report", "weekly-report");
}

#[test]
fn tags_help_and_are_not_needed() {
    let mut entries = registry();
    for entry in &mut entries {
        entry.tags.clear();
    }
    let index = Index::build(entries);
    assert_eq!(index.search("send a notification", 5, |_, _| true)[0].entry.name, "send_email");
}

#[test]
fn names_and_aliases_come_first_in_any_spelling() {
    first("webSearch", "web_search");
    first("WEB-SEARCH", "web_search");
    first("web search", "web_search");
    first("generateImage", "generate-image");
    first("read_file", "read_file");
    first("websearch the news", "web_search");
}

#[test]
fn typing_errors_are_forgiven() {
    first("send a notificaton", "send_email");
    first("calcualtor", "calculator");
    first("serach the wbe", "web_search");
    first("delet file", "delete_file");
    first("pyhton", "run_python");
}

#[test]
fn five_by_default_and_only_what_may_be_seen() {
    let index = Index::build(registry());
    assert_eq!(index.search("file", LIMIT_DEFAULT, |_, _| true).len(), 5);
    assert_eq!(index.search("file", 2, |_, _| true).len(), 2);
    assert_eq!(index.search("file", 0, |_, _| true).len(), 0);
    let seen = index.search("send_email", 5, |_, entry| entry.name != "send_email");
    assert!(seen.iter().all(|hit| hit.entry.name != "send_email"));
    let agents = index.search("web", 5, |_, entry| entry.kind == Kind::Agent);
    assert_eq!(agents.iter().map(|hit| hit.entry.name.as_str()).collect::<Vec<_>>(), ["researcher"]);
    for hit in index.search("file", 5, |_, _| true) {
        assert_eq!(index.entries()[hit.id], *hit.entry);
    }
}

#[test]
fn equal_scores_go_by_name_whatever_the_order_of_entries() {
    let twins = ["zeta", "alpha", "mid"].map(|name| entry(&format!("{name}.fetch"), "The same words.", &[], "data"));
    let names = |entries: Vec<Entry>| {
        Index::build(entries)
            .search("same words", 5, |_, _| true)
            .iter()
            .map(|hit| hit.entry.name.clone())
            .collect::<Vec<_>>()
    };
    let mut turned = twins.to_vec();
    turned.reverse();
    assert_eq!(names(twins.to_vec()), ["alpha.fetch", "mid.fetch", "zeta.fetch"]);
    assert_eq!(names(turned), ["alpha.fetch", "mid.fetch", "zeta.fetch"]);
}

#[test]
fn nothing_and_nonsense_find_nothing() {
    let index = Index::build(registry());
    for query in ["", " ", "🦀", "zzzzqqqq", "\u{0}", "---"] {
        assert_eq!(index.search(query, 5, |_, _| true), [], "{query:?}");
    }
    assert_eq!(Index::build([]).search("send", 5, |_, _| true), []);
    let long = "send ".repeat(100_000);
    assert!(!index.search(&long, 5, |_, _| true).is_empty());
}

#[test]
fn seed_004_s_capability_has_four_members() {
    let capability = registry()[8].capability();
    assert_eq!(
        capability.to_string(),
        r#"{"name":"send_email","description":"Send an email to a recipient.","kind":"tool","tags":["email","notify"]}"#
    );
}
