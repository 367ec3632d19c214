//! Seed 000's view and four functions in PostgreSQL, used by login roles of their own: what they may, and what they may
//! not. SQLite has neither.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};
use toolgate_contracts::Rng;
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;
use uuid::Uuid;

use crate::world::{As, World, tool};

/// Login roles are the whole cluster's: made for one test, and dropped with it.
struct Roles<'a> {
    database: &'a Database,
    names: Vec<String>,
}

impl Roles<'_> {
    async fn login(&mut self, member: bool) -> (String, Client) {
        let name = format!("toolgate_test_role_{:016x}", u64::from_ne_bytes(Rng::System.bytes()));
        let path = self.database.url.rsplit('/').next().unwrap().split('?').next().unwrap();
        let grant = if member { format!("GRANT toolgate_sql TO {name};") } else { String::new() };
        let sql = format!("CREATE ROLE {name} LOGIN; GRANT CONNECT ON DATABASE {path} TO {name}; {grant}");
        self.database.execute(&sql).await.unwrap();
        self.names.push(name.clone());
        let (scheme, rest) = self.database.url.split_once("://").unwrap();
        let (_, host) = rest.split_once('@').unwrap();
        let (client, connection) = tokio_postgres::connect(&format!("{scheme}://{name}@{host}"), NoTls).await.unwrap();
        tokio::spawn(connection);
        (name, client)
    }

    async fn drop(self) {
        for name in &self.names {
            self.database.execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).await.unwrap();
        }
    }
}

async fn row(client: &Client, id: Uuid) -> Option<Value> {
    let sql = "SELECT row_to_json(v)::text FROM agents.tool_invocations_v v WHERE id = $1";
    let row = client.query_opt(sql, &[&id]).await.unwrap()?;
    Some(serde_json::from_str(row.get(0)).unwrap())
}

