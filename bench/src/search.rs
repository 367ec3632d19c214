//! Search over 10,000 tools: the goal is under 2 ms a query.

use toolgate_registry::search::{Entry, Index, Kind};

use crate::report::{Report, time};

const TOOLS: usize = 10_000;
const VERBS: [&str; 10] =
    ["create", "list", "search", "delete", "update", "send", "archive", "approve", "export", "merge"];
const NOUNS: [&str; 20] = [
    "Invoice", "Ticket", "Customer", "Order", "Report", "Message", "Calendar", "Contract", "Branch", "Release",
    "Sensor", "Shipment", "Payment", "Campaign", "Document", "Policy", "Device", "Lead", "Comment", "Backup",
];

pub fn run(report: &mut Report) {
    let index = Index::build((0..TOOLS).map(entry).chain([notifier()]));
    let small = Index::build((0..100).map(entry));
    for query in [
        "send a notification",
        "create invoice",
        "serach custmer",
        "archive the shipment documents of a customer",
        "zzzz",
    ] {
        let large = time(200, || index.search(query, 5, |_, _| true).len());
        let base = time(200, || small.search(query, 5, |_, _| true).len());
        report.line(
            format!("`{query}` in 10,001 tools, median (baseline: 100 tools)"),
            "us",
            large.median,
            Some(base.median),
        );
        report.line(format!("`{query}`, p99 (baseline: the goal of 2 ms)"), "us", large.p99, Some(2000.0));
        report.line(format!("`{query}`, CPU"), "us", large.cpu, Some(base.cpu));
    }
}

fn entry(number: usize) -> Entry {
    let (verb, noun) = (VERBS[number % VERBS.len()], NOUNS[number / VERBS.len() % NOUNS.len()]);
    let series = number / (VERBS.len() * NOUNS.len());
    Entry {
        kind: Kind::Tool,
        name: format!("{verb}{noun}{series}"),
        title: format!("{verb} {noun} {series}"),
        description: format!(
            "Use it to {verb} the {noun} records of system {series}. Do not use it for other systems; look them up first."
        ),
        tags: vec![noun.to_lowercase(), format!("system{series}")],
        category: "data/management".to_owned(),
        aliases: Vec::new(),
    }
}

fn notifier() -> Entry {
    Entry {
        kind: Kind::Tool,
        name: "send_email".to_owned(),
        title: "Send an e-mail".to_owned(),
        description: "Sends an e-mail to one recipient.".to_owned(),
        tags: vec!["email".to_owned(), "notify".to_owned()],
        category: "communication".to_owned(),
        aliases: Vec::new(),
    }
}
