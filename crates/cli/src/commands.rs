//! Every command, by group.

mod agent;
mod agent_run;
mod approvals;
mod audit;
mod call;
mod calls;
mod config;
mod control;
mod db;
mod doctor;
mod grant;
mod guardrail;
mod import;
mod invoke;
mod key;
mod label;
mod lines;
mod list;
mod mcp;
mod migrate;
mod notify;
mod pages;
mod people;
mod plugin;
mod policy;
mod preflight;
mod profile;
mod provider;
mod question;
mod register;
mod replay;
mod restore;
mod run;
mod search;
mod secret;
mod serve;
mod server_keys;
mod sign_in;
mod skill;
mod start;
mod token;
mod tool;
mod tool_list;
mod tool_override;
mod tool_show;
mod tool_test;
mod tool_view;
mod upstream;
mod upstream_connect;
mod verify_response;
mod work;
mod workflow;

use serde_json::{Value, json};

use crate::args::{Command, ConfigCommand, DbCommand, Retention, TokenCommand, ToolCommand, WorkflowCommand};
use crate::client::Client;
use crate::connect::Session;
use crate::failure::{Done, Failure};
use crate::output::{Detail, Output, Paint, note, text_of};

/// What needs neither a server nor a database.
pub fn offline(command: &Command, output: &Output) -> Option<Done> {
    match command {
        Command::Tool(ToolCommand::Test { path }) => Some(tool_test::run(path, output)),
        Command::Workflow(WorkflowCommand::Check(wanted)) if wanted.offline => Some(workflow::offline(wanted, output)),
        Command::Replay(wanted) => Some(replay::run(wanted, output)),
        Command::Migrate(command) => Some(migrate::run(command, output)),
        Command::Import(command) => import::offline(command, output),
        Command::Completions { shell } => Some(pages::completions(*shell, output)),
        Command::Man { out } => Some(pages::man(out.as_deref(), output)),
        Command::Commands => Some(pages::commands(output)),
        Command::Openapi { schemas } => Some(pages::openapi(schemas.as_deref())),
        _ => None,
    }
}

pub async fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::Serve(serve) => return serve::run(serve, session).await,
        Command::Mcp { agent, at } => return mcp::run(agent, at, session).await,
        Command::Doctor => return doctor::run(session).await,
        Command::Config(ConfigCommand::Check { file }) => return config::check(file.as_deref(), session),
        Command::Db(DbCommand::Migrate) => return db::migrate(session).await,
        Command::Db(DbCommand::Restore { file }) => return restore::run(&file, session).await,
        Command::VerifyResponse(ref wanted) if wanted.keys.is_some() => {
            return verify_response::offline(wanted, session);
        }
        Command::Audit(ref audit) => {
            if let Some(done) = audit::without_client(audit, session).await {
                return done;
            }
        }
        _ => {}
    }
    if let Command::Import(command) = command {
        return import::run(command, session).await;
    }
    if let Command::Token(TokenCommand::Narrow { wanted, token_file }) = command {
        return token::narrow(wanted, token_file.as_deref(), session).await;
    }
    let client = session.connect().await?;
    let done = with_client(command, &client, session).await;
    client.close().await;
    done
}

