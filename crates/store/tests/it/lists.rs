//! Lists of calls: who sees what, pages that neither repeat nor skip, and forgetting.

use toolgate_contracts::Principal;
use toolgate_store::calls::{CallFilter, Sight, Status};
use toolgate_store::testing::every_store;
use toolgate_store::{Change, Scope};

use crate::product::Product;

#[tokio::test]
async fn pages_neither_repeat_nor_skip() {
    every_store(async |store| {
        let product = Product::with(store, 11).await;
        for number in 0..25 {
            let status = if number % 5 == 0 { Status::Failed } else { Status::Completed };
            product
                .add(&product.call(product.users[number % 2], (number % 3 == 0).then_some(product.agent), status))
                .await
                .unwrap();
        }
        let walk = async |sight: Sight, filter: CallFilter| {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = product.store.calls(product.tenant, &sight, &filter, cursor.as_deref(), 4).await.unwrap();
                assert!(page.items.len() <= 4);
                seen.extend(page.items.iter().map(|call| call.id));
                match page.next_cursor {
                    Some(next) => cursor = Some(next),
                    None => return seen,
                }
            }
        };
        let all = walk(Sight::Everything, CallFilter::default()).await;
        assert_eq!(all.len(), 25);
        assert!(all.is_sorted_by(|left, right| left > right), "newest first, none twice");
        let failed = CallFilter { status: Some(Status::Failed), ..CallFilter::default() };
        assert_eq!(walk(Sight::Everything, failed).await.len(), 5);
        let of_agent = CallFilter { agent: Some(product.agent), ..CallFilter::default() };
        assert_eq!(walk(Sight::Everything, of_agent).await.len(), 9);

        // Own calls and those of managed agents, each once: 13 of the first user, and 4 of the agent by the other.
        let viewer = Principal::User(product.users[0]);
        let mine = walk(Sight::OwnAndManaged { viewer, agents: vec![product.agent] }, CallFilter::default()).await;
        assert_eq!(mine.len(), 17);
        let page =
            product.store.calls(product.tenant, &Sight::Everything, &CallFilter::default(), None, 4).await.unwrap();
        let other = CallFilter { pending_approval: true, ..CallFilter::default() };
        let misused =
            product.store.calls(product.tenant, &Sight::Everything, &other, page.next_cursor.as_deref(), 4).await;
        assert_eq!(misused.unwrap_err().pointer(), Some("/cursor"));
    })
    .await;
}

#[tokio::test]
async fn who_manages_an_agent_sees_its_calls_and_nobody_else_does() {
    every_store(async |store| {
        let product = Product::with(store, 12).await;
        let [owner, colleague, stranger] = product.users;
        product.add(&product.call(stranger, Some(product.agent), Status::Completed)).await.unwrap();
        product.add(&product.call(stranger, None, Status::Completed)).await.unwrap();
        let sees = async |viewer, agents: Vec<_>| {
            let sight = Sight::OwnAndManaged { viewer: Principal::User(viewer), agents };
            product.store.calls(product.tenant, &sight, &CallFilter::default(), None, 50).await.unwrap().items.len()
        };
        assert_eq!(sees(owner, vec![product.agent]).await, 1, "the owner, the agent's");
        assert_eq!(sees(colleague, vec![product.agent]).await, 1, "an author of its workspace");
        assert_eq!(sees(stranger, vec![]).await, 2, "one's own");
        assert_eq!(sees(owner, vec![]).await, 0);
        // PostgreSQL says so even to a query that forgot to ask.
        if product.store.kind() == toolgate_store::Kind::Postgres {
            let count = async |viewer| {
                let scope = Scope::Viewer { tenant: product.tenant, viewer: Principal::User(viewer) };
                product.store.query(&scope, "SELECT id FROM calls WHERE tenant_id = $1", vec![]).await.unwrap().len()
            };
            assert_eq!((count(owner).await, count(colleague).await, count(stranger).await), (1, 1, 2));
        }
    })
    .await;
}

#[tokio::test]
async fn retention_forgets_finished_calls_and_erasure_a_person_s_payloads() {
    every_store(async |store| {
        let product = Product::with(store, 13).await;
        let [first, second, _] = product.users;
        product.add(&product.call(first, None, Status::Completed)).await.unwrap();
        product.add(&product.call(first, None, Status::Pending)).await.unwrap();
        product.clock.advance(10 * 86_400);
        product.add(&product.call(first, None, Status::Completed)).await.unwrap();
        product.add(&product.call(second, None, Status::Completed)).await.unwrap();
        let horizon = product.clock.now().plus_seconds(-5 * 86_400);
        assert_eq!(
            product.store.count_calls_before(product.tenant, horizon).await.unwrap(),
            1,
            "what still waits stays"
        );
        let mut change = Change::new(product.tenant);
        change.forget_calls_before(horizon, product.clock.now());
        assert_eq!(product.store.commit(change).await.unwrap().changed, [0, 0, 0, 1]);

        let person = Principal::User(first);
        assert_eq!(product.store.count_calls_of(product.tenant, person).await.unwrap(), 1);
        assert_eq!(product.store.count_open_calls_of(product.tenant, person).await.unwrap(), 1, "it has not ended");
        let mut change = Change::new(product.tenant);
        change.erase_payloads_of(person, product.clock.now());
        product.store.commit(change).await.unwrap();
        assert_eq!(product.store.count_calls_of(product.tenant, person).await.unwrap(), 0);
        assert_eq!(product.store.count_calls_of(product.tenant, Principal::User(second)).await.unwrap(), 1);
        let rows = product
            .store
            .query(&Scope::Tenant(product.tenant), "SELECT input FROM calls WHERE tenant_id = $1", vec![])
            .await
            .unwrap();
        assert_eq!(rows.iter().filter(|row| row.get::<Option<String>>(0).unwrap().is_some()).count(), 2);
    })
    .await;
}
