//! Sums of what was used: each call once, whoever sums and however often.

use toolgate_contracts::{Amount, CallId, Fault, Id, LeafId, Status, TenantId};
use toolgate_store::agent_runs::ModelUsed;
use toolgate_store::audit::Entry;
use toolgate_store::calls::{Ending, NewCall};
use toolgate_store::testing::{every_database, every_store};
use toolgate_store::usage::{UsageBy, UsageFilter, UsageKey, UsageSums};
use toolgate_store::{Change, Kind, MIGRATIONS, Store};

use crate::product::Product;

const ALL: fn() -> UsageFilter =
    || UsageFilter { from: "0000-00-00".into(), to: "9999-99-99".into(), agent: None, tool: None };

fn leaf(product: &Product, id: LeafId, action: &str, call: CallId) -> Entry {
    Entry {
        id,
        at: product.clock.now(),
        tenant: product.tenant,
        actor: "user:x".into(),
        action: action.into(),
        object: call.to_string(),
        details: serde_json::Map::new(),
    }
}

/// A call that ended at once, with its one leaf.
async fn ended(product: &Product, agent: bool, status: Status, ending: Ending) -> CallId {
    let agent = agent.then_some(product.agent);
    let call = product.call(product.users[0], agent, status);
    let started_at = Some(call.created_at);
    let ending = Some(Ending { at: Some(call.created_at.plus_seconds(2)), ..ending });
    let call = NewCall { started_at, ending, ..call };
    let id = call.id;
    let mut change = Change::new(product.tenant);
    change.insert_call(call);
    change.audit(&leaf(product, Id::from_uuid(id.uuid()), &format!("call.{status}"), id));
    product.store.commit(change).await.unwrap();
    id
}

async fn note(product: &Product, action: &str, call: CallId) {
    let mut change = Change::new(product.tenant);
    change.audit(&leaf(product, Id::new(&product.clock, &product.rng), action, call));
    product.store.commit(change).await.unwrap();
}

/// Gives every leaf its index. PostgreSQL shows those of ended transactions only.
async fn sequence(store: &Store, tenant: TenantId, leaves: u64) {
    loop {
        let progress = store.audit_progress(tenant).await.unwrap();
        if progress.size >= leaves {
            return;
        }
        let waiting = store.audit_waiting(tenant, progress.position).await.unwrap();
        if !waiting.leaves.is_empty() {
            store.audit_sequence(tenant, progress, &waiting, &[]).await.unwrap();
        }
    }
}

async fn total(store: &Store, tenant: TenantId) -> UsageSums {
    let rows = store.usage(tenant, UsageBy::Tenant, &ALL()).await.unwrap();
    rows.first().map(|(_, sums)| *sums).unwrap_or_default()
}

