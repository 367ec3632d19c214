//! `toolgate secret …`, `toolgate keys …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::SecretScope;

use super::{Paging, one_of};

/// Where a secret is kept.
#[derive(Args)]
pub struct In {
    /// Whose secret it is: yours, a workspace's, or everybody's here
    #[arg(long, default_value = "user", value_parser = one_of(SecretScope::ALL, SecretScope::as_str))]
    pub scope: String,
    /// With --scope workspace, where there is more than one
    #[arg(long, value_name = "WORKSPACE")]
    pub workspace: Option<String>,
}

#[derive(Subcommand)]
pub enum SecretCommand {
    /// Set a secret; its value is read from standard input or a file, never from the command line
    #[command(
        after_help = "Examples:\n  toolgate secret set SMTP_PASSWORD --tool send_mail --host smtp.example.com < password.txt\n  toolgate secret set SIGNING_KEY --scope org --tool signText --from-file key.txt\n  toolgate secret set OPENAI_API_KEY --provider openai --host api.openai.com < key.txt"
    )]
    Set {
        /// The name by which tools declare it
        name: String,
        #[command(flatten)]
        place: In,
        /// A file with the value [default: standard input]; a line break at its end is not part of it
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        /// A tool that may have it; may be repeated [default: as it was given before]
        #[arg(long = "tool", value_name = "TOOL")]
        tools: Vec<String>,
        /// A host to which a request may carry it; may be repeated
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// A model provider whose key it is; may be repeated
        #[arg(long = "provider", value_name = "PROVIDER")]
        providers: Vec<String>,
    },
    /// List the secrets that you may set, without their values
    List(Paging),
    /// Say which scope's secret a call of yours would be given
    Which {
        /// The secret's name
        name: String,
        /// For this agent of yours
        #[arg(long)]
        agent: Option<String>,
    },
    /// Give a secret to tools, model providers and hosts; the value stays as it is
    Allow {
        /// The secret's name
        name: String,
        #[command(flatten)]
        place: In,
        /// A tool that may have it; may be repeated
        #[arg(long = "tool", value_name = "TOOL")]
        tools: Vec<String>,
        /// A host to which a request may carry it; may be repeated
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// A model provider whose key it is; may be repeated
        #[arg(long = "provider", value_name = "PROVIDER")]
        providers: Vec<String>,
        /// A tool whose code may see it, as that code is now; may be repeated
        #[arg(long = "code", value_name = "TOOL")]
        code: Vec<String>,
        /// Give it to these alone, instead of to these as well
        #[arg(long)]
        only: bool,
    },
    /// Take a secret away
    Rm {
        /// The secret's name
        name: String,
        #[command(flatten)]
        place: In,
    },
    /// Make a new key for the tenant's secrets; a rotation that was cut off goes on where it was
    Rotate {
        /// Encrypt every value anew, and end the keys that are then unused
        #[arg(long)]
        deep: bool,
    },
}

#[derive(Subcommand)]
pub enum KeysCommand {
    /// List the server's own keys: what for, since when, in which state
    List(Paging),
    /// Make a new key of a kind; what the one before made stays good until it has run out
    Rotate {
        /// audit_event, checkpoint, data_key, response, seal, token or webhook
        kind: String,
    },
    /// Put every key under the present master key, with the previous one still configured
    Rewrap,
}
