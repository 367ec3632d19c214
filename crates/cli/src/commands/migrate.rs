//! `toolgate migrate …`: what others wrote for another way of running things, as calls through the gate. Nothing is run.

pub mod command_line;
pub mod goblins;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_toolbox::yaml;

use self::goblins::{Migration, migrate};
use crate::args::{Goblins, MigrateCommand};
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, clean, note};

const FILE_BYTES_MAX: usize = 1024 * 1024;

pub fn run(command: &MigrateCommand, output: &Output) -> Done {
    match command {
        MigrateCommand::Goblins(wanted) => rewrite(wanted, output),
    }
}

fn rewrite(wanted: &Goblins, output: &Output) -> Done {
    let Goblins { file, out, entries } = wanted;
    let text = input::read_text(file, FILE_BYTES_MAX)?;
    let folder = folder_of(file)?;
    let migration = migrate(&text, &folder).map_err(|why| {
        Failure::usage(format!("{}: {why}", file.display()), "correct it, then try again; nothing was written")
    })?;
    let needed = entries_text(&migration, &folder)?;
    // Both or neither.
    if let Some(path) = entries {
        write_new(path, &needed)?;
    }
    if let Some(path) = out {
        write_out(path, file, &migration.text)?;
    }
    show(&migration, &text, wanted, &needed, &folder, output)?;
    Ok(if migration.left.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Where the scripts of a file run: beside it.
fn folder_of(file: &Path) -> Result<PathBuf, Failure> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::canonicalize(parent).map_err(|error| {
        let told = format!("cannot read {}: {}", parent.display(), input::reason(&error));
        Failure::usage(told, "name the file by its path; it cannot come from standard input")
    })
}

fn entries_text(migration: &Migration, folder: &Path) -> Result<String, Failure> {
    if migration.scripts.is_empty() {
        return Ok(String::new());
    }
    yaml::set("", "", &migration.scripts.entries(folder))
        .map_err(|refused| toolgate_contracts::Fault::internal(refused).into())
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let created = std::fs::File::options().write(true).create_new(true).open(path);
    created.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let told = format!("cannot write {}: {}", path.display(), input::reason(&error));
        Failure::failed(told, "name a file that does not exist yet")
    })
}

/// Over the file itself, or into a new one; never over another.
fn write_out(path: &Path, file: &Path, text: &str) -> Result<(), Failure> {
    let same =
        std::fs::canonicalize(path).ok().filter(|path| std::fs::canonicalize(file).is_ok_and(|file| file == *path));
    let Some(real) = same else { return write_new(path, text) };
    let beside = real.with_extension("migrating");
    write_new(&beside, text)?;
    let kept = std::fs::metadata(&real).and_then(|before| std::fs::set_permissions(&beside, before.permissions()));
    kept.and_then(|()| std::fs::rename(&beside, &real)).map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        Failure::failed(format!("cannot write {}: {}", real.display(), input::reason(&error)), "check its mode")
    })
}

fn show(
    migration: &Migration,
    before: &str,
    wanted: &Goblins,
    needed: &str,
    folder: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let Migration { text, rewritten, left, scripts } = migration;
    let file = wanted.file.display().to_string();
    let value = json!({
        "file": file,
        "written": wanted.out.as_ref().map(|path| path.display().to_string()),
        "rewritten": rewritten.iter().map(|one| json!({"entry": one.entry, "command": one.command, "tool_layer_invoke": one.invoke})).collect::<Vec<_>>(),
        "left": left.iter().map(|one| json!({"entry": one.entry, "command": one.command, "why": one.why})).collect::<Vec<_>>(),
        "entries": if scripts.is_empty() { Value::Null } else { scripts.entries(folder) },
        "text": text,
    });
    output.show(&value, |_, paint| {
        let mut parts = Vec::new();
        if wanted.out.is_none() && text != before {
            let difference = similar::TextDiff::from_lines(before, text);
            parts.push(clean(&difference.unified_diff().header(&file, &file).to_string()));
        }
        if wanted.entries.is_none() && !needed.is_empty() {
            parts.push(format!("{}\n{}", paint.bold("The operator allows in entries.yaml:"), clean(needed)));
        }
        if !left.is_empty() {
            let lines: Vec<String> =
                left.iter().map(|one| format!("  {}: {}", clean(&one.entry), clean(&one.why))).collect();
            parts.push(format!("{}\n{}\n", paint.bold("These stay as they are:"), lines.join("\n")));
        }
        let count = |count: usize| super::counted_of(count, "command");
        parts.push(match (rewritten.len(), left.len()) {
            (0, 0) => format!("{} has no direct commands.", clean(&file)),
            (done, 0) => format!("{} rewritten.", count(done)),
            (done, left) => format!("{} rewritten, {left} left.", count(done)),
        });
        parts.join("\n")
    })?;
    if wanted.out.is_none() && !rewritten.is_empty() {
        note(&format!("Nothing was written. To write it: toolgate migrate goblins {file} --out {file}"));
    }
    Ok(())
}
