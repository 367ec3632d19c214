//! Members that contradict each other or go beyond their bounds. All of these are refused at registration.

use std::collections::BTreeSet;

use toolgate_contracts::definition::{Approvers, CachePolicy, Cost, Definition, OUTPUT_BYTES_MAX, TIMEOUT_MS_MAX};
use toolgate_contracts::json::canonical;
use toolgate_contracts::permission::Role;
use toolgate_contracts::runner::{Composition, HostAccess, Prompt, PromptMode, Runner};
use toolgate_contracts::{Timestamp, UserId};

use crate::finding::{Finding, shown};

const APPROVAL_TIMEOUT_S_MAX: u64 = 30 * 24 * 60 * 60;
const EXAMPLES_MAX: usize = 50;
/// In canonical form.
const EXAMPLE_BYTES_MAX: usize = 64 * 1024;
const TEXT_CHARS_MAX: [(&str, usize); 3] = [("title", 120), ("description", 8_192), ("docs", 256 * 1024)];

pub(super) fn check(definition: &Definition, findings: &mut Vec<Finding>) {
    lengths(definition, findings);
    bounds(definition, findings);
    caching(definition, findings);
    approval(definition, findings);
    aliases(definition, findings);
    cost(definition.cost.as_ref(), findings);
    for (index, host) in definition.hosts.iter().enumerate() {
        host_name(host, format!("/hosts/{index}"), findings);
    }
    secrets(definition, findings);
    sections(definition, findings);
    if definition.verify.as_ref() == Some(&definition.name) {
        let fix = "name a read-only tool that can tell whether the effect happened";
        findings.push(Finding::error("verify.itself", "/verify", "the tool would verify itself", fix));
    }
    examples(definition, findings);
    runner(&definition.runner, findings);
}

fn lengths(definition: &Definition, findings: &mut Vec<Finding>) {
    let texts = [definition.title.as_deref().unwrap_or_default(), &definition.description, &definition.docs];
    for ((member, limit), text) in TEXT_CHARS_MAX.into_iter().zip(texts) {
        let length = text.chars().count();
        if length > limit {
            let message = format!("`{member}` has {length} characters, the limit is {limit}");
            findings.push(Finding::error(
                "text.length",
                format!("/{member}"),
                message,
                "shorten it; long explanations belong into `docs`",
            ));
        }
    }
    if definition.description.trim().is_empty() {
        let fix = "say what the tool does, when to use it, and when not";
        findings.push(Finding::error("description.empty", "/description", "the description is empty", fix));
    }
}

fn bounds(definition: &Definition, findings: &mut Vec<Finding>) {
    let mut bound = |member: &str, value: Option<u64>, most: u64, unit: &str| {
        if let Some(value) = value.filter(|value| *value == 0 || *value > most) {
            let message = format!("`{member}` is {value}, and must be from 1 to {most} {unit}");
            findings.push(Finding::error(
                "limit.range",
                format!("/{member}"),
                message,
                "choose a value in that range, or leave it out for the default",
            ));
        }
    };
    bound("timeout_ms", definition.timeout_ms, TIMEOUT_MS_MAX, "(24 hours)");
    bound("max_output_bytes", definition.max_output_bytes, OUTPUT_BYTES_MAX, "(64 MiB)");
}

fn caching(definition: &Definition, findings: &mut Vec<Finding>) {
    let policy = definition.cache.unwrap_or(CachePolicy::None);
    if policy != CachePolicy::None && definition.changes_state() {
        let message = format!("`cache: {policy}` on a tool that changes something: the second call would do nothing");
        findings.push(Finding::error("cache.write", "/cache", message, "remove `cache`"));
    }
    match (policy, definition.cache_ttl_s) {
        (CachePolicy::Ttl, None | Some(0)) => {
            findings.push(Finding::error(
                "cache.ttl",
                "/cache",
                "`cache: ttl` needs `cache_ttl_s` of at least 1",
                "add `cache_ttl_s: 300`, for example",
            ));
        }
        (CachePolicy::None | CachePolicy::Forever, Some(_)) => {
            findings.push(Finding::error(
                "cache.ttl",
                "/cache_ttl_s",
                "`cache_ttl_s` has no effect without `cache: ttl`",
                "write `cache: ttl`, or remove `cache_ttl_s`",
            ));
        }
        _ => {}
    }
}

