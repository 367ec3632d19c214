//! A document as what it asks a reader to do.

pub struct Script {
    pub steps: Vec<Step>,
}

pub enum Step {
    File { line: usize, path: String, text: String },
    Command(Command),
    Server(Command),
    Worker(Command),
}

pub struct Command {
    pub line: usize,
    pub text: String,
    /// Empty: whatever it prints.
    pub shown: Vec<String>,
    pub exit: i32,
}

impl Step {
    pub fn line(&self) -> usize {
        match self {
            Self::File { line, .. } => *line,
            Self::Command(command) | Self::Server(command) | Self::Worker(command) => command.line,
        }
    }
}

impl Script {
    pub fn read(document: &str, text: &str) -> Self {
        let mut steps = Vec::new();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        while let Some((number, line)) = lines.next() {
            let fence: String = line.chars().take_while(|c| *c == '`').collect();
            if fence.len() < 3 {
                continue;
            }
            let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != fence).collect();
            let info: Vec<&str> = line[fence.len()..].split_whitespace().collect();
            if let Some(path) = info.iter().find_map(|word| word.strip_prefix("file=")) {
                let text: String = block.iter().flat_map(|(_, line)| [*line, "\n"]).collect();
                steps.push(Step::File { line: number, path: path.to_owned(), text });
            }
            match info.as_slice() {
                ["console"] => steps.extend(commands(document, &block).into_iter().map(Step::Command)),
                ["console", "server"] => steps.extend(commands(document, &block).into_iter().map(Step::Server)),
                ["console", "worker"] => steps.extend(commands(document, &block).into_iter().map(Step::Worker)),
                ["console", ..] => panic!("{document}:{number}: a `console` block of an unknown kind"),
                _ => {}
            }
        }
        Self { steps }
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::File { .. }))
    }

    pub fn uses(&self, program: &str) -> bool {
        let names = |command: &Command| command.text.split_whitespace().any(|word| word == program);
        self.steps.iter().any(|step| matches!(step, Step::Command(command) | Step::Worker(command) if names(command)))
    }
}

fn commands(document: &str, block: &[(usize, &str)]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut goes_on = false;
    for (line, text) in block {
        match (text.strip_prefix("$ "), commands.last_mut()) {
            (Some(typed), _) => {
                commands.push(Command { line: *line, text: typed.to_owned(), shown: Vec::new(), exit: 0 });
            }
            (None, Some(command)) if goes_on => {
                command.text.push('\n');
                command.text.push_str(text);
            }
            (None, Some(command)) => {
                command.shown.push((*text).to_owned());
                continue;
            }
            (None, None) => panic!("{document}:{line}: a `console` block begins with `$ `"),
        }
        goes_on = text.ends_with('\\');
    }
    for command in &mut commands {
        if let Some((_, code)) = command.text.rsplit_once("# exit ") {
            command.exit =
                code.trim().parse().unwrap_or_else(|_| panic!("{document}:{}: `# exit` needs a number", command.line));
        }
    }
    commands
}

#[test]
fn a_document_is_read_as_files_and_commands() {
    let script = Script::read(
        "x",
        "# T\n```yaml file=a/TOOL.md\nname: a\n```\n\n```console\n$ one \\\n  more  # exit 2\nsaid\n$ two\n```\n```sh\nnot run\n```\n",
    );
    let [Step::File { path, text, .. }, Step::Command(one), Step::Command(two)] = script.steps.as_slice() else {
        panic!()
    };
    assert_eq!((path.as_str(), text.as_str()), ("a/TOOL.md", "name: a\n"));
    assert_eq!(
        (one.text.as_str(), one.exit, one.shown.as_slice()),
        ("one \\\n  more  # exit 2", 2, &["said".to_owned()][..])
    );
    assert_eq!((two.line, two.exit, two.shown.len()), (10, 0, 0));
}
