//! `toolgate serve`: how it says that it is ready, and how it ends.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::program::{Home, Server, finish, root};

#[test]
fn it_prints_one_line_and_ends_on_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = Home::new();
        let server = Server::start(&home, &[]);
        let members: Vec<_> = server.ready.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["url", "sign_in_url", "key_file"]);
        assert!(server.ready["sign_in_url"].as_str().unwrap().starts_with(&format!("{}/#sign-in=", server.url)));
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&server.key_file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        server.signal(signal);
        let (status, rest) = server.wait();
        assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
    }
}

#[test]
fn an_open_connection_does_not_hold_it_up_for_ever() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut connection = std::net::TcpStream::connect(&address).unwrap();
    // Half a request, which never ends.
    std::io::Write::write_all(
        &mut connection,
        b"POST /api/v1/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    server.signal(Signal::TERM);
    while std::net::TcpStream::connect(&address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Whoever wants the folder meanwhile waits until it is free, and does not knock at a closed door.
    assert!(!home.is_served());
    assert_eq!(server.wait().0.code(), Some(0));
    drop(connection);
}

#[test]
fn after_a_kill_the_folder_is_free_and_nothing_is_lost() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    home.ok(&["agent", "create", "--name", "survivor"]);
    server.kill();
    assert_eq!(home.json(&["agent", "list"])["items"][0]["name"], "survivor");
    assert!(!home.is_served());
    let again = Server::start(&home, &[]);
    assert!(home.is_served());
    drop(again);
}

#[test]
fn people_are_told_the_address_the_link_the_key_and_how_to_stop() {
    let home = Home::new();
    let mut child = home.bare(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            let last = line.contains("Stop");
            let _ = send.send(line);
            if last {
                return;
            }
        }
    });
    let mut shown = String::new();
    while let Ok(line) = receive.recv_timeout(Duration::from_mins(1)) {
        shown.push_str(&line);
        shown.push('\n');
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shown.contains("Commands  toolgate --data data tool list\n"), "{shown}");
    for word in ["is ready", "Address", "http://127.0.0.1:", "#sign-in=", "admin.key", "Ctrl-C"] {
        assert!(shown.contains(word), "{word} is not in {shown}");
    }
    assert!(shown.contains(&home.data().display().to_string()), "a relative folder is shown in full: {shown}");
}

#[test]
fn examples_are_registered_once() {
    let home = Home::new();
    copy(&root().join("examples/tools"), &home.path().join("examples/tools"));
    let count = home.path().join("examples/tools").read_dir().unwrap().count();
    for _ in 0..2 {
        let server = Server::start(&home, &["--examples"]);
        let tools = home.json(&["tool", "list", "--origin", "tenant"]);
        assert_eq!(tools["items"].as_array().unwrap().len(), count, "{tools}");
        assert!(tools["items"].as_array().unwrap().iter().all(|tool| tool["version"] == "1.0.0"), "{tools}");
        drop(server);
    }
    // Somewhere else there are none, and that is no reason not to serve.
    let empty = Home::new();
    let server = Server::start(&empty, &["--examples"]);
    assert_eq!(empty.json(&["tool", "list", "--origin", "tenant"])["items"], json!([]));
    drop(server);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_taken_address_is_told() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = finish(home.bare(&["serve", "--json", "--data", "data", "--listen", &address]).spawn().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""));
    assert!(ran.stderr.contains(&address) && ran.stderr.contains("--listen"), "{}", ran.stderr);
    let ran = finish(home.bare(&["serve", "--data", "data", "--listen", "here"]).spawn().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let ran = finish(
        home.bare(&["serve", "--data", "data", "--listen", "127.0.0.1:0"])
            .env("TOOLGATE_LOG", "toolgate=loud")
            .spawn()
            .unwrap(),
    );
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}

#[test]
fn the_log_goes_to_standard_error_in_the_format_asked_for() {
    let home = Home::new();
    let mut command = Server::command(&home, &[]);
    command.env("TOOLGATE_LOG", "debug").env("TOOLGATE_LOG_FORMAT", "json");
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let mut log = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut log).unwrap();
    assert!(child.wait().unwrap().success());
    let entries: Vec<_> = log
        .lines()
        .filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|entry| entry["level"].is_string()))
        .collect();
    assert!(!entries.is_empty(), "{log}");
}

#[test]
fn a_command_on_the_folder_of_an_https_server_trusts_its_certificate_alone() {
    let mut home = Home::new();
    let made = rcgen::generate_simple_self_signed(["tools.example.com".to_owned()]).unwrap();
    let key = home.write("data/tls/server.key", &made.signing_key.serialize_pem());
    home.write("data/tls/server.pem", &made.cert.pem());
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    home.set("TOOLGATE_TLS_CERT", "tls/server.pem");
    home.set("TOOLGATE_TLS_KEY", "tls/server.key");
    let server = Server::start(&home, &[]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    assert!(server.ready["sign_in_url"].as_str().unwrap().starts_with(&format!("{}/#sign-in=", server.url)));
    assert!(home.is_served());
    assert_eq!(home.json(&["whoami"])["signed_in_by"], "local");
    let checks = home.json(&["doctor"]);
    let certificate = checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "certificate").unwrap();
    assert_eq!(certificate["ok"], true, "{certificate}");

    // Named by its address it is one server among all, and no authority vouches for it.
    let key_file = server.key_file.display().to_string();
    let ran = finish(home.bare(&["whoami", "--server", &server.url, "--key-file", &key_file]).spawn().unwrap());
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let lock = home.data().join("lock");
    let published = std::fs::read_to_string(&lock).unwrap();
    assert!(published.contains("\"certificates\":[\""), "{published}");
    drop(server);

    home.set("TOOLGATE_TLS_KEY", "tls/server.pem");
    let ran = finish(Server::command(&home, &[]).spawn().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("`tls_key`") && ran.stderr.contains("no private key"), "{}", ran.stderr);
}