fn approval(definition: &Definition, findings: &mut Vec<Finding>) {
    let Some(hitl) = &definition.hitl else { return };
    if let Some(seconds) = hitl.timeout_s.filter(|seconds| *seconds == 0 || *seconds > APPROVAL_TIMEOUT_S_MAX) {
        let message = format!("`timeout_s` is {seconds}, and must be from 1 to {APPROVAL_TIMEOUT_S_MAX} (30 days)");
        findings.push(Finding::error(
            "hitl.timeout",
            "/hitl/timeout_s",
            message,
            "choose a value in that range, or leave it out for 24 hours",
        ));
    }
    let Some(Approvers { need, from }) = &hitl.approvers else { return };
    let mut people = 0;
    let mut groups = false;
    for (index, who) in from.iter().enumerate() {
        let known = match who.split_once(':') {
            Some(("role", role)) => {
                groups = true;
                role.parse::<Role>().is_ok()
            }
            Some(("user", id)) => {
                people += 1;
                // A name could be given to somebody else; `UserId` is what stays.
                id.parse::<UserId>().is_ok()
            }
            _ => false,
        };
        if !known {
            let message = format!("`{}` names nobody who could approve", shown(who));
            let roles: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
            findings.push(Finding::error(
                "approvers.who",
                format!("/hitl/approvers/from/{index}"),
                message,
                format!("write `user:ID` or `role:NAME`, one of {}", roles.join(", ")),
            ));
        }
    }
    if from.is_empty() {
        findings.push(Finding::error(
            "approvers.nobody",
            "/hitl/approvers",
            "nobody may approve",
            "add `from: [\"role:approver\"]`",
        ));
    } else if *need == 0 || (!groups && *need > people) {
        let message = format!("{need} approvals are needed from {people} people");
        findings.push(Finding::error(
            "approvers.need",
            "/hitl/approvers/need",
            message,
            "ask for at least one, and no more than can be given",
        ));
    }
}

fn aliases(definition: &Definition, findings: &mut Vec<Finding>) {
    let own = definition.name.folded();
    let mut seen = BTreeSet::new();
    for (index, alias) in definition.aliases.iter().enumerate() {
        let pointer = format!("/aliases/{index}/name");
        if alias.name.folded() == own {
            let message =
                format!("the alias `{}` is another spelling of the name itself, which works anyway", alias.name);
            findings.push(Finding::error("alias.same", pointer, message, "remove it"));
        } else if !seen.insert(alias.name.folded()) {
            findings.push(Finding::error(
                "alias.twice",
                pointer,
                format!("the alias `{}` is there twice", alias.name),
                "keep one",
            ));
        }
        if let Some(day) = alias.remove_by.as_deref().filter(|day| !is_day(day)) {
            let message = format!("`{}` is not a day", shown(day));
            findings.push(Finding::error(
                "alias.date",
                format!("/aliases/{index}/remove_by"),
                message,
                "write it as `2027-01-31`, in quotes",
            ));
        }
    }
}

pub(super) fn is_day(text: &str) -> bool {
    text.len() == 10 && format!("{text}T00:00:00Z").parse::<Timestamp>().is_ok()
}

