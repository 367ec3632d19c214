//! What is asked of a sandbox: code, input, limits, a way out or none. Nothing here says who asks.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::definition::SandboxTier;

/// How an instance is kept apart from the machine, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A process in namespaces of its own behind a system-call filter; it shares the kernel.
    Process,
    /// A WebAssembly machine: the code makes no system call at all.
    Wasm,
    /// gVisor: the code speaks to a kernel in user space.
    Gvisor,
    /// A virtual machine.
    Vm,
}

impl Tier {
    pub const ALL: [Self; 4] = [Self::Process, Self::Wasm, Self::Gvisor, Self::Vm];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Wasm => "wasm",
            Self::Gvisor => "gvisor",
            Self::Vm => "vm",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a definition says it needs at least. Our process tier has the namespaces that `namespace` asks for.
impl From<SandboxTier> for Tier {
    fn from(tier: SandboxTier) -> Self {
        match tier {
            SandboxTier::Process | SandboxTier::Namespace => Self::Process,
            SandboxTier::Wasm => Self::Wasm,
            SandboxTier::Gvisor => Self::Gvisor,
            SandboxTier::Vm => Self::Vm,
        }
    }
}

/// What one run may use. Running into one ends the run, and the result names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processor time, all threads together.
    pub cpu: Duration,
    /// From the moment the code is handed over; waiting for a host call counts.
    pub wall: Duration,
    /// What the code may allocate beyond the interpreter itself.
    pub memory_bytes: u64,
    /// What may be written to standard output and standard error together, and also how large the result may be.
    pub output_bytes: u64,
    /// Files open at once, without the standard streams.
    pub open_files: u64,
    /// Threads at once, the first included. Processes cannot be started at all.
    pub processes: u64,
    /// What the scratch folder holds.
    pub scratch_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(10),
            wall: Duration::from_secs(30),
            memory_bytes: 256 * 1024 * 1024,
            output_bytes: 1024 * 1024,
            open_files: 64,
            processes: 16,
            scratch_bytes: 16 * 1024 * 1024,
        }
    }
}

/// What code asks of the host. Name and argument are the code's own words.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCall {
    pub name: String,
    pub argument: Value,
}

/// What the host does for code that has no network. The implementation judges every call: the sandbox only carries it.
pub trait HostCalls: Send + Sync {
    /// An `Err` is raised in the code as `HostError` with this text.
    fn call(&self, call: HostCall) -> BoxFuture<'_, Result<Value, String>>;
}

/// How code reaches the world. In both cases it has no socket.
#[derive(Clone, Default)]
pub enum Network {
    #[default]
    Denied,
    /// `fetch(…)` and `host_call(name, argument)` are there, and end here.
    Through(Arc<dyn HostCalls>),
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "Denied",
            Self::Through(_) => "Through(..)",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Is shown output as it comes, within the limit; it must not block.
pub type OutputSink = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// One run of untrusted Python.
///
/// The code sees its input as the dictionary `input`. If it defines `main`, the result is what `main(input)` returns;
/// otherwise it is whatever `result` was set to, or null.
#[derive(Clone)]
pub struct SandboxRequest {
    pub code: String,
    /// JSON, an object by convention.
    pub input: Vec<u8>,
    pub limits: Limits,
    pub network: Network,
    /// The least tier that will do.
    pub tier: Option<Tier>,
    pub output: Option<OutputSink>,
}

impl SandboxRequest {
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            input: b"{}".to_vec(),
            limits: Limits::default(),
            network: Network::Denied,
            tier: None,
            output: None,
        }
    }

    #[must_use]
    pub fn input(mut self, input: &Value) -> Self {
        self.input = input.to_string().into_bytes();
        self
    }

    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }
}

/// What the operator decides for the whole sandbox.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interpreter; without one, the first of the usual places that exists.
    pub python: Option<PathBuf>,
    /// Folders of further modules: readable by all untrusted code, and searched after the standard library.
    pub libraries: Vec<PathBuf>,
    /// Modules of these folders to have ready. One with native code must be named: it cannot be loaded later.
    pub preload: Vec<String>,
    /// The user that instances run as when we are root: nobody else's.
    pub uid: u32,
    /// How many run at once; more wait.
    pub concurrent: usize,
    /// How many wait ready.
    pub warm: usize,
    /// What the instances that wait ready are prepared for: a request for another scratch folder gets one of its own.
    pub limits: Limits,
    /// Folders of control groups that are ours to make groups in: one of version 2, or of version 1 one for each
    /// controller.
    pub cgroups: Vec<PathBuf>,
    /// Python as WebAssembly; without it there is no tier `wasm`.
    pub wasm: Option<PythonFile>,
    /// gVisor's program; without it there is no tier `gvisor`.
    pub runsc: Option<PathBuf>,
    /// The day of the oldest release of it that is taken, eight digits; without it, a current one is demanded.
    pub gvisor_oldest: Option<String>,
    /// Why no tier is to be had, whatever this machine can do.
    pub refused: Option<String>,
}

/// An interpreter as WebAssembly: a program for WASI, with its standard library in it.
#[derive(Clone, Debug)]
pub struct PythonFile {
    pub file: PathBuf,
    /// What the file must be, in hexadecimal digits.
    pub sha256: String,
    /// Where it is kept compiled; without it, it is compiled anew after each start.
    pub cache: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            python: None,
            libraries: Vec::new(),
            preload: Vec::new(),
            uid: 64_123,
            concurrent: 8,
            warm: 2,
            limits: Limits::default(),
            cgroups: Vec::new(),
            wasm: None,
            runsc: None,
            gvisor_oldest: None,
            refused: None,
        }
    }
}
