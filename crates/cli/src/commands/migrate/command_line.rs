//! A command as somebody wrote it for a shell, as the words of a program that needs none. What only a shell can do is
//! refused with its name. Nothing is ever run or looked up here.

/// One program, its arguments and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Below the folder of the file: from `cd FOLDER && …`.
    pub folder: Option<String>,
    /// `NAME=value` before the program.
    pub environment: Vec<(String, String)>,
    /// At least the program.
    pub words: Vec<String>,
}

/// What a shell does itself, with no program behind it.
const OF_THE_SHELL: [&str; 37] = [
    "!", ".", ":", "alias", "bg", "builtin", "case", "cd", "command", "do", "done", "elif", "else", "esac", "eval",
    "exec", "exit", "export", "fg", "fi", "for", "function", "if", "jobs", "popd", "pushd", "read", "return", "select",
    "set", "source", "then", "trap", "ulimit", "umask", "unset", "while",
];

/// The program and its words, or why there is more to it.
pub fn read(text: &str) -> Result<CommandLine, String> {
    let (folder, command) = match commands(text)?.as_slice() {
        [command] => (None, *command),
        [enter, command] => (Some(folder_of(enter)?), *command),
        _ => return Err("`&&` more than once: it is several commands, each of which needs an entry".to_owned()),
    };
    let mut words = split(command)?;
    let assignments = words.iter().take_while(|word| assignment(word).is_some()).count();
    let environment: Vec<_> = words.drain(..assignments).filter_map(|word| assignment(&word)).collect();
    match words.first() {
        None => Err("there is no program in it".to_owned()),
        Some(program) if program.is_empty() => Err("the program's name is empty".to_owned()),
        Some(program) if OF_THE_SHELL.contains(&program.as_str()) => {
            Err(format!("`{program}` is the shell's own and no program"))
        }
        Some(_) => Ok(CommandLine { folder: folder.filter(|folder| folder != "."), environment, words }),
    }
}

fn split(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| "a quote or an escape has no end".to_owned())
}

/// `NAME=value`.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let legal = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_');
    legal.then(|| (name.to_owned(), value.to_owned()))
}

/// The folder of `cd FOLDER`, which must stay below where it begins.
fn folder_of(text: &str) -> Result<String, String> {
    let words = split(text)?;
    let [cd, folder] = words.as_slice() else {
        return Err("`&&` behind something else than `cd FOLDER`: it is two commands".to_owned());
    };
    if cd != "cd" {
        return Err("`&&` behind something else than `cd FOLDER`: it is two commands".to_owned());
    }
    let leaves = folder.starts_with('/') || folder.starts_with('-') || folder.split('/').any(|part| part == "..");
    if leaves || folder.is_empty() {
        return Err(format!("`cd {folder}` leaves the folder of the file"));
    }
    let folder = folder.trim_start_matches("./").trim_end_matches('/');
    Ok(if folder.is_empty() { "." } else { folder }.to_owned())
}

