//! Members of a definition compared one by one; schemas have a file of their own.

use toolgate_contracts::Slug;
use toolgate_contracts::definition::{
    Alias, Cost, Definition, Hitl, HitlMode, Label, LabelRules, OUTPUT_BYTES_DEFAULT, SecretUse, TIMEOUT_MS_DEFAULT,
};
use toolgate_contracts::runner::{HttpAuth, Mcp, Openapi, Runner};

use super::{ChangeClass, Changes};
use crate::finding::shown;

pub(super) fn members(old: &Definition, new: &Definition, changes: &mut Changes) {
    use ChangeClass::{Breaking, Narrowing, Widening};
    // Taken apart completely, so that a new member cannot be forgotten here.
    let Definition {
        name,
        version: _,
        title,
        description,
        icon,
        docs,
        category,
        tool_type,
        group,
        tags,
        input_schema: _,
        output_schema: _,
        egress_class: _,
        risk: _,
        requires_approval: _,
        permission_policy: _,
        hitl,
        annotations,
        idempotent,
        cache,
        cache_ttl_s,
        cache_scope,
        timeout_ms,
        max_output_bytes,
        required_permission,
        secrets,
        changes_state: _,
        sink: _,
        visibility: _,
        tenants,
        opt_in,
        aliases,
        input_less,
        verify,
        sandbox,
        hosts,
        guardrails,
        output_sections,
        form,
        view,
        collaborative,
        aggregate,
        cost,
        labels,
        examples,
        runner,
    } = new;
    if old.name != *name {
        changes.add("/name", Breaking, format!("renamed from `{}` to `{name}`", old.name));
    }
    changes.prose("/title", &old.title, title);
    changes.prose("/description", &old.description, description);
    changes.prose("/icon", &old.icon, icon);
    changes.prose("/docs", &old.docs, docs);
    changes.prose("/category", &old.category, category);
    changes.prose("/type", &old.tool_type, tool_type);
    changes.prose("/tags", &old.tags, tags);
    changes.prose("/annotations", &old.annotations, annotations);
    changes.prose("/output_sections", &old.output_sections, output_sections);
    changes.prose("/form", &old.form, form);
    changes.prose("/view", &old.view, view);
    changes.prose("/examples", &old.examples, examples);
    changes.prose("/input_less", &old.input_less, input_less);
    if old.group != *group {
        let class = if old.group.is_none() { Widening } else { Narrowing };
        changes.add("/group", class, "`group` changed: agents get the tool by its group");
    }

    changes.protection("/egress_class", &old.class(), &new.class());
    changes.protection("/risk", &old.effective_risk(), &new.effective_risk());
    changes.protection("/sink", &old.effective_sink(), &new.effective_sink());
    changes.protection("/permission_policy", &old.policy(), &new.policy());
    changes.switch("/requires_approval", old.asks(), new.asks(), Narrowing, Breaking);
    changes.switch("/changes_state", old.changes_state(), new.changes_state(), Narrowing, Breaking);
    self::hitl(old.hitl.as_ref(), hitl.as_ref(), changes);
    if old.required_permission != *required_permission {
        let class = if required_permission.is_some() { Narrowing } else { Breaking };
        changes.add("/required_permission", class, "`required_permission` changed");
    }
    changes.set(
        "/guardrails",
        old.guardrails.iter().map(String::as_str),
        guardrails.iter().map(String::as_str),
        Narrowing,
        Breaking,
    );
    self::labels(old.labels.as_ref(), labels.as_ref(), changes);
    match (&old.sandbox, sandbox) {
        (Some(old), Some(new)) => changes.protection("/sandbox", old, new),
        (None, Some(new)) => changes.add("/sandbox", Narrowing, format!("the least sandbox is now `{new}`")),
        (Some(old), None) => changes.add("/sandbox", Breaking, format!("the least sandbox, `{old}`, was removed")),
        (None, None) => {}
    }
    self::hosts(&old.hosts, hosts, changes);

    changes.switch("/idempotent", old.idempotent, *idempotent, Widening, Narrowing);
    changes.inside("/cache", &old.cache, cache);
    changes.inside("/cache_ttl_s", &old.cache_ttl_s, cache_ttl_s);
    changes.inside("/cache_scope", &old.cache_scope, cache_scope);
    changes.inside("/verify", &old.verify, verify);
    changes.inside("/aggregate", &old.aggregate, aggregate);
    changes.allowance("/timeout_ms", timeout(old.timeout_ms), timeout(*timeout_ms));
    changes.allowance("/max_output_bytes", output_bytes(old.max_output_bytes), output_bytes(*max_output_bytes));
    self::secrets(&old.secrets, secrets, changes);
    if old.effective_visibility() != new.effective_visibility() {
        let class = if new.effective_visibility() > old.effective_visibility() { Breaking } else { Widening };
        changes.add(
            "/visibility",
            class,
            format!("`visibility` went from `{}` to `{}`", old.effective_visibility(), new.effective_visibility()),
        );
    }
    self::tenants(old, tenants, changes);
    changes.switch("/opt_in", old.opt_in, *opt_in, Narrowing, Widening);
    self::aliases(&old.aliases, aliases, changes);
    changes.switch("/collaborative", old.collaborative, *collaborative, Widening, Breaking);
    self::cost(old.cost.as_ref(), cost.as_ref(), changes);
    if old.runner.kind() != runner.kind() {
        changes.add(
            "/runner/kind",
            Breaking,
            format!("the runner went from `{}` to `{}`", old.runner.kind(), runner.kind()),
        );
    } else if let (Runner::Openapi(old), Runner::Openapi(new)) = (&old.runner, runner)
        && operation(old, new, changes)
    {
        // What else changed inside matters less than that.
    } else if insides(&old.runner) != insides(runner) {
        changes.add(
            "/runner",
            Widening,
            format!("the insides of the `{}` runner changed; what it accepts and answers did not", runner.kind()),
        );
    }
}

