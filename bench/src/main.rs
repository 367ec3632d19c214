//! Benchmarks, run by `make bench` or `make bench-NAME`: a table for people, `target/bench/NAME.json` for machines.
//! Every figure stands beside its baseline of the same run, and CPU time beside wall time, because machines are noisy.

mod agents;
mod approvals;
mod commits;
mod lists;
mod mcp;
mod path;
mod policy;
mod registry;
mod report;
mod sandbox;
mod search;

use report::Report;

pub type Failure = Box<dyn std::error::Error>;

const NAMES: [&str; 10] =
    ["search", "registry", "commits", "lists", "policy", "approvals", "agents", "path", "sandbox", "mcp"];

/// A server allocates on every thread at once, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Failure> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    // The servers of `path` are processes of this program.
    match wanted.split_first() {
        Some((first, arguments)) if first == path::servers::TOOLGATE => {
            return runtime.block_on(path::servers::toolgate(arguments));
        }
        Some((first, _)) if first == path::servers::ECHO => return runtime.block_on(path::servers::echo()),
        _ => {}
    }
    if let Some(unknown) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("no benchmark `{unknown}`; there are {}", NAMES.join(", ")).into());
    }
    for name in NAMES.into_iter().filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)) {
        let mut report = Report::new(name);
        match name {
            "search" => search::run(&mut report),
            "registry" => runtime.block_on(registry::run(&mut report))?,
            "commits" => runtime.block_on(commits::run(&mut report))?,
            "lists" => runtime.block_on(lists::run(&mut report))?,
            "policy" => policy::run(&mut report)?,
            "approvals" => runtime.block_on(approvals::run(&mut report))?,
            "agents" => runtime.block_on(agents::run(&mut report))?,
            "mcp" => mcp::run(&mut report)?,
            "sandbox" => runtime.block_on(sandbox::run(&mut report))?,
            _ => path::run(&mut report)?,
        }
        report.finish()?;
    }
    Ok(())
}
