//! Deliveries wait for their time, tenant by tenant and webhook by webhook.

use toolgate_contracts::{DeliveryId, DeliveryState, Id, NoticeType, Role, Timestamp, WebhookId, WebhookState};
use toolgate_store::Change;
use toolgate_store::notices::{Addressee, NewDelivery, SealedSecrets, Webhook};
use toolgate_store::people::{User, UserKind};
use toolgate_store::testing::every_store;

use crate::product::Product;

async fn webhook(product: &Product) -> WebhookId {
    let id = Id::new(&product.clock, &product.rng);
    let webhook = Webhook {
        id,
        url: "https://hooks.example.com/".into(),
        types: vec![NoticeType::CallFailed],
        state: WebhookState::Active,
        paused_because: None,
        failures: 0,
        next_at: None,
        rotated_at: None,
        created_by: "user:x".into(),
        created_at: product.clock.now(),
    };
    let mut change = Change::new(product.tenant);
    change.insert_webhook(&webhook, &sealed(1));
    product.store.commit(change).await.unwrap();
    assert_eq!(product.store.webhook(product.tenant, id).await.unwrap(), Some(webhook));
    id
}

fn sealed(byte: u8) -> SealedSecrets {
    SealedSecrets { key_id: "k".into(), sealed: vec![byte; 60], before: None }
}

async fn tell(product: &Product, webhook: Option<WebhookId>) -> DeliveryId {
    let id = Id::new(&product.clock, &product.rng);
    let (notice_type, at) = (NoticeType::CallFailed, product.clock.now());
    product
        .change(|change| change.insert_delivery(NewDelivery { id, webhook, notice_type, body: "{}".into(), at }))
        .await;
    product.clock.advance(1);
    id
}

impl Product {
    async fn change(&self, make: impl FnOnce(&mut Change) -> &mut Change) {
        let mut change = Change::new(self.tenant);
        make(&mut change);
        self.store.commit(change).await.unwrap();
    }

    async fn due(&self, webhook: Option<WebhookId>) -> Vec<DeliveryId> {
        let to = Addressee { tenant: self.tenant, webhook };
        let due = self.store.due_deliveries(to, self.clock.now(), 100).await.unwrap();
        due.into_iter().map(|due| due.id).collect()
    }

    async fn addressees(&self) -> Vec<Option<WebhookId>> {
        let due = self.store.due_addressees(self.clock.now(), 100).await.unwrap();
        let mut own: Vec<_> = due.into_iter().filter(|to| to.tenant == self.tenant).map(|to| to.webhook).collect();
        own.sort();
        own
    }
}