/// Where a request goes, and where its key goes: whoever allowed the one did not allow the other.
fn operation(old: &Openapi, new: &Openapi, changes: &mut Changes) -> bool {
    let place = |operation: &Openapi| match &operation.auth {
        None => "nowhere".to_owned(),
        Some(HttpAuth { query: Some(query), header: None, .. }) => format!("the parameter `{}`", shown(query)),
        Some(HttpAuth { header, .. }) => {
            format!("the header `{}`", shown(header.as_deref().unwrap_or("Authorization")))
        }
    };
    let (key, path) = ([place(old), place(new)], [old, new].map(|operation| without_names(&operation.path)));
    let moved = [
        ("/runner/method", "the request went", [old, new].map(|operation| operation.method.to_string())),
        ("/runner/server", "the server went", [old, new].map(|operation| shown(&operation.server))),
        ("/runner/path", "the path went", path.map(|path| shown(&path))),
    ];
    let mut found = false;
    for (pointer, what, [old, new]) in moved.into_iter().filter(|(_, _, [old, new])| old != new) {
        changes.add(pointer, ChangeClass::Breaking, format!("{what} from `{old}` to `{new}`"));
        found = true;
    }
    if let [old, new] = key
        && old != new
    {
        changes.add("/runner/auth", ChangeClass::Breaking, format!("the key went from {old} to {new}"));
        found = true;
    }
    found
}

/// A place that only has another name is the same place.
fn without_names(path: &str) -> String {
    let mut parts = path.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + "{}" + part.split_once('}').map_or("", |(_, rest)| rest))
}

/// Which edition of a document or of a server's words it came from changes nothing by itself.
fn insides(runner: &Runner) -> Runner {
    match runner {
        Runner::Openapi(operation) => Runner::Openapi(Openapi { digest: None, ..operation.clone() }),
        Runner::Mcp(tool) => Runner::Mcp(Mcp { digest: None, ..tool.clone() }),
        other => other.clone(),
    }
}

fn timeout(value: Option<u64>) -> u64 {
    value.unwrap_or(TIMEOUT_MS_DEFAULT)
}

fn output_bytes(value: Option<u64>) -> u64 {
    value.unwrap_or(OUTPUT_BYTES_DEFAULT)
}

fn hitl(old: Option<&Hitl>, new: Option<&Hitl>, changes: &mut Changes) {
    let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
    let mode = |hitl: &Hitl| hitl.mode.unwrap_or(HitlMode::Blocking);
    // Modes are ordered strictest first, so the greater one is the looser.
    match mode(&new).cmp(&mode(&old)) {
        std::cmp::Ordering::Less => changes.add(
            "/hitl/mode",
            ChangeClass::Narrowing,
            format!("`hitl.mode` went from `{}` to `{}`, which is stricter", mode(&old), mode(&new)),
        ),
        std::cmp::Ordering::Greater => changes.add(
            "/hitl/mode",
            ChangeClass::Breaking,
            format!("`hitl.mode` went from `{}` to `{}`, which loosens a protection", mode(&old), mode(&new)),
        ),
        std::cmp::Ordering::Equal => {}
    }
    if old.timeout_s != new.timeout_s {
        changes.add("/hitl/timeout_s", ChangeClass::Narrowing, "how long people have to decide changed");
    }
    match (&old.approvers, &new.approvers) {
        (old, new) if old == new => {}
        (None, Some(_)) => changes.add("/hitl/approvers", ChangeClass::Narrowing, "approvers are now named"),
        (Some(old), Some(new)) if old.from == new.from && new.need > old.need => {
            changes.add(
                "/hitl/approvers/need",
                ChangeClass::Narrowing,
                format!("{} approvals are needed instead of {}", new.need, old.need),
            );
        }
        _ => changes.add("/hitl/approvers", ChangeClass::Breaking, "who may approve changed, or fewer are needed"),
    }
}

