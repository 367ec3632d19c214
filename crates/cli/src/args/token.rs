//! `toolgate token …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::definition::Label;

use super::{Paging, one_of};

/// What a token is to allow.
#[derive(Args)]
pub struct Wanted {
    /// A tool, all versions or those that fit: `find_note`, `find_note@^1`, `*` for every tool; may be repeated
    #[arg(long = "tool", value_name = "NAME[@REQ]", required = true)]
    pub tools: Vec<String>,
    /// What an argument must be: `/amount max 100`, or `{"tool": …, "pointer": "/amount", "max": 100}` as JSON or @FILE;
    /// may be repeated
    #[arg(long = "constraint", value_name = "CONSTRAINT")]
    pub constraints: Vec<String>,
    /// How many calls it is good for, those of tokens made of it included
    #[arg(long, value_name = "N")]
    pub max_calls: Option<u32>,
    /// What its calls may cost together
    #[arg(long, value_name = "AMOUNT")]
    pub budget: Option<String>,
    /// How many seconds it lasts, at most 900 [default: 300]
    #[arg(long, value_name = "N")]
    pub expires_s: Option<u32>,
    /// Only calls of this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Data with other labels does not go into its calls; may be repeated [default: any]
    #[arg(long = "labels-max", value_name = "LABEL", value_parser = one_of(Label::ALL, Label::as_str))]
    pub labels_max: Vec<String>,
    /// The thumbprint of a key that whoever shows the token must prove to hold
    #[arg(long, value_name = "THUMBPRINT")]
    pub jkt: Option<String>,
}

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Make a token; its text is printed once and never again
    #[command(
        after_help = "Examples:\n  toolgate token mint --tool find_note --tool calculator@^1 --max-calls 20 > token.txt\n  toolgate token mint --agent billing --tool send_invoice --constraint '/amount max 100'"
    )]
    Mint {
        #[command(flatten)]
        wanted: Wanted,
        /// Whoever shows it acts as this agent
        #[arg(long)]
        agent: Option<String>,
    },
    /// Make a token that can do less than another, with that one
    #[command(
        after_help = "Example:\n  toolgate token narrow --token-file token.txt --tool find_note --max-calls 1 > less.txt"
    )]
    Narrow {
        #[command(flatten)]
        wanted: Wanted,
        /// The file that holds the other one, `-` for standard input [default: what --key, --key-file or TOOLGATE_KEY
        /// gives]
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// List tokens, newest first
    List {
        /// Only those of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Only those that work now
        #[arg(long)]
        active: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Revoke a token and those made of it, or all of an agent, at once
    Revoke {
        /// The token's id
        #[arg(required_unless_present_any = ["agent", "token_file"])]
        id: Option<String>,
        /// Every token of this agent
        #[arg(long, conflicts_with = "id")]
        agent: Option<String>,
        /// The file that holds it, `-` for standard input
        #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "agent"])]
        token_file: Option<PathBuf>,
    },
    /// Show what a token says and whether it works
    #[command(after_help = "Exit status:\n  0   it works\n  1   it does not")]
    Inspect {
        /// The file that holds it [default: standard input]
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
}
