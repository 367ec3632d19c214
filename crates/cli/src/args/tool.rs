//! `toolgate tool …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::definition::{EgressClass, Origin, Risk, ToolState, ToolType};
use toolgate_registry::render::Form;

use super::{Invocations, Paging, Standing, one_of};

#[derive(Subcommand)]
pub enum ToolCommand {
    /// List the tools you have, or the assignments, or the profiles
    #[command(
        after_help = "Examples:\n  toolgate tool list --risk critical\n  toolgate tool list --category data\n  toolgate tool list --assignments --agent billing"
    )]
    List(List),
    /// Show one tool; a namespace alone lists its functions
    #[command(
        after_help = "Examples:\n  toolgate tool show send_email\n  toolgate tool show send_email@1.0.0 --as openai\n  toolgate tool show monorepo_cli"
    )]
    Show {
        /// NAME, NAME@VERSION or an alias
        name: String,
        /// The tool as one reader gets it, instead of the whole
        #[arg(long = "as", value_name = "FORM", value_parser = one_of(&Form::ALL, Form::as_str))]
        form: Option<String>,
        /// Also when it is disabled or blocked here
        #[arg(long)]
        all: bool,
    },
    /// Search tools by what they are for
    Search {
        /// What you look for, in words; typing mistakes are forgiven
        query: String,
        /// How many results
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// List the categories and how many tools each has
    Categories,
    /// Test a TOOL.md offline, without a database or a server
    #[command(
        after_help = "Examples:\n  toolgate tool test tools/send_email/TOOL.md\n  toolgate tool test tools --json"
    )]
    Test {
        /// A TOOL.md, or a folder that holds one or several
        path: PathBuf,
    },
    /// Register a tool from its TOOL.md; without --apply only say what would change
    #[command(
        after_help = "Examples:\n  toolgate tool register --file tools/send_email\n  toolgate tool register --file tools/send_email/TOOL.md --apply"
    )]
    Register {
        /// A TOOL.md, a definition as .json, or a folder that holds one or several
        #[arg(long, value_name = "PATH")]
        file: PathBuf,
        /// Write it; without this nothing is written
        #[arg(long)]
        apply: bool,
    },
    /// Switch a tool on for this tenant
    Enable(Switch),
    /// Switch a tool off for this tenant
    Disable(Switch),
    /// Make a deprecated or blocked tool active again
    Activate {
        /// NAME for all its versions, or NAME@VERSION
        name: String,
    },
    /// Mark a tool as outgoing: it is no longer offered, and still runs
    Deprecate(StateChange),
    /// Stop a tool: it never runs
    Block(StateChange),
    Classify(Classify),
    /// Adjust a shared tool for this tenant
    #[command(subcommand)]
    Override(OverrideCommand),
    /// Delete a tool that this tenant made and nothing uses
    Delete {
        name: String,
    },
    /// Assign a tool to an agent
    Assign {
        /// The tool's name or id
        #[arg(long)]
        tool: String,
        /// The agent's name or id
        #[arg(long)]
        agent: String,
        /// A profile that tightens this assignment
        #[arg(long)]
        profile: Option<String>,
    },
    /// Take an assignment back
    Revoke {
        /// The tool's name or id
        #[arg(long)]
        tool: String,
        /// The agent's name or id
        #[arg(long)]
        agent: String,
    },
    /// Approve a call that waits: by the call's id, or the approval's
    #[command(
        after_help = "Examples:\n  toolgate tool approve ID\n  toolgate tool approve ID --input @better.json\n  toolgate tool approve ID --standing --constraint '/path path_under out' --uses 5"
    )]
    Approve {
        id: String,
        /// Another input instead of the one that was asked for: JSON, @FILE, or - for standard input
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        standing: Standing,
    },
    /// Reject a call that waits: by the call's id, or the approval's
    #[command(after_help = "Example:\n  toolgate tool reject ID --reason \"unsafe egress target\"")]
    Reject {
        id: String,
        /// Why: the agent reads it
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Check whether a tool could be called now, without calling it
    #[command(
        after_help = "Exit status:\n  0   ready\n  10  not now, perhaps later\n  11  a person has to do something first\n  12  no such tool"
    )]
    Preflight {
        /// NAME or NAME@VERSION
        name: String,
    },
    /// List calls, newest first, in the columns of `tool_invocations_v`
    Invocations(Invocations),
    /// List the versions of a tool, newest first
    Versions {
        name: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what changed between two versions
    #[command(after_help = "Example:\n  toolgate tool diff send_email --from 1.0.0 --to 2.0.0")]
    Diff {
        name: String,
        /// The older version [default: the one before --to]
        #[arg(long, value_name = "VERSION")]
        from: Option<String>,
        /// The newer version [default: the newest]
        #[arg(long, value_name = "VERSION")]
        to: Option<String>,
    },
}

