//! Every list of calls with 1,000 rows and with 1,000,000, in both databases: a page may cost at most twice as much.

use std::time::{Duration, Instant};

use toolgate_contracts::agent::{AgentSpec, SideEffects, Toolset};
use toolgate_contracts::definition::{EgressClass, Origin};
use toolgate_contracts::{
    AgentId, AgentState, CallId, Clock, Definition, Digest, Id, Limits, Mode, Principal, Rng, RunId, Source, TenantId,
    Timestamp, ToolId, UserId, WorkspaceId, json,
};
use toolgate_store::calls::{ApprovalStatus, CallFilter, Ending, NewCall, Sight, Status};
use toolgate_store::catalog::{Guarded, StoredAgent, Tool};
use toolgate_store::people::{Tenant, User, UserKind, Workspace};
use toolgate_store::testing::Database;
use toolgate_store::{Change, Durability, Kind, MIGRATIONS, Store};

use crate::report::{Measured, Report, cpu_time, of};

const SMALL: u32 = 1_000;
const LARGE: u32 = 1_000_000;
const BATCH: u32 = 500;
const PAGES: usize = 200;
const START: i64 = 1_790_000_000_000;

type Failure = Box<dyn std::error::Error>;

pub async fn run(report: &mut Report) -> Result<(), Failure> {
    for make in ["sqlite", "postgres"] {
        let (Some(small), Some(large)) = (database(make).await, database(make).await) else { continue };
        let (small_world, large_world) = (World::fill(&small, SMALL).await?, World::fill(&large, LARGE).await?);
        compare(report, make, &small_world, &large_world).await?;
        small_world.store.close().await?;
        large_world.store.close().await?;
    }
    Ok(())
}

/// A fresh database; none where there is no PostgreSQL.
pub async fn database(make: &str) -> Option<Database> {
    if make == "sqlite" { Database::sqlite(MIGRATIONS) } else { Database::postgres(MIGRATIONS).await }
}

