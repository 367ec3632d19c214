//! The words of the command line, and where to find what they are about.

mod agent;
mod people;
mod system;
mod tool;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, Parser, Subcommand, parser::ValueSource};

pub use agent::{AgentCommand, AgentFields, ProfileCommand};
pub use people::{EditUser, KeyCommand, NewUser, PersonCommand, TenantCommand, UserCommand, WorkspaceCommand};
pub use system::{ConfigCommand, DbCommand, Retention, Serve};
pub use tool::{Filters, List, OverrideCommand, StateChange, ToolCommand};

use crate::failure::EXIT_STATUS;

/// The gate between agents, people and their tools
#[derive(Parser)]
#[command(name = "toolgate", version, after_long_help = EXIT_STATUS, arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where and how")]
pub struct Global {
    /// Work on this data folder [default: the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", env = "TOOLGATE_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Work on the server at this address, with a key
    #[arg(long, global = true, value_name = "URL", env = "TOOLGATE_SERVER", hide_env_values = true)]
    pub server: Option<String>,
    /// The API key for --server; other users of this machine can see it here, so prefer the variable or --key-file
    #[arg(long, global = true, value_name = "KEY", env = "TOOLGATE_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// A file that holds the API key for --server
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The tenant to work in
    #[arg(long, global = true, value_name = "SLUG", env = "TOOLGATE_TENANT", hide_env_values = true)]
    pub tenant: Option<String>,
    /// The configuration file [default: toolgate.yaml in the data folder, if it is there]
    #[arg(long, global = true, value_name = "FILE", env = "TOOLGATE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Print one JSON value instead of text for people
    #[arg(long, global = true)]
    pub json: bool,
}

/// What was said on the command line itself wins over what is in the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub data: bool,
    pub server: bool,
    pub key: bool,
}

impl Said {
    pub fn of(matches: &ArgMatches) -> Self {
        let said = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        Self { data: said("data"), server: said("server"), key: said("key") }
    }
}

#[derive(Subcommand)]
pub enum Command {
    Serve(Serve),
    /// Make the data folder, the database and the first tenant, and say what to do next
    Init,
    /// Check what works and what does not, and say what to do about it
    Doctor,
    /// Search tools, agents, skills, workflows and prompts
    #[command(
        after_help = "Examples:\n  toolgate search \"send a notification\"\n  toolgate search invoices --kind agent --limit 3"
    )]
    Search {
        /// What you look for, in words; typing mistakes are forgiven
        query: String,
        /// Only this kind
        #[arg(long, value_parser = PossibleValuesParser::new(["tool", "skill", "agent", "workflow", "prompt"]))]
        kind: Option<String>,
        /// How many results
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// List, register, switch and assign tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Manage agents and see which tools they have
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Manage profiles, which tighten what an agent may do
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Manage API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage tenants
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Manage users and let them sign in
    #[command(subcommand)]
    User(UserCommand),
    /// Manage workspaces
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Look after the database
    #[command(subcommand)]
    Db(DbCommand),
    /// Show and check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    Retention(Retention),
    /// Answer a person's request about their data
    #[command(subcommand)]
    Person(PersonCommand),
    /// Show who you are here and what you may do
    Whoami,
    /// Print the completions of a shell
    #[command(
        after_help = "Example:\n  toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate"
    )]
    Completions {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    Man {
        /// The folder to write into; it is made if it is not there
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Print every command, one on a line
    #[command(hide = true)]
    Commands,
}

/// The words of a closed list, for help and for suggestions.
fn one_of<T: Copy + 'static>(all: &'static [T], word: fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(all.iter().map(|one| word(*one)))
}