fn labels(old: Option<&LabelRules>, new: Option<&LabelRules>, changes: &mut Changes) {
    use ChangeClass::{Breaking, Narrowing};
    let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
    let words = |labels: &[Label]| labels.iter().map(|label| label.as_str()).collect::<Vec<_>>();
    changes.set("/labels/adds", words(&old.adds), words(&new.adds), Narrowing, Breaking);
    changes.set("/labels/clears", words(&old.clears), words(&new.clears), Breaking, Narrowing);
    match (&old.max_in, &new.max_in) {
        (None, Some(_)) => changes.add("/labels/max_in", Narrowing, "labels of the input are now limited"),
        (Some(_), None) => changes.add("/labels/max_in", Breaking, "labels of the input are no longer limited"),
        (Some(old), Some(new)) => changes.set("/labels/max_in", words(old), words(new), Breaking, Narrowing),
        (None, None) => {}
    }
}

fn hosts(old: &[String], new: &[String], changes: &mut Changes) {
    match (old.is_empty(), new.is_empty()) {
        (true, false) => changes.add("/hosts", ChangeClass::Narrowing, "the hosts it may reach are now listed"),
        (false, true) => {
            changes.add("/hosts", ChangeClass::Breaking, "the list of hosts was removed: it may reach any public host");
        }
        _ => changes.set(
            "/hosts",
            old.iter().map(String::as_str),
            new.iter().map(String::as_str),
            ChangeClass::Widening,
            ChangeClass::Narrowing,
        ),
    }
}

fn secrets(old: &[SecretUse], new: &[SecretUse], changes: &mut Changes) {
    for secret in new {
        match old.iter().find(|other| other.name == secret.name) {
            None if secret.required => changes.add(
                "/secrets",
                ChangeClass::Narrowing,
                format!("the secret `{}` is now required", shown(&secret.name)),
            ),
            None => changes.add(
                "/secrets",
                ChangeClass::Widening,
                format!("the secret `{}` may be used", shown(&secret.name)),
            ),
            Some(other) if secret.required && !other.required => changes.add(
                "/secrets",
                ChangeClass::Narrowing,
                format!("the secret `{}` is now required", shown(&secret.name)),
            ),
            Some(other) if other.required && !secret.required => changes.add(
                "/secrets",
                ChangeClass::Widening,
                format!("the secret `{}` is now optional", shown(&secret.name)),
            ),
            Some(other) => changes.prose("/secrets", &other.purpose, &secret.purpose),
        }
    }
    for secret in old.iter().filter(|secret| new.iter().all(|other| other.name != secret.name)) {
        changes.add(
            "/secrets",
            ChangeClass::Widening,
            format!("the secret `{}` is no longer used", shown(&secret.name)),
        );
    }
}

fn tenants(old: &Definition, new: &[Slug], changes: &mut Changes) {
    match (old.tenants.is_empty(), new.is_empty()) {
        (true, false) => changes.add("/tenants", ChangeClass::Breaking, "only the listed tenants see it now"),
        (false, true) => changes.add("/tenants", ChangeClass::Widening, "all tenants see it now"),
        _ => changes.set(
            "/tenants",
            old.tenants.iter().map(Slug::as_str),
            new.iter().map(Slug::as_str),
            ChangeClass::Widening,
            ChangeClass::Breaking,
        ),
    }
}

fn aliases(old: &[Alias], new: &[Alias], changes: &mut Changes) {
    for alias in new {
        let Some(other) = old.iter().find(|other| other.name == alias.name) else {
            changes.add("/aliases", ChangeClass::Widening, format!("`{}` works as a name too", alias.name));
            continue;
        };
        // No date means for ever; days compare as text.
        let until = |alias: &Alias| alias.remove_by.clone().unwrap_or_else(|| "9999-12-31".to_owned());
        match until(alias).cmp(&until(other)) {
            std::cmp::Ordering::Less => {
                changes.add("/aliases", ChangeClass::Narrowing, format!("`{}` ends earlier", alias.name));
            }
            std::cmp::Ordering::Greater => {
                changes.add("/aliases", ChangeClass::Widening, format!("`{}` ends later", alias.name));
            }
            std::cmp::Ordering::Equal => changes.inside("/aliases", &other.visibility, &alias.visibility),
        }
    }
    for alias in old.iter().filter(|alias| new.iter().all(|other| other.name != alias.name)) {
        changes.add("/aliases", ChangeClass::Breaking, format!("the old name `{}` no longer works", alias.name));
    }
}

fn cost(old: Option<&Cost>, new: Option<&Cost>, changes: &mut Changes) {
    let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
    if old == new {
        return;
    }
    let cheaper = old.unit == new.unit
        && old.currency == new.currency
        && new.per_call.unwrap_or_default() <= old.per_call.unwrap_or_default()
        && new.per_unit.unwrap_or_default() <= old.per_unit.unwrap_or_default();
    let (class, message) = if cheaper {
        (ChangeClass::Widening, "it costs less")
    } else {
        (ChangeClass::Narrowing, "it may cost more: budgets may refuse it")
    };
    changes.add("/cost", class, message);
}
