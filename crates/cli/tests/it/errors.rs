//! What people read when something is wrong, word by word.

use insta::{allow_duplicates, assert_snapshot};
use serde_json::Value;

use crate::program::{Home, Server, both};

#[test]
fn errors_say_what_where_and_what_to_do() {
    both(|home| {
        let commands: [&[&str]; 8] = [
            &["tool", "show", "mail-send"],
            &["agent", "create", "--name", "Not A Name"],
            &["tool", "override", "set", "calculator", "risk"],
            &["tool", "override", "set", "calculator", "rsik=critical"],
            &["key", "create", "k", "--scope", "No.Such"],
            &["user", "set", "admin"],
            &["agent", "create", "--file", "gone.yaml"],
            &["tool", "show", ".."],
        ];
        let session: Vec<_> =
            commands.iter().map(|words| format!("$ toolgate {}\n{}", words.join(" "), home.fails(words))).collect();
        allow_duplicates! {
            assert_snapshot!(session.join("\n"), @r"
            $ toolgate tool show mail-send
            error: no tool `mail-send`
              hint: list what there is with `toolgate tool list`
            exit 1
            $ toolgate agent create --name Not A Name
            error: `Not A Name` is not a short name: use 1 to 63 lower-case letters, digits and `-`, not beginning with `-`
              at /name
              hint: correct the request and send it again; nothing was changed
            exit 2
            $ toolgate tool override set calculator risk
            error: `risk` is not KEY=VALUE
              hint: write for example risk=critical
            exit 2
            $ toolgate tool override set calculator rsik=critical
            error: unknown field `rsik`, expected one of `name`, `title`, `requires_approval`, `permission_policy`, `risk`, `hitl`, `visibility`, `required_permission`, `timeout_ms`, `max_output_bytes`, `hosts`
              at /rsik
              hint: correct the request and send it again; nothing was changed
            exit 2
            $ toolgate key create k --scope No.Such
            error: `No.Such` is not a permission: write lower-case words joined by dots, as in `tools.read`
              at /scopes
              hint: give permissions, roles or tools:execute
            exit 2
            $ toolgate user set admin
            error: nothing to change
              hint: give --role, --workspace, --disable or --enable
            exit 2
            $ toolgate agent create --file gone.yaml
            error: cannot read gone.yaml: there is no such file
              hint: check the path and its mode
            exit 2
            $ toolgate tool show ..
            error: `..` is not a name
              hint: name what you mean
            exit 2
            ");
        }
    });
}

#[test]
fn a_refused_definition_is_told_line_by_line() {
    both(|home| {
        let text = "---\nname: sendIt\ndescription: Sends it. Use it to send. Do not use it to read.\negress_class: none\n\
                    input_schema: {type: object}\nrunner: {kind: external}\ntitel: Send\n---\n";
        let file = home.write("TOOL.md", text);
        allow_duplicates! {
            assert_snapshot!(home.fails(&["tool", "register", "--file", &file, "--apply"]), @r"
            [home]/TOOL.md:7: error[member.unknown]: `titel` is not a known member (at /titel)
              fix: did you mean `title`?
            error: [home]/TOOL.md is refused; nothing was written
            exit 1
            ");
        }
        home.write("TOOL.md", &text.replace("titel: Send\n", ""));
        let printed = home.fails(&["tool", "register", "--file", &file, "--apply"]);
        assert!(printed.contains("TOOL.md:4: error[floor.class]:"), "{printed}");
        assert!(printed.ends_with("is refused; nothing was written\nexit 1"), "{printed}");
    });
}

#[test]
fn code_that_cannot_be_read_is_told_when_it_is_saved() {
    both(|home| {
        let text = "---\nname: halve\ndescription: Halves. Use it to halve. Do not use it to double.\negress_class: none\n\
                    input_schema: {type: object}\nrunner:\n  kind: python\n  code: |\n    x = 1\n    result = (x / 2\n---\n";
        let file = home.write("TOOL.md", text);
        // What Python says of it is its own, and differs.
        let start = "[home]/TOOL.md:8: error[runner.syntax]: the tool's code is no Python: line 2: SyntaxError: ";
        let printed = home.fails(&["tool", "register", "--file", &file, "--apply"]);
        assert!(printed.starts_with(start), "{printed}");
        assert!(printed.ends_with("is refused; nothing was written\nexit 1"), "{printed}");
        assert_eq!(home.run(&["tool", "show", "halve"]).code, 1, "nothing was saved");
        home.write("TOOL.md", &text.replace("(x / 2", "x / 2"));
        home.ok(&["tool", "register", "--file", &file, "--apply"]);
    });
}

#[test]
fn mistyped_words_are_suggested() {
    let home = Home::new();
    assert_snapshot!(home.fails(&["tol", "list"]), @r"
    error: unrecognized subcommand 'tol'

      tip: a similar subcommand exists: 'tool'

    Usage: toolgate [OPTIONS] <COMMAND>

    For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(home.fails(&["tool", "list", "--risk", "crit"]), @r"
    error: invalid value 'crit' for '--risk <RISK>'
      [possible values: safe, sensitive, critical]

      tip: a similar value exists: 'critical'

    For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(home.fails(&["tool", "list", "--assignments", "--profiles"]), @r"
    error: the argument '--assignments' cannot be used with '--profiles'

    Usage: toolgate tool list --assignments --data <DIR>

    For more information, try '--help'.
    exit 2
    ");
}

#[test]
fn whoever_leaves_an_id_out_is_told_where_to_find_it() {
    #[track_caller]
    fn check(home: &Home, arguments: &[&str], list: Option<&str>) {
        let printed = home.fails(arguments);
        let told = printed.lines().find_map(|line| line.strip_prefix("  hint: see what there is with "));
        assert_eq!(told, list.map(|list| format!("`toolgate {list}`")).as_deref(), "{arguments:?}: {printed}");
    }
    let home = Home::new();
    check(&home, &["calls", "show"], Some("calls list"));
    check(&home, &["approvals", "approve"], Some("approvals"));
    check(&home, &["grant", "revoke"], Some("grant list"));
    check(&home, &["tool", "reject", "--reason", "no"], Some("approvals"));
    check(&home, &["agent", "create", "--name"], None);
    check(&home, &["secret", "set"], None);
    check(&home, &["call"], None);
    let problem: Value = serde_json::from_str(&home.run(&["grant", "revoke", "--json"]).stdout).unwrap();
    assert_eq!(problem["detail"], "the following required arguments were not provided: <ID>", "{problem}");
    assert_eq!(problem["remedy"], "see what there is with `toolgate grant list`", "{problem}");
}

#[test]
fn a_list_goes_on_where_it_ended_also_behind_a_time_that_moves() {
    both(|home| {
        for text in ["one", "two", "three"] {
            home.ok(&["call", "echo", &format!("text={text}")]);
        }
        let ran = home.run(&["calls", "list", "--since", "1h", "--limit", "2"]);
        let told = ran.stderr.split_once("go on with ").expect(&ran.stderr).1;
        let rest: Vec<&str> = ["calls", "list"].into_iter().chain(told.split_whitespace()).collect();
        assert_eq!(home.json(&rest)["items"].as_array().unwrap().len(), 1, "{rest:?}");
        // One of sixty-four begins with a dash.
        let dashed = home.run(&["calls", "list", "--cursor", "-x"]).stderr;
        assert!(!dashed.contains("unexpected argument"), "{dashed}");
    });
}

#[test]
fn with_json_an_error_is_one_object_on_standard_output_and_the_same_words_on_standard_error() {
    both(|home| {
        let cases: [(&[&str], i32, u64); 4] = [
            (&["tool", "show", "mail-send", "--json"], 1, 404),
            (&["agent", "create", "--name", "Not A Name", "--json"], 2, 400),
            (&["tool", "lst", "--json"], 2, 400),
            (&["user", "set", "admin", "--json"], 2, 400),
        ];
        for (arguments, code, status) in cases {
            let ran = home.run(arguments);
            assert_eq!(ran.code, code, "{arguments:?}");
            let problem: Value = serde_json::from_str(&ran.stdout)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error} in {}", ran.stdout));
            assert_eq!(problem["status"], status, "{problem}");
            assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        }
    });
}

#[test]
fn a_server_that_is_not_there_or_does_not_know_us() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let at = |url: &str, more: &[&str]| {
        let arguments: Vec<_> = ["--server", url].iter().chain(more).copied().collect();
        let ran = crate::program::finish(home.bare(&arguments).spawn().unwrap());
        format!("{}exit {}", home.redact(&ran.stderr), ran.code)
    };
    assert_snapshot!(at("http://127.0.0.1:1", &["--key", "tg_x", "whoami"]), @r"
    error: cannot reach http://127.0.0.1:1: Connection refused (os error 111)
      hint: start a server there with `toolgate serve --listen 127.0.0.1:1`, or leave --server out to work on a data folder
    exit 4
    ");
    assert_snapshot!(at("127.0.0.1:8787", &["--key", "tg_x", "whoami"]), @r"
    error: `[address]` is not a server's address: it begins with neither https:// nor http://
      hint: write it as https://tools.example.com or http://[address]
    exit 2
    ");
    assert_snapshot!(at(&server.url, &["whoami"]), @r"
    error: a server needs a key
      hint: give it with --key-file or TOOLGATE_KEY; make one on the server's machine with `toolgate key create NAME`
    exit 2
    ");
    assert_snapshot!(at(&server.url, &["--key", "tg_x", "whoami"]), @r"
    error: the key is unknown, revoked or expired
      hint: send `Authorization: Bearer KEY` (make a key with `toolgate key create`), or sign in with a link from `toolgate user sign-in-link`
    exit 5
    ");
    assert_snapshot!(at(&server.url, &["--key-file", "gone", "whoami"]), @r"
    error: cannot read gone: there is no such file
      hint: check the path and its mode
    exit 2
    ");
    assert_snapshot!(at(&server.url, &["--data", "d", "--key", "k", "whoami"]), @r"
    error: --data and --server name two places
      hint: give one of them
    exit 2
    ");
    assert_snapshot!(at(&server.url, &["--key", "k", "serve"]), @r"
    error: serving works on a data folder, not on a server elsewhere
      hint: run it on the server's machine, with --data
    exit 2
    ");
    // A page that is no API of ours.
    let key = server.key_file.display().to_string();
    assert_snapshot!(at(&format!("{}/mark.svg", server.url), &["--key-file", &key, "whoami"]), @r"
    error: the answer (status 404) does not come from Toolgate
      hint: check the address: it must be a Toolgate server's, without a path
    exit 4
    ");

    // A key that may not.
    let secret = home.ok(&["key", "create", "small", "--scope", "agents.read"]);
    assert_snapshot!(at(&server.url, &["--key", secret.trim(), "tool", "list"]), @r"
    error: this needs the permission `tools.read`, which this key does not have
      hint: ask an administrator for a role that has it, or use a key with that scope
    exit 5
    ");
    assert_snapshot!(at(&server.url, &["--key", secret.trim(), "--tenant", "acme", "agent", "list"]), @r"
    error: no tenant `acme`
      hint: list what there is with `toolgate tenant list`
    exit 1
    ");
}

#[test]
fn a_wrong_configuration_is_told_with_every_problem() {
    let mut home = Home::new();
    home.write("data/toolgate.yaml", "listne: 127.0.0.1:1\ndurability: fast\n");
    assert_snapshot!(home.fails(&["tool", "list"]), @r"
    error: [home]/data/toolgate.yaml: unknown key `listne`; did you mean `listen`?
           [home]/data/toolgate.yaml: `durability`: `fast` is not one of auto, power
      hint: correct the configuration; `toolgate config check` tests it
    exit 2
    ");
    assert_snapshot!(home.fails(&["config", "check"]), @r"
    error: [home]/data/toolgate.yaml: unknown key `listne`; did you mean `listen`?
           [home]/data/toolgate.yaml: `durability`: `fast` is not one of auto, power
      hint: correct the configuration; `toolgate config check` tests it
    exit 2
    ");
    let other = home.write("other.yaml", "log: [");
    let printed = home.fails(&["config", "check", "--file", &other]);
    assert!(printed.contains("other.yaml: not valid YAML") && printed.ends_with("exit 2"), "{printed}");
    assert!(home.fails(&["config", "check", "--file", "gone.yaml"]).ends_with("exit 2"));

    std::fs::remove_file(home.path().join("data/toolgate.yaml")).unwrap();
    home.set("TOOLGATE_DATABSE", "postgres://x");
    assert_snapshot!(home.fails(&["tool", "list"]), @r"
    error: environment variable TOOLGATE_DATABSE: unknown key `databse`; did you mean `database`?
      hint: correct the configuration; `toolgate config check` tests it
    exit 2
    ");
}

#[test]
fn a_wrong_database_url_is_told_without_its_password() {
    let mut home = Home::new();
    home.set("TOOLGATE_DATABASE", "postgres://me:hunter2@127.0.0.1:1/toolgate");
    let printed = home.fails(&["tool", "list"]);
    assert_snapshot!(printed, @r"
    error: PostgreSQL at me@127.0.0.1:1/toolgate cannot be reached: error connecting to server: Connection refused (os error 111)
      hint: check that it runs, and the host and port in the URL
    exit 4
    ");
    assert!(home.fails(&["serve", "--listen", "127.0.0.1:0"]).ends_with("exit 4"));

    let doctor = home.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, 1);
    let checks: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let bad: Vec<_> = checks["checks"].as_array().unwrap().iter().filter(|check| check["ok"] == false).collect();
    assert!(bad.len() == 1 && bad[0]["remedy"].is_string(), "{checks}");
    assert!(!doctor.stdout.contains("hunter2") && !doctor.stderr.contains("hunter2"));

    home.set("TOOLGATE_DATABASE", "mysql://me:hunter2@127.0.0.1/x");
    assert_snapshot!(home.fails(&["tool", "list"]), @r"
    error: environment variable TOOLGATE_DATABASE: `database`: `mysql://me:***@127.0.0.1/x` is neither postgres://… nor sqlite://…
      hint: correct the configuration; `toolgate config check` tests it
    exit 2
    ");
}
