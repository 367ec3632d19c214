//! Security tests 30 and 60 as far as this crate goes: nothing in it reads the environment or connects by another way.
//!
//! That no variable matters cannot be shown by setting one, which would be unsafe beside other threads: it is shown by
//! the sources and by what they are built from.

use std::fs;
use std::path::{Path, PathBuf};

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let found = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    found.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn no_variable_of_the_environment_changes_where_a_request_goes() {
    for (path, text) in sources() {
        for word in ["std::env", "env::var", "HTTP_PROXY", "option_env!", "Proxy::"] {
            assert!(!text.contains(word), "{} says `{word}`", path.display());
        }
    }
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    for word in ["reqwest", "ureq", "client-proxy", "client-legacy"] {
        assert!(!manifest.contains(word), "`{word}` has ideas of its own about proxies");
    }
}

#[test]
fn a_connection_is_made_in_one_place() {
    for (path, text) in sources() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for word in ["TcpStream::connect", "UnixStream", "connect_tokio1", "AsyncSmtpTransport", "lookup_host"] {
            let expected = usize::from(name == "dial.rs" && word == "TcpStream::connect");
            assert_eq!(text.matches(word).count(), expected, "`{word}` in {name}");
        }
    }
}