async fn compare(report: &mut Report, database: &str, small: &World, large: &World) -> Result<(), Failure> {
    for (name, _) in small.lists() {
        for position in [Position::First, Position::Deep] {
            let base = small.measure(name, position).await?;
            let full = large.measure(name, position).await?;
            let label = format!("{database}: {name}, {position:?} page, 1,000,000 calls (baseline: 1,000)");
            report.line(&label, "us", full.median, Some(base.median));
            report.line(
                format!("{database}: {name}, {position:?} page, CPU of the client side"),
                "us",
                full.cpu,
                Some(base.cpu),
            );
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Position {
    First,
    Deep,
}

struct World {
    store: Store,
    tenant: TenantId,
    user: UserId,
    agent: AgentId,
    tool: ToolId,
    run: RunId,
}

impl World {
    /// A tenant whose calls are spread over three tools, two people and an agent, as a busy one's would be.
    async fn fill(database: &Database, count: u32) -> Result<Self, Failure> {
        let (clock, rng) = (Clock::manual(Timestamp::from_millis(START)), Rng::seeded(7));
        let store = database.open().await;
        let now = clock.now();
        let tenant = TenantId::new(&clock, &rng);
        let workspace: WorkspaceId = Id::new(&clock, &rng);
        let users: [UserId; 2] = [Id::new(&clock, &rng), Id::new(&clock, &rng)];
        let agent: AgentId = Id::new(&clock, &rng);
        let tools: [ToolId; 3] = std::array::from_fn(|_| Id::new(&clock, &rng));
        let mut change = Change::new(tenant);
        change.insert_tenant(&Tenant {
            id: tenant,
            slug: "bench".parse()?,
            name: "Bench".into(),
            currency: "USD".into(),
            open_write: false,
            limits: toolgate_contracts::TenantLimits::default(),
            settings: toolgate_contracts::TenantSettings::default(),
            policy_revision: 0,
            created_at: now,
        });
        change.insert_workspace(&Workspace {
            id: workspace,
            slug: "main".parse()?,
            name: "Main".into(),
            created_at: now,
        });
        for (number, user) in users.iter().enumerate() {
            let user = User {
                id: *user,
                kind: UserKind::Service,
                name: format!("user{number}"),
                email: None,
                roles: vec![toolgate_contracts::Role::Member],
                permissions: toolgate_contracts::Permissions::default(),
                workspaces: vec![],
                disabled: false,
                created_at: now,
            };
            change.insert_user(&user, None);
        }
        let spec = AgentSpec {
            version: 1,
            name: "agent".parse()?,
            title: None,
            description: None,
            workspace: None,
            model: String::new(),
            model_params: None,
            instructions: String::new(),
            toolset: Toolset::Open,
            tool_groups: vec![],
            custom_tools: vec![],
            skills: vec![],
            profile: None,
            limits: Limits::default(),
        };
        change.upsert_agent(
            &StoredAgent {
                tenant,
                id: agent,
                workspace,
                owner: Some(users[0]),
                profile: None,
                spec,
                state: AgentState::Active,
                revision: 1,
            },
            now,
        );
        let definition: Definition = json::decode(serde_json::json!({
            "name": "x", "description": "d", "input_schema": {"type": "object"}, "runner": {"kind": "expression", "cel": "1"}
        }))?;
        for (number, tool) in tools.iter().enumerate() {
            let row = Tool {
                tenant,
                id: *tool,
                name: format!("tool{number}").parse()?,
                origin: Origin::Tenant,
                created_at: now,
            };
            change.insert_tool(&row, Guarded::from(&definition));
        }
        store.commit(change).await?;

        let run: RunId = Id::new(&clock, &rng);
        let world = Self { store, tenant, user: users[0], agent, tool: tools[2], run };
        let start = Instant::now();
        let mut written = 0;
        while written < count {
            let mut waiting = Vec::new();
            for _ in 0..16 {
                if written >= count {
                    break;
                }
                let mut change = Change::new(tenant).durability(Durability::Process);
                for number in written..(written + BATCH).min(count) {
                    clock.advance(1);
                    change.insert_call(world.call(number, &clock, &rng, &users, &tools));
                }
                written += BATCH;
                waiting.push(world.store.commit(change));
            }
            for commit in waiting {
                commit.await?;
            }
        }
        if world.store.kind() == Kind::Postgres {
            // What autovacuum does by itself within a minute of such growth.
            database.execute("ANALYZE").await?;
        }
        eprintln!("  {count} calls written in {:.1} s", start.elapsed().as_secs_f64());
        Ok(world)
    }

    fn call(&self, number: u32, clock: &Clock, rng: &Rng, users: &[UserId; 2], tools: &[ToolId; 3]) -> NewCall {
        let at = clock.now();
        let (status, approval_status) = match number % 50 {
            0 => (Status::Failed, ApprovalStatus::NotRequired),
            13 => (Status::Pending, ApprovalStatus::Pending),
            _ => (Status::Completed, ApprovalStatus::NotRequired),
        };
        let by_agent = number.is_multiple_of(100);
        // One call in a hundred is of the rare tool, the rest of the two others.
        let tool = match number % 100 {
            99 => tools[2],
            other if other % 3 == 1 => tools[1],
            _ => tools[0],
        };
        let user = if number % 20 == 1 { users[0] } else { users[1] };
        NewCall {
            id: CallId::new(clock, rng),
            call_id: format!("c_{number:026}"),
            run: None,
            root_run: (number % 100 == 3).then_some(self.run),
            step: None,
            seq: 0,
            tool,
            tool_version: "1.0.0".into(),
            agent: by_agent.then_some(self.agent),
            workspace: None,
            principal: Principal::User(user),
            source: Source::Api,
            mode: Mode::Execute,
            class: EgressClass::None,
            side_effects: SideEffects::None,
            status,
            approval_status,
            person_required: false,
            approval: None,
            approved_by: None,
            grant: None,
            token: None,
            secrets: None,
            definition_digest: Digest::of(b"x"),
            policy_revision: 0,
            decision: r#"{"resolve":"ok"}"#.into(),
            labels: "[]".into(),
            metadata: None,
            cost_estimate: None,
            reserved: None,
            holder: None,
            salt: None,
            input: r#"{"expression":"2 + 3 * 4","note":"an input of ordinary length"}"#.into(),
            created_at: at,
            started_at: Some(at),
            ending: Some(Ending { output: Some(r#"{"result":14}"#.into()), at: Some(at), ..Ending::default() }),
        }
    }

    fn lists(&self) -> Vec<(&'static str, (Sight, CallFilter))> {
        let all = || Sight::Everything;
        let own = || Sight::OwnAndManaged { viewer: Principal::User(self.user), agents: vec![self.agent] };
        vec![
            ("all calls", (all(), CallFilter::default())),
            ("failed", (all(), CallFilter { status: Some(Status::Failed), ..CallFilter::default() })),
            ("waiting for approval", (all(), CallFilter { pending_approval: true, ..CallFilter::default() })),
            ("of one tool", (all(), CallFilter { tool: Some(self.tool), ..CallFilter::default() })),
            ("of one agent", (all(), CallFilter { agent: Some(self.agent), ..CallFilter::default() })),
            (
                "failed of one agent",
                (all(), CallFilter { agent: Some(self.agent), status: Some(Status::Failed), ..CallFilter::default() }),
            ),
            ("of one team run", (all(), CallFilter { root_run: Some(self.run), ..CallFilter::default() })),
            ("own and of managed agents", (own(), CallFilter::default())),
        ]
    }

    async fn measure(&self, name: &str, position: Position) -> Result<Measured, Failure> {
        let (sight, filter) =
            self.lists().into_iter().find(|(list, _)| *list == name).map(|(_, what)| what).ok_or("no such list")?;
        let mut cursor = None;
        if matches!(position, Position::Deep) {
            for _ in 0..5 {
                let page = self
                    .store
                    .calls(self.tenant, &sight, &filter, cursor.as_deref(), 10)
                    .await
                    .map_err(|fault| fault.told().to_owned())?;
                cursor = page.next_cursor.or(cursor);
            }
        }
        let mut walls: Vec<Duration> = Vec::with_capacity(PAGES);
        let cpu = cpu_time();
        for _ in 0..PAGES {
            let start = Instant::now();
            let page = self
                .store
                .calls(self.tenant, &sight, &filter, cursor.as_deref(), 10)
                .await
                .map_err(|fault| fault.told().to_owned())?;
            walls.push(start.elapsed());
            std::hint::black_box(page.items.len());
        }
        Ok(of(walls, cpu_time().saturating_sub(cpu)))
    }
}
