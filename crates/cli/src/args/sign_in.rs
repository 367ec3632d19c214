//! `toolgate invitation …` and `session`.

use clap::{Args, Subcommand};
use toolgate_contracts::Role;

use super::{Paging, one_of};

#[derive(Args)]
pub struct NewInvitation {
    /// How the new user will be called unless they choose otherwise
    pub name: String,
    /// Where the link is mailed, if there is a relay
    #[arg(long)]
    pub email: Option<String>,
    /// May be repeated [default: member]
    #[arg(long = "role", value_name = "ROLE", value_parser = one_of(&Role::ALL, Role::as_str))]
    pub roles: Vec<String>,
    /// A word that tools demand by `required_permission`; may be repeated
    #[arg(long = "permission", value_name = "WORD")]
    pub permissions: Vec<String>,
    /// May be repeated [default: main]
    #[arg(long = "workspace", value_name = "WORKSPACE")]
    pub workspaces: Vec<String>,
    /// Print the link even where it could go by mail
    #[arg(long)]
    pub show: bool,
}

#[derive(Subcommand)]
pub enum InvitationCommand {
    /// Invite somebody: by mail where there is a relay and an address, otherwise by a link that is printed once
    #[command(
        after_help = "Examples:\n  toolgate invitation create Ada --email ada@example.com --role author\n  toolgate invitation create Ben --show"
    )]
    Create(NewInvitation),
    /// List invitations, newest first
    List(Paging),
    /// Send a new link for seven more days; the one before stops
    Resend {
        /// The invitation's id
        id: String,
        /// Print the link even where it could go by mail
        #[arg(long)]
        show: bool,
    },
    /// Revoke an invitation that is not accepted yet
    Revoke {
        /// The invitation's id
        id: String,
    },
}

/// Whose sessions.
#[derive(Args)]
pub struct Whose {
    /// A user's name, e-mail or id [default: you]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
}

#[derive(Subcommand)]
pub enum SessionCommand {
    /// List browser sessions, newest first
    #[command(after_help = "Examples:\n  toolgate session list\n  toolgate session list --user Ada")]
    List {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        paging: Paging,
    },
    /// End one browser session
    End {
        /// The session's id
        id: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// End all browser sessions: sign out everywhere
    EndAll(Whose),
}