/// Waits for a state that must come.
async fn until(client: &Client, id: Uuid, status: &str) -> Value {
    for _ in 0..600 {
        if let Some(row) = row(client, id).await
            && row["status"] == status
        {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let requests = client.query("SELECT row_to_json(r)::text FROM agents.tool_requests_v r", &[]).await.unwrap();
    let requests: Vec<String> = requests.iter().map(|row| row.get(0)).collect();
    panic!("{id} does not become {status}: {:#}\n{requests:#?}", row(client, id).await.unwrap_or_default());
}

/// What became of the newest request of a kind.
async fn answered(client: &Client, kind: &str) -> (String, String) {
    let sql = "SELECT state, coalesce(error, '') FROM agents.tool_requests_v WHERE kind = $1 ORDER BY created_at DESC, id DESC LIMIT 1";
    for _ in 0..600 {
        let row = client.query_one(sql, &[&kind]).await.unwrap();
        if row.get::<_, String>(0) != "waiting" {
            return (row.get(0), row.get(1));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody answers");
}

async fn invoke(client: &Client, run: Uuid, tool: Uuid, agent: Uuid, number: &str) -> Uuid {
    let input = format!("{{\"id\": \"{number}\"}}");
    let sql = "SELECT agents.fn_invoke_tool($1, $2, $3, $4::text::jsonb)";
    client.query_one(sql, &[&run, &tool, &agent, &input]).await.unwrap().get(0)
}

async fn complete(client: &Client, id: Uuid) {
    let sql = "SELECT agents.fn_complete_tool_invocation($1, 'completed', '{\"title\": \"Broken lamp\"}', NULL, 0.05)";
    client.execute(sql, &[&id]).await.unwrap();
}

fn uuid(value: &Value) -> Uuid {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_mapped_role_invokes_completes_approves_and_rejects_by_sql() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let world = World::open(&database).await;
    let mut roles = Roles { database: &database, names: Vec::new() };
    let worker = world.user("default", "worker", &["author"]).await;
    world.user("default", "boss", &["approver"]).await;
    let boss_id = world.get(&As::Owner, "/api/v1/users/boss").await.ok()["id"].clone();
    let external = json!({"egress_class": "write", "runner": {"kind": "external"}});
    world.register(&As::Owner, tool("readTicket", external.clone())).await.ok();
    world.register(&As::Owner, tool("closeTicket", external)).await.ok();
    let reads = json!({"egress_class": "read_only", "reason": "it only looks", "tenant": "default"});
    world.send(&As::Owner, "PUT", "/api/v1/tools/readTicket/classification", reads).await.ok();
    let agent = uuid(&world.send(&worker, "POST", "/api/v1/agents", json!({"name": "billing"})).await.ok()["id"]);
    for name in ["readTicket", "closeTicket"] {
        world.send(&As::Owner, "PUT", &format!("/api/v1/agents/billing/tools/{name}"), json!({})).await.ok();
    }
    let run = uuid(&world.send(&worker, "POST", "/api/v1/runs", json!({"title": "Tickets"})).await.ok()["id"]);
    let reading = uuid(&world.get(&As::Owner, "/api/v1/tools/readTicket").await.ok()["id"]);
    let closing = uuid(&world.get(&As::Owner, "/api/v1/tools/closeTicket").await.ok()["id"]);

    // A role that is no member, and one that stands for nobody.
    let (_, stranger) = roles.login(false).await;
    let sql = "SELECT agents.fn_approve_tool_invocation(gen_random_uuid())";
    assert_eq!(stranger.execute(sql, &[]).await.unwrap_err().code().unwrap().code(), "42501");
    let (asking_role, asking) = roles.login(true).await;
    assert_eq!(asking.execute(sql, &[]).await.unwrap_err().code().unwrap().code(), "42501");
    assert!(asking.query("SELECT id FROM agents.tool_invocations_v", &[]).await.unwrap().is_empty());

    let map = async |role: &str, user: &str| {
        world.send(&As::Owner, "PUT", &format!("/api/v1/db/roles/{role}"), json!({"user": user})).await
    };
    map(&asking_role, "worker").await.ok();
    map(&asking_role, "boss").await.refused(409);
    let (deciding_role, deciding) = roles.login(true).await;
    map(&deciding_role, "boss").await.ok();
    let listed = world.get(&As::Owner, "/api/v1/db/roles").await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    world.get(&worker, "/api/v1/db/roles").await.refused(403);

    // What needs nobody runs, and ends as its runtime says.
    let read = invoke(&asking, run, reading, agent, "7").await;
    assert!(["pending", "running"].contains(&row(&asking, read).await.unwrap()["status"].as_str().unwrap()));
    let shown = until(&asking, read, "running").await;
    assert_eq!((&shown["tool_key"], &shown["approval_status"]), (&json!("readTicket"), &json!("not_required")));
    assert_eq!((uuid(&shown["team_run_id"]), uuid(&shown["ai_lenser_id"])), (run, agent));
    complete(&asking, read).await;
    let done = until(&asking, read, "completed").await;
    assert_eq!((&done["output"]["title"], &done["cost_estimate"]), (&json!("Broken lamp"), &json!(0.05)));
    complete(&asking, read).await;
    let (state, error) = answered(&asking, "complete").await;
    assert_eq!(state, "refused", "{error}");

    // A write waits for a person; whoever asked is not the one who decides.
    let write = invoke(&asking, run, closing, agent, "8").await;
    for _ in 0..100 {
        if row(&asking, write).await.unwrap()["tool_name"] == "closeTicket" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    asking.execute("SELECT agents.fn_approve_tool_invocation($1)", &[&write]).await.unwrap();
    let (state, error) = answered(&asking, "approve").await;
    assert_eq!(state, "refused", "{error}");
    let waiting = until(&asking, write, "pending").await;
    assert_eq!((&waiting["approval_required"], &waiting["started_at"]), (&json!(true), &Value::Null));
    let call = waiting["id"].clone();
    // The other role knows the call by its own id or by the one that was returned.
    let seen: Uuid = deciding
        .query_one("SELECT id FROM agents.tool_invocations_v WHERE status = 'pending'", &[])
        .await
        .unwrap()
        .get(0);
    deciding.execute("SELECT agents.fn_approve_tool_invocation($1)", &[&seen]).await.unwrap();
    let running = until(&asking, write, "running").await;
    assert_eq!((&running["approval_status"], &running["approval_decided_by"]), (&json!("approved"), &boss_id));
    assert!(!running["started_at"].is_null(), "{call}");
    complete(&asking, write).await;
    until(&asking, write, "completed").await;

    let refused = invoke(&asking, run, closing, agent, "9").await;
    until(&asking, refused, "pending").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..600 {
        let parked =
            deciding.query("SELECT id FROM agents.tool_invocations_v WHERE status = 'pending'", &[]).await.unwrap();
        if let Some(parked) = parked.first() {
            let id: Uuid = parked.get(0);
            let sql = "SELECT agents.fn_reject_tool_invocation($1, 'unsafe egress target')";
            deciding.execute(sql, &[&id]).await.unwrap();
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let rejected = until(&asking, refused, "rejected").await;
    assert_eq!(
        (&rejected["approval_status"], &rejected["approval_reason"]),
        (&json!("rejected"), &json!("unsafe egress target"))
    );

    // What never became a call says why.
    let unknown = invoke(&asking, run, Uuid::nil(), agent, "1").await;
    let failed = until(&asking, unknown, "failed").await;
    assert!(failed["error"].as_str().unwrap().starts_with("POLICY_DENIED: "), "{failed:#}");

    // What PostgreSQL takes and nobody could call with is refused, and holds up nobody behind it.
    for odd in ["1e400", "9007199254740993", "{\"$serde_json::private::Number\": \"1\"}"] {
        let sql = format!("SELECT agents.fn_invoke_tool($1, $2, $3, '{{\"id\": {odd}}}'::jsonb)");
        asking.query_one(&sql, &[&run, &reading, &agent]).await.unwrap();
        let (state, error) = answered(&asking, "invoke").await;
        assert!(state == "refused" && error.starts_with("VALIDATION_ERROR: "), "{odd}: {state} {error}");
    }

    // REST shows the same calls.
    let rest = world.get(&worker, "/api/v1/compat/tool_invocations?status=rejected").await.ok();
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);

    // Nobody sees another tenant's, whatever they set, and nobody gets at the tables.
    world.tenant("acme").await;
    world.user("acme", "eve", &["admin"]).await;
    let (other_role, other) = roles.login(true).await;
    let path = format!("/api/v1/db/roles/{other_role}");
    world.send(&As::OwnerOf("acme"), "PUT", &path, json!({"user": "eve"})).await.ok();
    other.batch_execute("SET toolgate.tenants = '*'; SET toolgate.viewer = '*'").await.unwrap();
    assert!(other.query("SELECT id FROM agents.tool_invocations_v", &[]).await.unwrap().is_empty());
    assert!(other.query("SELECT id FROM agents.tool_requests_v", &[]).await.unwrap().is_empty());
    let schema = "public";
    for forbidden in [
        format!("SELECT * FROM {schema}.calls"),
        format!("SELECT decision FROM {schema}.calls"),
        format!("UPDATE {schema}.calls SET status = 'running'"),
        format!("INSERT INTO {schema}.sql_principals VALUES (gen_random_uuid(), 'x', gen_random_uuid(), '', 0)"),
        format!("DELETE FROM {schema}.sql_requests"),
        format!("SELECT {schema}.sql_request('approve', '{{}}')"),
    ] {
        let error = other.batch_execute(&forbidden).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{forbidden}: {error}");
    }
    // A table of the session does not stand in for ours.
    let trick = "CREATE TEMP TABLE sql_principals (tenant_id uuid, db_role text, user_id uuid, mapped_by text, created_at bigint)";
    if other.batch_execute(trick).await.is_ok() {
        let sql = format!(
            "INSERT INTO pg_temp.sql_principals SELECT tenant_id, '{other_role}', gen_random_uuid(), '', 0 FROM (SELECT gen_random_uuid() AS tenant_id) t"
        );
        other.batch_execute(&sql).await.unwrap();
        assert!(other.query("SELECT id FROM agents.tool_invocations_v", &[]).await.unwrap().is_empty());
    }

    // What was finished long ago is forgotten; what became a call stays under its id as long as the call does.
    let kept = row(&asking, read).await.unwrap();
    let forget = async |before_s: i64| {
        world.app.store.forget_sql_requests(world.clock.now().plus_seconds(-before_s)).await.unwrap()
    };
    assert_eq!(forget(3600).await, 0, "it was a moment ago");
    assert!(forget(0).await > 0 && forget(0).await == 0);
    assert_eq!(row(&asking, read).await.unwrap(), kept);
    assert!(row(&asking, unknown).await.is_none(), "what never became a call is gone");

    // Taken back, a role stands for nobody.
    world.send(&As::Owner, "DELETE", &format!("/api/v1/db/roles/{asking_role}"), Value::Null).await.ok();
    assert_eq!(asking.execute(sql, &[]).await.unwrap_err().code().unwrap().code(), "42501");
    drop((asking, deciding, other, stranger));
    roles.drop().await;
}

#[tokio::test]
async fn sqlite_has_no_roles_to_map() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let world = World::open(&database).await;
    world.send(&As::Owner, "PUT", "/api/v1/db/roles/x", json!({"user": "admin"})).await.refused(409);
}
