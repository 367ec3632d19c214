//! `toolgate provider …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::ProviderKind;

use super::{Paging, one_of};

#[derive(Subcommand)]
pub enum ProviderCommand {
    /// Add a model provider, or replace it; its prices stay unless a file has others
    #[command(
        after_help = "Examples:\n  toolgate provider add openai --kind openai_chat --secret OPENAI_API_KEY\n  toolgate provider add local --kind openai_chat --base-url http://127.0.0.1:11434/v1\n  toolgate provider add --file provider.yaml"
    )]
    Add(AddProvider),
    /// List the model providers
    List(Paging),
    /// Show a model provider, its prices and who asks its models
    Show { provider: String },
    /// Remove a model provider whose models no agent asks
    Remove {
        provider: String,
        /// Also while agents ask its models; they fail until they have another
        #[arg(long)]
        force: bool,
    },
    /// Ask a model one short question, and say what came back, how long it took and what it costs
    Test {
        provider: String,
        /// As the provider names it
        #[arg(long)]
        model: String,
        /// What to ask instead of a short question of ours
        #[arg(long, value_name = "TEXT")]
        prompt: Option<String>,
    },
    /// Show what models cost, or set what one costs for a million tokens
    #[command(
        after_help = "Examples:\n  toolgate provider prices openai gpt-5 --input 1.25 --cached-input 0.125 --output 10\n  toolgate provider prices local '*' --input 0 --output 0"
    )]
    Prices(SetPrices),
}

#[derive(Args)]
pub struct AddProvider {
    /// Its name, as agents write it before the model's
    #[arg(required_unless_present = "file")]
    pub provider: Option<String>,
    /// The whole provider as a YAML or JSON file; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "base_url", "secret", "script"])]
    pub file: Option<PathBuf>,
    /// How it is spoken to
    #[arg(long, required_unless_present = "file", value_parser = one_of(ProviderKind::ALL, ProviderKind::as_str))]
    pub kind: Option<String>,
    /// Where it is [default: the vendor's own address]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// The name of the secret that is its key
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// What a scripted one plays, as a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
}

#[derive(Args)]
pub struct SetPrices {
    pub provider: String,
    /// The model, as the provider names it; `*` for all that have no price of their own
    #[arg(required_if_eq("remove", "true"))]
    pub model: Option<String>,
    /// For a million tokens that it reads
    #[arg(long, value_name = "AMOUNT", requires = "model", requires = "output")]
    pub input: Option<String>,
    /// For a million that it had read before [default: as for others]
    #[arg(long, value_name = "AMOUNT", requires = "input")]
    pub cached_input: Option<String>,
    /// For a million tokens that it writes
    #[arg(long, value_name = "AMOUNT", requires = "model", requires = "input")]
    pub output: Option<String>,
    /// Take the model's price away
    #[arg(long, conflicts_with_all = ["input", "output", "cached_input"])]
    pub remove: bool,
}
