//! `toolgate migrate …` and `toolgate invoke`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub enum MigrateCommand {
    Goblins(Goblins),
}

/// Rewrite the direct commands of a `goblins.yaml` as calls through the gate
///
/// Nothing is run, and without --out nothing is written: the difference is shown. What needs a shell cannot be rewritten
/// and is listed with the reason; then the exit status is 1.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate migrate goblins goblins.yaml\n  toolgate migrate goblins goblins.yaml --out goblins.yaml --entries scripts.yaml"
)]
pub struct Goblins {
    /// The file with the commands
    pub file: PathBuf,
    /// Write the rewritten file here; it may be the same file, but no other that exists
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the script entries that the operator has to allow here; the file must not exist
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,
}

/// Run an entry of a `goblins.yaml` through the gate
///
/// Prints what the script printed and ends with its exit status. Where the call did not get that far, the envelope is
/// printed and the exit status is that of `toolgate call`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate invoke goblins.yaml forge-lite-build\n  toolgate invoke goblins.yaml forge-lite-build --dry-run\n  toolgate invoke goblins.yaml forge-lite-build --wait 600"
)]
pub struct Invoke {
    /// The file with the entries
    pub file: PathBuf,
    /// The entry's name; below others, their names with `/` between
    pub entry: String,
    /// Everything but the effect
    #[arg(long)]
    pub dry_run: bool,
    /// Wait at most so many seconds for the end, and for a person's decision before it [default: until it ended or a
    /// person must decide]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub wait: Option<u32>,
}