#[derive(Args)]
pub struct List {
    /// The tools themselves; this is the default
    #[arg(long, group = "what")]
    pub registry: bool,
    /// Which agent has which tool by assignment
    #[arg(long, group = "what")]
    pub assignments: bool,
    /// The profiles
    #[arg(long, group = "what")]
    pub profiles: bool,
    /// What this agent has (name or id)
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    #[command(flatten)]
    pub filters: Filters,
    /// Also what is disabled or not enabled here
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub paging: Paging,
}

#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub struct Filters {
    /// A category with all below it: `data` includes `data/visualization`
    #[arg(long, value_name = "PATH")]
    pub category: Option<String>,
    #[arg(long, value_parser = one_of(Risk::ALL, Risk::as_str))]
    pub risk: Option<String>,
    #[arg(long, value_parser = one_of(EgressClass::ALL, EgressClass::as_str))]
    pub class: Option<String>,
    /// Without it: active tools
    #[arg(long, value_parser = one_of(ToolState::ALL, ToolState::as_str))]
    pub state: Option<String>,
    #[arg(long, value_parser = one_of(Origin::ALL, Origin::as_str))]
    pub origin: Option<String>,
    #[arg(long = "type", value_parser = one_of(ToolType::ALL, ToolType::as_str))]
    pub tool_type: Option<String>,
    #[arg(long)]
    pub group: Option<String>,
    #[arg(long)]
    pub tag: Option<String>,
}

#[derive(Args)]
pub struct Switch {
    pub name: String,
    /// For every tenant that has not said otherwise; for the operator
    #[arg(long, visible_alias = "global")]
    pub everyone: bool,
}

/// Say what a tool does, where its runner tells too little; for the operator
///
/// A milder class holds for the behaviour that the tool has now: a version that behaves otherwise has the class of its
/// definition again. A stricter one holds for every version.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate tool classify lookUp --class read_only --reason \"reads our own wiki, code reviewed\"\n  toolgate tool classify lookUp --clear"
)]
pub struct Classify {
    pub name: String,
    /// The class that it has
    #[arg(long, value_parser = one_of(EgressClass::ALL, EgressClass::as_str), required_unless_present = "clear")]
    pub class: Option<String>,
    /// What was looked at
    #[arg(long, required_unless_present = "clear")]
    pub reason: Option<String>,
    /// Whether it changes the tenant's own records [default: as its definition says]
    #[arg(long, value_name = "true|false")]
    pub changes_state: Option<bool>,
    /// Take the given class back
    #[arg(long, conflicts_with_all = ["class", "reason", "changes_state"])]
    pub clear: bool,
    /// Whose tool it is, where that is another tenant than the key's own
    #[arg(long, value_name = "TENANT")]
    pub of: Option<String>,
}

#[derive(Args)]
pub struct StateChange {
    /// NAME for all its versions, or NAME@VERSION
    pub name: String,
    /// Why, for whoever uses it
    #[arg(long)]
    pub message: Option<String>,
    /// The last day it is promised to be there
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub remove_by: Option<String>,
    /// What to use instead
    #[arg(long, value_name = "TOOL")]
    pub replaced_by: Option<String>,
}

#[derive(Subcommand)]
pub enum OverrideCommand {
    /// Set members of this tenant's override of a shared tool; the others stay
    #[command(
        after_help = "An override may rename or tighten: name, title, requires_approval, permission_policy, risk, hitl.mode,\nvisibility, required_permission, timeout_ms, max_output_bytes, hosts.\nKEY= without a value, or --unset KEY, takes a member out of the override again.\n\nExamples:\n  toolgate tool override set web_search title=\"Look it up\" risk=critical\n  toolgate tool override set http_get hosts=example.com,example.org timeout_ms=5000\n  toolgate tool override set http_get --unset hosts"
    )]
    Set {
        name: String,
        /// What to change, as KEY=VALUE
        #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["file", "unset"])]
        changes: Vec<String>,
        /// A member to take out of the override; may be repeated
        #[arg(long, value_name = "KEY")]
        unset: Vec<String>,
        /// Replace the whole override by this YAML or JSON file
        #[arg(long, value_name = "FILE", conflicts_with_all = ["changes", "unset"])]
        file: Option<PathBuf>,
    },
    /// Remove this tenant's override
    Clear { name: String },
}
