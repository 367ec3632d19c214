//! The runner of kind `builtin`: functions compiled into the program, found by the name that a definition gives.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contracts::definition::{EgressClass, Risk, Sink};
use toolgate_contracts::{Clock, Definition, Entries, ErrorCode, Fault, Permission, Rng, Slug, ToolError};
use toolgate_egress::mail::Mailer;
use toolgate_engine::runner::Need;
use toolgate_engine::{Call, Keyed, Outcome, Outside, Permit, Runner, Wiring};
use toolgate_registry::commands::{Builtins, CodeTool, Registry};
use toolgate_registry::floor::Floor;
use toolgate_runners::{Databases, Scripts, Snippets};
use toolgate_store::Store;

use crate::pace::Pace;
use crate::{
    append_note, calculator, database_read, delete_file, describe_tool, echo, find_note, get_status_check,
    get_task_status, http_get, http_request, json_query, list_agents, list_files, list_tools, manage_tools, now,
    query_gauge, read_file, read_result, retry_session, run_python, run_script, run_sql_write, search_tools,
    send_email, sign_text, update_yaml, wait, web_search, write_file,
};

/// What functions work with.
#[derive(Clone)]
pub struct Tools {
    pub store: Store,
    pub clock: Clock,
    pub rng: Rng,
    pub registry: Arc<Registry>,
    /// The way out, for what reaches services.
    pub outside: Outside,
    /// The operator's relay, where there is one.
    pub mailer: Option<Mailer>,
    /// Digests that nobody outside can make.
    pub keyed: Keyed,
    /// What the operator lets tools use.
    pub entries: Arc<Entries>,
    /// How often the operator's server of metrics is asked.
    pub metrics: Pace,
    /// The operator's databases.
    pub databases: Databases,
    /// Where `write_file` writes, a folder for each tenant.
    pub files: PathBuf,
    /// Runs the Python of `run_python`, where there is a sandbox.
    pub snippets: Option<Arc<Snippets>>,
    /// Starts what `monorepo_cli.run_script` names, where programs can be started.
    pub scripts: Option<Scripts>,
}

impl Tools {
    pub fn new(wiring: &Wiring<'_>) -> Self {
        let Wiring { store, clock, rng, data, registry, outside, mailer, keyed, vault: _, entries } = *wiring;
        Self {
            store: store.clone(),
            clock: clock.clone(),
            rng: rng.clone(),
            registry: Arc::clone(registry),
            outside: outside.clone(),
            mailer: mailer.cloned(),
            keyed: keyed.clone(),
            entries: Arc::clone(entries),
            metrics: Pace::new(query_gauge::ASKED_PER_MINUTE_MAX),
            databases: Databases::beside(entries, store.file()),
            files: data.join("files"),
            snippets: None,
            scripts: None,
        }
    }

    #[must_use]
    pub fn with_scripts(mut self, scripts: Scripts) -> Self {
        self.scripts = Some(scripts);
        self
    }

    #[must_use]
    pub fn with_snippets(mut self, snippets: Arc<Snippets>) -> Self {
        self.snippets = Some(snippets);
        self
    }
}

struct Function {
    name: &'static str,
    /// The mildest a definition of this function may claim to be.
    floor: Floor,
    tool: CodeTool,
    run: for<'a> fn(&'a Tools, &'a Permit) -> BoxFuture<'a, Outcome>,
    /// What running would do; a function without one only says that it would run.
    plan: Option<Plan>,
    /// Whether what it needs of the operator is there.
    ready: Option<Ready>,
    /// The right that whoever approves may lend to a call with this input.
    borrows: fn(&Value) -> Option<Permission>,
}

impl Function {
    const fn ready(mut self, ready: Ready) -> Self {
        self.ready = Some(ready);
        self
    }

    const fn borrows(mut self, borrows: fn(&Value) -> Option<Permission>) -> Self {
        self.borrows = borrows;
        self
    }
}

type Check = fn(&Tools) -> Result<(), ToolError>;
/// For a tenant, where it is known whose.
type Ready = for<'a> fn(&'a Tools, &'a Definition, Option<&'a Slug>) -> BoxFuture<'a, Result<(), ToolError>>;
type Plan = for<'a> fn(&'a Tools, &'a Call) -> BoxFuture<'a, Result<Value, ToolError>>;

