//! `toolgate webhook …`, `toolgate settings …`, `toolgate egress …`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use toolgate_contracts::{NoticeType, Scheme};

use super::{Paging, one_of};

#[derive(Subcommand)]
pub enum WebhookCommand {
    /// Tell a URL of what happens; prints the secret that signs it, once
    #[command(
        after_help = "Example:\n  toolgate webhook add https://hooks.example.com/toolgate --type approval.requested --type call.failed"
    )]
    Add {
        /// Where notices are posted to
        url: String,
        /// What it is told of; may be repeated
        #[arg(long = "type", value_name = "TYPE", required = true, value_parser = notice_types())]
        types: Vec<String>,
    },
    /// List the webhooks, and whether each is paused
    List(Paging),
    /// Send one notice at once, and say whether it arrived
    Test {
        /// The webhook's id
        webhook: String,
    },
    /// Go on with a paused webhook: what was held or given up is sent
    Resume { webhook: String },
    /// Give a webhook a new secret; for a day the one before signs too
    Rotate { webhook: String },
    /// Remove a webhook and what it was to be told
    Rm { webhook: String },
    /// List what a webhook was and is to be told, newest first
    Deliveries {
        webhook: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// Print the public keys that check the `v1a` signatures
    Keys,
}

fn notice_types() -> PossibleValuesParser {
    one_of(NoticeType::ALL, NoticeType::as_str)
}

#[derive(Subcommand)]
pub enum SettingsCommand {
    /// Show the tenant's settings
    Show,
    /// Change settings; what is not named stays
    #[command(
        after_help = "`hosts` is a list with commas; the word `none` takes it away.\n\nExamples:\n  toolgate settings set separation=true approval_expires_s=7200\n  toolgate settings set hosts=api.example.com,*.internal.example.com\n  toolgate settings set hosts=none"
    )]
    Set {
        /// Such as separation=true
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

#[derive(Subcommand)]
pub enum EgressCommand {
    /// Let the server reach a host that is closed to everybody otherwise
    #[command(
        after_help = "Examples:\n  toolgate egress open wiki.internal --port 8443 --reason \"the wiki\"\n  toolgate egress open 10.0.0.5 --port 8080 --scheme http --for acme --tool wiki_read --reason \"the wiki\""
    )]
    Open(OpenHost),
    /// List what is open, for whom and why
    List(Paging),
    /// Close it again, at once
    Close {
        /// The opening's id
        opening: String,
    },
}

#[derive(Args)]
pub struct OpenHost {
    /// A name, an address or a network: wiki.internal, 10.0.0.5, 10.0.0.0/24
    pub host: String,
    /// The one port
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// How it is spoken to
    #[arg(long, default_value = "https", value_parser = one_of(Scheme::ALL, Scheme::as_str))]
    pub scheme: String,
    /// Only for this tenant; may be repeated [default: every tenant]
    #[arg(long = "for", value_name = "TENANT")]
    pub tenants: Vec<String>,
    /// Only for this tool; may be repeated [default: every tool, and webhooks]
    #[arg(long = "tool", value_name = "TOOL")]
    pub tools: Vec<String>,
    /// Why, for the log
    #[arg(long)]
    pub reason: String,
    /// Until then, such as 2027-01-01T00:00:00Z [default: until it is closed]
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,
}
