//! A tenant with people, an agent and tools in the product's own tables, for the tests of rules and lists.

use serde_json::json;
use toolgate_contracts::agent::{AgentSpec, SideEffects};
use toolgate_contracts::definition::{EgressClass, Origin};
use toolgate_contracts::{
    AgentId, AgentState, CallId, Clock, Definition, Digest, Id, Mode, Principal, Rng, Role, RunId, Source, TenantId,
    Timestamp, ToolId, UserId, json,
};
use toolgate_store::calls::{ApprovalStatus, NewCall, Status};
use toolgate_store::catalog::{Guarded, Lifecycle, StoredAgent, Tool, Version};
use toolgate_store::people::{User, UserKind, Workspace};
use toolgate_store::testing::tenant;
use toolgate_store::{Change, Error, Outcome, Store};

pub struct Product {
    pub store: Store,
    pub clock: Clock,
    pub rng: Rng,
    pub tenant: TenantId,
    pub users: [UserId; 3],
    /// Owned by the first user, in the workspace of the second.
    pub agent: AgentId,
    pub tool: ToolId,
}

impl Product {
    pub async fn with(store: Store, seed: u64) -> Self {
        let (clock, rng) = (Clock::manual(Timestamp::from_millis(1_794_700_000_000)), Rng::seeded(seed));
        let product = Self {
            tenant: TenantId::new(&clock, &rng),
            users: std::array::from_fn(|_| Id::new(&clock, &rng)),
            agent: Id::new(&clock, &rng),
            tool: Id::new(&clock, &rng),
            store,
            clock,
            rng,
        };
        let now = product.clock.now();
        let mut change = Change::new(product.tenant);
        change.insert_tenant(&tenant(product.tenant, &format!("t{seed}"), now));
        let workspace = Id::new(&product.clock, &product.rng);
        change.insert_workspace(&Workspace {
            id: workspace,
            slug: "main".parse().unwrap(),
            name: "Main".into(),
            created_at: now,
        });
        for (number, user) in product.users.iter().enumerate() {
            let (roles, workspaces) = match number {
                1 => (vec![Role::Author], vec!["main".parse().unwrap()]),
                _ => (vec![Role::Member], vec![]),
            };
            let name = format!("user{number}");
            change.insert_user(
                &User {
                    id: *user,
                    kind: UserKind::Service,
                    name,
                    email: None,
                    roles,
                    permissions: toolgate_contracts::Permissions::default(),
                    workspaces,
                    disabled: false,
                    created_at: now,
                },
                None,
            );
        }
        let spec: AgentSpec = json::decode(json!({"name": "agent"})).unwrap();
        let owner = Some(product.users[0]);
        change.upsert_agent(
            &StoredAgent {
                tenant: product.tenant,
                id: product.agent,
                workspace,
                owner,
                profile: None,
                spec,
                state: AgentState::Active,
                revision: 1,
            },
            now,
        );
        product.add_tool(&mut change, product.tool, "readRecord", json!({}));
        product.store.commit(change).await.unwrap();
        product
    }

    pub fn definition(name: &str, extra: serde_json::Value) -> Definition {
        let mut value = json!({"name": name, "version": "1.0.0", "description": "d", "input_schema": {"type": "object"}, "runner": {"kind": "external"}});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json::decode(value).unwrap()
    }

    pub fn add_tool(&self, change: &mut Change, id: ToolId, name: &str, extra: serde_json::Value) {
        let definition = Self::definition(name, extra);
        let row = Tool {
            tenant: self.tenant,
            id,
            name: name.parse().unwrap(),
            origin: Origin::Tenant,
            created_at: self.clock.now(),
        };
        change.insert_tool(&row, Guarded::from(&definition));
        change.insert_version(&Version {
            tenant: self.tenant,
            id: Id::new(&self.clock, &self.rng),
            tool: id,
            version: "1.0.0".parse().unwrap(),
            definition_digest: definition.definition_digest(),
            behaviour_digest: definition.behaviour_digest(),
            definition,
            source: None,
            lifecycle: Lifecycle::ACTIVE,
            published_by: "test".into(),
            created_at: self.clock.now(),
        });
    }

    pub fn call(&self, by: UserId, agent: Option<AgentId>, status: Status) -> NewCall {
        self.clock.advance(1);
        NewCall {
            id: CallId::new(&self.clock, &self.rng),
            call_id: "c_x".into(),
            run: None,
            root_run: None::<RunId>,
            step: None,
            seq: 0,
            tool: self.tool,
            tool_version: "1.0.0".into(),
            agent,
            workspace: None,
            principal: Principal::User(by),
            source: Source::Api,
            mode: Mode::Execute,
            class: EgressClass::None,
            side_effects: SideEffects::None,
            status,
            approval_status: if status == Status::Pending {
                ApprovalStatus::Pending
            } else {
                ApprovalStatus::NotRequired
            },
            person_required: false,
            approval: None,
            approved_by: None,
            grant: None,
            token: None,
            secrets: None,
            definition_digest: Digest::of(b"x"),
            policy_revision: 0,
            decision: "{}".into(),
            labels: "[]".into(),
            metadata: None,
            cost_estimate: None,
            reserved: None,
            holder: None,
            salt: None,
            input: r#"{"secret":"payload"}"#.into(),
            created_at: self.clock.now(),
            started_at: None,
            ending: None,
        }
    }

    pub async fn add(&self, call: &NewCall) -> Result<Outcome, Error> {
        let mut change = Change::new(self.tenant);
        change.insert_call(call.clone());
        self.store.commit(change).await
    }

    pub async fn run<const N: usize>(
        &self,
        sql: &'static str,
        parameters: [toolgate_store::Value; N],
    ) -> Result<Outcome, Error> {
        let mut change = Change::new(self.tenant);
        change.then(sql, parameters);
        self.store.commit(change).await
    }
}
