//! `toolgate upstream …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Paging;

#[derive(Subcommand)]
pub enum UpstreamCommand {
    Add(Box<AddUpstream>),
    /// List the servers behind the gate
    List(Paging),
    /// Show a server, how it stands with it, and what it offers that nobody has accepted
    Show {
        /// Its name
        name: String,
    },
    /// Ask a server what it offers, and say what would become of it; nothing is written
    Test {
        /// Its name
        name: String,
    },
    /// Ask a server what it offers, register what is new, and keep what changed as an offer
    Refresh {
        /// Its name
        name: String,
    },
    /// List tools whose own hints are milder than their class, and say of those that you looked at what they do
    Review {
        /// Its name
        name: String,
        /// A tool that you looked at and the class that it has, as `TOOL=read_only`; may be given more than once
        #[arg(long = "class", value_name = "TOOL=CLASS", requires = "reason")]
        classes: Vec<String>,
        /// Why it has that class, for whoever looks later
        #[arg(long, requires = "classes")]
        reason: Option<String>,
    },
    /// Accept what a server offers, and where it is now
    Accept {
        /// Its name
        name: String,
        /// What you looked at, as `toolgate upstream show` names it; without it you are shown it and asked
        #[arg(long, value_name = "DIGEST")]
        seen: Option<String>,
        /// Only this tool, by the server's name for it; may be given more than once
        #[arg(long = "tool", value_name = "TOOL")]
        tools: Vec<String>,
    },
    /// Refuse what a server offers; what was accepted goes on, until the server offers something else
    Refuse {
        /// Its name
        name: String,
        /// What you looked at, as `toolgate upstream show` names it; without it you are shown it and asked
        #[arg(long, value_name = "DIGEST")]
        seen: Option<String>,
        /// Only this tool, by the server's name for it; may be given more than once
        #[arg(long = "tool", value_name = "TOOL")]
        tools: Vec<String>,
        /// Why, for whoever reads the log
        #[arg(long)]
        reason: Option<String>,
    },
    /// Connect yourself with a server that wants tokens, by a browser on this computer
    Connect {
        /// Its name
        name: String,
        /// Whose connection it is; without it, as the server's calls are made
        #[arg(long, value_parser = ["user", "org"])]
        scope: Option<String>,
        /// The address that the browser came back to, where it is on another computer
        #[arg(long, value_name = "ADDRESS")]
        answer: Option<String>,
    },
    /// Take the tokens of a connection away
    Disconnect {
        /// Its name
        name: String,
        /// Whose connection it is; without it, as the server's calls are made
        #[arg(long, value_parser = ["user", "org"])]
        scope: Option<String>,
    },
    /// Remove a server; its tools cannot be called any more
    Remove {
        /// Its name
        name: String,
    },
}

/// Put a server of others behind the gate, or change how it is reached
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate upstream add files --entry files\n  toolgate upstream add issues --url https://mcp.example.com/mcp --secret-header \"Authorization: Bearer ISSUES_TOKEN\""
)]
pub struct AddUpstream {
    /// Stands before the names of its tools: lower-case letters, digits and -
    pub name: String,
    /// A process: the name of an entry below `upstreams` in the operator's entries.yaml
    #[arg(long, required_unless_present_any = ["url", "file"], conflicts_with_all = ["url", "file"])]
    pub entry: Option<String>,
    /// The address of a server that speaks HTTP
    #[arg(long, conflicts_with = "file")]
    pub url: Option<String>,
    /// It speaks the transport of the first revisions
    #[arg(long, requires = "url")]
    pub sse: bool,
    /// The whole of it as JSON, or - for standard input
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// What people see
    #[arg(long)]
    pub title: Option<String>,
    /// A header of every request, as `NAME: VALUE`
    #[arg(long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// A header with a secret, as `NAME: SECRET` or `NAME: SCHEME SECRET`
    #[arg(long = "secret-header", value_name = "HEADER")]
    pub secret_headers: Vec<String>,
    /// A variable of the process with a secret, as `NAME=SECRET`
    #[arg(long = "secret-env", value_name = "NAME=SECRET")]
    pub secret_env: Vec<String>,
    /// It wants tokens, which are had by a browser: see `toolgate upstream connect`
    #[arg(long, requires = "url")]
    pub oauth: bool,
    /// Whose connection a call takes: the organisation's, or the caller's own
    #[arg(long, value_parser = ["org", "user"], requires = "oauth")]
    pub oauth_per: Option<String>,
    /// What tokens are asked for
    #[arg(long, value_name = "SCOPE", requires = "oauth")]
    pub oauth_scope: Option<String>,
    /// A client that was registered for this
    #[arg(long, value_name = "ID", requires = "oauth")]
    pub oauth_client: Option<String>,
    /// The name of the secret of that client
    #[arg(long, value_name = "SECRET", requires = "oauth_client")]
    pub oauth_secret: Option<String>,
    /// `client_credentials`: tokens are had by that secret alone, without anybody
    #[arg(long, value_parser = ["code", "client_credentials"], requires = "oauth")]
    pub oauth_grant: Option<String>,
    /// Take only this tool, by the server's name for it; may be given more than once
    #[arg(long = "tool", value_name = "TOOL")]
    pub tools: Vec<String>,
    /// Take changes of this class without asking; may be given more than once
    #[arg(long = "accepts", value_name = "CLASS", value_parser = ["description", "annotation", "widening", "narrowing", "breaking", "rename"])]
    pub accepts: Vec<String>,
    /// Leave the server's name out of the names of its tools
    #[arg(long)]
    pub unprefixed: bool,
    /// What it may ask while a call is under way, and whom; may be given more than once
    #[arg(long, value_name = "WHAT=WHOM", value_parser = ["elicitation=person", "elicitation=pass", "sampling=pass", "roots=pass"])]
    pub asks: Vec<String>,
    /// Give each caller a connection, process or session of their own
    #[arg(long)]
    pub apart: bool,
    /// The only revision of the protocol to speak with it, as 2025-06-18
    #[arg(long)]
    pub era: Option<String>,
    /// How long a call may take
    #[arg(long)]
    pub timeout_ms: Option<u64>,
}
