//! `toolgate input …`.

use clap::{Args, Subcommand};
use toolgate_contracts::InputRequestState;

use super::{Paging, one_of};

#[derive(Subcommand)]
pub enum InputCommand {
    /// List questions that wait for an answer, oldest first
    List {
        /// Those in this state instead, newest first
        #[arg(long, default_value = "open", value_parser = one_of(InputRequestState::ALL, InputRequestState::as_str))]
        state: String,
        /// All of them, newest first
        #[arg(long, conflicts_with = "state")]
        all: bool,
        /// Of this run
        #[arg(long, value_name = "ID")]
        run: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a question, and its answer once there is one
    Show {
        id: String,
        /// Wait so many seconds for the answer; exit status 3 if there is none yet
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
        wait: Option<u32>,
    },
    Answer(Answer),
    Ask(Ask),
    /// Take a question back
    Cancel {
        id: String,
    },
}

/// Answer a question
#[derive(Args)]
#[command(
    after_help = "Fields are read as the question's schema says, as those of `toolgate call` are.\n\nExamples:\n  toolgate input answer ID lamp=hall count=2\n  toolgate input answer ID --value '{\"lamp\": \"hall\"}'"
)]
pub struct Answer {
    pub id: String,
    /// Fields of the answer, over those of --value
    #[arg(value_name = "FIELD=VALUE", required_unless_present = "value")]
    pub fields: Vec<String>,
    /// The whole answer: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub value: Option<String>,
}

/// Ask people on behalf of a run, which waits for the answer; prints the question's id
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate input ask --run ID --title \"Which lamp?\" --schema @lamp.yaml\n  toolgate input ask --run ID --title \"Go on?\" --schema '{\"type\": \"object\", \"properties\": {\"yes\": {\"type\": \"boolean\"}}}'"
)]
pub struct Ask {
    #[arg(long, value_name = "ID")]
    pub run: String,
    #[arg(long)]
    pub title: String,
    /// What to know before answering: text, or @FILE
    #[arg(long, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// What an answer must match: JSON Schema of an object as JSON, or @FILE as YAML or JSON
    #[arg(long, value_name = "JSON")]
    pub schema: String,
    /// How long it stands [default: a day]
    #[arg(long, value_name = "SECONDS")]
    pub expires: Option<u32>,
}
