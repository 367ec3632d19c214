//! The documents tell the truth: their commands run and print what is shown, and their tables are the code's.
//!
//! In a document, a block marked `console` is a session: lines that begin with `$ ` are typed, the lines below are what
//! comes back. All commands of a document run in order in one fresh data folder. A shown line must come in its place;
//! `…` alone stands for any lines, `…` within a line for any text. `# exit 1` after a command says how it ends.
//! A block marked `console server` starts a server that runs until the document ends; the others meet it at the address
//! that they name, 127.0.0.1:8787, wherever it really listens. A block marked `console worker` starts a process beside it that
//! prints what is shown, runs until the document ends and then ends well. A block marked `file=NAME` is a file of the session.
//! Port 8901 is for what a reader serves themselves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod matching;
mod reference;
mod script;
mod shell;

use std::path::{Path, PathBuf};

use script::Script;
use shell::Shell;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text_of(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Every Markdown document for readers, from the root of the repository.
fn documents() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in folder.read_dir().unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                walk(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root.join("docs"), &mut found);
    found.extend(root.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    let named = |path: PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = found
        .into_iter()
        .map(named)
        .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "md"))
        .collect();
    names.sort();
    names
}

fn run(document: &str) {
    let script = Script::read(document, &text_of(document));
    let Some(mut shell) = Shell::open(&script) else { return };
    for step in &script.steps {
        if let Err(problem) = shell.take(step) {
            panic!("{document}:{}: {problem}", step.line());
        }
    }
    if let Err(problem) = shell.close() {
        panic!("{document}: {problem}");
    }
}

macro_rules! sessions {
    ($($name:ident = $document:literal),* $(,)?) => {
        const SESSIONS: &[&str] = &[$($document),*];
        $(#[test]
        fn $name() {
            run($document);
        })*
    };
}

sessions! {
    readme = "README.md",
    contributing = "CONTRIBUTING.md",
    access = "docs/access.md",
    agents = "docs/agents.md",
    agent_runs = "docs/agent-runs.md",
    approvals = "docs/approvals.md",
    audit = "docs/audit.md",
    calls = "docs/calls.md",
    cli = "docs/cli.md",
    configuration = "docs/configuration.md",
    database = "docs/database.md",
    error_conflict = "docs/errors/conflict.md",
    error_internal = "docs/errors/internal.md",
    error_invalid = "docs/errors/invalid.md",
    error_not_found = "docs/errors/not_found.md",
    error_permission = "docs/errors/permission.md",
    error_too_large = "docs/errors/too_large.md",
    error_unauthenticated = "docs/errors/unauthenticated.md",
    error_unavailable = "docs/errors/unavailable.md",
    getting_started = "docs/getting-started.md",
    goblins = "docs/goblins.md",
    guardrails = "docs/guardrails.md",
    labels = "docs/labels.md",
    import = "docs/import.md",
    limits = "docs/limits.md",
    mcp = "docs/mcp.md",
    mcp_authorization = "docs/mcp-authorization.md",
    notifications = "docs/notifications.md",
    openapi_import = "docs/openapi-import.md",
    plugins = "docs/plugins.md",
    policy = "docs/policy.md",
    questions = "docs/questions.md",
    replay = "docs/replay.md",
    rest = "docs/rest.md",
    runners = "docs/runners.md",
    secrets = "docs/secrets.md",
    sign_in = "docs/sign-in.md",
    providers = "docs/providers.md",
    skills = "docs/skills.md",
    seed_tool_invocations = "docs/seeds/tool-invocations.md",
    seed_tool_layer = "docs/seeds/tool-layer.md",
    tokens = "docs/tokens.md",
    toolbox = "docs/toolbox.md",
    tools = "docs/tools.md",
    upstreams = "docs/upstreams.md",
    workflows = "docs/workflows.md",
    tutorial_external_python = "docs/tutorials/external-python.md",
    tutorial_external_typescript = "docs/tutorials/external-typescript.md",
    tutorial_http = "docs/tutorials/http.md",
    tutorial_python_snippet = "docs/tutorials/python-snippet.md",
    tutorial_rust_sdk = "docs/tutorials/rust-sdk.md",
    tutorial_tool_md = "docs/tutorials/tool-md.md",
}

#[test]
fn every_session_of_every_document_is_run() {
    let with_sessions: Vec<String> =
        documents().into_iter().filter(|name| !Script::read(name, &text_of(name)).is_empty()).collect();
    let listed: Vec<String> = SESSIONS.iter().map(|name| (*name).to_owned()).collect();
    let unlisted: Vec<_> = with_sessions.iter().filter(|name| !listed.contains(name)).collect();
    let silent: Vec<_> = listed.iter().filter(|name| !with_sessions.contains(name)).collect();
    assert!(unlisted.is_empty(), "add to `sessions!`: {unlisted:?}");
    assert!(silent.is_empty(), "these have no `console` block, remove them from `sessions!`: {silent:?}");
}
