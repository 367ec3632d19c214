//! Small tables with one of each rule, and the words the tests say about them.

use toolgate_contracts::{Fault, TenantId};
use toolgate_store::{Change, Error, Expect, Migration, Outcome, Row, Scope, Store, Value};
use uuid::Uuid;

const COMMON: &str = "
CREATE TABLE notes (
    tenant_id {uuid} NOT NULL,
    id {int} NOT NULL,
    body TEXT NOT NULL CONSTRAINT notes_body_short CHECK (length(body) < 1000000),
    viewer TEXT NOT NULL DEFAULT 'nobody',
    flag {bool},
    amount {real},
    raw {bytes},
    other {uuid},
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, other)
) {strict};
CREATE UNIQUE INDEX notes_body_once ON notes (tenant_id, body);
CREATE UNIQUE INDEX notes_body_once_folded ON notes (tenant_id, lower(body)) WHERE flag;
CREATE TABLE replies (
    tenant_id {uuid} NOT NULL,
    note_id {int} NOT NULL,
    CONSTRAINT replies_note FOREIGN KEY (tenant_id, note_id) REFERENCES notes (tenant_id, id)
) {strict};
CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, value {int} NOT NULL) {strict};
INSERT INTO counters (name, value) VALUES ('all', 0);";

const SQLITE: &str = "
CREATE TABLE days (tenant_id BLOB NOT NULL, id INTEGER NOT NULL, note TEXT NOT NULL, PRIMARY KEY (tenant_id, id)) STRICT;
CREATE TRIGGER notes_frozen BEFORE UPDATE ON notes WHEN OLD.body = 'frozen'
BEGIN SELECT RAISE(ABORT, 'rule: notes_frozen'); END;";

const POSTGRES: &str = "
CREATE TABLE days (tenant_id uuid NOT NULL, id bigint NOT NULL, note TEXT NOT NULL, PRIMARY KEY (tenant_id, id)) PARTITION BY RANGE (id);
CREATE TABLE days_default PARTITION OF days DEFAULT;
CREATE TABLE days_202611 PARTITION OF days FOR VALUES FROM (100) TO (200);
CREATE FUNCTION notes_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rule: notes_frozen' USING ERRCODE = 'TG001', CONSTRAINT = 'notes_frozen';
END $$;
CREATE TRIGGER notes_frozen BEFORE UPDATE ON notes FOR EACH ROW WHEN (OLD.body = 'frozen') EXECUTE FUNCTION notes_frozen();
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE notes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON notes USING (
    (current_setting('toolgate.tenants', true) = '*'
        OR tenant_id = ANY (string_to_array(nullif(current_setting('toolgate.tenants', true), '*'), ',')::uuid[]))
    AND current_setting('toolgate.viewer', true) IN ('*', viewer));
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'toolgate_app') THEN
        CREATE ROLE toolgate_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
    END IF;
    EXECUTE format('GRANT toolgate_app TO %I', current_user);
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON notes, replies, counters, days TO toolgate_app;";

pub const FIRST: Migration = Migration { number: 1, name: "notes", common: COMMON, sqlite: SQLITE, postgres: POSTGRES };
pub const SECOND: Migration = Migration {
    number: 2,
    name: "stars",
    common: "ALTER TABLE notes ADD COLUMN stars {int};",
    sqlite: "",
    postgres: "",
};
pub static MIGRATIONS: &[Migration] = &[FIRST];

pub fn tenant(number: u128) -> TenantId {
    TenantId::from_uuid(Uuid::from_u128(number))
}

pub const INSERT: &str = "INSERT INTO notes (tenant_id, id, body) VALUES ($1, $2, $3)";

/// A change that writes one note.
pub fn note(of: TenantId, id: i64, body: &str) -> Change {
    let mut change = Change::new(of);
    change.then(INSERT, [id.into(), body.into()]);
    change
}

pub async fn write(store: &Store, of: TenantId, id: i64, body: &str) -> Result<Outcome, Error> {
    store.commit(note(of, id, body)).await
}

pub fn expected(told: &str) -> Expect {
    Expect::Rows(1, Fault::conflict(told, "look again"))
}

pub async fn bodies(store: &Store, of: TenantId) -> Vec<String> {
    let sql = "SELECT body FROM notes WHERE tenant_id = $1 ORDER BY id";
    texts(&store.query(&Scope::Tenant(of), sql, vec![]).await.unwrap())
}

pub fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get(0).unwrap()).collect()
}

pub async fn count(store: &Store) -> i64 {
    let scope = Scope::Everyone("a test counts everything");
    store.query(&scope, "SELECT count(*) FROM notes", vec![]).await.unwrap()[0].get(0).unwrap()
}

pub async fn one(store: &Store, sql: &str, parameters: Vec<Value>) -> Row {
    let mut rows = store.query(&Scope::Everyone("a test asks"), sql, parameters).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}
