//! The words of the command line, and where to find what they are about.

mod agent;
mod approval;
mod audit;
mod call;
mod control;
mod import;
mod migrate;
mod moment;
mod notify;
mod people;
mod plugin;
mod policy;
mod provider;
mod question;
mod replay;
mod run;
mod secret;
mod sign_in;
mod skill;
mod system;
mod token;
mod tool;
mod upstream;
mod workflow;

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};

pub use agent::{AgentCommand, AgentFields, ProfileCommand};
pub use approval::{Approvals, ApprovalsCommand, Approve, GrantCommand, ListApprovals, NewGrant, Reject, Standing};
pub use audit::{AuditCommand, Entries, Export, ExportFormat, Follow, Verify};
pub use call::{Call, CallFormat, CallsCommand, Invocations, ListCalls, Report, Settle};
pub use control::{KillTarget, KillswitchCommand, LimitsCommand, SetLimits, Usage, UsageFormat};
pub use import::{ImportClient, ImportCommand, ImportOpenapi};
pub use migrate::{Goblins, Invoke, MigrateCommand};
pub use moment::Moment;
pub use notify::{EgressCommand, OpenHost, SettingsCommand, WebhookCommand};
pub use people::{EditUser, KeyCommand, NewUser, PersonCommand, TenantCommand, UserCommand, WorkspaceCommand};
pub use plugin::PluginCommand;
pub use policy::{GuardrailCommand, LabelCommand, PolicyCommand, TestPolicy};
pub use provider::{AddProvider, ProviderCommand, SetPrices};
pub use question::{Answer, Ask, InputCommand};
pub use replay::Replay;
pub use run::{AgentRun, NewRun, RunCommand, RunLimits, ShowRun, WorkCommand};
pub use secret::{In, KeysCommand, SecretCommand};
pub use sign_in::{InvitationCommand, NewInvitation, SessionCommand, Whose};
pub use skill::SkillCommand;
pub use system::{ConfigCommand, DbCommand, Retention, Serve, VerifyResponse};
pub use token::{TokenCommand, Wanted};
pub use tool::{Classify, Filters, List, OverrideCommand, StateChange, ToolCommand};
pub use upstream::{AddUpstream, UpstreamCommand};
pub use workflow::{Materialize, WorkflowCheck, WorkflowCommand, WorkflowPublish, WorkflowRun};

use crate::connect::Environment;
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
    /// Work on this data folder [default: the platform's data folder] [env: TOOLGATE_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Work on the server at this address, with a key [env: TOOLGATE_SERVER]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// The API key for --server; other users of this machine can see it here, so prefer the variable or --key-file
    /// [env: TOOLGATE_KEY]
    #[arg(long, global = true, value_name = "KEY")]
    pub key: Option<String>,
    /// A file that holds the API key for --server
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The tenant to work in [env: TOOLGATE_TENANT]
    #[arg(long, global = true, value_name = "SLUG")]
    pub tenant: Option<String>,
    /// The configuration file [default: toolgate.yaml in the data folder, if it is there] [env:
    /// TOOLGATE_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
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

impl Global {
    /// Takes from the environment what was not said. Not clap's to do: it would take a variable for a word of the
    /// command, and show it in every usage.
    pub fn complete(&mut self, environment: &Environment) -> Said {
        let Self { data, server, key, key_file: _, tenant, config, json: _ } = self;
        let said = Said { data: data.is_some(), server: server.is_some(), key: key.is_some() };
        let path = |name| environment.path(name).map(Path::to_owned);
        let text = |name| environment.get(name).map(str::to_owned);
        *data = data.take().or_else(|| path("TOOLGATE_DATA"));
        *config = config.take().or_else(|| path("TOOLGATE_CONFIG"));
        *server = server.take().or_else(|| text("TOOLGATE_SERVER"));
        *key = key.take().or_else(|| text("TOOLGATE_KEY"));
        *tenant = tenant.take().or_else(|| text("TOOLGATE_TENANT"));
        said
    }
}

