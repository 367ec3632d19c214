//! `toolgate key …`, `tenant`, `user`, `workspace`, `person`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use toolgate_contracts::Role;

use super::{Paging, one_of};

#[derive(Subcommand)]
pub enum KeyCommand {
    /// Make an API key; its secret is printed once and never again
    #[command(
        after_help = "Examples:\n  toolgate key create ci --days 90\n  toolgate key create billing-agent --agent billing\n  toolgate key create admin-laptop --scope admin --scope operator > key.txt"
    )]
    Create {
        /// What the key is called in lists
        name: String,
        /// A permission, a role or `tools:execute`; may be repeated [default: tools:execute and calls.read.own]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Whoever holds the key acts as this agent
        #[arg(long)]
        agent: Option<String>,
        /// The user who answers for it [default: you]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// How long it lasts [default: until it is revoked]
        #[arg(long, value_name = "N")]
        days: Option<u32>,
    },
    /// List keys, newest first; with --json also the ids that do not fit
    List(Paging),
    /// Revoke a key at once
    Revoke {
        /// The key's name or id
        name: String,
    },
}

#[derive(Subcommand)]
pub enum TenantCommand {
    /// List the tenants you may see
    List(Paging),
    /// Create a tenant with its first workspace
    Create {
        /// Its short name
        slug: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
        /// Three letters
        #[arg(long, value_name = "CURRENCY")]
        currency: Option<String>,
    },
    /// Change a setting of the tenant you work in
    Set {
        /// Whether agents with an open tool set have `write` tools too; they still ask
        #[arg(long, value_name = "on|off", value_parser = PossibleValuesParser::new(["on", "off"]))]
        open_write: String,
    },
}

#[derive(Args)]
pub struct NewUser {
    pub name: String,
    #[arg(long)]
    pub email: Option<String>,
    /// May be repeated [default: member, for a service service]
    #[arg(long = "role", value_name = "ROLE", value_parser = one_of(&Role::ALL, Role::as_str))]
    pub roles: Vec<String>,
    /// A word that tools demand by `required_permission`; may be repeated
    #[arg(long = "permission", value_name = "WORD")]
    pub permissions: Vec<String>,
    /// May be repeated [default: main]
    #[arg(long = "workspace", value_name = "WORKSPACE")]
    pub workspaces: Vec<String>,
    /// A program, not a person: it has keys and cannot sign in
    #[arg(long)]
    pub service: bool,
}

#[derive(Args)]
pub struct EditUser {
    /// The user's name, e-mail or id
    pub name: String,
    /// The roles from now on; may be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = one_of(&Role::ALL, Role::as_str))]
    pub roles: Vec<String>,
    /// The words that tools demand, from now on; may be repeated
    #[arg(long = "permission", value_name = "WORD")]
    pub permissions: Vec<String>,
    /// The workspaces from now on; may be repeated
    #[arg(long = "workspace", value_name = "WORKSPACE")]
    pub workspaces: Vec<String>,
    /// Stop the user's keys and sessions at once
    #[arg(long, conflicts_with = "enable")]
    pub disable: bool,
    /// Let a disabled user in again
    #[arg(long)]
    pub enable: bool,
}

#[derive(Subcommand)]
pub enum UserCommand {
    /// List the users of the tenant
    List(Paging),
    /// Create a user
    #[command(
        after_help = "Examples:\n  toolgate user create Ada --email ada@example.com --role author\n  toolgate user create deployer --service"
    )]
    Create(NewUser),
    /// Show a user
    Show {
        /// The user's name, e-mail or id
        name: String,
    },
    /// Change a user's roles or workspaces, or stop the user
    Set(EditUser),
    /// Make a link that signs a user in, once, within ten minutes
    SignInLink {
        /// The user's name, e-mail or id
        name: String,
    },
    /// Make a link with which a user sets a new password, once, within an hour; it goes by mail where it can
    Reset {
        /// The user's name, e-mail or id
        name: String,
        /// Print the link even where it could go by mail
        #[arg(long)]
        show: bool,
    },
}

#[derive(Subcommand)]
pub enum WorkspaceCommand {
    /// List the workspaces of the tenant
    List(Paging),
    /// Create a workspace
    Create {
        /// Its short name
        slug: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
    },
}

#[derive(Subcommand)]
pub enum PersonCommand {
    /// Write down everything that is kept of a person, as lines of JSON
    Export {
        /// The user's name, e-mail or id
        name: String,
        /// The file to write, which must not exist; without it, standard output
        #[arg(long, value_name = "FILE")]
        to: Option<std::path::PathBuf>,
    },
    /// Erase what a person sent and got; without --apply only say how much
    Erase {
        /// The user's name, e-mail or id
        name: String,
        /// Do it; without this nothing is erased
        #[arg(long)]
        apply: bool,
    },
}
