//! `toolgate skill …`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Paging;

#[derive(Subcommand)]
pub enum SkillCommand {
    /// Add a skill from its SKILL.md, or replace it
    #[command(after_help = "Example:\n  toolgate skill add examples/skills/review")]
    Add {
        /// A SKILL.md, or the folder that holds one
        path: PathBuf,
    },
    /// List the skills
    List(Paging),
    /// Show a skill's text, or with arguments what it becomes
    #[command(after_help = "Example:\n  toolgate skill show review subject=\"the release notes\"")]
    Show {
        skill: String,
        /// What stands in its places: NAME=TEXT
        #[arg(value_name = "NAME=TEXT")]
        arguments: Vec<String>,
        /// The text that it had under this digest
        #[arg(long, conflicts_with = "arguments")]
        digest: Option<String>,
    },
    /// Remove a skill that no agent and no tool names
    Remove { skill: String },
}
