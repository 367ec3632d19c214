//! Members that are legal and probably not meant: what the gate will overrule, and what readers will miss.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_contracts::definition::{Annotations, CATEGORIES, Definition, EgressClass, HitlMode};
use toolgate_contracts::name::FoldedName;
use toolgate_contracts::runner::Runner;

use super::Context;
use crate::finding::{FINDINGS_MAX, Finding, SUGGESTIONS_MAX, nearest, shown};

pub(super) fn check(definition: &Definition, context: &Context<'_>, findings: &mut Vec<Finding>) {
    effects(definition, findings);
    annotations(definition, findings);
    aliases(definition, context, findings);
    verification(definition, context, findings);
    presentation(definition, findings);
    sections(definition, findings);
    let address = match &definition.runner {
        Runner::Http(http) => Some(("/runner/url", &http.url)),
        Runner::Openapi(operation) => Some(("/runner/server", &operation.server)),
        _ => None,
    };
    if let Some((pointer, address)) = address
        && address.starts_with("http://")
    {
        findings.push(Finding::warning("runner.plain-http", pointer, "the address is not encrypted", "use `https://`"));
    }
    if definition.examples.is_empty() && !definition.input_less {
        let fix = "add one or two under `examples`: people see them, and `tool test` checks them";
        findings.push(Finding::note("example.missing", "/examples", "there are no examples", fix));
    }
}

fn effects(definition: &Definition, findings: &mut Vec<Finding>) {
    let write = definition.class() == EgressClass::Write;
    if definition.egress_class.is_none() {
        let fix = "write `egress_class: none`, `read_only` or `write`, so that nobody has to know the default";
        findings.push(Finding::note("class.unsaid", "", "`egress_class` is not written; it is taken for `none`", fix));
    }
    if write && definition.requires_approval == Some(false) {
        let fix = "remove `requires_approval`: a `write` tool always asks";
        findings.push(Finding::warning(
            "approval.forced",
            "/requires_approval",
            "`requires_approval: false` on a tool of class `write` has no effect",
            fix,
        ));
    }
    let mode = definition.hitl_mode();
    if write && mode != HitlMode::Blocking {
        let message = match mode {
            HitlMode::ContinueOnTimeout => {
                "with `continue_on_timeout` the run goes on after the time, the effect never happens without a person"
            }
            HitlMode::FireAndContinue | HitlMode::Blocking => {
                "with `fire_and_continue` the run goes on at once, the effect waits for a person"
            }
        };
        findings.push(Finding::note(
            "hitl.write",
            "/hitl/mode",
            message,
            "nothing to do if that is meant; `blocking` is the default",
        ));
    }
    if mode == HitlMode::ContinueOnTimeout && definition.hitl.as_ref().is_some_and(|hitl| hitl.timeout_s.is_none()) {
        let message = "`continue_on_timeout` without `timeout_s` waits the default of 24 hours";
        findings.push(Finding::warning("hitl.no-timeout", "/hitl", message, "add `timeout_s`"));
    }
    if !definition.asks() && definition.hitl.is_some() {
        let message = "`hitl` says how a call waits, and nothing here makes it wait";
        findings.push(Finding::note(
            "hitl.unused",
            "/hitl",
            message,
            "add `requires_approval: true` or `permission_policy: always_ask` if people should be asked",
        ));
    }
}

/// Hints steer user interfaces and never decide; one that contradicts the class misleads people.
fn annotations(definition: &Definition, findings: &mut Vec<Finding>) {
    let Some(Annotations { read_only_hint, destructive_hint, idempotent_hint, open_world_hint }) =
        definition.annotations
    else {
        return;
    };
    let mut contradicts = |hint: &str, message: &str| {
        let fix = "leave the hint out, it follows from the class; the gate goes by the class";
        findings.push(Finding::warning("annotations.conflict", format!("/annotations/{hint}"), message, fix));
    };
    if read_only_hint == Some(true) && definition.changes_state() {
        contradicts("readOnlyHint", "`readOnlyHint: true` on a tool that changes something");
    }
    if read_only_hint == Some(false) && !definition.changes_state() {
        contradicts("readOnlyHint", "`readOnlyHint: false` on a tool that changes nothing");
    }
    if destructive_hint == Some(true) && !definition.changes_state() {
        contradicts("destructiveHint", "`destructiveHint: true` on a tool that changes nothing");
    }
    if idempotent_hint == Some(true) && definition.changes_state() && !definition.idempotent {
        contradicts("idempotentHint", "`idempotentHint: true`, but `idempotent` is not set");
    }
    if open_world_hint == Some(false) && definition.class() != EgressClass::None {
        contradicts("openWorldHint", "`openWorldHint: false` on a tool that reaches outside");
    }
}

