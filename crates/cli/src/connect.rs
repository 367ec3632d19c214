//! Where a command works: the server that was named, the data folder, or the server that holds the data folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_contracts::{Clock, Rng};
use toolgate_server::config::{CONFIG_BYTES_MAX, default_data_folder};
use toolgate_server::{App, Config, DataFolder, Running, ServeError};

use crate::args::{Global, Said};
use crate::client::{Client, Local, Reached, Remote};
use crate::code::code_tools;
use crate::failure::Failure;
use crate::input;
use crate::log;
use crate::output::{Output, note};

/// How long a command waits for another that has the folder: longer than a server takes to end.
const FOLDER_PATIENCE: Duration = Duration::from_secs(12);
const FOLDER_RETRY: Duration = Duration::from_millis(100);
/// A server on this machine takes a connection at once or not at all.
const KNOCK: Duration = Duration::from_secs(2);
const CONFIG_FILE: &str = "toolgate.yaml";

/// The environment, read once. Only a path may be other than Unicode.
#[derive(Clone, Debug)]
pub struct Environment(Vec<(String, OsString)>);

impl Environment {
    pub fn read() -> Self {
        Self(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect())
    }

    #[cfg(test)]
    pub fn of(values: &[(&str, &str)]) -> Self {
        Self(values.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect())
    }

    pub fn path(&self, name: &str) -> Option<&Path> {
        let (_, value) = self.0.iter().find(|(known, value)| known == name && !value.is_empty())?;
        Some(Path::new(value))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.path(name)?.to_str()
    }

    fn texts(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().filter_map(|(name, value)| Some((name.clone(), value.to_str()?.to_owned())))
    }
}

#[derive(Clone, Debug)]
pub enum Place {
    Server { url: String, key: String },
    Folder(PathBuf),
}

/// What every command is given.
#[derive(Clone)]
pub struct Session {
    pub place: Place,
    /// What was given to act with on a data folder, instead of as its owner.
    pub acting_with: Option<String>,
    /// The data folder as it was given, if it was.
    pub given: Option<PathBuf>,
    pub tenant: Option<String>,
    pub config_file: Option<PathBuf>,
    pub environment: Environment,
    pub output: Output,
}

impl Session {
    pub fn new(global: &Global, said: Said, environment: Environment, output: Output) -> Result<Self, Failure> {
        let place = place(global, said, &environment)?;
        let acting_with = match &place {
            Place::Folder(_) if said.key || global.key_file.is_some() => Some(key(global, said)?),
            Place::Folder(_) | Place::Server { .. } => None,
        };
        let tenant = global.tenant.clone().filter(|tenant| !tenant.is_empty());
        let config_file = global.config.clone().filter(|file| !file.as_os_str().is_empty());
        let given = global.data.clone().filter(|path| !path.as_os_str().is_empty());
        Ok(Self { place, acting_with, given, tenant, config_file, environment, output })
    }

    /// The data folder, for what can only be done there.
    pub fn folder(&self, what: &str) -> Result<&Path, Failure> {
        match &self.place {
            Place::Folder(path) => Ok(path),
            Place::Server { .. } => Err(Failure::usage(
                format!("{what} works on a data folder, not on a server elsewhere"),
                "run it on the server's machine, with --data",
            )),
        }
    }

    /// The folder that commands work on which name none.
    pub fn default_folder(&self) -> Option<PathBuf> {
        default_data_folder(|name| self.environment.get(name).map(str::to_owned))
    }

    pub async fn connect(&self) -> Result<Client, Failure> {
        self.connect_with(self.acting_with.as_deref()).await
    }

    /// With this key or token, where one is given; else as the place is used without.
    pub async fn connect_with(&self, credential: Option<&str>) -> Result<Client, Failure> {
        match &self.place {
            Place::Server { url, key } => {
                let key = credential.unwrap_or(key);
                let remote = Remote::new(url, key, self.tenant.as_deref(), Reached::Named)?;
                if remote.is_exposed() {
                    note(&format!("warning: the key travels unencrypted to {}", remote.url()));
                }
                Ok(Client::Remote(remote))
            }
            Place::Folder(path) => self.open(path, credential).await,
        }
    }

    async fn open(&self, path: &Path, credential: Option<&str>) -> Result<Client, Failure> {
        match take(path).await? {
            Taken::Ours(folder) => {
                let config = self.config(path, &[])?;
                log::of_command(&config)?;
                let app = App::open(config, &folder.path, code_tools(), Clock::System, Rng::System).await?;
                // Where a server on this folder would show its runs.
                app.host.show_at(app.trace_address());
                let local = Local::own(app, *folder, self.tenant.clone());
                Ok(Client::Local(Box::new(local.acting_with(credential)?)))
            }
            Taken::Served(Running { url, key_file, certificates }) => {
                let key = match credential {
                    Some(credential) => credential.to_owned(),
                    None => input::read_key(&key_file)?,
                };
                let reached = Reached::Holding { folder: path.to_owned(), certificates };
                Ok(Client::Remote(Remote::new(&url, &key, self.tenant.as_deref(), reached)?))
            }
        }
    }

