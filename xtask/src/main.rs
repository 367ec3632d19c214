//! Chores of this repository that need more than a shell: `cargo xtask tidy`, `cargo xtask docs`.
//!
//! Tidy checks what a compiler cannot see and a reviewer tires of. It is a test too, so that `cargo test` alone finds
//! what it finds. Docs makes the documents a site. Invariant: nothing here changes a file outside `target`.

mod arrows;
mod commands;
mod documents;
mod files;
mod finding;
mod licences;
mod markdown;
mod site;
mod spdx;
mod texts;
mod tree;

use std::error::Error;
use std::process::ExitCode;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand};

use crate::finding::{Finding, Weight};
use crate::tree::Tree;

/// The platforms we ship for: dependencies of others (and their licences) are never built.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// What may follow `cargo xtask`.
const COMMANDS: [&str; 2] = ["docs", "tidy"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["docs"] => docs(),
        ["tidy"] => tidy().map(|findings| report("tidy", &findings)),
        _ => {
            eprintln!("usage: cargo xtask {}", COMMANDS.join("|"));
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}

fn report(task: &str, findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.weight == Weight::Error).count();
    println!("{task}: {errors} to fix, {} noted", findings.len() - errors);
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes the site, beside the other things that are built.
fn docs() -> Result<ExitCode, Box<dyn Error>> {
    let metadata = metadata()?;
    let root = metadata.workspace_root.as_std_path();
    let files = match site::build(&Tree::read(root)?) {
        Ok(files) => files,
        Err(findings) => return Ok(report("docs", &findings)),
    };
    let folder = metadata.target_directory.as_std_path().join("site");
    site::write(root, &folder, &files)?;
    println!("docs: {} files; open {}", files.len(), folder.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

/// Everything that is untidy, in the order of the files.
fn tidy() -> Result<Vec<Finding>, Box<dyn Error>> {
    let metadata = metadata()?;
    let tree = Tree::read(metadata.workspace_root.as_std_path())?;
    let mut findings = Vec::new();
    findings.extend(arrows::check(&metadata, &tree));
    findings.extend(licences::check(&metadata, &tree));
    findings.extend(files::check(&tree));
    findings.extend(texts::check(&tree));
    findings.extend(documents::check(&tree));
    findings.sort();
    Ok(findings)
}

fn metadata() -> Result<Metadata, cargo_metadata::Error> {
    let platforms = PLATFORMS.iter().flat_map(|platform| ["--filter-platform".to_owned(), (*platform).to_owned()]);
    MetadataCommand::new().features(CargoOpt::AllFeatures).other_options(platforms.collect::<Vec<_>>()).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let errors: Vec<String> =
            tidy().unwrap().iter().filter(|finding| finding.weight == Weight::Error).map(ToString::to_string).collect();
        assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
    }

    #[test]
    fn the_documents_make_a_site() {
        let metadata = metadata().unwrap();
        let findings =
            site::build(&Tree::read(metadata.workspace_root.as_std_path()).unwrap()).err().unwrap_or_default();
        let errors: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
    }
}