fn aliases(definition: &Definition, context: &Context<'_>, findings: &mut Vec<Finding>) {
    for (index, alias) in definition.aliases.iter().enumerate() {
        let pointer = format!("/aliases/{index}");
        match (&alias.remove_by, context.today) {
            (None, _) => {
                let message = format!("the old name `{}` has no end", alias.name);
                findings.push(Finding::note(
                    "alias.open",
                    pointer,
                    message,
                    "add `remove_by: \"YYYY-MM-DD\"` if it should go away",
                ));
            }
            (Some(day), Some(today)) if super::consistency::is_day(day) && day.as_str() < today => {
                let message = format!("the old name `{}` stopped working on {day}", alias.name);
                findings.push(Finding::warning(
                    "alias.past",
                    format!("{pointer}/remove_by"),
                    message,
                    "remove the alias, or choose a later day",
                ));
            }
            _ => {}
        }
    }
}

fn verification(definition: &Definition, context: &Context<'_>, findings: &mut Vec<Finding>) {
    match &definition.verify {
        Some(verify) => {
            let folded: BTreeSet<FoldedName> = context.names.iter().map(|name| FoldedName::of(name)).collect();
            if !folded.contains(&verify.folded()) {
                let fix = match nearest(verify.as_str(), context.names.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "register the probe first, or correct the name".to_owned(),
                };
                findings.push(Finding::warning(
                    "verify.unknown",
                    "/verify",
                    format!("no known tool is called `{verify}`"),
                    fix,
                ));
            }
        }
        None if definition.class() == EgressClass::Write && !definition.idempotent => {
            let message = "after a crash nobody could tell whether the effect happened";
            findings.push(Finding::note(
                "verify.missing",
                "",
                message,
                "name a read-only tool in `verify` that can tell",
            ));
        }
        None => {}
    }
}

fn presentation(definition: &Definition, findings: &mut Vec<Finding>) {
    let kebab = |text: &str| {
        text.split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
    };
    if let Some(icon) = definition.icon.as_deref().filter(|icon| !kebab(icon)) {
        let message = format!("`{}` is not the name of a lucide icon", shown(icon));
        findings.push(Finding::warning(
            "icon.name",
            "/icon",
            message,
            "use its name in lower case, as in `mail` or `file-text`",
        ));
    }
    if let Some(category) = &definition.category {
        if !category.split('/').all(kebab) {
            let message = format!("`{}` is not a category", shown(category));
            findings.push(Finding::warning(
                "category.syntax",
                "/category",
                message,
                "use lower-case words joined by `/`, as in `data/exploration`",
            ));
        } else if !CATEGORIES.contains(&category.as_str())
            && let Some(meant) = nearest(category, CATEGORIES)
        {
            let message = format!("`{category}` is not one of the thirteen built-in categories");
            findings.push(Finding::note("category.near", "/category", message, format!("did you mean `{meant}`?")));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, tag) in definition.tags.iter().enumerate() {
        if !seen.insert(tag.to_lowercase()) || tag.trim().is_empty() {
            let message = format!("the tag `{}` is empty or there twice", shown(tag));
            findings.push(Finding::warning("tag.twice", format!("/tags/{index}"), message, "keep one"));
        }
    }
}

fn sections(definition: &Definition, findings: &mut Vec<Finding>) {
    let Some(properties) =
        definition.output_schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object)
    else {
        return;
    };
    let unknown = definition
        .output_sections
        .iter()
        .enumerate()
        .filter(|(_, section)| !properties.contains_key(&section.key))
        .take(FINDINGS_MAX);
    for (told, (index, section)) in unknown.enumerate() {
        let message = format!("the output has no member `{}` to show", shown(&section.key));
        let names = || nearest(&section.key, properties.keys().map(String::as_str));
        let fix = match (told < SUGGESTIONS_MAX).then(names).flatten() {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "name a member of `output_schema`".to_owned(),
        };
        findings.push(Finding::warning("section.unknown", format!("/output_sections/{index}/key"), message, fix));
    }
}
