//! A `goblins.yaml` with its direct commands turned into calls, and the scripts that the operator has to allow for them.
//! Pure: a text in, a text out.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};
use toolgate_contracts::json::escape;
use toolgate_toolbox::yaml;

use super::command_line::{self, CommandLine};

pub const INVOKE: &str = "tool_layer_invoke";
const COMMAND: &str = "command";
/// Below these, `run NAME` is as good as `NAME`.
const PACKAGE_MANAGERS: [&str; 4] = ["bun", "npm", "pnpm", "yarn"];
/// Entries may stand below others, but not for ever.
const DEPTH_MAX: usize = 8;

/// What came of a file.
#[derive(Debug)]
pub struct Migration {
    pub text: String,
    pub rewritten: Vec<Rewritten>,
    pub left: Vec<Left>,
    pub scripts: Scripts,
}

#[derive(Debug)]
pub struct Rewritten {
    pub entry: String,
    pub command: String,
    /// `{tool_id, function, args}`.
    pub invoke: Value,
}

/// A command that stays as it is.
#[derive(Debug)]
pub struct Left {
    pub entry: String,
    pub command: String,
    pub why: String,
}

/// What the operator has to allow, in the order in which it was met.
#[derive(Debug, Default)]
pub struct Scripts(Vec<Script>);

#[derive(Debug)]
struct Script {
    name: String,
    for_entries: Vec<String>,
    /// INVARIANT: all words of the command line. Patterns for each would allow them in any order, and some without others.
    command: Vec<String>,
    environment: BTreeMap<String, String>,
}

/// Rewrites a file whose scripts run in `folder`.
pub fn migrate(text: &str, folder: &Path) -> Result<Migration, String> {
    let root = yaml::value(text)?;
    let mut found = Vec::new();
    direct_commands(&root, &[], &mut found);
    let mut migration =
        Migration { text: text.to_owned(), rewritten: Vec::new(), left: Vec::new(), scripts: Scripts::default() };
    for Found { tokens, command, unfit } in found {
        let entry = tokens.join("/");
        let read = unfit.map_or_else(|| command_line::read(&command), Err);
        let planned = read.and_then(|line| migration.scripts.plan(&entry, &line, folder));
        let rewritten = planned.and_then(|invoke| {
            let text = rewrite(&migration.text, &tokens, &invoke)?;
            Ok((text, invoke))
        });
        match rewritten {
            Ok((text, invoke)) => {
                migration.text = text;
                migration.rewritten.push(Rewritten { entry, command, invoke });
            }
            Err(why) => migration.left.push(Left { entry, command, why }),
        }
    }
    Ok(migration)
}

struct Found {
    tokens: Vec<String>,
    command: String,
    /// Why it cannot be a command line that becomes a call.
    unfit: Option<String>,
}

/// Every mapping with a `command`, in the order of the file. A mapping that is called so is an entry like any other.
fn direct_commands(value: &Value, tokens: &[String], found: &mut Vec<Found>) {
    if tokens.len() > DEPTH_MAX {
        return;
    }
    let below = |token: String| [tokens, &[token]].concat();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                direct_commands(item, &below(index.to_string()), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    (COMMAND, Value::String(command)) => {
                        let unfit = members.contains_key(INVOKE).then(|| format!("it has `{INVOKE}`, too"));
                        found.push(Found { tokens: tokens.to_vec(), command: command.clone(), unfit });
                    }
                    (COMMAND, Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                        let unfit = Some("it is no text; write it as one line, in quotes".to_owned());
                        found.push(Found { tokens: tokens.to_vec(), command: member.to_string(), unfit });
                    }
                    // Below a call stand its arguments, whatever they are called.
                    (INVOKE, _) => {}
                    _ => direct_commands(member, &below(name.clone()), found),
                }
            }
        }
        _ => {}
    }
}

