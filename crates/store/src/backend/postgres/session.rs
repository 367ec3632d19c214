//! A connection from its first byte to the moment it may serve: who it is, what it may do, and for how long.

use std::collections::BTreeSet;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;
use tokio_postgres_rustls::MakeRustlsConnect;
use toolgate_contracts::TenantId;

use super::{CONNECT_TIMEOUT, errors, tls};
use crate::change::Durability;
use crate::error::Error;
use crate::scope::Scope;
use crate::url;

/// The role that serves: row policies bind it. The migrations create it.
const ROLE: &str = "toolgate_app";
const VERSION_MIN: i32 = 140_000;
/// An address that does not answer is given up after this; a name may have several.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that vanished without a word is noticed after this.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct Connector {
    pub config: Config,
    pub tls: MakeRustlsConnect,
    shown: String,
}

impl Connector {
    pub fn new(target: url::Postgres) -> Result<Self, Error> {
        let url::Postgres { mut config, trust, shown } = target;
        config
            .application_name("toolgate")
            .connect_timeout(SOCKET_TIMEOUT)
            .keepalives_idle(SILENCE)
            .tcp_user_timeout(SILENCE);
        Ok(Self { config, tls: tls::connector(&trust)?, shown })
    }

    /// A connection as the user of the URL: the owner of the tables.
    pub async fn connect(&self) -> Result<ClientWrapper, Error> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.config.connect(self.tls.clone())).await;
        let (client, connection) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(self.explain(&error)),
            Err(_) => return Err(self.open("does not answer", REACH)),
        };
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(error = errors::whole(&error), "a connection to PostgreSQL ended");
            }
        });
        Ok(ClientWrapper::new(client, task))
    }

    /// A connection that may serve.
    pub async fn serve(&self) -> Result<ClientWrapper, Error> {
        let client = self.connect().await?;
        begin(&client).await?;
        Ok(client)
    }

    /// Whether this server can serve at all. Before the first migration nothing is said of the role, which it makes.
    pub async fn check(&self) -> Result<(), Error> {
        let client = self.connect().await?;
        let asked = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
            current_setting('fsync'), to_regclass('migrations') IS NOT NULL";
        let row = within(client.query_one(asked, &[])).await?;
        let (version, encoding, fsync, migrated): (i32, String, String, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if version < VERSION_MIN {
            return Err(self.open("is too old", "use PostgreSQL 14 or newer"));
        }
        if encoding != "UTF8" {
            return Err(self.open("does not store UTF-8", "create the database with `ENCODING 'UTF8'`"));
        }
        if fsync == "off" {
            tracing::warn!("PostgreSQL runs with fsync = off: what it confirms may not survive a power failure");
        }
        if migrated { begin(&client).await } else { Ok(()) }
    }

    fn open(&self, what: &str, remedy: &str) -> Error {
        Error::Open { message: format!("PostgreSQL at {} {what}", self.shown), remedy: remedy.to_owned() }
    }

    fn explain(&self, error: &tokio_postgres::Error) -> Error {
        let Some(database) = error.as_db_error() else {
            let whole = errors::whole(error);
            return match whole {
                _ if whole.starts_with("error performing TLS") => self.open(
                    &format!("cannot be trusted: {whole}"),
                    "check the server's certificate and the URL's `sslmode` and `sslrootcert`",
                ),
                _ if whole.starts_with("invalid configuration") => {
                    self.open(&format!("needs more than the URL says: {whole}"), "give user and password in the URL")
                }
                _ => self.open(&format!("cannot be reached: {whole}"), REACH),
            };
        };
        let said = errors::said(database);
        match database.code() {
            code if *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                self.open(
                    &format!("refuses the user or the password: {said}"),
                    "check user and password in the URL, and the server's pg_hba.conf",
                )
            }
            code if *code == SqlState::INVALID_CATALOG_NAME => self.open(
                &format!("has no such database: {said}"),
                "create it with `createdb`, or name another in the URL",
            ),
            code if *code == SqlState::TOO_MANY_CONNECTIONS => self.open(
                &format!("has no connection left: {said}"),
                "raise `max_connections`, or lower the size of our pool",
            ),
            _ => self.open(&format!("refuses the connection: {said}"), "see the server's log"),
        }
    }
}

const REACH: &str = "check that it runs, and the host and port in the URL";

