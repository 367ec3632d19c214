//! `toolgate audit …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Moment, Paging};

#[derive(Subcommand)]
pub enum AuditCommand {
    /// List entries of the log, newest first
    #[command(after_help = "Examples:\n  toolgate audit list --action 'tool.*'\n  toolgate audit list --since 1h")]
    List(Entries),
    /// Show one entry of the log
    Show {
        /// Its index or id, or the id of a call
        entry: String,
    },
    /// Sign and print a head of the log that covers every entry so far
    #[command(
        after_help = "Keep it where the server's owner cannot change it: `toolgate audit verify --checkpoint FILE` then shows\nwhether anything that it covers was changed or removed."
    )]
    Checkpoint,
    Export(Export),
    /// Print the keys that sign audit events, for whoever checks them elsewhere
    #[command(
        after_help = "Whoever has a key can make events as well as check them: the log is the proof, not they.\nA new key: `toolgate keys rotate audit_event`.\n\nExample:\n  toolgate audit event-key > event-keys.json"
    )]
    EventKey,
    /// Prove that an entry is in the log
    #[command(
        after_help = "The proof is a c2sp.org/tlog-proof text. With --to it is written beside its entry into a file that\n`toolgate audit verify FILE` checks without the server."
    )]
    Prove {
        /// The id of a call, or an entry's index or id
        call: String,
        /// Write entry and proof into this file
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    Verify(Verify),
    Follow(Follow),
    /// Say that an older copy of the database was restored on purpose
    ///
    /// After a database was brought back, its log may grow into another than the one that was signed before. So a
    /// restored database begins a new log, under a new name, with the entries that it has; an entry says so. `toolgate
    /// db restore` does this by itself.
    AcceptRestore,
}

/// Write the log into a folder, to be verified without the server; what is there is continued
///
/// With `--format tool-layer` every call is printed as an audit event of the invocation protocol instead, one on a line,
/// newest first, signed for whoever holds the tenant's event key.
#[derive(Args)]
pub struct Export {
    /// The folder, or with --format tool-layer a file instead of standard output
    #[arg(long, value_name = "PATH", required_if_eq("format", "log"))]
    pub to: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = ExportFormat::Log)]
    pub format: ExportFormat,
    /// With what calls were given and gave, where it was not erased
    #[arg(long)]
    pub payloads: bool,
    /// With --format tool-layer, calls from when on: `1h`, `7d`, a day or a moment
    #[arg(long, value_name = "TIME")]
    pub since: Option<Moment>,
    /// With --format tool-layer, calls until when, written alike
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Entries, heads and keys
    Log,
    /// Audit events of the invocation protocol
    ToolLayer,
}

#[derive(Args)]
pub struct Entries {
    /// Only this action, such as tool.register; a * at the end stands for any rest
    #[arg(long)]
    pub action: Option<String>,
    /// Only entries for which this one is answerable, such as user:ID
    #[arg(long)]
    pub actor: Option<String>,
    /// Only entries about this
    #[arg(long)]
    pub object: Option<String>,
    /// From when on: `1h`, `7d`, a day or a moment
    #[arg(long, value_name = "TIME")]
    pub since: Option<Moment>,
    /// Until when, written alike
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
    #[command(flatten)]
    pub paging: Paging,
}

/// Verify an exported log or a proof without the server, or the log of a server as it is now
///
/// Signatures, every entry, the root of the tree under every head, and that the log contains the last head that this
/// user saw of it. Ends with 0, or with 1 and what is broken.
#[derive(Args)]
pub struct Verify {
    /// A folder made by `audit export` or `audit follow`, or a file made by `audit prove --to`
    #[arg(required_unless_present_any = ["live", "event"])]
    pub path: Option<PathBuf>,
    /// Audit events of the invocation protocol instead, as `audit export --format tool-layer` prints them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "live"])]
    pub event: Option<PathBuf>,
    /// What `audit event-key` printed; without it the server is asked
    #[arg(long, value_name = "FILE", requires = "event")]
    pub event_key: Option<PathBuf>,
    /// Read the log itself, from the data folder or the server
    #[arg(long, conflicts_with = "path")]
    pub live: bool,
    /// A head that was kept, as `audit checkpoint` printed it: the log must contain it
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Believe this key of the log (NAME+ID+BASE64), and of those that come with it none but the ones believed before
    #[arg(long = "verifier", value_name = "KEY")]
    pub verifiers: Vec<String>,
}

/// Keep a verified copy of a server's log elsewhere, and countersign its heads
///
/// Takes new entries, checks that they continue those of the copy and are what the server signed, and countersigns. Where
/// the server shows another log than before, it writes DIR/ALARM, changes nothing else, and ends with 1.
#[derive(Args)]
pub struct Follow {
    /// The server, with the key of --key-file or TOOLGATE_KEY
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The folder of the copy
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// One round instead of one every few seconds
    #[arg(long)]
    pub once: bool,
}