/// The commands between `&&`; anything else that a shell would act on is refused.
fn commands(text: &str) -> Result<Vec<&str>, String> {
    #[derive(PartialEq)]
    enum Quote {
        None,
        Single,
        Double,
    }
    let mut quote = Quote::None;
    let mut parts = Vec::new();
    let (mut start, mut at_word) = (0, true);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        if letter.is_control() && letter != '\t' {
            let what = if letter == '\n' { "a line break: it is several lines" } else { "a control character" };
            return Err(what.to_owned());
        }
        match (&quote, letter) {
            (Quote::Single, '\'') | (Quote::Double, '"') => quote = Quote::None,
            (Quote::None | Quote::Double, '\\') => {
                letters.next_if(|(_, next)| !next.is_control());
            }
            (Quote::None | Quote::Double, '$' | '`') => {
                return Err(format!("`{letter}`: a shell would put something else in its place"));
            }
            (Quote::None, '\'') => quote = Quote::Single,
            (Quote::None, '"') => quote = Quote::Double,
            (Quote::None, '&') if next == Some('&') => {
                parts.push(text.get(start..at).unwrap_or_default());
                letters.next();
                start = at + 2;
            }
            (Quote::None, '&') => return Err("`&`: it runs in the background".to_owned()),
            (Quote::None, '|') if next == Some('|') => return Err("`||`: it is two commands".to_owned()),
            (Quote::None, '|') => return Err("`|`: it is a pipe of several commands".to_owned()),
            (Quote::None, ';') => return Err("`;`: it is several commands".to_owned()),
            (Quote::None, '<' | '>') => return Err(format!("`{letter}`: it redirects input or output")),
            (Quote::None, '(' | ')') => return Err(format!("`{letter}`: it is a group of commands")),
            (Quote::None, '*' | '?' | '[') => return Err(format!("`{letter}`: a shell would look for files")),
            (Quote::None, '{' | '}') => return Err(format!("`{letter}`: a shell would make several words of it")),
            (Quote::None, '~') if at_word => return Err("`~`: a shell would put a home folder in its place".to_owned()),
            (Quote::None, '#') if at_word => return Err("`#`: what follows is a comment to a shell".to_owned()),
            (Quote::None | Quote::Single | Quote::Double, _) => {}
        }
        at_word = quote == Quote::None && matches!(letter, ' ' | '\t' | '&');
    }
    parts.push(text.get(start..).unwrap_or_default());
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, folder: Option<&str>, environment: &[(&str, &str)], words: &[&str]) {
        let expected = CommandLine {
            folder: folder.map(str::to_owned),
            environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        assert_eq!(read(text), Ok(expected), "{text}");
    }

    #[test]
    fn a_command_is_its_words() {
        check("pnpm build", None, &[], &["pnpm", "build"]);
        check("cd apps/forge-lite && pnpm build", Some("apps/forge-lite"), &[], &["pnpm", "build"]);
        check("cd ./apps/ && pnpm build", Some("apps"), &[], &["pnpm", "build"]);
        check("cd . && make", None, &[], &["make"]);
        check(
            "CI=1 NAME='a b' make -j2 \"two words\"",
            None,
            &[("CI", "1"), ("NAME", "a b")],
            &["make", "-j2", "two words"],
        );
        check("cd 'my app' && A=b run x=y", Some("my app"), &[("A", "b")], &["run", "x=y"]);
        check(r"echo a\ b '$HOME' 'x|y' \; \*", None, &[], &["echo", "a b", "$HOME", "x|y", ";", "*"]);
        check("git log --format=%h#1", None, &[], &["git", "log", "--format=%h#1"]);
        check("find . -name 'a*'", None, &[], &["find", ".", "-name", "a*"]);
        check("echo ''", None, &[], &["echo", ""]);
    }

    #[test]
    fn what_needs_a_shell_is_refused_by_name() {
        let cases = [
            ("cat a | wc", "pipe"),
            ("a || b", "two commands"),
            ("a && b", "two commands"),
            ("cd a && b && c", "several"),
            ("a; b", "several"),
            ("a > b", "redirects"),
            ("a 2>&1", "redirects"),
            ("a < b", "redirects"),
            ("a &", "background"),
            ("echo $HOME", "in its place"),
            ("echo \"$(date)\"", "in its place"),
            ("echo `date`", "in its place"),
            ("ls *.rs", "files"),
            ("ls a?", "files"),
            ("ls [ab]", "files"),
            ("echo {a,b}", "several words"),
            ("(a)", "group"),
            ("ls ~/x", "home folder"),
            ("make # all", "comment"),
            ("a\nb", "several lines"),
            ("a\u{7}b", "control"),
            ("export A=b", "shell's own"),
            ("if true", "shell's own"),
            ("cd apps", "shell's own"),
            ("cd /etc && ls", "leaves"),
            ("cd ../x && ls", "leaves"),
            ("cd - && ls", "leaves"),
            ("cd a b && ls", "two commands"),
            ("echo 'a", "no end"),
            ("A=b", "no program"),
            ("", "no program"),
            ("cd a &&", "no program"),
            ("'' a", "empty"),
        ];
        for (text, why) in cases {
            let refused = read(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