fn cost(cost: Option<&Cost>, findings: &mut Vec<Finding>) {
    let Some(Cost { per_call: _, per_unit, unit, currency }) = cost else { return };
    if per_unit.is_some() != unit.is_some() {
        findings.push(Finding::error(
            "cost.unit",
            "/cost",
            "`per_unit` and `unit` belong together",
            "write both, as in `per_unit: \"0.01\"` and `unit: page`",
        ));
    }
    if let Some(currency) =
        currency.as_deref().filter(|code| code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase()))
    {
        let message = format!("`{}` is not a currency code", shown(currency));
        findings.push(Finding::error("cost.currency", "/cost/currency", message, "write three capitals, as in `USD`"));
    }
}

fn host_name(host: &str, pointer: String, findings: &mut Vec<Finding>) {
    let fix = if host.contains("://") || host.contains('/') {
        "write only the host, without scheme and path, as in `api.example.com`"
    } else {
        "write it in lower case, as in `api.example.com`, `*.example.com` or `api.example.com:8443`"
    };
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let port_ok = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let bare = name.strip_prefix("*.").unwrap_or(name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let wide = name.starts_with("*.") && !bare.contains('.');
    if !port_ok || bare.len() > 253 || !bare.split('.').all(label) || wide {
        findings.push(Finding::error("host.syntax", pointer, format!("`{}` is not a host", shown(host)), fix));
    }
}

/// Examples are shown and checked one by one, so there are few and they are short.
fn examples(definition: &Definition, findings: &mut Vec<Finding>) {
    let count = definition.examples.len();
    if count > EXAMPLES_MAX {
        let message = format!("there are {count} examples, the limit is {EXAMPLES_MAX}");
        findings.push(Finding::error("example.limit", "/examples", message, "keep the few that differ most"));
        return;
    }
    for (index, example) in definition.examples.iter().enumerate() {
        for (member, value) in [("input", Some(&example.input)), ("output", example.output.as_ref())] {
            let bytes = value.map_or(0, |value| canonical(value).len());
            if bytes > EXAMPLE_BYTES_MAX {
                let message =
                    format!("the {member} of the example has {bytes} bytes, the limit is {EXAMPLE_BYTES_MAX}");
                let fix = "shorten it; an example shows the shape, not the amount";
                findings.push(Finding::error("example.limit", format!("/examples/{index}/{member}"), message, fix));
            }
        }
    }
}

fn secrets(definition: &Definition, findings: &mut Vec<Finding>) {
    let mut names = BTreeSet::new();
    for (index, secret) in definition.secrets.iter().enumerate() {
        let pointer = format!("/secrets/{index}/name");
        let word = !secret.name.is_empty()
            && secret.name.len() <= 64
            && secret.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !word {
            let message = format!("`{}` is not the name of a secret", shown(&secret.name));
            findings.push(Finding::error(
                "secret.name",
                pointer,
                message,
                "use letters, digits, `_` and `-`, as in `SMTP_PASSWORD`",
            ));
        } else if !names.insert(secret.name.as_str()) {
            findings.push(Finding::error(
                "secret.twice",
                pointer,
                format!("the secret `{}` is there twice", secret.name),
                "keep one",
            ));
        }
    }
    let auth = match &definition.runner {
        Runner::Http(http) => http.auth.as_ref(),
        Runner::Openapi(operation) => operation.auth.as_ref(),
        _ => None,
    };
    if let Some(auth) = auth
        && !names.contains(auth.secret.as_str())
    {
        let message = format!("the runner uses the secret `{}`, which `secrets` does not list", shown(&auth.secret));
        let fix = "add it under `secrets`, with its `purpose`, so that people see what the tool is given";
        findings.push(Finding::error("secret.undeclared", "/runner/auth/secret", message, fix));
    }
}

fn sections(definition: &Definition, findings: &mut Vec<Finding>) {
    let mut keys = BTreeSet::new();
    for (index, section) in definition.output_sections.iter().enumerate() {
        if !keys.insert(section.key.as_str()) {
            let message = format!("the section `{}` is there twice", shown(&section.key));
            findings.push(Finding::error(
                "section.twice",
                format!("/output_sections/{index}/key"),
                message,
                "keep one",
            ));
        }
    }
}

fn runner(runner: &Runner, findings: &mut Vec<Finding>) {
    match runner {
        Runner::Http(http) => {
            let scheme = http.url.split_once("://").map(|(scheme, _)| scheme);
            if !matches!(scheme, Some("http" | "https")) {
                let message = format!("`{}` is not an address", shown(&http.url));
                findings.push(Finding::error("runner.url", "/runner/url", message, "begin it with `https://`"));
            }
        }
        Runner::Python(python) => {
            if python.code.trim().is_empty() {
                findings.push(Finding::error(
                    "runner.code",
                    "/runner/code",
                    "there is no code",
                    "write the Python code after `code: |`",
                ));
            }
            host_access(&python.hosts, findings);
        }
        Runner::Wasm(wasm) => host_access(&wasm.hosts, findings),
        Runner::Sql(sql) if sql.statement.trim().is_empty() => {
            findings.push(Finding::error(
                "runner.statement",
                "/runner/statement",
                "there is no statement",
                "write one SQL statement",
            ));
        }
        Runner::Prompt(prompt) => prompt_needs(prompt, findings),
        Runner::Task(task) if task.agent.is_none() => {
            findings.push(Finding::error(
                "runner.prompt",
                "/runner",
                "a task needs `agent`, who does it",
                "add `agent:` with its name",
            ));
        }
        Runner::Composition(composition) => steps(composition, findings),
        _ => {}
    }
}

fn host_access(hosts: &[HostAccess], findings: &mut Vec<Finding>) {
    for (index, access) in hosts.iter().enumerate() {
        host_name(&access.host, format!("/runner/hosts/{index}/host"), findings);
        if access.methods.is_empty() {
            let message = format!("`{}` has no methods, so it cannot be reached", shown(&access.host));
            findings.push(Finding::error(
                "host.methods",
                format!("/runner/hosts/{index}/methods"),
                message,
                "add `methods: [GET]`, or remove the host",
            ));
        }
    }
}

fn prompt_needs(prompt: &Prompt, findings: &mut Vec<Finding>) {
    let missing = match prompt.mode {
        PromptMode::Skill if prompt.skill.is_none() => Some("skill"),
        PromptMode::Agent if prompt.agent.is_none() => Some("agent"),
        _ => None,
    };
    if let Some(member) = missing {
        let message = format!("`mode: {}` needs `{member}`", prompt.mode);
        findings.push(Finding::error("runner.prompt", "/runner", message, format!("add `{member}:` with its name")));
    }
}

fn steps(composition: &Composition, findings: &mut Vec<Finding>) {
    if composition.steps.is_empty() {
        findings.push(Finding::error(
            "composition.empty",
            "/runner/steps",
            "there are no steps",
            "add at least one step",
        ));
    }
    let mut earlier = BTreeSet::new();
    for (index, step) in composition.steps.iter().enumerate() {
        // Steps may only wait for earlier ones, so that they cannot wait for each other.
        let after = step.after.iter().flatten().enumerate();
        for (place, after) in after.filter(|(_, after)| !earlier.contains(after.as_str())) {
            let message =
                format!("the step `{}` waits for `{}`, which does not come before it", shown(&step.id), shown(after));
            findings.push(Finding::error(
                "composition.order",
                format!("/runner/steps/{index}/after/{place}"),
                message,
                "name an earlier step, or reorder the steps",
            ));
        }
        let word = !step.id.is_empty()
            && step.id.len() <= 64
            && step.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !word || !earlier.insert(step.id.as_str()) {
            let message = format!("the step id `{}` is there twice, or is not a word", shown(&step.id));
            findings.push(Finding::error(
                "composition.id",
                format!("/runner/steps/{index}/id"),
                message,
                "give each step a word of its own",
            ));
        }
    }
}
