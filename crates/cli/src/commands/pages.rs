//! What the command line says about itself: completions, manual pages, the list of commands.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use super::counted_of;
use crate::args::Cli;
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;

pub fn completions(shell: Shell, output: &Output) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "toolgate", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    output.show(&json!({"shell": shell.to_string(), "script": script}), |_, _| script.clone())
}

pub fn man(out: Option<&Path>, output: &Output) -> Done {
    let Some(folder) = out else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page).map_err(|error| unwritten(Path::new("the page"), &error))?;
        let page = String::from_utf8_lossy(&page).into_owned();
        return output.show(&json!({"page": page}), |_, _| page.clone());
    };
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| unwritten(folder, &error))?;
    let pages = written(folder).map_err(|error| unwritten(folder, &error))?;
    let value = json!({"folder": folder.display().to_string(), "pages": pages});
    output.say(&value, &format!("Wrote {} into {}.", counted_of(pages.len(), "page"), folder.display()))
}

fn written(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut pages: Vec<_> = names.filter(|name| name.starts_with("toolgate") && name.ends_with(".1")).collect();
    pages.sort();
    Ok(pages)
}

fn unwritten(place: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {}", place.display(), crate::input::reason(error)),
        "choose another folder with --out",
    )
}

/// Every command path, as `docs/commands.txt` has it.
pub fn commands(output: &Output) -> Done {
    let mut paths = Vec::new();
    collect(&Cli::command(), "", &mut paths);
    output.show(&json!({"commands": paths}), |_, _| paths.join("\n"))?;
    Ok(Exit::Done)
}

/// The document as `docs/openapi.json` has it.
pub fn openapi(schemas: Option<&Path>) -> Done {
    if let Some(folder) = schemas {
        for (name, text) in toolgate_server::api::schemas::published()? {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| {
                let told = format!("cannot write {}: {}", path.display(), crate::input::reason(&error));
                Failure::usage(told, "name a folder that is there")
            })?;
        }
        return Ok(Exit::Done);
    }
    crate::output::print(&toolgate_server::api::document_text())?;
    Ok(Exit::Done)
}

fn collect(command: &clap::Command, before: &str, paths: &mut Vec<String>) {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{before}{}", command.get_name());
        if command.has_subcommands() {
            collect(command, &format!("{path} "), paths);
        } else {
            paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_command_line_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_list_is_read_in_parts_by_the_same_flags() {
        fn check(command: &clap::Command, lists: &mut usize) {
            for below in command.get_subcommands() {
                if below.get_name() == "list" {
                    let has = |flag: &str| below.get_arguments().any(|argument| argument.get_long() == Some(flag));
                    assert!(has("limit") && has("cursor"), "{} list", command.get_name());
                    *lists += 1;
                }
                check(below, lists);
            }
        }
        let mut lists = 0;
        check(&Cli::command(), &mut lists);
        assert!(lists > 20, "{lists}");
    }

    /// clap takes an argument of a command for the global one of the same name, and its value for that one's.
    #[test]
    fn no_argument_has_the_name_of_a_global_one() {
        fn check(command: &clap::Command, global: &[String]) {
            for command in command.get_subcommands() {
                let clash = command.get_arguments().find(|argument| global.contains(&argument.get_id().to_string()));
                assert!(clash.is_none(), "{}: {clash:?}", command.get_name());
                check(command, global);
            }
        }
        let command = Cli::command();
        let global: Vec<_> = command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
        assert!(global.contains(&"key".to_owned()));
        check(&command, &global);
    }
}
