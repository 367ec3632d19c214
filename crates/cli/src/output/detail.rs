//! One thing in full: labelled fields, then sections.

use std::fmt::Write as _;

use super::{Paint, clean, clean_line};

pub struct Detail {
    paint: Paint,
    text: String,
    fields: Vec<(&'static str, String)>,
}

impl Detail {
    pub fn new(paint: Paint, heading: &str) -> Self {
        Self { paint, text: format!("{}\n", paint.bold(&clean_line(heading))), fields: Vec::new() }
    }

    /// Text under the heading.
    #[must_use]
    pub fn about(mut self, text: &str) -> Self {
        if !text.trim().is_empty() {
            let _ = writeln!(self.text, "{}", clean(text.trim()));
        }
        self
    }

    /// A field; one without a value is left out.
    #[must_use]
    pub fn field(mut self, label: &'static str, value: impl AsRef<str>) -> Self {
        let value = clean_line(value.as_ref());
        if !value.is_empty() {
            self.fields.push((label, value));
        }
        self
    }

    /// A section of whole lines, indented; text from outside in it is the caller's to clean.
    #[must_use]
    pub fn section(mut self, title: &str, lines: &str) -> Self {
        if lines.trim().is_empty() {
            return self;
        }
        self.flush_fields();
        let _ = writeln!(self.text, "\n{}", self.paint.bold(title));
        for line in lines.trim_end().lines() {
            let _ = writeln!(self.text, "{}", format!("  {line}").trim_end());
        }
        self
    }

    pub fn end(mut self) -> String {
        self.flush_fields();
        self.text
    }

    fn flush_fields(&mut self) {
        let width = self.fields.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        if width > 0 {
            self.text.push('\n');
        }
        for (label, value) in self.fields.drain(..) {
            let label = self.paint.dim(&format!("{label:<width$}"));
            let _ = writeln!(self.text, "  {label}  {value}");
        }
    }
}