/// Which part of a list.
#[derive(Args, Clone, Debug)]
pub struct Paging {
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    /// Go on where an earlier list ended
    // A cursor is the server's text and may begin with a dash.
    #[arg(long, allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    Serve(Serve),
    /// Speak the Model Context Protocol on standard input and output, for clients that start their servers
    #[command(
        after_help = "Examples:\n  toolgate mcp                       # in a client's configuration: command \"toolgate\", args [\"mcp\"]\n  toolgate mcp --agent desk          # as an agent, with its tools\n  toolgate --server https://tools.example.com --key-file KEY mcp"
    )]
    Mcp {
        /// Act as this agent: a key is made for it, and revoked at the end
        #[arg(long)]
        agent: Option<String>,
        /// Only what an agent has, or a group of tools: the address `/mcp/NAME`
        #[arg(long, value_name = "NAME")]
        at: Option<String>,
    },
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
    Call(Box<Call>),
    /// Read calls, stop them, and say how they ended
    #[command(subcommand)]
    Calls(CallsCommand),
    /// Open runs, look at them and follow them
    #[command(subcommand)]
    Run(RunCommand),
    Replay(Replay),
    /// Ask people on behalf of a run, and answer what was asked
    #[command(subcommand)]
    Input(InputCommand),
    Approvals(Box<Approvals>),
    /// Allow calls for a while without asking each time
    #[command(subcommand)]
    Grant(GrantCommand),
    /// Carry out external tools, by hand or from a script
    #[command(subcommand)]
    Work(WorkCommand),
    /// Take over what was written for another way of running things
    #[command(subcommand)]
    Migrate(MigrateCommand),
    Invoke(Invoke),
    /// List, register, switch and assign tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Make tools of what others describe, and put clients' servers behind the gate
    #[command(subcommand)]
    Import(ImportCommand),
    /// Manage agents and see which tools they have
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Keep instructions that clients offer their users and agents are given
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Keep and run graphs of tools, agents and questions to people
    #[command(subcommand)]
    Workflow(WorkflowCommand),
    /// Say where the models of agents are, and what they cost
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Manage profiles, which tighten what an agent may do
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Say who may call which tool, and when a person is asked first
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Have arguments and results examined
    #[command(subcommand)]
    Guardrail(GuardrailCommand),
    /// See what callers have seen, and accept where it may go
    #[command(subcommand)]
    Label(LabelCommand),
    /// Limit how often and for how much this tenant calls tools
    #[command(subcommand)]
    Limits(LimitsCommand),
    /// Stop a tenant, an agent or a tool at once
    #[command(subcommand)]
    Killswitch(KillswitchCommand),
    Usage(Usage),
    /// Tell others of what happens, by signed webhooks
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Show and change how this tenant works
    #[command(subcommand)]
    Settings(SettingsCommand),
    /// Open hosts inside to tools and webhooks
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Install plug-ins: components that tools may name
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Put servers of others behind the gate
    #[command(subcommand)]
    Upstream(UpstreamCommand),
    /// Manage API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make short-lived tokens that can do less than you, and take them back
    #[command(subcommand)]
    Token(TokenCommand),
    /// Keep secrets for tools, and give them to tools and hosts
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Look after the server's own keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Manage tenants
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Manage users and let them sign in
    #[command(subcommand)]
    User(UserCommand),
    /// Invite people
    #[command(subcommand)]
    Invitation(InvitationCommand),
    /// See where people are signed in, and sign them out
    #[command(subcommand)]
    Session(SessionCommand),
    /// Manage workspaces
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Read, export and verify the log of everything that happened
    #[command(subcommand)]
    Audit(AuditCommand),
    VerifyResponse(VerifyResponse),
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
    /// Print the API's OpenAPI document
    #[command(hide = true)]
    Openapi {
        /// Write the schemas of what is stored or exchanged into this folder instead
        #[arg(long, value_name = "DIR")]
        schemas: Option<PathBuf>,
    },
}

/// The words of a closed list, for help and for suggestions.
fn one_of<T: Copy + 'static>(all: &'static [T], word: fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(all.iter().map(|one| word(*one)))
}
