//! The one expression language, CEL, and the one language for text, minijinja: what authors write into definitions to
//! choose, map and fill in.
//!
//! Invariant: evaluating ends. Both languages are run within a budget of steps and of what they build, so that neither
//! an author nor a caller's argument can hold a thread or fill the memory.
//! Deliberately absent: clocks, randomness, files and the network. The same values give the same result.

mod budget;
mod expression;
mod names;
mod template;
mod text;
mod value;

pub use expression::{EXPRESSION_BYTES_MAX, Expression};
pub use names::Path;
pub use template::JsonTemplate;
pub use text::{TEMPLATE_BYTES_MAX, Text};

/// Why an expression or a template cannot be read, or did not give a value. The message is for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("line {line}, column {column}: {message}")]
    Unreadable { line: usize, column: usize, message: String },
    #[error("{0}")]
    Failed(String),
    #[error("it takes more than {0}; use shorter lists or a simpler expression")]
    Exhausted(&'static str),
}

/// What libraries say may quote whole values.
const MESSAGE_CHARS_MAX: usize = 300;

fn shortened(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
