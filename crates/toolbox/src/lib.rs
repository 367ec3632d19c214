//! The tools that ship with Toolgate: their definitions, their functions, and what each function does whatever its
//! definition says.
//!
//! Invariant: [`builtin`]'s table is the only list of them.
//! Invariant: a function reads its input itself. A tenant may write a definition of its own for any function, with
//! another schema, so that the schema of the shipped one has not been held when the function runs.

mod append_note;
mod builtin;
mod calculator;
mod catalog;
mod database_read;
mod delete_file;
mod describe_tool;
mod echo;
mod files;
mod find_note;
mod get_status_check;
mod get_task_status;
mod http_get;
mod http_request;
mod json_query;
mod list_agents;
mod list_files;
mod list_tools;
mod manage_tools;
mod now;
mod outgoing;
mod pace;
mod query_gauge;
mod read_file;
mod read_result;
mod retry_session;
mod run_python;
mod run_script;
mod run_sql_write;
mod search_tools;
mod send_email;
mod sign_text;
mod update_yaml;
mod wait;
mod web_search;
mod write_file;
pub mod yaml;

pub use builtin::{BUILTINS, Builtin, TOOLS, Tools};
