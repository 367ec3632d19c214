//! Benchmarks, run by `make bench` or `make bench-NAME`: a table for people, `target/bench/NAME.json` for machines.
//! Every figure stands beside its baseline of the same run, and CPU time beside wall time, because machines are noisy.

mod commits;
mod lists;
mod registry;
mod report;
mod search;

use report::Report;

const NAMES: [&str; 4] = ["search", "registry", "commits", "lists"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("no benchmark `{unknown}`; there are {}", NAMES.join(", ")).into());
    }
    for name in NAMES.into_iter().filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)) {
        let mut report = Report::new(name);
        match name {
            "search" => search::run(&mut report),
            "registry" => registry::run(&mut report).await?,
            "commits" => commits::run(&mut report).await?,
            _ => lists::run(&mut report).await?,
        }
        report.finish()?;
    }
    Ok(())
}
