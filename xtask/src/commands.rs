//! The commands that documents may name: targets of the Makefile, subcommands of `toolgate`.

/// The targets of a Makefile; `bench-%` stands for every name it matches.
pub struct Targets(Vec<String>);

impl Targets {
    pub fn read(makefile: &str) -> Self {
        let rules = makefile.lines().filter(|line| !line.starts_with(['\t', '#', '.']));
        let names = rules.filter_map(|line| line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')));
        Self(names.flat_map(|(names, _)| names.split_whitespace().map(str::to_owned)).collect())
    }

    /// Checks the words after `make`.
    pub fn check(&self, words: &[&str]) -> Result<(), String> {
        let mut named = words.iter().take_while(|word| !is_placeholder(word)).filter(|word| !is_option(word));
        match named.find(|word| !self.has(word)) {
            None => Ok(()),
            Some(word) => Err(format!("`make {word}` does not exist")),
        }
    }

    fn has(&self, target: &str) -> bool {
        self.0.iter().any(|known| match known.split_once('%') {
            Some((start, end)) => target.len() > start.len() && target.starts_with(start) && target.ends_with(end),
            None => known == target,
        })
    }
}

/// The command paths of the `toolgate` program, such as `tool list`.
pub struct Commands(Vec<Vec<String>>);

impl Commands {
    /// Reads `docs/commands.txt`: one command path on each line. The CLI's own test keeps that file true.
    pub fn read(text: &str) -> Self {
        let lines = text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        Self(lines.filter(|words| !words.is_empty()).collect())
    }

    /// Checks the words after `toolgate`. Flags and arguments are the CLI's business, not ours; `a|b` names two.
    pub fn check(&self, words: &[&str]) -> Result<(), String> {
        let flags = words.iter().take_while(|word| word.starts_with('-')).count();
        let words = &words[flags..];
        // A flag before the subcommand may have taken a value: `--data DIR serve`.
        let words = match words {
            [_, rest @ ..] if flags > 0 && !self.starts(&words[..1]) => rest,
            _ => words,
        };
        match words {
            ["help", rest @ ..] => self.check_path(&[], rest),
            _ => self.check_path(&[], words),
        }
    }

    fn check_path(&self, before: &[&str], words: &[&str]) -> Result<(), String> {
        let is_leaf = self.0.iter().any(|known| known == before);
        let Some((word, rest)) = words.split_first() else { return Ok(()) };
        // After a whole command come its arguments; `tool` alone may also be spoken of as a group.
        if is_placeholder(word) || is_option(word) || (is_leaf && !self.is_group(before)) {
            return Ok(());
        }
        for choice in word.split('|') {
            let path = [before, &[choice]].concat();
            if self.starts(&path) {
                self.check_path(&path, rest)?;
            } else if !is_leaf {
                return Err(format!("`toolgate {}` does not exist", path.join(" ")));
            }
        }
        Ok(())
    }

    fn starts(&self, path: &[&str]) -> bool {
        self.0.iter().any(|known| known.len() >= path.len() && known.iter().zip(path).all(|(a, b)| a == b))
    }

    fn is_group(&self, path: &[&str]) -> bool {
        self.0.iter().any(|known| known.len() > path.len() && known.iter().zip(path).all(|(a, b)| a == b))
    }
}

/// Something the reader puts in: `<name>`, `NAME`, `…`, `$DIR`.
pub fn is_placeholder(word: &str) -> bool {
    let has_mark = word.contains(['<', '>', '{', '}', '[', ']', '*', '…', '$', '"', '\'']) || word.contains("...");
    has_mark || (word.contains(char::is_alphabetic) && !word.contains(|c: char| c.is_lowercase() || c == '.'))
}

/// A flag, or a variable that is set: `-j2`, `ARGS=…`.
fn is_option(word: &str) -> bool {
    word.starts_with('-') || word.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn make_targets_are_known_by_name_or_pattern() {
        let targets = Targets::read("A := b\n.PHONY: no\nrun test: ## x\n\techo a: b\nbench-%: ## y\n");
        let check = |line: &str| targets.check(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(check("run ARGS=--json"), Ok(()));
        assert_eq!(check("test bench-search"), Ok(()));
        assert_eq!(check("<target>"), Ok(()));
        assert_eq!(check("deploy"), Err("`make deploy` does not exist".to_owned()));
        assert_eq!(check("bench-"), Err("`make bench-` does not exist".to_owned()));
        assert_eq!(check("PHONY"), Ok(()), "upper case is a placeholder");
    }

    #[test]
    fn subcommands_are_known_by_their_path() {
        #[track_caller]
        fn check(line: &str, expected: Option<&str>) {
            let commands = Commands::read("serve\nsearch\ntool list\ntool show\ndb migrate\n\n");
            let found = commands.check(&line.split_whitespace().collect::<Vec<_>>()).err();
            assert_eq!(found, expected.map(|path| format!("`toolgate {path}` does not exist")), "{line}");
        }
        check("serve --listen 127.0.0.1:0", None);
        check("search mail send", None);
        check("tool", None);
        check("tool list --json", None);
        check("tool show mail-send@1.0.0", None);
        check("tool list|show", None);
        check("tool <verb>", None);
        check("--version", None);
        check("--json tool list", None);
        check("--data DIR tool list", None);
        check("help tool list", None);
        check("start", Some("start"));
        check("tool add mail", Some("tool add"));
        check("tool list|drop", Some("tool drop"));
        check("--json tool add", Some("tool add"));
        check("help tool add", Some("tool add"));
    }
}