const CHANGES_STATE: Floor = Floor { changes_state: true, ..Floor::NOTHING };
const WRITES: Floor = Floor { class: EgressClass::Write, changes_state: true, ..Floor::NOTHING };
/// Changes what the operator named.
const WRITES_THERE: Floor = Floor { sink: Sink::Fixed, ..WRITES };
/// Looks at what is outside of Toolgate.
const READS: Floor = Floor { class: EgressClass::ReadOnly, ..Floor::NOTHING };
/// Asks a server that the operator chose.
const ASKS: Floor = Floor { sink: Sink::Fixed, ..READS };
/// Arguments say where data goes, or are read by strangers.
const ASKS_ANYBODY: Floor = Floor { sink: Sink::Open, ..READS };
const SENDS_TO_ANYBODY: Floor = Floor { sink: Sink::Open, ..WRITES };
/// A free statement can call any function that its role in the database may.
const QUERIES: Floor = Floor { risk: Risk::Sensitive, ..ASKS_ANYBODY };
const CHANGES_TABLES: Floor = Floor { risk: Risk::Critical, ..SENDS_TO_ANYBODY };

/// The function of a module, and the definition in the folder of the same name. A function takes the call, or where it
/// has secrets the permit, which holds them.
macro_rules! function {
    ($name:ident, $floor:expr, $plan:expr) => {
        function!($name, $floor, $plan, |tools, permit| Box::pin($name::run(tools, permit.call())))
    };
    ($name:ident, $floor:expr, $plan:expr, $run:expr) => {
        Function {
            name: stringify!($name),
            floor: $floor,
            tool: CodeTool {
                file: concat!("tools/", stringify!($name), "/TOOL.md"),
                text: include_bytes!(concat!("../tools/", stringify!($name), "/TOOL.md")),
            },
            run: $run,
            plan: $plan,
            ready: None,
            borrows: |_| None,
        }
    };
    ($name:literal, $floor:expr, $plan:expr, $run:expr) => {
        Function {
            name: $name,
            floor: $floor,
            tool: CodeTool {
                file: concat!("tools/", $name, "/TOOL.md"),
                text: include_bytes!(concat!("../tools/", $name, "/TOOL.md")),
            },
            run: $run,
            plan: $plan,
            ready: None,
            borrows: |_| None,
        }
    };
}

/// A plan or a check that waits for nothing.
macro_rules! at_once {
    ($plan:path) => {
        Some(|tools, call| Box::pin(std::future::ready($plan(tools, call))))
    };
    (ready $ready:path) => {
        |tools, _, _| Box::pin(std::future::ready($ready(tools)))
    };
    (ready of tenant $ready:path) => {
        |tools, _, tenant| Box::pin(std::future::ready($ready(tools, tenant)))
    };
}

