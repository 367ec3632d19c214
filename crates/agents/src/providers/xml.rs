//! For models that were given no way to call tools: they are told of the tools in words, and their calls are found in
//! what they say. The marks are those that the widest family of open models was trained on.
//!
//! It is spoken over the chat form, so that any server that only talks can be used. Invariant: nothing is a call before
//! its end was read, and of a mark that has only begun nobody hears.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toolgate_contracts::json as strict;
use toolgate_egress::Url;

use super::openai_chat::{OpenaiChat, common, say};
use super::{Dialect, Reader, arguments, below, text};
use crate::error::ModelError;
use crate::fold::{Delta, End};
use crate::model::{Asked, Message, Request, Stop};
use crate::provider::Kind;
use crate::wire::Form;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

pub struct Xml;

impl Dialect for Xml {
    fn kind(&self) -> Kind {
        Kind::Xml
    }

    /// Whoever needs this has a server of their own.
    fn base(&self) -> Option<&'static str> {
        None
    }

    fn url(&self, base: &Url, _: &Request, _: Form) -> Result<Url, ModelError> {
        below(base, &["chat", "completions"])
    }

    fn reserved(&self) -> &'static [&'static str] {
        OpenaiChat.reserved()
    }

    fn body(&self, base: &Url, request: &Request, form: Form) -> Result<Map<String, Value>, ModelError> {
        let mut messages = Vec::new();
        let system = prompted(request);
        if !system.is_empty() {
            messages.push(json!({"role": "system", "content": system}));
        }
        for message in &request.messages {
            messages.push(match message {
                Message::User { text } => json!({"role": "user", "content": text}),
                Message::Model(said) => {
                    let own = said.own(Kind::Xml).and_then(|own| own.get("content")).and_then(Value::as_str);
                    let rebuilt = || {
                        said.calls.iter().fold(said.text.clone(), |mut text, call| {
                            let call = json!({"name": call.name, "arguments": super::object(&call.arguments)});
                            let _ = write!(text, "\n{OPEN}\n{call}\n{CLOSE}");
                            text
                        })
                    };
                    json!({"role": "assistant", "content": own.map_or_else(rebuilt, str::to_owned)})
                }
                Message::Tools { answers } => {
                    let said: Vec<String> = answers
                        .iter()
                        .map(|answer| {
                            let member = if answer.is_error { "error" } else { "output" };
                            let told = json!({"name": answer.name, member: answer.text});
                            format!("<tool_response>\n{told}\n</tool_response>")
                        })
                        .collect();
                    json!({"role": "user", "content": said.join("\n")})
                }
            });
        }
        Ok(common(base, request, form, Vec::new(), messages))
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        let found = Found { asked: request.asked(), pending: String::new(), within: false, calls: 0 };
        Box::new(Marked { inner: OpenaiChat.reader(request), found })
    }
}

fn prompted(request: &Request) -> String {
    let tools = request.sorted_tools();
    if tools.is_empty() {
        return request.system.clone();
    }
    let mut told = request.system.clone();
    if !told.is_empty() {
        told.push_str("\n\n");
    }
    told.push_str(
        "You can call tools. Each has a name, says what it does, and takes the arguments of its schema:\n<tools>\n",
    );
    for tool in tools {
        let tool = json!({"name": tool.name, "description": tool.description, "parameters": tool.input});
        let _ = writeln!(told, "{tool}");
    }
    let _ = write!(
        told,
        "</tools>\nTo call one, write exactly this, once for each call, and nothing after the last:\n{OPEN}\n\
         {{\"name\": \"NAME\", \"arguments\": {{}}}}\n{CLOSE}\n\
         What it gives is told to you between <tool_response> and </tool_response>. Never write that yourself. \
         If you need no tool, answer in plain text."
    );
    told
}

struct Marked {
    inner: Box<dyn Reader>,
    found: Found,
}

struct Found {
    asked: Asked,
    /// Text that may be a mark, or what stands behind an open one.
    pending: String,
    within: bool,
    calls: usize,
}

impl Found {
    fn push(&mut self, piece: &str, deltas: &mut Vec<Delta>) {
        // What was looked through before holds no mark, but perhaps the beginning of one.
        let mut from = self.pending.len().saturating_sub(CLOSE.len());
        self.pending.push_str(piece);
        loop {
            let mark = if self.within { CLOSE } else { OPEN };
            while !self.pending.is_char_boundary(from) {
                from -= 1;
            }
            let Some(at) = self.pending[from..].find(mark).map(|at| from + at) else { break };
            from = 0;
            let behind = self.pending.split_off(at + mark.len());
            let mut before = std::mem::replace(&mut self.pending, behind);
            before.truncate(at);
            if self.within {
                self.call(&before, deltas);
            } else {
                say(&before, deltas);
            }
            self.within = !self.within;
        }
        if !self.within {
            let held = (0..OPEN.len()).rev().find(|held| self.pending.ends_with(&OPEN[..*held])).unwrap_or(0);
            let held = self.pending.split_off(self.pending.len() - held);
            say(&std::mem::replace(&mut self.pending, held), deltas);
        }
    }

    fn call(&mut self, written: &str, deltas: &mut Vec<Delta>) {
        let index = self.calls;
        self.calls += 1;
        let id = self.asked.call_id(index);
        let read = strict::read(written.trim().as_bytes(), strict::CALL_BYTES_MAX).ok();
        let named = read.as_ref().filter(|call| call.get("name").is_some_and(Value::is_string));
        let (name, arguments) = match named {
            Some(call) => (text(call, "/name"), call.get("arguments").map(arguments).unwrap_or_default()),
            // Told back to the model as it wrote it.
            None => ("", written.trim().to_owned()),
        };
        deltas.push(Delta::Call { index, id, name: name.to_owned() });
        if !arguments.is_empty() {
            deltas.push(Delta::Arguments { index, text: arguments });
        }
    }

    fn end(&mut self, end: End, deltas: &mut Vec<Delta>) -> End {
        let rest = std::mem::take(&mut self.pending);
        if self.within {
            // A server that stops at the closing mark leaves it out; what is no whole object is told back.
            self.call(&rest, deltas);
        } else {
            say(&rest, deltas);
        }
        let stop = if self.calls > 0 && end.stop == Stop::End { Stop::Tool } else { end.stop };
        End { stop, ..end }
    }

    fn translate(&mut self, heard: Vec<Delta>, deltas: &mut Vec<Delta>) {
        for delta in heard {
            match delta {
                Delta::Text { text } => self.push(&text, deltas),
                // It was told of no tools in the server's own form; what it calls there is not meant.
                Delta::Call { .. } | Delta::Arguments { .. } => {}
            }
        }
    }
}

impl Reader for Marked {
    fn whole(&mut self, document: Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        let mut heard = Vec::new();
        let end = self.inner.whole(document, &mut heard)?;
        self.found.translate(heard, deltas);
        Ok(self.found.end(end, deltas))
    }

    fn event(&mut self, data: &[u8], deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        let mut heard = Vec::new();
        let end = self.inner.event(data, &mut heard)?;
        self.found.translate(heard, deltas);
        Ok(end.map(|end| self.found.end(end, deltas)))
    }
}
