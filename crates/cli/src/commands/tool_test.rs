//! `toolgate tool test`: a definition judged offline, by the code that judges it at registration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_contracts::definition::{Definition, Origin};
use toolgate_contracts::{Clock, Runner, ToolRef};
use toolgate_registry::commands::Builtins;
use toolgate_registry::finding::{self, has_errors};
use toolgate_registry::floor::{Floor, Known};
use toolgate_registry::lint::{self, Context};
use toolgate_registry::tool_md::{self, Authored, FILE_BYTES_MAX, Originals};
use toolgate_registry::{Finding, Severity};

use super::{counted_of, tool_show};
use crate::code::code_tools;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, clean};

struct Tested {
    path: PathBuf,
    findings: Vec<Finding>,
    /// Absent where the file could not be read as a definition.
    definition: Option<Definition>,
    originals: Originals,
}

pub fn run(path: &Path, output: &Output) -> Done {
    let files = input::tool_files(path)?;
    let read: Vec<_> =
        files.into_iter().map(|file| read(&file).map(|authored| (file, authored))).collect::<Result<_, Failure>>()?;
    let shelf = Shelf::of(&read);
    let tested: Vec<_> = read.into_iter().map(|(file, authored)| judge(file, authored, &shelf)).collect();
    let value = json!({"files": tested.iter().map(Tested::value).collect::<Vec<_>>()});
    output.show(&value, |_, paint| show(&tested, paint))?;
    Ok(if tested.iter().any(|file| has_errors(&file.findings)) { Exit::Failed } else { Exit::Done })
}

fn read(file: &Path) -> Result<Result<Authored, Vec<Finding>>, Failure> {
    if file.extension().is_some_and(|extension| extension == "json") {
        return Ok(tool_md::parse_json(&input::read_file(file, toolgate_contracts::json::SCHEMA_BYTES_MAX)?));
    }
    // One byte more than is allowed, so that the reader itself says what is wrong.
    Ok(tool_md::parse(&input::read_start(file, FILE_BYTES_MAX + 1)?))
}

fn judge(path: PathBuf, authored: Result<Authored, Vec<Finding>>, shelf: &Shelf) -> Tested {
    let Authored { definition, lines, originals, notes } = match authored {
        Ok(authored) => authored,
        Err(findings) => return Tested { path, findings, definition: None, originals: Originals::default() },
    };
    let mut findings = notes;
    let unknown: Vec<_> =
        steps(&definition).filter(|step| shelf.tool(step).is_none()).map(|step| step.to_string()).collect();
    let known: Option<&dyn Known> = if unknown.is_empty() { Some(shelf) } else { None };
    if !unknown.is_empty() {
        let message = format!("steps that are not here are taken on trust: {}", unknown.join(", "));
        findings.push(Finding::note(
            "floor.offline",
            "/runner/steps",
            message,
            "`toolgate tool register` checks them against what is registered",
        ));
    }
    let today = Clock::System.now().day();
    findings.extend(lint::check(
        &definition,
        &Context { origin: Origin::Tenant, names: &shelf.names, today: Some(&today), known },
    ));
    lines.locate(&mut findings);
    finding::sort(&mut findings);
    Tested { path, findings, definition: Some(definition), originals }
}

fn steps(definition: &Definition) -> impl Iterator<Item = ToolRef> {
    let steps = match &definition.runner {
        Runner::Composition(composition) => composition.steps.as_slice(),
        _ => &[],
    };
    steps.iter().filter_map(|step| step.tool.parse().ok())
}

/// What is known without a registry: the functions of this program, its tools, and the files that are tested together.
struct Shelf {
    builtins: Builtins,
    tools: Vec<Definition>,
    names: BTreeSet<String>,
}

impl Shelf {
    fn of(read: &[(PathBuf, Result<Authored, Vec<Finding>>)]) -> Self {
        let code = code_tools();
        let own =
            code.tools.iter().filter_map(|tool| tool_md::parse(tool.text).ok().map(|authored| authored.definition));
        let tested =
            read.iter().filter_map(|(_, authored)| authored.as_ref().ok().map(|authored| authored.definition.clone()));
        let tools: Vec<_> = own.chain(tested).collect();
        let names = tools.iter().map(|tool| tool.name.to_string()).collect();
        Self { builtins: code.builtins, tools, names }
    }
}

impl Known for Shelf {
    fn function(&self, name: &str) -> Option<Floor> {
        (self.builtins.floor)(name)
    }

    fn functions(&self) -> Vec<&str> {
        self.builtins.names.to_vec()
    }

    fn tool(&self, reference: &ToolRef) -> Option<&Definition> {
        let wanted = reference.name.folded();
        let of_version = |tool: &&Definition| {
            reference.version.is_none() || tool.version.is_none() || tool.version == reference.version
        };
        self.tools.iter().filter(|tool| tool.name.folded() == wanted).find(of_version)
    }
}

impl Tested {
    fn value(&self) -> Value {
        let mut value = json!({
            "path": self.path.display().to_string(),
            "ok": !has_errors(&self.findings),
            "findings": self.findings,
        });
        let converted: serde_json::Map<_, _> =
            self.conversions().map(|(member, _, schema)| (member.to_owned(), schema.clone())).collect();
        if !converted.is_empty() {
            value["converted"] = converted.into();
        }
        value
    }

    /// Schemas that were written in draft-07: as they were and as they are.
    fn conversions(&self) -> impl Iterator<Item = (&'static str, &Value, &Value)> {
        let input = self
            .originals
            .input_schema
            .as_ref()
            .zip(self.definition.as_ref().map(|definition| &definition.input_schema));
        let output = self
            .originals
            .output_schema
            .as_ref()
            .zip(self.definition.as_ref().and_then(|definition| definition.output_schema.as_ref()));
        let named = |member| move |(original, schema)| (member, original, schema);
        input.map(named("input_schema")).into_iter().chain(output.map(named("output_schema")))
    }

    fn show(&self, paint: Paint) -> String {
        let path = self.path.display().to_string();
        let verdict = if has_errors(&self.findings) { paint.red("has errors") } else { paint.green("ok") };
        let mut lines = vec![format!("{}: {verdict}", clean(&path))];
        lines.extend(self.findings.iter().map(|finding| clean(&finding.show(&path))));
        for (member, original, schema) in self.conversions() {
            let [original, schema] =
                [original, schema].map(|schema| serde_json::to_string_pretty(schema).unwrap_or_default());
            let diff = similar::TextDiff::from_lines(&original, &schema);
            let text =
                diff.unified_diff().header(&format!("{member} (draft-07)"), &format!("{member} (2020-12)")).to_string();
            lines.push(tool_show::colored(&clean(&text), paint));
        }
        lines.join("\n")
    }
}

fn show(tested: &[Tested], paint: Paint) -> String {
    let mut lines: Vec<_> = tested.iter().map(|file| file.show(paint)).collect();
    let count =
        |severity| tested.iter().flat_map(|file| &file.findings).filter(|finding| finding.severity == severity).count();
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let counts = counts.map(|(severity, noun)| counted_of(count(severity), noun)).join(", ");
    lines.push(format!("{}: {counts}", counted_of(tested.len(), "file")));
    lines.join("\n")
}