const FUNCTIONS: &[Function] = &[
    function!(append_note, CHANGES_STATE, None),
    function!(calculator, Floor::NOTHING, None),
    function!("config_manager.list_changes", Floor::NOTHING, None, |tools, permit| {
        Box::pin(update_yaml::list(tools, permit.call()))
    }),
    function!(
        "config_manager.update_yaml",
        WRITES_THERE,
        Some(|tools, call| Box::pin(update_yaml::plan(tools, call))),
        |tools, permit| Box::pin(update_yaml::run(tools, permit.call()))
    )
    .ready(at_once!(ready of tenant update_yaml::ready)),
    function!(database_read, QUERIES, Some(|tools, call| Box::pin(database_read::plan(tools, call))))
        .ready(at_once!(ready of tenant databases_ready)),
    function!(delete_file, WRITES, Some(|tools, call| Box::pin(delete_file::plan(tools, call)))),
    function!(describe_tool, Floor::NOTHING, None),
    function!(echo, Floor::NOTHING, None),
    function!(find_note, Floor::NOTHING, None),
    function!(get_task_status, Floor::NOTHING, None, |tools, permit| Box::pin(get_task_status::run(tools, permit))),
    function!("github_pr.get_status_check", ASKS, at_once!(get_status_check::plan), |tools, permit| {
        Box::pin(get_status_check::run(tools, permit))
    })
    .ready(at_once!(ready of tenant get_status_check::ready)),
    function!(http_get, ASKS_ANYBODY, at_once!(http_get::plan)),
    function!(http_request, SENDS_TO_ANYBODY, at_once!(http_request::plan)),
    function!(json_query, Floor::NOTHING, None),
    function!(list_agents, Floor::NOTHING, None),
    function!(list_files, READS, None),
    function!(list_tools, Floor::NOTHING, None),
    function!(manage_tools, CHANGES_STATE, Some(|tools, call| Box::pin(manage_tools::plan(tools, call))))
        .borrows(manage_tools::borrows),
    function!("metrics_api.query_gauge", ASKS, at_once!(query_gauge::plan), |tools, permit| {
        Box::pin(query_gauge::run(tools, permit.call()))
    })
    .ready(at_once!(ready of tenant query_gauge::ready)),
    function!(
        "monorepo_cli.run_script",
        WRITES_THERE,
        Some(|tools, call| Box::pin(run_script::plan(tools, call))),
        |tools, permit| Box::pin(run_script::run(tools, permit.call()))
    )
    .ready(at_once!(ready of tenant run_script::ready)),
    function!(now, Floor::NOTHING, None),
    function!(read_file, READS, None),
    function!(read_result, Floor::NOTHING, None, |tools, permit| Box::pin(read_result::run(tools, permit))),
    function!(retry_session, CHANGES_STATE, None, |tools, permit| Box::pin(retry_session::run(tools, permit))),
    function!(run_python, Floor::NOTHING, None)
        .ready(|tools, definition, _| Box::pin(run_python::ready(tools, definition))),
    function!(run_sql_write, CHANGES_TABLES, Some(|tools, call| Box::pin(run_sql_write::plan(tools, call))))
        .ready(at_once!(ready of tenant databases_ready)),
    function!(search_tools, Floor::NOTHING, None),
    function!(send_email, SENDS_TO_ANYBODY, at_once!(send_email::plan)).ready(at_once!(ready send_email::ready)),
    function!(sign_text, Floor::NOTHING, None, |tools, permit| Box::pin(sign_text::run(tools, permit))),
    function!(wait, Floor::NOTHING, None),
    function!(web_search, ASKS_ANYBODY, at_once!(web_search::plan), |tools, permit| {
        Box::pin(web_search::run(tools, permit))
    })
    .ready(at_once!(ready web_search::ready)),
    function!(write_file, WRITES, Some(|tools, call| Box::pin(write_file::plan(tools, call)))),
];

const NAMES: [&str; FUNCTIONS.len()] = {
    let mut names = [""; FUNCTIONS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = FUNCTIONS[index].name;
        index += 1;
    }
    names
};

/// Shipped, and no function: another kind runs it.
const DELEGATE: CodeTool =
    CodeTool { file: "tools/delegate_to_agent/TOOL.md", text: include_bytes!("../tools/delegate_to_agent/TOOL.md") };

const DEFINITIONS: [CodeTool; FUNCTIONS.len() + 1] = {
    let mut tools = [DELEGATE; FUNCTIONS.len() + 1];
    let mut index = 0;
    while index < FUNCTIONS.len() {
        tools[index] = FUNCTIONS[index].tool;
        index += 1;
    }
    tools
};

/// The shipped tools.
pub const TOOLS: &[CodeTool] = &DEFINITIONS;

/// The functions behind them.
pub const BUILTINS: Builtins = Builtins { names: &NAMES, floor: |name| function(name).map(|function| function.floor) };

fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

fn function_of(definition: &Definition) -> Result<&'static Function, ToolError> {
    let name = match &definition.runner {
        toolgate_contracts::Runner::Builtin(builtin) => builtin.function.as_str(),
        other => other.kind(),
    };
    function(name).ok_or_else(|| {
        let message = format!("there is no builtin function `{name}` in this build; ask for another tool");
        ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
    })
}

/// Runs the functions.
pub struct Builtin {
    tools: Tools,
}

impl Builtin {
    pub fn new(tools: Tools) -> Self {
        Self { tools }
    }

