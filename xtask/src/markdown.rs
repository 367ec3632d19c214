//! Just enough Markdown to find what a reader would type or follow: code spans, shell lines, links.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The text between backticks.
    Span(String),
    /// A command line of a fenced block, without its prompt.
    Shell(String),
    /// Where a link or an image points.
    Link(String),
}

/// What stands in a document, each with its line number.
pub fn pieces(text: &str) -> Vec<(usize, Piece)> {
    let mut pieces = Vec::new();
    let mut fence: Option<Fence> = None;
    for (index, line) in text.lines().enumerate() {
        let mut add = |piece| pieces.push((index + 1, piece));
        match &mut fence {
            Some(open) if open.is_closed_by(line) => fence = None,
            Some(open) => open.command(line).into_iter().for_each(|command| add(Piece::Shell(command))),
            None => match Fence::opened_by(line) {
                Some(open) => fence = Some(open),
                None => inline(line, &mut add),
            },
        }
    }
    pieces
}

struct Fence {
    mark: char,
    length: usize,
    prompt: Prompt,
    /// The start of a command that goes on after a `\`.
    unfinished: String,
}

enum Prompt {
    /// Every line is a command.
    None,
    /// Only lines after `$ ` are; the rest is what they print.
    Dollar,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|c| *c == mark).count();
        let info = line[length..].trim();
        if length < 3 || info.contains('`') {
            return None;
        }
        let prompt = match info {
            "sh" | "bash" | "shell" => Prompt::None,
            _ => Prompt::Dollar,
        };
        Some(Self { mark, length, prompt, unfinished: String::new() })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }

    fn command(&mut self, line: &str) -> Option<String> {
        let line = line.trim();
        let part = match (&self.prompt, line.strip_prefix("$ ")) {
            (_, Some(command)) => command,
            (Prompt::Dollar, None) if self.unfinished.is_empty() => return None,
            _ => line,
        };
        self.unfinished.push_str(part);
        if let Some(start) = self.unfinished.strip_suffix('\\') {
            self.unfinished = start.to_owned();
            return None;
        }
        Some(std::mem::take(&mut self.unfinished)).filter(|command| !command.is_empty() && !command.starts_with('#'))
    }
}

/// Spans first; links are looked for in what is left.
fn inline(line: &str, add: &mut impl FnMut(Piece)) {
    let mut prose = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let length = rest[start..].chars().take_while(|c| *c == '`').count();
        let inside = &rest[start + length..];
        prose.push_str(&rest[..start]);
        if let Some(end) = end_of_span(inside, length) {
            add(Piece::Span(inside[..end].trim().to_owned()));
            rest = &inside[end + length..];
        } else {
            rest = inside;
        }
    }
    prose.push_str(rest);

    for (start, _) in prose.match_indices("](") {
        let target = &prose[start + 2..];
        // A target may be followed by a title: `](a.md "A")`.
        let end = target.find([')', ' ']).unwrap_or(target.len());
        add(Piece::Link(target[..end].trim_matches(['<', '>']).to_owned()));
    }
    if let Some((label, target)) = prose.trim_start().split_once("]: ")
        && label.starts_with('[')
        && !label.starts_with("[^")
    {
        add(Piece::Link(target.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']).to_owned()));
    }
}

/// Where a run of exactly `length` backticks starts.
fn end_of_span(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = text[at..].find('`') {
        let run = text[at + start..].chars().take_while(|c| *c == '`').count();
        if run == length {
            return Some(at + start);
        }
        at += start + run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, Piece)]) {
        assert_eq!(pieces(text), expected, "{text}");
    }
    fn span(text: &str) -> Piece {
        Piece::Span(text.to_owned())
    }
    fn shell(text: &str) -> Piece {
        Piece::Shell(text.to_owned())
    }
    fn link(text: &str) -> Piece {
        Piece::Link(text.to_owned())
    }

    #[test]
    fn spans_and_links_are_told_apart() {
        check("run `make test` or ``a `b` c``", &[(1, span("make test")), (1, span("a `b` c"))]);
        check("one ` alone, then [a](b.md#c \"T\")", &[(1, link("b.md#c"))]);
        check(
            "`[not](a-link)` but [`code`](docs/x.md)",
            &[(1, span("[not](a-link)")), (1, span("code")), (1, link("docs/x.md"))],
        );
        check("\n[ref]: <x.md>\n[^1]: a note", &[(2, link("x.md"))]);
    }

    #[test]
    fn fences_hold_commands() {
        check(
            "```sh\n# why\nmake run\n\nmake \\\n  test\n```\n`x`",
            &[(3, shell("make run")), (6, shell("make test")), (8, span("x"))],
        );
        check("```console\n$ toolgate tool list\nNAME  `make x`\n```", &[(2, shell("toolgate tool list"))]);
        check("```\nplain `make x`\n$ make y\n```", &[(3, shell("make y"))]);
        check("~~~~rust\n```\nlet x = `y`;\n~~~~\n`z`", &[(5, span("z"))]);
        check("```inline``` `b`", &[(1, span("inline")), (1, span("b"))]);
    }
}
