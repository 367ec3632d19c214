//! Processes, and the only place that starts one: untrusted code in a [`Sandbox`], trusted programs as a [`Child`].
//!
//! What untrusted code can reach is decided by the kernel, never by what a Python name is bound to: everything that
//! comes out of an instance is hostile bytes, also where our own bootstrap wrote them.
//! Invariant: the only `unsafe` of the product is in this crate, in `launch.rs` and `kernel.rs`, and where compiled
//! code is taken from our own folder (`wasm/kept.rs`).
//! Invariant: untrusted code never runs in a tier that did not prove itself on this machine, and never as bare Python.
//! Deliberately absent: permits, secrets, definitions, the network. Who may run what was decided before; a way out is
//! handed in as [`HostCalls`].

mod capture;
mod child;
mod dialogue;
mod error;
mod frame;
mod gvisor;
mod kernel;
mod launch;
mod probe;
mod process;
mod request;
mod result;
mod sandbox;
mod spawner;
mod strays;
mod wasm;

pub use child::{Child, ChildEnd, ChildLimits, ChildOutput, ChildRequest, Duplex};
pub use error::SandboxError;
pub use probe::{Offer, Proof};
pub use process::Warmth;
pub use request::{
    HostCall, HostCalls, Limits, Network, OutputSink, PythonFile, SandboxRequest, Settings, Stream, Tier,
};
pub use result::{Ended, Frame, LimitKind, Raised, SandboxResult, Usage};
pub use sandbox::Sandbox;
pub use spawner::Spawner;
pub use wasm::{Act, Examined, PluginRequest, Prepared, Wasm, WasmSettings};
