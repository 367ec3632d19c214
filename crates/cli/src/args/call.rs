//! `toolgate call` and `toolgate calls …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use toolgate_contracts::definition::Label;
use toolgate_contracts::{Source, Status};

use super::{Moment, Paging, one_of};

/// Call a tool and print how it ended
///
/// Prints the call's envelope; progress and what the tool says meanwhile go to standard error. Ctrl-C asks the call to
/// stop, a second one leaves it alone.
#[derive(Args)]
#[command(
    after_help = "Fields:\n  FIELD=VALUE   read as the tool's schema says: text, a number, true, false, or JSON\n  FIELD=@FILE   the text of a file\n  FIELD:=JSON   JSON, whatever the schema says\n  a.b=VALUE     a member of the object `a`; a list takes its field several times\n\nExit status:\n  0   completed (with --record: told to go ahead)\n  1   failed, denied or cancelled\n  3   waiting for a person, or still running\n\nExamples:\n  toolgate call calculator expression='2 * 21'\n  toolgate call send_email --input @mail.json --dry-run\n  toolgate call echo text=hello --format output"
)]
pub struct Call {
    /// NAME or NAME@VERSION
    pub tool: String,
    /// Fields of the input, over those of --input
    #[arg(value_name = "FIELD=VALUE")]
    pub fields: Vec<String>,
    /// The whole input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Everything but the effect
    #[arg(long)]
    pub dry_run: bool,
    /// Run the tool yourself and report with `toolgate calls complete`; for external tools
    #[arg(long, conflicts_with = "dry_run")]
    pub record: bool,
    /// The run that the call belongs to
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// The step of that run
    #[arg(long, value_name = "ID", requires = "run")]
    pub step: Option<String>,
    /// Call as this agent, with no more rights than it has (name or id)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The same id again within 24 hours answers the first call instead of making another
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Wait at most so many seconds for the end [default: until it ended or a person must decide]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub wait: Option<u32>,
    /// Do not wait
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// Run it without the approval it needs: on a development server (`dev_bypass`), with a key of the role `service`
    #[arg(long)]
    pub force_no_approval: bool,
    /// Shorten the tool's time limit
    #[arg(long, value_name = "MS")]
    pub timeout_ms: Option<u64>,
    /// Something to find the call by later; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub meta: Vec<String>,
    /// Say what kind of data the input holds; may be repeated
    #[arg(long = "label", value_name = "LABEL", value_parser = one_of(Label::ALL, Label::as_str))]
    pub labels: Vec<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = CallFormat::Envelope)]
    pub format: CallFormat,
}

impl Call {
    /// A call of a tool with nothing else said.
    pub fn of(tool: String) -> Self {
        Self {
            tool,
            fields: Vec::new(),
            input: None,
            dry_run: false,
            record: false,
            run: None,
            step: None,
            agent: None,
            request_id: None,
            wait: None,
            no_wait: false,
            force_no_approval: false,
            timeout_ms: None,
            meta: Vec::new(),
            labels: Vec::new(),
            format: CallFormat::Envelope,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CallFormat {
    /// The call with everything about it, as JSON
    Envelope,
    /// The output alone: text as it is, else JSON; the envelope where there is none
    Output,
    /// {content, is_error, app_data}, as a model is shown it
    ToolResult,
}

#[derive(Subcommand)]
pub enum CallsCommand {
    /// List calls, newest first
    #[command(
        after_help = "Examples:\n  toolgate calls list --status failed --since 2026-11-15\n  toolgate calls list --agent billing --meta pr_id=42"
    )]
    List(ListCalls),
    /// Show one call: what it was given, what came of it, and why
    Show {
        /// Its id, or its call_id
        id: String,
        /// Write its attachments into this folder, which is made if it is not there
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
    },
    /// Ask a call to stop
    #[command(
        after_help = "What has no effect stops at once. What changes something is asked, and may still end by itself: then the\nexit status is 3."
    )]
    Cancel {
        id: String,
    },
    Settle(Settle),
    /// Report how a call ended that you ran yourself (`toolgate call --record`)
    #[command(
        after_help = "Examples:\n  toolgate calls complete ID --output '{\"title\": \"Broken lamp\"}'\n  toolgate calls complete ID --error \"the relay does not answer\""
    )]
    Complete {
        id: String,
        #[command(flatten)]
        report: Report,
    },
}

#[derive(Args)]
pub struct ListCalls {
    #[arg(long, value_parser = one_of(Status::ALL, Status::as_str))]
    pub status: Option<String>,
    /// Of this tool (name or id)
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Of this agent (name or id)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Of this run; of all under it, if it is a root
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Through which door it came
    #[arg(long, value_parser = one_of(Source::ALL, Source::as_str))]
    pub source: Option<String>,
    /// From when on: `1h`, `7d`, a day or a moment
    #[arg(long, value_name = "TIME")]
    pub since: Option<Moment>,
    /// Until when, written alike
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
    /// With this metadata
    #[arg(long, value_name = "KEY=VALUE")]
    pub meta: Option<String>,
    #[command(flatten)]
    pub paging: Paging,
}

/// Seed 000's words for the list of calls.
#[derive(Args)]
pub struct Invocations {
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(["pending", "approved", "rejected", "running", "completed", "failed"]))]
    pub status: Option<String>,
    /// Of this agent (name or id)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Of this run and all under it
    #[arg(long, value_name = "ID")]
    pub team_run: Option<String>,
    #[command(flatten)]
    pub paging: Paging,
}

/// Say how a call ended of which nobody knew (status `outcome_unknown`)
#[derive(Args)]
#[command(
    after_help = "Look at the other side first: whether the mail was sent, whether the ticket is there.\n\nExample:\n  toolgate calls settle ID --completed --reason \"the ticket 4711 is there\""
)]
pub struct Settle {
    pub id: String,
    /// It happened
    #[arg(long, required_unless_present = "failed")]
    pub completed: bool,
    /// It did not happen
    #[arg(long, conflicts_with = "completed")]
    pub failed: bool,
    /// How you know, for the log
    #[arg(long)]
    pub reason: String,
    /// What it gave back: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub output: Option<String>,
}

/// How something ended that somebody did outside.
#[derive(Args)]
pub struct Report {
    /// What it gave back: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", required_unless_present = "error")]
    pub output: Option<String>,
    /// It failed, in words
    #[arg(long, value_name = "TEXT", conflicts_with = "output")]
    pub error: Option<String>,
    /// The code of the failure
    #[arg(long, value_name = "CODE", requires = "error", default_value = "PROVIDER_ERROR", value_parser = clap::builder::PossibleValuesParser::new(["VALIDATION_ERROR", "TIMEOUT", "RATE_LIMIT", "AUTH_REQUIRED", "PROVIDER_ERROR", "NETWORK_ERROR", "SANDBOX_ERROR"]))]
    pub code: String,
    /// What it cost, in the tenant's currency; kept beside what the server counts
    #[arg(long, value_name = "AMOUNT")]
    pub cost: Option<String>,
}