async fn with_client(command: Command, client: &Client, session: &Session) -> Done {
    let output = &session.output;
    match command {
        Command::Init => start::init(client, session).await,
        Command::Search { query, kind, limit } => search::run(client, output, &query, kind, limit).await,
        Command::Call(call) => call::run(*call, client, output).await,
        Command::Invoke(wanted) => invoke::run(wanted, client, output).await,
        Command::Calls(command) => calls::run(command, client, output).await,
        Command::Run(command) => run::run(command, client, output).await,
        Command::Input(command) => question::run(command, client, output).await,
        Command::Approvals(command) => approvals::run(*command, client, output).await,
        Command::Grant(command) => grant::run(command, client, output).await,
        Command::Work(command) => work::run(command, client, output).await,
        Command::Tool(command) => tool::run(command, client, output).await,
        Command::Agent(command) => agent::run(command, client, output).await,
        Command::Skill(command) => skill::run(command, client, output).await,
        Command::Workflow(command) => workflow::run(command, client, output).await,
        Command::Provider(command) => provider::run(command, client, output).await,
        Command::Profile(command) => profile::run(command, client, output).await,
        Command::Policy(command) => policy::run(command, client, output).await,
        Command::Guardrail(command) => guardrail::run(command, client, output).await,
        Command::Label(command) => label::run(command, client, output).await,
        Command::Limits(command) => control::limits(command, client, output).await,
        Command::Killswitch(command) => control::killswitch(command, client, output).await,
        Command::Usage(usage) => control::usage(usage, client, output).await,
        Command::Webhook(command) => notify::webhook(command, client, output).await,
        Command::Settings(command) => notify::settings(command, client, output).await,
        Command::Egress(command) => notify::egress(command, client, output).await,
        Command::Plugin(command) => plugin::run(command, client, output).await,
        Command::Upstream(command) => upstream::run(command, client, output).await,
        Command::Key(command) => key::run(command, client, output).await,
        Command::Token(command) => token::run(command, client, output).await,
        Command::Secret(command) => secret::run(command, client, output).await,
        Command::Keys(command) => server_keys::run(command, client, output).await,
        Command::Tenant(command) => people::tenant(command, client, output).await,
        Command::User(command) => people::user(command, client, output).await,
        Command::Invitation(command) => sign_in::invitation(command, client, output).await,
        Command::Session(command) => sign_in::session(command, client, output).await,
        Command::Workspace(command) => people::workspace(command, client, output).await,
        Command::Person(command) => people::person(command, client, output).await,
        Command::Audit(command) => audit::run(command, client, session).await,
        Command::Db(command) => db::run(command, client, output).await,
        Command::VerifyResponse(wanted) => verify_response::with_client(&wanted, client, session).await,
        Command::Config(_) => config::show(client, output).await,
        Command::Retention(retention) => delete_old_calls(retention, client, output).await,
        Command::Whoami => whoami(client, output).await,
        Command::Serve(_)
        | Command::Mcp { .. }
        | Command::Doctor
        | Command::Import(_)
        | Command::Migrate(_)
        | Command::Replay(_)
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Commands
        | Command::Openapi { .. } => {
            Err(Failure::from(toolgate_contracts::Fault::internal("a command took the wrong way")))
        }
    }
}

async fn whoami(client: &Client, output: &Output) -> Done {
    let me = client.get(&["me"], &[]).await?;
    output.show(&me, |me, paint: Paint| {
        Detail::new(paint, &text_of(me, "name"))
            .field("Principal", text_of(me, "principal"))
            .field("Tenant", text_of(me, "tenant"))
            .field("Agent", text_of(me, "agent"))
            .field("By", text_of(me, "signed_in_by"))
            .field("May", text_of(me, "permissions"))
            .end()
    })
}

async fn delete_old_calls(retention: Retention, client: &Client, output: &Output) -> Done {
    let Retention { older_than_days, apply } = retention;
    let answer = client.post(&["retention"], json!({"older_than_days": older_than_days, "apply": apply})).await?;
    let calls = with_questions(counted(&answer["calls"], "finished call"), &answer);
    if apply {
        return output.say(&answer, &format!("Deleted {calls} that began more than {older_than_days} days ago."));
    }
    output.say(&answer, &format!("{calls} began more than {older_than_days} days ago."))?;
    note("Nothing was deleted. To delete them, add --apply.");
    Ok(crate::failure::Exit::Done)
}

/// What was counted, and the questions beside it if there are any.
pub fn with_questions(counted_calls: String, answer: &Value) -> String {
    match answer["inputs"].as_i64() {
        None | Some(0) => counted_calls,
        Some(_) => format!("{counted_calls} and {}", counted(&answer["inputs"], "question")),
    }
}

/// `1 call`, `2 calls`.
pub fn counted(count: &Value, noun: &str) -> String {
    let count = count.as_i64().unwrap_or_default();
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

pub fn counted_of(count: usize, noun: &str) -> String {
    counted(&json!(count), noun)
}