/// The member `command` of an entry becomes the call, where it stands.
fn rewrite(text: &str, tokens: &[String], invoke: &Value) -> Result<String, String> {
    let tokens: Vec<String> = tokens.iter().map(|token| escape(token)).chain([COMMAND.to_owned()]).collect();
    let place = format!("/{}", tokens.join("/"));
    let set = yaml::set(text, &place, invoke).map_err(|refused| refused.to_string())?;
    yaml::rename(&set, &place, INVOKE).map_err(|refused| refused.to_string())
}

impl Scripts {
    /// The call that a command becomes, with what it needs among the scripts.
    fn plan(&mut self, entry: &str, line: &CommandLine, folder: &Path) -> Result<Value, String> {
        let CommandLine { folder: below, environment, words } = line;
        if let Some((name, _)) = environment.iter().find(|(name, _)| toolgate_runners::runs_programs(name)) {
            return Err(format!("`{name}=` chooses what is run; name the program by its whole path instead"));
        }
        let mut command = words.clone();
        if let Some(program) = command.first_mut() {
            *program = whole_path(program, &folder.join(below.as_deref().unwrap_or_default()))?;
        }
        let script = self.script(&name_of(words), command, environment.iter().cloned().collect());
        script.for_entries.push(entry.to_owned());
        let mut args = Map::new();
        args.insert("script_name".to_owned(), script.name.clone().into());
        if let Some(below) = below {
            args.insert("working_dir".to_owned(), below.clone().into());
        }
        Ok(json!({"tool_id": "monorepo_cli", "function": "run_script", "args": args}))
    }

    /// The script of this command line: one that is there, or a new one under a name that is free.
    fn script(&mut self, name: &str, command: Vec<String>, environment: BTreeMap<String, String>) -> &mut Script {
        let known = self.0.iter().position(|script| script.command == command && script.environment == environment);
        let index = known.unwrap_or_else(|| {
            let taken = |name: &str| self.0.iter().any(|script| script.name == name);
            let mut free = name.to_owned();
            let mut number = 2;
            while taken(&free) {
                free = format!("{name}-{number}");
                number += 1;
            }
            self.0.push(Script { name: free, for_entries: Vec::new(), command, environment });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What belongs into the operator's `entries.yaml`.
    pub fn entries(&self, folder: &Path) -> Value {
        let scripts: Map<String, Value> =
            self.0.iter().map(|script| (script.name.clone(), script.entry(folder))).collect();
        json!({"scripts": scripts})
    }
}

impl Script {
    fn entry(&self, folder: &Path) -> Value {
        let mut entry = json!({
            "about": format!("for {}", self.for_entries.join(", ")),
            "command": self.command,
            "arguments": [],
        });
        if !self.environment.is_empty() {
            entry["set"] = json!(self.environment);
        }
        entry["folder"] = folder.display().to_string().into();
        entry
    }
}

/// How many of the words say what is run.
fn telling_words(words: &[String]) -> usize {
    let is_name = |word: &String| {
        word.starts_with(|first: char| first.is_ascii_alphanumeric())
            && word.chars().all(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '-' | '.' | ':' | '/'))
    };
    match words {
        [program, run, script, ..]
            if PACKAGE_MANAGERS.contains(&program.as_str()) && run == "run" && is_name(script) =>
        {
            3
        }
        [_, second, ..] if is_name(second) => 2,
        _ => 1,
    }
}

/// `pnpm:build`, `cargo:test`, `build.sh`.
fn name_of(words: &[String]) -> String {
    let fixed = telling_words(words);
    let last = |word: &String| word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word).to_owned();
    match (words.first(), words.get(fixed - 1)) {
        (Some(program), Some(script)) if fixed > 1 => format!("{}:{}", last(program), last(script)),
        (Some(program), _) => last(program),
        (None, _) => String::new(),
    }
}

/// A program that is named by its path is named by its whole path; one that is not is looked up by the runner.
fn whole_path(program: &str, folder: &Path) -> Result<String, String> {
    if !program.contains('/') || program.starts_with('/') {
        return Ok(program.to_owned());
    }
    let mut path = PathBuf::from(folder);
    for part in Path::new(program).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!("`{program}` leaves the folder that it runs in"));
            }
        }
    }
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests;
