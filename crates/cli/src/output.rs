//! What is printed: results on standard output, everything else on standard error.
//!
//! Data may come from anyone, and a terminal obeys what it is shown: every text from outside passes [`clean`], or is
//! escaped as JSON. Colour is this program's own, and only where a person looks.

mod detail;
mod table;

use std::io::{self, IsTerminal as _, Write};

use serde_json::Value;
use toolgate_contracts::unseen::is_unseen;

use crate::connect::Environment;
use crate::failure::{Done, Exit, Failure};

pub use detail::Detail;
pub use table::Table;

/// What is narrower is no width that anybody reads at.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

/// How text for people looks.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    color: bool,
    /// How wide a line may be; as wide as it is where no terminal shows it.
    pub width: Option<usize>,
}

impl Paint {
    #[cfg(test)]
    pub const PLAIN: Self = Self { color: false, width: None };

    /// For text that is indented.
    #[must_use]
    pub fn narrower(self, by: usize) -> Self {
        Self { width: self.width.map(|width| width.saturating_sub(by)), ..self }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn hint(self, text: &str) -> String {
        self.paint("36", text)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub format: Format,
    paint: Paint,
    errors: Paint,
    /// A person reads the JSON too.
    pretty: bool,
}

impl Output {
    pub fn new(format: Format, environment: &Environment) -> Self {
        let colorless = environment.get("NO_COLOR").is_some() || environment.get("TERM") == Some("dumb");
        let paint = |terminal: bool, width| Paint { color: terminal && !colorless, width };
        let stdout = io::stdout();
        // Whoever sets COLUMNS means it, also for what another program shows.
        let said = environment.get("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        let terminal = || rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col));
        let width = said.or_else(terminal).filter(|columns| *columns > 0).map(|columns| columns.max(WIDTH_MIN));
        Self {
            format,
            paint: paint(stdout.is_terminal(), width),
            errors: paint(io::stderr().is_terminal(), width),
            pretty: stdout.is_terminal(),
        }
    }

    /// For text that is printed piece by piece.
    pub const fn paint(&self) -> Paint {
        self.paint
    }

    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Shows a result: the API's own JSON, or a text made of it.
    pub fn show(&self, value: &Value, text: impl FnOnce(&Value, Paint) -> String) -> Done {
        match self.format {
            Format::Json => self.json(value)?,
            Format::Text => print(&text(value, self.paint))?,
        }
        Ok(Exit::Done)
    }

    /// The same for a program that waits for one line of JSON, whoever watches.
    pub fn show_line(&self, value: &Value, text: impl FnOnce(&Value, Paint) -> String) -> Done {
        Self { pretty: false, ..*self }.show(value, text)
    }

    /// The same for a command whose result is one sentence.
    pub fn say(&self, value: &Value, sentence: &str) -> Done {
        self.show(value, |_, _| clean(sentence))
    }

    pub fn json(&self, value: &Value) -> Result<(), Failure> {
        let text = if self.pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        print(&escape_json(&text.unwrap_or_default()))
    }

    /// What went wrong with something whose result is printed all the same, on standard error.
    pub fn complain(&self, told: &str, places: &[String], hint: &str) {
        let mut lines = vec![format!("{} {}", self.errors.bad("error:"), clean(told))];
        lines.extend(places.iter().map(|place| format!("  {}", clean_indented(place))));
        if !hint.is_empty() {
            lines.push(format!("  {} {}", self.errors.hint("hint:"), clean_line(hint)));
        }
        let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
    }

    pub fn failure(&self, failure: &Failure, to_stdout: bool) {
        let _ = writeln!(io::stderr().lock(), "{}", describe(failure, self.errors));
        if self.is_json() && to_stdout {
            // Told on standard error already; there is nothing better to do if this fails too.
            let _ = self.json(&failure.problem);
        }
    }
}

/// Writes to standard output. A reader that has gone away wanted no more.
pub fn print(text: &str) -> Result<(), Failure> {
    let text = text.trim_end_matches('\n');
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(
            format!("the result could not be written: {error}"),
            "check where standard output goes",
        )),
        _ => Ok(()),
    }
}

/// A message beside the result, on standard error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(text));
}

