//! `toolgate policy …`, `toolgate guardrail …`, `toolgate label …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::definition::Label;

use super::{Moment, Paging, one_of};

#[derive(Subcommand)]
pub enum PolicyCommand {
    /// Show the policies that decide, or those of a revision
    Show {
        /// A revision's number, `active` or `default`
        #[arg(default_value = "active", value_name = "REV")]
        revision: String,
    },
    /// List the saved revisions, newest first
    List(Paging),
    /// Check a file against the tools, agents and roles there are; nothing is saved
    Check {
        /// Cedar; `-` reads standard input
        file: PathBuf,
    },
    /// Save a file as a new revision, which decides nothing yet
    #[command(after_help = "Example:\n  toolgate policy save policies.cedar --note \"ask above 500\" --activate")]
    Save {
        /// Cedar; `-` reads standard input
        file: PathBuf,
        /// What was changed and why, for the list
        #[arg(long)]
        note: Option<String>,
        /// Let it decide at once
        #[arg(long)]
        activate: bool,
    },
    /// Let a revision decide from now on; `0` is the default set
    Activate {
        /// A revision's number, or `default`
        #[arg(value_name = "REV")]
        revision: String,
        /// Only if this revision decides by now
        #[arg(long, value_name = "REV")]
        expected: Option<i64>,
    },
    /// Decide the recorded calls of a time again under other policies, and say what would be different
    #[command(
        after_help = "Examples:\n  toolgate policy test policies.cedar --since 7d\n  toolgate policy test 12 --since 2026-11-01 --tool send_email"
    )]
    Test(TestPolicy),
}

#[derive(Args)]
pub struct TestPolicy {
    /// A file with policies, or a revision's number, `active` or `default`
    #[arg(value_name = "FILE|REV")]
    pub policies: String,
    /// From when on: `1h`, `7d`, a day or a moment
    #[arg(long, default_value = "7d", value_name = "TIME")]
    pub since: Moment,
    /// Until when, written alike [default: now]
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
    /// Only calls of this tool
    #[arg(long)]
    pub tool: Option<String>,
    /// Only calls of this agent
    #[arg(long)]
    pub agent: Option<String>,
}

#[derive(Subcommand)]
pub enum GuardrailCommand {
    /// List the guardrails, in the order in which they look
    List(Paging),
    /// Create or replace a guardrail from a YAML or JSON file
    #[command(
        after_help = "Example of a file:\n  name: no-keys\n  stage: TOOL_CALL\n  detector: {kind: builtin, name: secrets}\n  on_match: tripwire"
    )]
    Set {
        /// The guardrail; `-` reads standard input
        file: PathBuf,
    },
    /// Remove a guardrail that no tool and no profile demands
    Rm { guardrail: String },
    /// Say what a guardrail finds in a value; nothing is saved
    #[command(after_help = "Example:\n  toolgate guardrail test no-keys.yaml '{\"text\": \"hello\"}'")]
    Test {
        /// The guardrail's file
        file: PathBuf,
        /// Arguments or a result, as JSON; @FILE reads a file
        value: String,
        /// The tool that the value is said to be of
        #[arg(long)]
        tool: Option<String>,
    },
}

#[derive(Subcommand)]
pub enum LabelCommand {
    /// List what callers have seen, and until when it is remembered
    Contexts(Paging),
    /// Forget what a caller has seen; only a person at a browser may, and others are told so
    Reset {
        /// As `label contexts` names it
        context: String,
    },
    /// Accept that a tool is given data with these labels, so that nobody is asked for that
    #[command(
        after_help = "Example:\n  toolgate label accept http_get --host api.example.com --label private --reason \"our own API\""
    )]
    Accept {
        tool: String,
        /// Only to this host [default: wherever the tool sends to]
        #[arg(long)]
        host: Option<String>,
        /// What is accepted; may be repeated
        #[arg(long = "label", value_name = "LABEL", required = true, value_parser = one_of(Label::ALL, Label::as_str))]
        labels: Vec<String>,
        /// Why, for the log
        #[arg(long)]
        reason: String,
    },
    /// List what is accepted
    Acceptances(Paging),
    /// Take an acceptance back
    Withdraw {
        /// Its id
        acceptance: String,
    },
    /// Say how often people were asked, why, and what would spare them
    Asks {
        /// From when on: `1h`, `7d`, a day or a moment
        #[arg(long, default_value = "7d", value_name = "TIME")]
        since: Moment,
    },
}
