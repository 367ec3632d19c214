//! A document as HTML: headings that can be linked to, links as the site has them, commands set apart from output.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// A document, read once.
pub struct Body<'a> {
    events: Vec<(Event<'a>, usize)>,
    pub title: String,
    /// Of the second and third level, for the page's own contents.
    pub sections: Vec<Section>,
    ids: Vec<String>,
}

pub struct Section {
    pub level: HeadingLevel,
    pub id: String,
    pub text: String,
}

/// A link or an image as it is written.
pub struct Link<'a> {
    pub to: &'a str,
    pub line: usize,
}

impl<'a> Body<'a> {
    pub fn read(text: &'a str) -> Self {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS;
        let line = |offset: usize| text[..offset].matches('\n').count() + 1;
        let events = Parser::new_ext(text, options).into_offset_iter().map(|(event, range)| (event, line(range.start)));
        let mut body = Self { events: events.collect(), title: String::new(), sections: Vec::new(), ids: Vec::new() };
        body.name_headings();
        body
    }

    pub fn has_heading(&self, id: &str) -> bool {
        self.ids.iter().any(|known| known == id)
    }

    pub fn headings(&self) -> Vec<String> {
        self.ids.iter().map(|id| format!("#{id}")).collect()
    }

    /// Gives every heading the id that GitHub gives it.
    fn name_headings(&mut self) {
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        let mut open: Option<(usize, String)> = None;
        for index in 0..self.events.len() {
            match &self.events[index].0 {
                Event::Start(Tag::Heading { .. }) => open = Some((index, String::new())),
                Event::Text(text) | Event::Code(text) => {
                    if let Some((_, words)) = &mut open {
                        words.push_str(text);
                    }
                }
                Event::End(TagEnd::Heading(level)) => {
                    let level = *level;
                    let Some((start, words)) = open.take() else { continue };
                    let plain = slug(&words);
                    let seen = used.entry(plain.clone()).or_default();
                    let name = if *seen == 0 { plain } else { format!("{plain}-{seen}") };
                    *seen += 1;
                    if let Event::Start(Tag::Heading { id, .. }) = &mut self.events[start].0 {
                        *id = Some(CowStr::from(name.clone()));
                    }
                    self.ids.push(name.clone());
                    match level {
                        HeadingLevel::H1 if self.title.is_empty() => self.title = words,
                        HeadingLevel::H2 | HeadingLevel::H3 => {
                            self.sections.push(Section { level, id: name, text: words });
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// The HTML, with each address as `address` says.
    pub fn html(&self, mut address: impl FnMut(&Link<'_>) -> String) -> String {
        let mut events = Vec::with_capacity(self.events.len());
        let mut block: Option<(CowStr<'_>, String)> = None;
        for (event, line) in &self.events {
            match (event, &mut block) {
                (Event::Start(Tag::CodeBlock(kind)), _) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.clone(),
                        CodeBlockKind::Indented => CowStr::from(""),
                    };
                    block = Some((info, String::new()));
                }
                (Event::End(TagEnd::CodeBlock), _) => {
                    let (info, text) = block.take().unwrap_or_else(|| (CowStr::from(""), String::new()));
                    events.push(Event::Html(code_block(&info, &text).into()));
                }
                (Event::Text(text), Some((_, code))) => code.push_str(text),
                (Event::Start(Tag::Link { link_type, dest_url, title, id }), None) => {
                    let dest_url = address(&Link { to: dest_url, line: *line }).into();
                    events.push(Event::Start(Tag::Link {
                        link_type: *link_type,
                        dest_url,
                        title: title.clone(),
                        id: id.clone(),
                    }));
                }
                (Event::Start(Tag::Image { link_type, dest_url, title, id }), None) => {
                    let dest_url = address(&Link { to: dest_url, line: *line }).into();
                    events.push(Event::Start(Tag::Image {
                        link_type: *link_type,
                        dest_url,
                        title: title.clone(),
                        id: id.clone(),
                    }));
                }
                (Event::Start(Tag::Table(_)), None) => {
                    events.push(Event::Html(
                        "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">".into(),
                    ));
                    events.push(event.clone());
                }
                (Event::End(TagEnd::Table), None) => {
                    events.push(event.clone());
                    events.push(Event::Html("</div>\n".into()));
                }
                _ => events.push(event.clone()),
            }
        }
        let mut text = String::new();
        html::push_html(&mut text, events.into_iter());
        text
    }
}

/// A fenced block. `console`: what is typed and what is answered look different; `file=NAME` is shown above.
fn code_block(info: &str, text: &str) -> String {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default();
    let file = words.find_map(|word| word.strip_prefix("file="));
    let mut code = String::new();
    let mut goes_on = false;
    for line in text.lines() {
        let typed = line.strip_prefix("$ ").filter(|_| language == "console");
        let _ = match typed {
            Some(command) => writeln!(code, "<span class=\"prompt\">$ </span><b>{}</b>", escape(command)),
            None if goes_on => writeln!(code, "<b>{}</b>", escape(line)),
            None => writeln!(code, "{}", escape(line)),
        };
        goes_on = (typed.is_some() || goes_on) && line.ends_with('\\');
    }
    let class = if language == "console" { " class=\"console\"" } else { "" };
    let caption = file.map(|name| format!("<figcaption>{}</figcaption>", escape(name))).unwrap_or_default();
    format!("<figure>{caption}<pre{class} tabindex=\"0\"><code>{}</code></pre></figure>\n", code.trim_end_matches('\n'))
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// GitHub's way from a heading to its id.
fn slug(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .flat_map(char::to_lowercase)
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_named_as_on_github() {
        let body = Body::read("# The page\n\n## One, two `three`\n\n## One, two `three`\n\n### Why `a.b`?\n");
        let ids: Vec<&str> = body.sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(
            (body.title.as_str(), ids.as_slice()),
            ("The page", &["one-two-three", "one-two-three-1", "why-ab"][..])
        );
    }

    #[test]
    fn commands_are_set_apart_from_what_they_print() {
        let html = code_block("console", "$ toolgate tool list \\\n    --json\n<a>\n");
        assert!(html.contains("<b>toolgate tool list \\</b>\n<b>    --json</b>\n&lt;a&gt;</code>"), "{html}");
        let file = code_block("yaml file=greet/TOOL.md", "$ x\n");
        assert!(file.contains("<figcaption>greet/TOOL.md</figcaption>") && !file.contains("prompt"), "{file}");
    }
}
