//! `toolgate import …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub enum ImportCommand {
    /// Import operations of an OpenAPI document as tools; without --apply only say what would change
    #[command(
        after_help = "Examples:\n  toolgate import openapi petstore.yaml\n  toolgate import openapi petstore.yaml --tag pets --apply\n  toolgate import openapi https://api.example.com/openapi.json --prefix billing --path '/invoices/**'\n\nWhat is chosen by --operation, --tag or --path comes; without any of them everything does. Operations that the document calls deprecated come only when they are named. An import that comes again says what changed, by class, and what is gone."
    )]
    Openapi(Box<ImportOpenapi>),
    /// Put the servers of Claude Desktop's file behind the gate, and point it here
    #[command(
        after_help = "Examples:\n  toolgate import claude-desktop claude_desktop_config.json --dry-run\n  toolgate import claude-desktop claude_desktop_config.json --add-entries --take-secrets\n  toolgate import claude-desktop claude_desktop_config.json --undo"
    )]
    ClaudeDesktop(Box<ImportClient>),
    /// Put the servers of Claude Code's file behind the gate, and point it here
    ClaudeCode(Box<ImportClient>),
    /// Put the servers of Cursor's file behind the gate, and point it here
    Cursor(Box<ImportClient>),
    /// Put the servers of VS Code's file behind the gate, and point it here
    Vscode(Box<ImportClient>),
}

#[derive(Args)]
pub struct ImportClient {
    /// The client's own file: claude_desktop_config.json, .mcp.json, ~/.claude.json, .cursor/mcp.json, .vscode/mcp.json
    pub file: PathBuf,
    /// Write nothing; show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Put back what was there before the last import, to the byte
    #[arg(long, conflicts_with_all = ["dry_run", "only", "renames", "take_secrets", "replace_secrets", "add_entries", "with_key", "stdio", "project"])]
    pub undo: bool,
    /// With --undo: also where the file changed since
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// Only this server, by its name in the file; may be given several times
    #[arg(long = "only", value_name = "SERVER")]
    pub only: Vec<String>,
    /// What a server is called here, as SERVER=NAME; may be given several times
    #[arg(long = "rename", value_name = "SERVER=NAME")]
    pub renames: Vec<String>,
    /// Keep the secrets of the file in the vault, for the whole organisation, without asking
    #[arg(long)]
    pub take_secrets: bool,
    /// Replace secrets of the same name
    #[arg(long)]
    pub replace_secrets: bool,
    /// Allow the processes of the file: add them to the operator's entries.yaml of this data folder
    #[arg(long)]
    pub add_entries: bool,
    /// Make a key for the client and write it into the file, instead of a sign-in in the browser
    #[arg(long)]
    pub with_key: bool,
    /// Have the client start `toolgate mcp`, also where it could use an address
    #[arg(long)]
    pub stdio: bool,
    /// Only the servers of this project, of ~/.claude.json
    #[arg(long, value_name = "PATH")]
    pub project: Option<String>,
}

#[derive(Args)]
pub struct ImportOpenapi {
    /// A file with the document (JSON or YAML, 3.0 or 3.1), - for standard input, or its URL, which the server fetches
    #[arg(value_name = "FILE|URL")]
    pub document: String,
    /// Only this operation: its operationId, METHOD /PATH, or the name of its tool; may be given several times
    #[arg(long = "operation", value_name = "ID")]
    pub operations: Vec<String>,
    /// Only operations with this tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Only operations whose path fits: * is anything within a segment, ** anything; may be given several times
    #[arg(long = "path", value_name = "GLOB")]
    pub paths: Vec<String>,
    /// Put this before the names: billing makes billing.listInvoices
    #[arg(long, value_name = "NAME")]
    pub prefix: Option<String>,
    /// Where the API is, instead of what the document says
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// The secret with the API's credential [default: one named after the API]
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// What the document is known by here, so that it is the same when it comes again [default: its URL, or the API's
    /// title]
    #[arg(long = "document", id = "known_by", value_name = "NAME")]
    pub name: Option<String>,
    /// Also deprecate tools whose operation is gone from the document, or deprecated in it
    #[arg(long)]
    pub deprecate_gone: bool,
    /// Write it; without this nothing is written
    #[arg(long, visible_alias = "yes")]
    pub apply: bool,
    /// The digest that was shown, so that what is written is what was looked at; needed to write from a URL
    #[arg(long, value_name = "SHA256")]
    pub digest: Option<String>,
    /// Write nothing, which is the default
    #[arg(long, conflicts_with = "apply")]
    pub dry_run: bool,
}