/// The words for a person: findings by line, or the one thing that is wrong with its place and remedy.
fn describe(failure: &Failure, paint: Paint) -> String {
    let findings = failure.findings();
    let file = failure.file.as_deref().unwrap_or("the definition");
    let mut lines: Vec<String> = findings.iter().map(|finding| clean(&finding.show(file))).collect();
    let told =
        if findings.is_empty() { failure.told().to_owned() } else { format!("{file} is refused; nothing was written") };
    lines.push(format!("{} {}", paint.bad("error:"), clean(&told).replace('\n', "\n       ")));
    if findings.is_empty() {
        let pointer = failure.problem["pointer"].as_str().filter(|pointer| !pointer.is_empty());
        lines.extend(pointer.map(|pointer| format!("  at {}", clean(pointer))));
        lines.extend(failure.cause.as_ref().map(|cause| format!("  cause: {}", clean(cause))));
        let remedy = Some(failure.remedy()).filter(|remedy| !remedy.is_empty());
        lines.extend(remedy.map(|remedy| format!("  {} {}", paint.hint("hint:"), clean(remedy))));
    }
    lines.join("\n")
}

/// Text that cannot steer a terminal or hide in it; line breaks stay.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            _ if is_unseen(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    out
}

/// The same on one line.
pub fn clean_line(text: &str) -> String {
    clean(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The same, and what is indented stays so: lines of code mean something by it.
fn clean_indented(text: &str) -> String {
    let line = text.trim_start_matches(' ');
    format!("{}{}", " ".repeat(text.len() - line.len()), clean_line(line))
}

/// JSON may escape any character of a string, and such characters are nowhere else in it: the value stays the same.
fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_unseen(c) {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether an amount is zero, or not said.
pub fn is_nothing(amount: &str) -> bool {
    amount.chars().all(|digit| matches!(digit, '0' | '.'))
}

/// A member as text: strings as they are, nothing for `null`, other values as JSON.
pub fn text_of(value: &Value, member: &str) -> String {
    match &value[member] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

pub fn items_of(value: &Value) -> &[Value] {
    value["items"].as_array().map_or(&[], Vec::as_slice)
}

/// Somebody by the name that stands beside the id, or by the id where there is none.
pub fn person_of(value: &Value, member: &str) -> String {
    name_of(value, member, &format!("{member}_name"))
}

pub fn name_of(value: &Value, member: &str, name: &str) -> String {
    Some(text_of(value, name)).filter(|name| !name.is_empty()).unwrap_or_else(|| text_of(value, member))
}

/// The same with the id, where there is room for both.
pub fn person_and_id(value: &Value, member: &str) -> String {
    match (text_of(value, &format!("{member}_name")), text_of(value, member)) {
        (name, id) if name.is_empty() => id,
        (name, id) => format!("{name} ({id})"),
    }
}

/// A time as people write it: to the minute, in UTC.
pub fn time_of(value: &Value, member: &str) -> String {
    let text = text_of(value, member);
    match text.get(..16) {
        Some(minute) if text.ends_with('Z') => minute.replace('T', " "),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_cannot_steer_a_terminal() {
        assert_eq!(
            clean("a\u{1b}[2J\u{9b}b\u{202e}c\u{200b}\u{E0041}\n\td"),
            "a\\u{1b}[2J\\u{9b}b\\u{202e}c\\u{200b}\\u{e0041}\n    d"
        );
        assert_eq!(clean_line("a\n  b\r\n\tc"), "a b c");
        assert_eq!(clean("Grüße, 日本"), "Grüße, 日本");
        assert_eq!(clean_indented("    return  1 /\u{1b} 0\n"), "    return 1 /\\u{1b} 0");
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = json!({"a\u{202e}": "x\u{1b}\u{9b}\u{E0041}\u{200d}é\n"});
        let text = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !is_unseen(c)), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let fault = toolgate_contracts::Fault::not_found("tool", "mail-send").at("/name");
        insta::assert_snapshot!(describe(&fault.into(), Paint::PLAIN), @r"
        error: no tool `mail-send`
          at /name
          hint: list what there is with `toolgate tool list`
        ");
        let two = Failure::usage("a.yaml: one\na.yaml: two", "correct it");
        insta::assert_snapshot!(describe(&two, Paint::PLAIN), @r"
        error: a.yaml: one
               a.yaml: two
          hint: correct it
        ");
        let finding =
            toolgate_registry::Finding::error("schema.type", "/input_schema", "no\u{1b}", "write one").on_line(3);
        let refused =
            Failure::answered(400, json!({"detail": "x", "details": {"findings": [finding]}})).about("TOOL.md");
        insta::assert_snapshot!(describe(&refused, Paint::PLAIN), @r"
        TOOL.md:3: error[schema.type]: no\u{1b} (at /input_schema)
          fix: write one
        error: TOOL.md is refused; nothing was written
        ");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(time_of(&json!({"at": "2026-11-14T10:40:00.123Z"}), "at"), "2026-11-14 10:40");
        assert_eq!(time_of(&json!({"at": null}), "at"), "");
        assert_eq!(time_of(&json!({"at": "später"}), "at"), "später");
    }
}
