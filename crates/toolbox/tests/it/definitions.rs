//! The definitions of the shipped tools: clean, complete, and telling the truth in their examples.

use std::collections::BTreeSet;
use std::path::Path;

use toolgate_contracts::agent::SideEffects;
use toolgate_contracts::definition::Origin;
use toolgate_contracts::{Definition, FoldedName, Runner};
use toolgate_engine::Runner as _;
use toolgate_registry::{Severity, lint, tool_md};
use toolgate_toolbox::{BUILTINS, TOOLS};

use crate::world::every_world;

/// What is not ready until the operator configured something; each is tried where that is there.
const NEEDING: [&str; 6] = [
    "config_manager.list_changes",
    "metrics_api.query_gauge",
    "monorepo_cli.run_script",
    "run_python",
    "send_email",
    "web_search",
];

/// About calls and runs that there are; tried where there are some.
const ABOUT_RUNS: [&str; 2] = ["getTaskStatus", "readResult"];

fn is_builtin(definition: &Definition) -> bool {
    matches!(definition.runner, Runner::Builtin(_))
}

fn shipped() -> Vec<(&'static str, Definition)> {
    let read = |text| tool_md::parse(text).map(|authored| authored.definition);
    TOOLS
        .iter()
        .map(|tool| (tool.file, read(tool.text).unwrap_or_else(|findings| panic!("{}: {findings:?}", tool.file))))
        .collect()
}

#[test]
fn every_shipped_tool_passes_its_own_test() {
    let names: BTreeSet<String> = BUILTINS.names.iter().map(|name| (*name).to_owned()).collect();
    for (file, definition) in shipped() {
        assert!(definition.version.is_some(), "{file}: a shipped tool names its version");
        let context = lint::Context { origin: Origin::Code, names: &names, today: None, known: None };
        let mut findings = lint::check(&definition, &context);
        // What says `additionalProperties: true` is open on purpose: a definition within a definition, a request's headers.
        findings.retain(|finding| {
            let open_on_purpose = finding.code == "schema.open-map" && finding.severity == Severity::Warning;
            finding.severity != Severity::Note && !open_on_purpose
        });
        assert!(findings.is_empty(), "{file}: {findings:#?}");
    }
}

#[test]
fn every_folder_is_a_tool_with_a_function_of_its_name_and_a_floor() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").read_dir().unwrap();
    let mut folders: Vec<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    folders.sort();
    // Another kind of runner has no function here.
    let others: Vec<String> = shipped()
        .into_iter()
        .filter(|(_, definition)| !is_builtin(definition))
        .filter_map(|(file, _)| file.split('/').nth(1).map(str::to_owned))
        .collect();
    assert_eq!(others, ["delegate_to_agent"]);
    folders.retain(|folder| !others.contains(folder));
    assert_eq!(folders, BUILTINS.names);
    assert!((BUILTINS.floor)("rm").is_none());
    for (file, definition) in shipped() {
        let Runner::Builtin(builtin) = &definition.runner else { continue };
        assert_eq!(FoldedName::of(&builtin.function), definition.name.folded(), "{file}");
        let floor = (BUILTINS.floor)(&builtin.function).unwrap();
        assert_eq!((floor.class, floor.changes_state), (definition.class(), definition.changes_state()), "{file}");
    }
}

#[test]
fn a_tool_that_changes_records_names_a_probe_without_effects() {
    let shipped = shipped();
    let (_, note) = shipped.iter().find(|(_, definition)| definition.name.as_str() == "append_note").unwrap();
    let probe = note.verify.as_ref().expect("a probe");
    let (_, probe) = shipped.iter().find(|(_, definition)| definition.name == *probe).expect("a shipped one");
    assert_eq!(probe.effects(), SideEffects::None);
}

#[tokio::test]
async fn every_example_of_a_tool_without_effects_gives_its_output() {
    every_world(async |world| {
        for (file, definition) in shipped().into_iter().filter(|(_, definition)| is_builtin(definition)) {
            assert!(!definition.examples.is_empty(), "{file}");
            if !NEEDING.contains(&definition.name.as_str()) {
                world.runner.ready(&definition).await.unwrap_or_else(|error| panic!("{file}: {error:?}"));
            }
            // What reads elsewhere is tried against servers that answer so.
            if definition.effects() != SideEffects::None || NEEDING.contains(&definition.name.as_str()) {
                continue;
            }
            for example in &definition.examples {
                // A whole definition would be as long as the definition.
                if definition.name.as_str() == "describeTool" || ABOUT_RUNS.contains(&definition.name.as_str()) {
                    continue;
                }
                let expected = example.output.clone().unwrap_or_else(|| panic!("{file}: an example without output"));
                // The world's clock stands at the moment of the example of `now`.
                world.check(definition.name.as_str(), example.input.clone(), expected).await;
            }
        }
    })
    .await;
}
