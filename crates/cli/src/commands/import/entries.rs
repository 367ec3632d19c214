//! The operator's `entries.yaml`, where an import may add processes to it: comments and everything else stay.

use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_toolbox::yaml;

use super::beside::{self, Place};
use crate::failure::Failure;
use crate::input;

const ENTRIES_BYTES_MAX: usize = 1024 * 1024;

pub fn read(file: &Path) -> Result<(String, Value), Failure> {
    let text = if file.exists() { input::read_text(file, ENTRIES_BYTES_MAX)? } else { String::new() };
    let value =
        if text.trim().is_empty() { Value::Null } else { yaml::value(&text).map_err(|why| unreadable(file, &why))? };
    Ok((text, value))
}

fn unreadable(file: &Path, why: &str) -> Failure {
    Failure::usage(format!("{}: {why}", file.display()), "correct it, then try again; nothing was written")
}

pub fn add(file: &Path, needed: &Map<String, Value>) -> Result<(), Failure> {
    let (mut text, present) = read(file)?;
    let refused = |error: yaml::Refused| unreadable(file, &error.to_string());
    if present.is_null() {
        let rendered = yaml::set("", "", &json!({"upstreams": needed})).map_err(refused)?;
        text = format!("{text}{rendered}");
    } else if present["upstreams"].is_null() {
        text = yaml::set(&text, "/upstreams", &json!(needed)).map_err(refused)?;
    } else {
        for (name, entry) in needed {
            text = yaml::set(&text, &format!("/upstreams/{name}"), entry).map_err(refused)?;
        }
    }
    if file.exists() {
        // The same care as for a client's file; what was there is in it still.
        let place = Place::open(file)?;
        return place.replace(text.as_bytes());
    }
    beside::create(file, text.as_bytes()).map_err(|error| {
        Failure::failed(format!("cannot write {}: {}", file.display(), input::reason(&error)), "check its folder")
    })
}
