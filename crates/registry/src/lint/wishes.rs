//! What a plug-in would like to have beside what its tool grants: it may run without, and somebody should know.

use toolgate_contracts::Plugin;
use toolgate_contracts::definition::Definition;
use toolgate_contracts::runner::{Runner, Wasm};

use super::Context;
use crate::finding::{Finding, shown};
use crate::floor::plugin_of;

pub(super) fn check(definition: &Definition, context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Runner::Wasm(wasm) = &definition.runner else { return };
    let Some(plugins) = context.known.and_then(|known| known.plugins()) else { return };
    if let Some(plugin) = plugin_of(wasm, plugins) {
        hosts(wasm, plugin, findings);
        secrets(definition, plugin, findings);
    }
}

fn hosts(wasm: &Wasm, plugin: &Plugin, findings: &mut Vec<Finding>) {
    for wish in &plugin.description.hosts {
        let granted =
            |method| wasm.hosts.iter().any(|access| access.host == wish.host && access.methods.contains(method));
        let missing: Vec<&str> =
            wish.methods.iter().filter(|method| !granted(method)).map(|method| method.as_str()).collect();
        if !missing.is_empty() {
            let host = shown(&wish.host);
            let message = format!("the plug-in would like to reach `{host}` with {}", missing.join(", "));
            let fix = "grant it under `runner.hosts` if you want that; without it, such a request is refused";
            findings.push(Finding::warning("plugin.hosts", "/runner/hosts", message, fix));
        }
    }
}

fn secrets(definition: &Definition, plugin: &Plugin, findings: &mut Vec<Finding>) {
    for wish in &plugin.description.secrets {
        if !definition.secrets.iter().any(|secret| secret.name == wish.name) {
            let message = format!("the plug-in would like to read the secret `{}`", shown(&wish.name));
            let fix = "declare it under `secrets` if you want that; without it, it cannot be read";
            findings.push(Finding::warning("plugin.secrets", "/secrets", message, fix));
        }
    }
}