/// Everything before the first row: limits, and the role. A connection that could see past row policies is refused.
pub(super) async fn begin(client: &ClientWrapper) -> Result<(), Error> {
    let limits =
        "SET statement_timeout = '25s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '60s';
        SET client_min_messages = warning;
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
    within(client.batch_execute(limits)).await?;
    let become_role = "SELECT set_config('role', rolname, false) FROM pg_roles WHERE rolname = $1";
    within(client.query(become_role, &[&ROLE])).await.map_err(|error| match error {
        Error::Corrupt(said) => Error::Open {
            message: format!("the database user may not act as `{ROLE}`: {said}"),
            remedy: format!("as an administrator of the database: GRANT {ROLE} TO the user of the URL"),
        },
        other => other,
    })?;
    let asked = "SELECT rolname::text, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user";
    let row = within(client.query_one(asked, &[])).await?;
    let (name, powerful): (String, bool) = (row.get(0), row.get(1));
    if powerful {
        return Err(Error::Open {
            message: format!("the database role `{name}` can bypass the separation of tenants"),
            remedy: format!(
                "ALTER ROLE {name} NOSUPERUSER NOBYPASSRLS, or use another role; if `{ROLE}` does not exist, migrate first"
            ),
        });
    }
    Ok(())
}

/// What a connection is told before it serves must be answered soon.
async fn within<T>(request: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CONNECT_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| errors::map(&error)),
        Err(_) => Err(Error::Unavailable("a new connection does not answer".into())),
    }
}

pub(super) fn begin_reading(scope: &Scope) -> String {
    format!("BEGIN READ ONLY; {}", scoped(scope))
}

/// Every query of the transaction sees the same moment.
pub(super) fn begin_snapshot(scope: &Scope) -> String {
    format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", scoped(scope))
}

/// Tenants and principals are written by us from their types: nothing in them can end a literal.
fn scoped(scope: &Scope) -> String {
    let (tenant, viewer) = match scope {
        Scope::Tenant(tenant) => (tenant.to_string(), "*".to_owned()),
        Scope::Viewer { tenant, viewer } => (tenant.to_string(), viewer.to_string()),
        Scope::Everyone(_) => ("*".to_owned(), "*".to_owned()),
    };
    format!("SET LOCAL toolgate.tenants = '{tenant}'; SET LOCAL toolgate.viewer = '{viewer}'")
}

pub(super) fn begin_writing(tenants: &BTreeSet<TenantId>, durability: Durability) -> String {
    let tenants: Vec<String> = tenants.iter().map(ToString::to_string).collect();
    let synced = match durability {
        Durability::Disk => "",
        // PostgreSQL's log writer brings it to the disk within three times `wal_writer_delay`, 0.6 s.
        Durability::Process => "; SET LOCAL synchronous_commit = off",
    };
    format!("BEGIN; SET LOCAL toolgate.tenants = '{}'; SET LOCAL toolgate.viewer = '*'{synced}", tenants.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_contracts::Principal;
    use uuid::Uuid;

    #[test]
    fn a_transaction_says_whose_rows_it_is_about() {
        let tenants = [1, 2].map(|number| TenantId::from_uuid(Uuid::from_u128(number)));
        let (one, two) = ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002");
        let local = |scope: &str, viewer: &str| {
            format!("SET LOCAL toolgate.tenants = '{scope}'; SET LOCAL toolgate.viewer = '{viewer}'")
        };
        assert_eq!(begin_reading(&Scope::Tenant(tenants[0])), format!("BEGIN READ ONLY; {}", local(one, "*")));
        let viewer = Scope::Viewer { tenant: tenants[0], viewer: Principal::Local(7) };
        assert_eq!(begin_reading(&viewer), format!("BEGIN READ ONLY; {}", local(one, "local:7")));
        assert_eq!(begin_reading(&Scope::Everyone("")), format!("BEGIN READ ONLY; {}", local("*", "*")));
        assert_eq!(
            begin_snapshot(&Scope::Everyone("")),
            format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", local("*", "*"))
        );
        let both = tenants.into_iter().collect();
        assert_eq!(begin_writing(&both, Durability::Disk), format!("BEGIN; {}", local(&format!("{one},{two}"), "*")));
        assert!(begin_writing(&both, Durability::Process).ends_with("; SET LOCAL synchronous_commit = off"));
    }
}
