//! What a database URL means. A URL may hold a password: nothing here repeats one in a message.

use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::Error;

const FORMS: &str = "use `sqlite:///folder/file.db` or `postgres://user:password@host/database`";

pub(crate) enum Target {
    Sqlite(PathBuf),
    Postgres(Box<Postgres>),
}

#[derive(Debug)]
pub(crate) struct Postgres {
    pub config: Config,
    pub trust: Trust,
    /// `user@host:port/database`, for messages.
    pub shown: String,
}

/// How far the server's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// `sslmode=prefer`, `disable`: whatever the server shows, as in other clients. No protection from an active attacker.
    Unchecked,
    /// `sslmode=require`, `verify-ca`, `verify-full`: the system's authorities, and the host's name.
    System,
    /// The same with `sslrootcert=FILE`: only the authorities in that file.
    File(PathBuf),
}

pub(crate) fn parse(url: &str) -> Result<Target, Error> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        // The rest is a path as it is: no percent-encoding, no parameters.
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path {
            "" | ":memory:" => Err(wrong("the SQLite URL names no file", FORMS)),
            _ => Ok(Target::Sqlite(PathBuf::from(path))),
        };
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return postgres(url).map(|target| Target::Postgres(Box::new(target)));
    }
    // Before `:` there may be anything in a mistyped URL, also a password.
    let scheme =
        url.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| scheme.chars().all(char::is_alphanumeric));
    Err(match scheme {
        Some(scheme) => wrong(format!("`{scheme}://` is not a database that Toolgate knows"), FORMS),
        None => wrong("the database URL has no scheme", FORMS),
    })
}

fn postgres(url: &str) -> Result<Postgres, Error> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let mut mode = SslMode::Prefer;
    let mut verify = false;
    let mut root = None;
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", word)) => {
                (mode, verify) = match word {
                    "disable" => (SslMode::Disable, false),
                    "prefer" | "allow" => (SslMode::Prefer, false),
                    "require" | "verify-ca" | "verify-full" => (SslMode::Require, true),
                    _ => {
                        return Err(wrong(
                            "the URL's `sslmode` is unknown",
                            "use `disable`, `prefer`, `require` or `verify-full`",
                        ));
                    }
                }
            }
            Some(("sslrootcert", path)) => {
                let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
                root = Some(PathBuf::from(path.into_owned()));
            }
            _ => kept.push(pair),
        }
    }
    let rest = if kept.is_empty() { address.to_owned() } else { format!("{address}?{}", kept.join("&")) };
    let mut config = Config::from_str(&rest).map_err(|error| {
        // The cause names an option or says what was expected; it never repeats a value of the URL.
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        wrong(
            format!("the PostgreSQL URL cannot be read: {cause}"),
            "write `postgres://user:password@host/database`; percent-encode special characters",
        )
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(wrong("the PostgreSQL URL names no host", FORMS));
    }
    config.ssl_mode(mode);
    let trust = match (verify, root) {
        (true, Some(file)) => Trust::File(file),
        (true, None) => Trust::System,
        (false, _) => Trust::Unchecked,
    };
    let shown = shown(&config);
    Ok(Postgres { config, trust, shown })
}

fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("(the system's user)");
    let database = config.get_dbname().unwrap_or(user);
    format!("{user}@{host}:{port}/{database}")
}

fn wrong(message: impl Into<String>, remedy: &str) -> Error {
    Error::Open { message: message.into(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn sqlite(url: &str, expected: &str) {
        assert!(matches!(parse(url), Ok(Target::Sqlite(path)) if path.to_str() == Some(expected)), "{url}");
    }

    #[track_caller]
    fn refused(url: &str, says: &str) {
        match parse(url) {
            Err(Error::Open { message, remedy }) => {
                assert!(message.contains(says), "{url}: {message}");
                assert!(!remedy.is_empty());
                assert!(!message.contains("hunter2") && !remedy.contains("hunter2"), "{url}: {message}: {remedy}");
            }
            _ => panic!("{url} was taken"),
        }
    }

    #[test]
    fn a_sqlite_url_is_a_path() {
        sqlite("sqlite:///data/toolgate.db", "/data/toolgate.db");
        sqlite("sqlite://data/toolgate.db", "data/toolgate.db");
        sqlite("sqlite:data.db", "data.db");
        sqlite("sqlite:///a b%20c?d.db", "/a b%20c?d.db");
        refused("sqlite://", "names no file");
        refused("sqlite::memory:", "names no file");
    }

    #[test]
    fn sslmode_says_how_far_the_server_is_trusted() {
        #[track_caller]
        fn check(url: &str, mode: SslMode, trust: &Trust) {
            let Ok(Target::Postgres(target)) = parse(url) else { panic!("{url}") };
            assert_eq!((target.config.get_ssl_mode(), &target.trust), (mode, trust), "{url}");
        }
        check("postgres://a@h/d", SslMode::Prefer, &Trust::Unchecked);
        check("postgresql://a@h/d?sslmode=disable", SslMode::Disable, &Trust::Unchecked);
        check("postgres://a@h/d?sslmode=require", SslMode::Require, &Trust::System);
        check("postgres://a@h/d?application_name=x&sslmode=verify-full", SslMode::Require, &Trust::System);
        check(
            "postgres://a@h/d?sslrootcert=%2Fca.pem&sslmode=verify-ca",
            SslMode::Require,
            &Trust::File("/ca.pem".into()),
        );
    }

    #[test]
    fn a_wrong_url_is_named_without_its_password() {
        refused("mysql://root:hunter2@h/d", "`mysql://`");
        refused("hunter2", "no scheme");
        refused("hunter2@host://", "no scheme");
        refused("", "no scheme");
        refused("postgres://u:hunter2@h:port/d", "cannot be read");
        refused("postgres://u:hunter2@h/d?nonsense=hunter2", "cannot be read");
        refused("postgres://u:hunter2@h/d?sslmode=hunter2", "sslmode");
        refused("postgres:///d", "no host");
        let Ok(Target::Postgres(target)) = parse("postgres://u:hunter2@h:99/d") else { panic!() };
        assert_eq!(target.shown, "u@h:99/d");
    }
}
