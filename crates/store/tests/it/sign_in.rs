//! Ways in that let nobody in any more, and changes that are about two tenants.

use toolgate_contracts::{Digest, Fault, Id, InvitationId, Permissions, Principal, SessionId, Timestamp};
use toolgate_store::invitations::{Invitation, InvitationState};
use toolgate_store::sign_in::{How, LinkPurpose, NewSession};
use toolgate_store::testing::every_store;
use toolgate_store::{Change, Error, Scope};

use crate::product::Product;

const DAY: i64 = 86_400;

impl Product {
    fn session(&self, change: &mut Change, expires_at: Timestamp) -> SessionId {
        let id = Id::new(&self.clock, &self.rng);
        change.insert_session(NewSession {
            id,
            user: self.users[0],
            token_hash: Digest::of(&self.rng.bytes::<16>()),
            how: How::Link,
            address: None,
            user_agent: None,
            at: self.clock.now(),
            expires_at,
            proved_at: None,
        });
        id
    }

    fn invitation(&self, change: &mut Change, expires_at: Timestamp) -> InvitationId {
        let id = Id::new(&self.clock, &self.rng);
        let invitation = Invitation {
            id,
            name: "ada".into(),
            email: None,
            roles: vec![],
            permissions: Permissions::default(),
            workspaces: vec![],
            invited_by: "ben".into(),
            mailed: false,
            created_at: self.clock.now(),
            expires_at,
            state: InvitationState::Open,
        };
        change.insert_invitation(&invitation, Principal::User(self.users[0]), Digest::of(&self.rng.bytes::<16>()));
        id
    }

    /// Sessions, links and invitations that are kept.
    async fn kept(&self) -> [i64; 3] {
        let mut kept = [0; 3];
        for (count, sql) in kept.iter_mut().zip([
            "SELECT count(*) FROM browser_sessions WHERE tenant_id = $1",
            "SELECT count(*) FROM sign_in_links WHERE tenant_id = $1",
            "SELECT count(*) FROM invitations WHERE tenant_id = $1",
        ]) {
            let rows = self.store.query(&Scope::Tenant(self.tenant), sql, vec![]).await.unwrap();
            *count = rows[0].get(0).unwrap();
        }
        kept
    }
}

#[tokio::test]
async fn what_let_somebody_in_is_forgotten_thirty_days_after_its_end_and_not_before() {
    every_store(async |store| {
        let other = Product::with(store.clone(), 71).await;
        let product = Product::with(store, 72).await;
        let at = |days: i64| product.clock.now().plus_seconds(days * DAY);
        // Ends today by being used up, by running out, or not for long.
        for product in [&product, &other] {
            let mut change = Change::new(product.tenant);
            let ended = product.session(&mut change, at(300));
            change.revoke_session(ended, product.clock.now());
            product.session(&mut change, product.clock.now());
            product.session(&mut change, at(300));
            let revoked = product.invitation(&mut change, at(300));
            change.revoke_invitation(revoked, product.clock.now());
            product.invitation(&mut change, product.clock.now());
            product.invitation(&mut change, at(300));
            for (number, expires_at) in [at(0), at(300)].into_iter().enumerate() {
                let hash = Digest::of(format!("{} {number}", product.tenant).as_bytes());
                change.insert_link(LinkPurpose::Reset, hash, product.users[0], product.clock.now(), expires_at);
            }
            product.store.commit(change).await.unwrap();
        }
        product.clock.advance(30 * DAY - 1);
        assert_eq!(product.store.forget_sign_ins(product.clock.now()).await.unwrap(), 0);
        product.clock.advance(2);
        assert_eq!(product.store.forget_sign_ins(product.clock.now()).await.unwrap(), 10);
        assert_eq!((product.kept().await, other.kept().await), ([1, 1, 1], [1, 1, 1]));
        assert_eq!(product.store.forget_sign_ins(product.clock.now()).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_change_of_two_tenants_is_made_in_both_or_in_neither() {
    every_store(async |store| {
        let there = Product::with(store.clone(), 73).await;
        let here = Product::with(store, 74).await;
        let late = here.clock.now().plus_seconds(DAY);
        let mut change = Change::new(here.tenant);
        let old = here.session(&mut change, late);
        here.store.commit(change).await.unwrap();

        let in_force = async || here.store.session_ends(here.tenant, old).await.unwrap().is_some();
        for (refused, kept) in [(true, [0, 0, 0]), (false, [1, 0, 0])] {
            let mut change = Change::new(there.tenant);
            there.session(&mut change, late);
            let mut end = Change::new(here.tenant);
            end.revoke_session(old, here.clock.now());
            if refused {
                end.hold_session(Id::new(&here.clock, &here.rng), Fault::conflict("gone", "stop"));
            }
            change.together_with(end);
            let done = here.store.commit(change).await;
            assert_eq!(matches!(done, Err(Error::Unmet(_))), refused, "{done:?}");
            assert_eq!((in_force().await, there.kept().await), (refused, kept));
        }
    })
    .await;
}