    async fn ready_by(&self, definition: &Definition, tenant: Option<&Slug>) -> Result<(), ToolError> {
        match function_of(definition)?.ready {
            Some(ready) => ready(&self.tools, definition, tenant).await,
            None => Ok(()),
        }
    }
}

impl Runner for Builtin {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match function_of(&permit.call().tool.definition) {
                Ok(function) => (function.run)(&self.tools, &permit).await,
                Err(error) => error.into(),
            }
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            match function_of(&call.tool.definition)?.plan {
                Some(plan) => plan(&self.tools, call).await,
                None => Ok(json!({"would_run": true})),
            }
        })
    }

    /// What the operator wrote for functions; of what he left out there is nothing to say.
    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        let Entries { search, metrics, github, yaml_files, .. } = &*self.tools.entries;
        let services: [(&'static str, bool, Check); 3] = [
            ("search", search.is_some(), web_search::ready),
            ("metrics", metrics.is_some(), |tools| query_gauge::ready(tools, None)),
            ("github", github.is_some(), |tools| get_status_check::ready(tools, None)),
        ];
        let written = services.into_iter().filter(|(_, is_written, _)| *is_written);
        let needs = written.map(|(name, _, ready)| {
            let used = ready(&self.tools);
            let is_met = used.is_ok();
            let found = used.map_or_else(|error| error.message, |()| "its entry can be used".to_owned());
            Need { name, found, is_met }
        });
        let mut needs: Vec<Need> = needs.collect();
        let problems = update_yaml::problems(yaml_files);
        let whole = yaml_files.len() - problems.len();
        needs.extend(problems.into_iter().map(|found| Need { name: "yaml file", found, is_met: false }));
        if whole > 0 {
            needs.push(Need { name: "yaml files", found: format!("{whole} can be changed"), is_met: true });
        }
        Box::pin(std::future::ready(needs))
    }

    fn borrows(&self, definition: &Definition, input: &Value) -> Option<Permission> {
        (function_of(definition).ok()?.borrows)(input)
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(self.ready_by(definition, None))
    }

    fn ready_for<'a>(&'a self, tenant: &'a Slug, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(self.ready_by(definition, Some(tenant)))
    }
}

/// Whether this tenant has any database; of nobody's there is nothing to say. Whether one answers is said by a call, which
/// names it.
fn databases_ready(tools: &Tools, tenant: Option<&Slug>) -> Result<(), ToolError> {
    if tenant.is_none_or(|tenant| !tools.databases.names(tenant).is_empty()) {
        return Ok(());
    }
    let message = "there is no database: the operator has allowed none to this tenant";
    let error = ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message);
    Err(to_mend(error, "databases", Some("NAME")))
}

/// The input as a function wants it.
pub(crate) fn input<T: DeserializeOwned>(call: &Call) -> Result<T, ToolError> {
    toolgate_contracts::json::decode((*call.input).clone()).map_err(|error| {
        let message = format!("the input is not what the function takes: {error}");
        ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", error.pointer)
    })
}

/// That a member of the input cannot be used, although it has the right shape.
pub(crate) fn invalid(member: &str, message: impl std::fmt::Display) -> ToolError {
    ToolError::because(ErrorCode::ValidationError, "schema", format!("`{member}`: {message}"))
        .with("pointer", format!("/{member}"))
}

pub(crate) fn cancelled() -> ToolError {
    ToolError::cancelled()
}

/// Beside what is wrong, the one way in which every tool says what to do about an entry that is missing or cannot be used:
/// which it is, in which file, and who tells what is there.
pub(crate) fn to_mend(error: ToolError, section: &str, name: Option<&str>) -> ToolError {
    let entry = match name {
        // What a caller made up is shown no longer than it need be.
        Some(name) => format!("{section}.{}", name.escape_debug().take(64).collect::<String>()),
        None => section.to_owned(),
    };
    let remedy = format!(
        "who runs the server writes `{entry}` in `entries.yaml`, for this tenant; `toolgate doctor` says what of it can be used"
    );
    error.with("entry", entry).with("remedy", remedy)
}

/// What a model can be told about our own database.
pub(crate) fn database(fault: &Fault) -> ToolError {
    let message = format!("{}; {}", fault.told(), fault.remedy());
    ToolError::because(ErrorCode::ProviderError, "upstream_5xx", message)
}