    /// The configuration that the data folder, the environment and the flags make.
    pub fn config(&self, data: &Path, flags: &[(&'static str, String)]) -> Result<Config, Failure> {
        let file = match &self.config_file {
            Some(file) => Some(file.clone()),
            None => Some(data.join(CONFIG_FILE)).filter(|file| file.exists()),
        };
        self.config_from(file.as_deref(), flags)
    }

    pub fn config_from(&self, file: Option<&Path>, flags: &[(&'static str, String)]) -> Result<Config, Failure> {
        let bytes = file.map(|file| input::read_file(file, CONFIG_BYTES_MAX)).transpose()?;
        let file = file.zip(bytes.as_deref());
        let fault = |problems| Failure::from(toolgate_contracts::Fault::from(problems));
        Config::load(file, self.environment.texts(), flags).map_err(fault)
    }

    pub async fn take_folder(&self, path: &Path) -> Result<Taken, Failure> {
        take(path).await
    }
}

pub enum Taken {
    Ours(Box<DataFolder>),
    /// A server has it and can be asked instead.
    Served(Running),
}

async fn take(path: &Path) -> Result<Taken, Failure> {
    let deadline = tokio::time::Instant::now() + FOLDER_PATIENCE;
    loop {
        let pid = match DataFolder::take(path) {
            Ok(folder) => return Ok(Taken::Ours(Box::new(folder))),
            Err(ServeError::Fault(fault)) => return Err(fault.into()),
            Err(ServeError::Held { running: Some(running), .. }) if is_listening(&running.url).await => {
                return Ok(Taken::Served(running));
            }
            // Another command, a server that is still starting, or one that is about to end.
            Err(ServeError::Held { pid, .. }) => pid,
        };
        if tokio::time::Instant::now() >= deadline {
            let holder = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            return Err(Failure::unreachable(
                format!("the data folder {} is in use by {holder}, which does not end", path.display()),
                "wait for it, or stop it, then try again",
            ));
        }
        tokio::time::sleep(FOLDER_RETRY).await;
    }
}

pub async fn is_listening(url: &str) -> bool {
    let Some((_, address)) = url.split_once("://") else { return true };
    let knocked = tokio::time::timeout(KNOCK, tokio::net::TcpStream::connect(address)).await;
    !matches!(knocked, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn place(global: &Global, said: Said, environment: &Environment) -> Result<Place, Failure> {
    if said.data && said.server {
        return Err(Failure::usage("--data and --server name two places", "give one of them"));
    }
    let server = global.server.as_deref().filter(|url| !url.is_empty());
    match server {
        Some(url) if !said.data => Ok(Place::Server { url: url.to_owned(), key: key(global, said)? }),
        _ => match global.data.clone().filter(|path| !path.as_os_str().is_empty()) {
            // Others are told this path, whatever folder they work in.
            Some(path) => std::path::absolute(&path).map(Place::Folder).map_err(|error| {
                Failure::usage(
                    format!("{} cannot be a data folder: {error}", path.display()),
                    "name another with --data",
                )
            }),
            None => default_data_folder(|name| environment.get(name).map(str::to_owned)).map(Place::Folder).ok_or_else(
                || {
                    Failure::usage(
                        "there is no home folder to keep data in",
                        "name a data folder with --data or TOOLGATE_DATA",
                    )
                },
            ),
        },
    }
}

/// A flag wins over a file, a file over the environment.
fn key(global: &Global, said: Said) -> Result<String, Failure> {
    let key = global.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
    match (&global.key_file, key) {
        (_, Some(key)) if said.key => Ok(key.to_owned()),
        (Some(file), _) => input::read_key(file),
        (None, Some(key)) => Ok(key.to_owned()),
        (None, None) => Err(Failure::usage(
            "a server needs a key",
            "give it with --key-file or TOOLGATE_KEY; make one on the server's machine with `toolgate key create NAME`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(data: Option<&str>, server: Option<&str>, key: Option<&str>) -> Global {
        Global {
            data: data.map(PathBuf::from),
            server: server.map(str::to_owned),
            key: key.map(str::to_owned),
            key_file: None,
            tenant: None,
            config: None,
            json: false,
        }
    }

    #[test]
    fn a_flag_wins_over_the_environment() {
        let home = Environment(vec![("HOME".into(), "/me".into())]);
        let nothing = Said { data: false, server: false, key: false };
        let shown = |global: Global, said: Said| match place(&global, said, &home) {
            Ok(Place::Server { url, key }) => format!("{url} {key}"),
            Ok(Place::Folder(path)) => path.display().to_string(),
            Err(failure) => format!("{:?}", failure.exit()),
        };
        assert_eq!(shown(global(None, None, None), nothing), "/me/.local/share/toolgate");
        assert_eq!(shown(global(Some("/d"), None, None), nothing), "/d");
        assert!(shown(global(Some("d"), None, None), nothing).starts_with('/'), "others are told the path");
        assert_eq!(shown(global(Some("/d"), Some("http://s"), Some("k")), nothing), "http://s k");
        assert_eq!(shown(global(Some("/d"), Some("http://s"), Some("k")), Said { data: true, ..nothing }), "/d");
        assert_eq!(
            shown(global(Some("/d"), Some("http://s"), Some("k")), Said { server: true, ..nothing }),
            "http://s k"
        );
        assert_eq!(
            shown(global(Some("/d"), Some("http://s"), Some("k")), Said { data: true, server: true, ..nothing }),
            "Usage"
        );
        assert_eq!(shown(global(None, Some("http://s"), None), nothing), "Usage");
        assert_eq!(shown(global(None, Some(""), Some("k")), nothing), "/me/.local/share/toolgate");
    }
}
