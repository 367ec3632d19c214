//! The data folder: who may use it, and when.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use toolgate_store::lock::DataLock;

use crate::program::{Home, Server, finish};

#[test]
fn it_is_made_private_with_everything_in_it() {
    let home = Home::new();
    home.ok(&["init"]);
    let mode = |name: &str| std::fs::metadata(home.data().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("toolgate.db"), mode("lock")), (0o700, 0o600, 0o600));
}

#[test]
fn one_that_cannot_be_made_is_told() {
    let home = Home::new();
    home.write("file", "");
    let at = |path: &str| {
        let ran = finish(home.bare(&["--data", path, "tool", "list"]).spawn().unwrap());
        format!("{}exit {}", home.redact(&ran.stderr), ran.code)
    };
    assert_snapshot!(at("file/data"), @r"
    error: the data folder [home]/file/data cannot be used: Not a directory (os error 20)
      hint: check its path, owner and mode, or choose another with --data
    exit 4
    ");
    assert_snapshot!(at("file"), @r"
    error: the data folder [home]/file cannot be used: File exists (os error 17)
      hint: check its path, owner and mode, or choose another with --data
    exit 4
    ");
    let doctor = finish(home.bare(&["--data", "file/data", "doctor"]).spawn().unwrap());
    assert_eq!(doctor.code, 1, "{}", doctor.stderr);
    assert!(doctor.stdout.contains("hint: "), "{}", doctor.stdout);
}

#[test]
fn one_that_cannot_be_written_is_told() {
    let home = Home::new();
    home.ok(&["init"]);
    let close = |mode| std::fs::set_permissions(home.data(), std::fs::Permissions::from_mode(mode)).unwrap();
    close(0o500);
    std::fs::set_permissions(home.data().join("toolgate.db"), std::fs::Permissions::from_mode(0o400)).unwrap();
    let ran = home.run(&["agent", "create", "--name", "a"]);
    close(0o700);
    if rustix::process::getuid().is_root() {
        eprintln!("root may write everywhere: only tried");
        return;
    }
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot be written") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn a_second_server_is_sent_to_the_first() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let second = finish(Server::command(&home, &[]).spawn().unwrap());
    assert_eq!((second.code, second.stdout.as_str()), (1, ""));
    assert!(second.stderr.contains(&server.url), "{}", second.stderr);
    assert_snapshot!(home.redact(&second.stderr), @r"
    error: a server is using [home]/data already: http://[address]
      hint: use that one, stop it first, or choose another folder with --data
    ");
}

#[test]
fn a_command_talks_to_the_server_that_holds_it() {
    let home = Home::new();
    assert!(!home.is_served());
    let server = Server::start(&home, &[]);
    assert!(home.is_served());
    home.ok(&["agent", "create", "--name", "made-by-the-server"]);
    assert!(
        home.json(&["whoami"])["principal"].as_str().unwrap().starts_with("local:"),
        "the owner of the folder, either way"
    );
    let place = home.ok(&["doctor"]);
    assert!(place.contains("which holds"), "{place}");
    let file = home.path().join("copy.db").display().to_string();
    home.ok(&["db", "backup", &file]);
    assert!(home.fails(&["db", "backup", &file]).ends_with("exit 1"));
    let refused = home.fails(&["db", "restore", &file]);
    assert!(refused.contains("a server is using") && refused.ends_with("exit 1"), "{refused}");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().0.success());
    assert!(!home.is_served());
    assert_eq!(home.json(&["agent", "list"])["items"][0]["name"], "made-by-the-server");
    home.ok(&["db", "restore", &file]);
}

#[test]
fn commands_at_once_wait_for_each_other() {
    let home = Home::new();
    home.ok(&["init"]);
    let names: Vec<String> = (0..6).map(|n| format!("agent-{n}")).collect();
    let children: Vec<_> =
        names.iter().map(|name| home.command(&["agent", "create", "--name", name]).spawn().unwrap()).collect();
    for child in children {
        let ran = finish(child);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert_eq!(home.json(&["agent", "list"])["items"].as_array().unwrap().len(), names.len());
}

#[test]
fn a_holder_that_does_not_end_is_named() {
    let home = Home::new();
    home.ok(&["init"]);
    let _lock = DataLock::acquire(&home.data()).unwrap();
    assert_snapshot!(home.fails(&["tool", "list"]), @r"
    error: the data folder [home]/data is in use by process [pid], which does not end
      hint: wait for it, or stop it, then try again
    exit 4
    ");
}

#[test]
fn what_is_said_wins_over_the_environment() {
    let mut home = Home::new();
    home.set("TOOLGATE_SERVER", "http://127.0.0.1:1");
    home.set("TOOLGATE_KEY", "tg_x");
    assert!(!home.is_served());
    let ran = finish(home.bare(&["whoami"]).spawn().unwrap());
    assert_eq!(ran.code, 4, "{}", ran.stderr);

    let mut home = Home::new();
    let elsewhere = home.path().join("elsewhere").display().to_string();
    home.set("TOOLGATE_DATA", &elsewhere);
    let ran = finish(home.bare(&["init", "--json"]).spawn().unwrap());
    assert!(ran.stdout.contains(&elsewhere), "{}", ran.stdout);
    let home = Home::new();
    let ran = finish(home.bare(&["init", "--json"]).spawn().unwrap());
    assert!(ran.stdout.contains(".local/share/toolgate"), "{}", ran.stdout);
}
