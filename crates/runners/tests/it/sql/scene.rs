//! A table of orders in an SQLite file and in a PostgreSQL database, as the operator's entries name them: `orders` may be
//! written, `ledger` is the same for reading, `hasty` stops after a moment, and `foreign` is another tenant's.

use rusqlite::Connection;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Definition, Entries, Rng, ToolError};
use toolgate_engine::{Call, Outcome, Runner as _, testing};
use toolgate_runners::{Databases, Statements};
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::{Database, execute_as_owner, postgres_url};

use crate::world::{World, done, failed};

/// In the address of every database, and never to be seen.
pub const PASSWORD: &str = "hunter2hunter2";

const SQLITE: &str = "
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total REAL, paid BOOLEAN, CHECK (total >= 0));
    INSERT INTO orders VALUES (1, 'Grace', 40, 0), (2, 'Joan', 7, 1), (3, 'Ada', 12.5, 0);";
const POSTGRES: &str = "
    CREATE TABLE orders (id integer PRIMARY KEY, customer text NOT NULL, total float8 CHECK (total >= 0), paid boolean);
    INSERT INTO orders VALUES (1, 'Grace', 40, false), (2, 'Joan', 7, true), (3, 'Ada', 12.5, false);
    CREATE FUNCTION bump() RETURNS integer LANGUAGE sql VOLATILE AS 'UPDATE orders SET total = total + 1 RETURNING id';
    CREATE FUNCTION litter() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
        PERFORM set_config('search_path', 'nowhere', false);
        PERFORM pg_advisory_lock(7);
        CREATE TEMP TABLE left_behind (a integer);
    END $$;";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

pub struct Scene {
    pub kind: Kind,
    pub world: World,
    pub statements: Statements,
    pub url: String,
    /// PostgreSQL's, as its owner. Dropped before the role, which has rights in it.
    pub owner: Option<Database>,
    role: Option<Role>,
    _store: Database,
    _folder: tempfile::TempDir,
}

/// A role that is dropped after its database.
pub struct Role {
    pub name: String,
    server: String,
}

impl Role {
    pub async fn create(server: &str, what: &str) -> Self {
        let name = format!("toolgate_sql_{:016x}", u64::from_ne_bytes(Rng::System.bytes()));
        let create = format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {what}");
        execute_as_owner(server, &create).await.unwrap();
        Self { name, server: server.to_owned() }
    }

    /// The address of a database as this role.
    pub fn url(&self, database: &str) -> String {
        let mut url = url::Url::parse(database).unwrap();
        url.set_username(&self.name).unwrap();
        url.set_password(Some(PASSWORD)).unwrap();
        url.to_string()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("DROP ROLE IF EXISTS {}", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(execute_as_owner(&server, &drop)).map_err(|error| error.to_string())
        });
        if let Ok(Err(error)) = dropped.join() {
            eprintln!("a test's role remains: {error}");
        }
    }
}

pub async fn every_scene(test: impl AsyncFn(&Scene)) {
    sqlite_scene(&test).await;
    postgres_scene(&test).await;
}

pub async fn sqlite_scene(test: &impl AsyncFn(&Scene)) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    Connection::open(&file).unwrap().execute_batch(SQLITE).unwrap();
    let url = format!("sqlite://{}", file.display());
    test(&Scene::new(Kind::Sqlite, url, folder, None, None).await).await;
}

pub async fn postgres_scene(test: &impl AsyncFn(&Scene)) {
    let Some(owner) = Database::postgres(&[]).await else { return };
    owner.execute(POSTGRES).await.unwrap();
    let role = Role::create(&postgres_url().unwrap(), "").await;
    let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON orders TO {}", role.name);
    owner.execute(&grant).await.unwrap();
    let (url, folder) = (role.url(&owner.url), tempfile::tempdir().unwrap());
    test(&Scene::new(Kind::Postgres, url, folder, Some(owner), Some(role)).await).await;
}

impl Scene {
    async fn new(
        kind: Kind,
        url: String,
        folder: tempfile::TempDir,
        owner: Option<Database>,
        role: Option<Role>,
    ) -> Self {
        eprintln!("with {kind:?}");
        let store = Database::sqlite(MIGRATIONS).unwrap();
        let world = World::open(store.open().await).await;
        let statements = Statements::new(Databases::new(&entries(&url)));
        Self { kind, world, statements, url, owner, role, _store: store, _folder: folder }
    }

    pub fn role(&self) -> &str {
        self.role.as_ref().map_or("", |role| role.name.as_str())
    }

    /// A call of a tool with this statement, its parameters named `p1`, `p2` and so on.
    pub fn call(&self, database: &str, statement: &str, parameters: &[Value]) -> Call {
        self.call_of(database, statement, parameters, |_| {})
    }

    pub fn call_of(
        &self,
        database: &str,
        statement: &str,
        parameters: &[Value],
        change: impl FnOnce(&mut Definition),
    ) -> Call {
        let names: Vec<String> = (1..=parameters.len()).map(|number| format!("p{number}")).collect();
        let input: Map<String, Value> = names.iter().cloned().zip(parameters.iter().cloned()).collect();
        let runner = json!({"kind": "sql", "connection": database, "statement": statement, "parameters": names});
        self.world.call_of(&runner, Value::Object(input), change)
    }

    pub async fn run(&self, database: &str, statement: &str, parameters: &[Value]) -> Outcome {
        self.statements.run(testing::permit(self.call(database, statement, parameters))).await
    }

    pub async fn output(&self, database: &str, statement: &str, parameters: &[Value]) -> Value {
        let outcome = self.run(database, statement, parameters).await;
        eprintln!("{statement}");
        done(outcome).result.structured.unwrap()
    }

    pub async fn rows(&self, statement: &str, parameters: &[Value]) -> Value {
        self.output("ledger", statement, parameters).await["rows"].take()
    }

    pub async fn refused(&self, database: &str, statement: &str, parameters: &[Value]) -> ToolError {
        let error = failed(self.run(database, statement, parameters).await);
        assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
        error
    }

    /// Everything is as it was at the beginning.
    pub async fn is_unharmed(&self) {
        let rows = self.rows("select count(*) as n, sum(total) as total from orders", &[]).await;
        assert_eq!(rows, json!([{"n": 3, "total": 59.5}]));
    }
}

pub fn entries(url: &str) -> Entries {
    let entries = json!({"databases": {
        "orders": {"url": url, "writable": true, "tenants": ["acme"]},
        "ledger": {"url": url, "tenants": ["acme"], "rows_max": 50},
        "hasty": {"url": url, "writable": true, "tenants": ["acme"], "statement_timeout_ms": 300},
        "foreign": {"url": url, "writable": true, "tenants": ["globex"]},
    }});
    serde_json::from_value(entries).unwrap()
}