#[tokio::test]
async fn what_did_not_arrive_waits_and_stands_in_no_other_s_way() {
    every_store(async |store| {
        let (product, other) = (Product::with(store.clone(), 1).await, Product::with(store, 2).await);
        let (one, two) = (webhook(&product).await, webhook(&product).await);
        let strange = webhook(&other).await;
        let (first, second, elsewhere, mail) = (
            tell(&product, Some(one)).await,
            tell(&product, Some(one)).await,
            tell(&product, Some(two)).await,
            tell(&product, None).await,
        );
        tell(&other, Some(strange)).await;
        assert_eq!(product.addressees().await, [None, Some(one), Some(two)]);
        assert_eq!(product.due(None).await, [mail]);
        assert_eq!(product.due(Some(one)).await, [first, second]);
        assert_eq!(product.due(Some(strange)).await, [], "another tenant's");

        let later = product.clock.now().plus_seconds(5);
        product
            .change(|change| change.try_delivery_again(first, later, "refused", None).delay_deliveries(one, later))
            .await;
        assert_eq!(product.addressees().await, [None, Some(two)]);
        product.clock.advance(5);
        assert_eq!(product.due(Some(one)).await, [second, first], "what was tried least often comes first");
        product.change(|change| change.delivered(second, later)).await;
        assert_eq!(product.due(Some(one)).await, [first]);
        assert_eq!(product.due(Some(two)).await, [elsewhere]);
        let listed = product.store.deliveries(product.tenant, one, None, 10).await.unwrap();
        let states: Vec<_> = listed.iter().map(|it| (it.id, it.state, it.attempts, it.last_error.as_deref())).collect();
        assert_eq!(
            states,
            [(second, DeliveryState::Delivered, 1, None), (first, DeliveryState::Waiting, 1, Some("refused"))]
        );
        assert_eq!(product.store.deliveries(product.tenant, one, Some(second), 10).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_paused_webhook_holds_what_it_is_told_and_sends_it_when_it_is_resumed() {
    every_store(async |store| {
        let product = Product::with(store, 1).await;
        let id = webhook(&product).await;
        let (given_up, waiting) = (tell(&product, Some(id)).await, tell(&product, Some(id)).await);
        product.change(|change| change.give_delivery_up(given_up, "gone").pause_webhook(id, "nobody there")).await;
        let paused = product.store.webhook(product.tenant, id).await.unwrap().unwrap();
        assert_eq!((paused.state, paused.paused_because.as_deref()), (WebhookState::Paused, Some("nobody there")));
        assert_eq!(product.addressees().await, []);
        assert_eq!(product.store.catalog().await.unwrap().webhooks.len(), 0, "it is told of nothing new");
        let now = product.clock.now();
        product.change(|change| change.resume_webhook(id, now)).await;
        assert_eq!(product.due(Some(id)).await, [given_up, waiting]);
        assert_eq!(product.store.catalog().await.unwrap().webhooks.len(), 1);

        let at = Timestamp::from_millis(7);
        let (was, new) = (sealed(1), SealedSecrets { before: Some(vec![3; 60]), ..sealed(2) });
        product.change(|change| change.rotate_webhook(id, &was, new.clone(), at)).await;
        assert_eq!(product.store.webhook_secrets(product.tenant, id).await.unwrap(), Some(new));
        assert_eq!(product.store.webhook(product.tenant, id).await.unwrap().unwrap().rotated_at, Some(at));
        let mut late = Change::new(product.tenant);
        late.rotate_webhook(id, &was, sealed(4), now);
        assert!(product.store.commit(late).await.is_err(), "another was faster");

        product.change(|change| change.delivered(given_up, now)).await;
        product.store.forget_deliveries(now.plus_seconds(60)).await.unwrap();
        let left = product.store.deliveries(product.tenant, id, None, 10).await.unwrap();
        assert_eq!(left.iter().map(|it| it.id).collect::<Vec<_>>(), [waiting], "what waits is not forgotten");
        product.change(|change| change.delete_webhook(id)).await;
        assert_eq!(product.store.webhooks(product.tenant).await.unwrap(), []);
        assert_eq!(product.due(Some(id)).await, []);
    })
    .await;
}

#[tokio::test]
async fn mail_is_for_people_in_force_with_a_role_and_in_the_workspace() {
    every_store(async |store| {
        let product = Product::with(store, 1).await;
        let now = product.clock.now();
        for (name, role, workspaces, disabled) in [
            ("ann", Role::Approver, vec!["main".parse().unwrap()], false),
            ("bob", Role::Admin, vec![], false),
            ("cat", Role::Member, vec!["main".parse().unwrap()], false),
            ("dan", Role::Approver, vec!["main".parse().unwrap()], true),
        ] {
            let account = Id::new(&product.clock, &product.rng);
            let user = User {
                id: Id::new(&product.clock, &product.rng),
                kind: UserKind::Person,
                name: name.into(),
                email: Some(format!("{name}@example.com")),
                roles: vec![role],
                permissions: toolgate_contracts::Permissions::default(),
                workspaces,
                disabled: false,
                created_at: now,
            };
            product
                .change(|change| {
                    change.insert_account(account, name, now);
                    change.insert_user(&user, Some(account));
                    change.set_disabled(user.id, disabled.then_some(now))
                })
                .await;
        }
        let main = product.store.workspaces(product.tenant).await.unwrap()[0].id;
        let of = async |workspace| {
            product.store.mail_addresses(product.tenant, ["approver", "admin"], workspace).await.unwrap()
        };
        assert_eq!(of(Some(main)).await, ["ann@example.com"]);
        assert_eq!(of(None).await, ["ann@example.com", "bob@example.com"]);
    })
    .await;
}