#[expect(clippy::unnecessary_wraps, reason = "as a row has it")]
fn cost(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn calls_are_summed_by_day_agent_and_tool_when_they_end() {
    every_store(async |store| {
        let product = Product::with(store, 41).await;
        let (store, tenant) = (&product.store, product.tenant);
        let usage = cost(r#"{"units": 7}"#);
        let paid = Ending { cost: cost("0.25"), reported_cost: cost("0.30"), usage, ..Ending::default() };
        ended(&product, true, Status::Completed, paid).await;
        ended(&product, false, Status::Completed, Ending { cached: true, ..Ending::default() }).await;
        ended(&product, true, Status::Failed, Ending { cost: cost("0.000001"), ..Ending::default() }).await;
        note(&product, "call.intent", CallId::new(&product.clock, &product.rng)).await;
        note(&product, "tool.register", CallId::new(&product.clock, &product.rng)).await;
        assert_eq!(store.roll_up_usage(tenant).await.unwrap(), 0, "only what has its place in the log is summed");
        sequence(store, tenant, 5).await;
        assert_eq!(store.tenants_to_sum().await.unwrap(), [tenant]);
        assert_eq!(store.roll_up_usage(tenant).await.unwrap(), 5);
        assert_eq!(store.roll_up_usage(tenant).await.unwrap(), 0, "never twice");
        assert_eq!(store.tenants_to_sum().await.unwrap(), []);
        let expected = UsageSums {
            calls: 3,
            failed: 1,
            cached: 1,
            duration_ms: 6000,
            units: 7,
            cost: Amount::from_micros(250_001),
            reported: Amount::from_micros(300_000),
            ..UsageSums::default()
        };
        assert_eq!(total(store, tenant).await, expected);
        let by_agent = store.usage(tenant, UsageBy::Agent, &ALL()).await.unwrap();
        let calls: Vec<_> = by_agent.iter().map(|(key, sums)| (key.clone(), sums.calls)).collect();
        assert_eq!(calls, [(UsageKey::Agent(None), 1), (UsageKey::Agent(Some(product.agent)), 2)]);
        let day = product.clock.now().day();
        let by_day = store.usage(tenant, UsageBy::Day, &ALL()).await.unwrap();
        assert_eq!(by_day, [(UsageKey::Day(day.clone()), expected)]);
        let of_agent = UsageFilter { agent: Some(product.agent), from: day.clone(), to: day, ..ALL() };
        let rows = store.usage(tenant, UsageBy::Tool, &of_agent).await.unwrap();
        assert_eq!((rows.len(), &rows[0].0, rows[0].1.calls), (1, &UsageKey::Tool(Some(product.tool)), 2));
        assert_eq!(total(store, TenantId::SYSTEM).await, UsageSums::default(), "another tenant's");
    })
    .await;
}

#[tokio::test]
async fn questions_to_models_are_summed_beside_calls_and_are_of_no_tool() {
    every_store(async |store| {
        let product = Product::with(store, 43).await;
        let (store, tenant) = (&product.store, product.tenant);
        ended(&product, true, Status::Completed, Ending { cost: cost("0.25"), ..Ending::default() }).await;
        sequence(store, tenant, 1).await;
        store.roll_up_usage(tenant).await.unwrap();
        let took = ModelUsed { input: 100, cached: 40, output: 7, cost: Some(Amount::from_micros(500_000)) };
        for took in [took, ModelUsed { cost: None, ..took }] {
            let mut change = Change::new(tenant);
            change.count_question(Some(product.agent), product.clock.now(), &took);
            store.commit(change).await.unwrap();
        }
        let asked = UsageSums {
            cost: Amount::from_micros(500_000),
            questions: 2,
            unpriced: 1,
            input_tokens: 200,
            cached_tokens: 80,
            output_tokens: 14,
            ..UsageSums::default()
        };
        let by_tool = store.usage(tenant, UsageBy::Tool, &ALL()).await.unwrap();
        assert_eq!(by_tool[0], (UsageKey::Tool(None), asked));
        let called = (by_tool[1].0.clone(), by_tool[1].1.calls, by_tool[1].1.questions);
        assert_eq!(called, (UsageKey::Tool(Some(product.tool)), 1, 0));
        let by_agent = store.usage(tenant, UsageBy::Agent, &ALL()).await.unwrap();
        assert_eq!((by_agent.len(), &by_agent[0].0), (1, &UsageKey::Agent(Some(product.agent))));
        let sums = by_agent[0].1;
        assert_eq!((sums.calls, sums.questions, sums.cost), (1, 2, Amount::from_micros(750_000)));
    })
    .await;
}

#[tokio::test]
async fn a_lost_call_counts_once_and_costs_when_it_is_settled() {
    every_store(async |store| {
        let product = Product::with(store, 42).await;
        let (store, tenant) = (&product.store, product.tenant);
        let call = product.call(product.users[0], None, Status::Running);
        product.add(&call).await.unwrap();
        let taken = || Fault::internal("taken");
        let mut change = Change::new(tenant);
        change.lose_call(call.id, "{}".into(), 1, taken());
        change.audit(&leaf(&product, Id::new(&product.clock, &product.rng), "call.outcome_unknown", call.id));
        store.commit(change).await.unwrap();
        sequence(store, tenant, 1).await;
        store.roll_up_usage(tenant).await.unwrap();
        let lost = UsageSums { calls: 1, ..UsageSums::default() };
        assert_eq!(total(store, tenant).await, lost);
        let ending = Ending { cost: cost("1.50"), at: Some(product.clock.now()), ..Ending::default() };
        let mut change = Change::new(tenant);
        change.finish_call(call.id, Status::OutcomeUnknown, Status::Failed, ending, taken());
        change.audit(&leaf(&product, Id::new(&product.clock, &product.rng), "call.settled", call.id));
        store.commit(change).await.unwrap();
        sequence(store, tenant, 2).await;
        store.roll_up_usage(tenant).await.unwrap();
        let settled = UsageSums { failed: 1, cost: Amount::from_micros(1_500_000), ..lost };
        assert_eq!(total(store, tenant).await, settled);
    })
    .await;
}

#[tokio::test]
async fn replicas_that_sum_at_once_count_every_call_once() {
    every_database(MIGRATIONS, async |database| {
        let product = Product::with(database.open().await, 43).await;
        let tenant = product.tenant;
        let other = match product.store.kind() {
            Kind::Postgres => database.open().await,
            // One process owns the file.
            Kind::Sqlite => product.store.clone(),
        };
        for number in 0..120 {
            ended(&product, number % 3 == 0, Status::Completed, Ending { cost: cost("0.01"), ..Ending::default() })
                .await;
            if number % 10 == 9 {
                sequence(&product.store, tenant, number + 1).await;
                let (left, right) = tokio::join!(product.store.roll_up_usage(tenant), other.roll_up_usage(tenant));
                left.unwrap();
                right.unwrap();
            }
        }
        product.store.roll_up_usage(tenant).await.unwrap();
        let sums = total(&product.store, tenant).await;
        assert_eq!((sums.calls, sums.cost), (120, Amount::from_micros(1_200_000)));
        let by_agent = product.store.usage(tenant, UsageBy::Agent, &ALL()).await.unwrap();
        assert_eq!(by_agent.iter().map(|(_, sums)| sums.calls).collect::<Vec<_>>(), [80, 40]);
    })
    .await;
}
