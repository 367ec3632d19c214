//! The runner of kind `builtin`: functions compiled into the program, found by the name that a definition gives.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{Clock, Definition, ErrorCode, Fault, Rng, ToolError};
use toolgate_engine::{Call, Outcome, Permit, Runner};
use toolgate_registry::commands::{Builtins, CodeTool};
use toolgate_registry::floor::Floor;
use toolgate_store::Store;

use crate::{append_note, calculator, echo, find_note, now, sign_text, wait, write_file};

/// What functions work with.
#[derive(Clone)]
pub struct Tools {
    pub store: Store,
    pub clock: Clock,
    pub rng: Rng,
    /// Where `write_file` writes, a folder for each tenant.
    pub files: PathBuf,
}

struct Function {
    name: &'static str,
    /// The mildest a definition of this function may claim to be.
    floor: Floor,
    tool: CodeTool,
    run: for<'a> fn(&'a Tools, &'a Permit) -> BoxFuture<'a, Outcome>,
    /// What running would do; a function without one only says that it would run.
    plan: Option<Plan>,
}

type Plan = for<'a> fn(&'a Tools, &'a Call) -> BoxFuture<'a, Result<Value, ToolError>>;

const CHANGES_STATE: Floor = Floor { changes_state: true, ..Floor::NOTHING };
const WRITES: Floor = Floor { class: EgressClass::Write, changes_state: true, ..Floor::NOTHING };

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
        }
    };
}

const FUNCTIONS: &[Function] = &[
    function!(append_note, CHANGES_STATE, None),
    function!(calculator, Floor::NOTHING, None),
    function!(echo, Floor::NOTHING, None),
    function!(find_note, Floor::NOTHING, None),
    function!(now, Floor::NOTHING, None),
    function!(sign_text, Floor::NOTHING, None, |tools, permit| Box::pin(sign_text::run(tools, permit))),
    function!(wait, Floor::NOTHING, None),
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

const DEFINITIONS: [CodeTool; FUNCTIONS.len()] = {
    let mut tools = [FUNCTIONS[0].tool; FUNCTIONS.len()];
    let mut index = 0;
    while index < tools.len() {
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

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(function_of(definition).map(drop)))
    }
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
    ToolError::because(ErrorCode::PolicyDenied, "cancelled", "the call was cancelled")
}

/// What a model can be told about our own database.
pub(crate) fn database(fault: &Fault) -> ToolError {
    let message = format!("{}; {}", fault.told(), fault.remedy());
    ToolError::because(ErrorCode::ProviderError, "upstream_5xx", message)
}
