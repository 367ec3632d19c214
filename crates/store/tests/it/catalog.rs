//! The catalog: read as of one moment, also where rows cannot be read; and looking up users and keys.

use toolgate_contracts::{Digest, Id, KeyId, Principal, ToolId};
use toolgate_store::calls::{CallFilter, Sight, Status};
use toolgate_store::credentials::ApiKey;
use toolgate_store::testing::{every_database, every_store};
use toolgate_store::{Change, Kind, MIGRATIONS};

use crate::product::Product;

#[tokio::test]
async fn a_catalog_is_of_one_moment_while_changes_come() {
    every_store(async |store| {
        let product = Product::with(store, 31).await;
        let writing = async {
            for number in 0..60 {
                let mut change = Change::new(product.tenant);
                let name = format!("tool{number}");
                product.add_tool(&mut change, Id::new(&product.clock, &product.rng), &name, serde_json::json!({}));
                change.count_revision();
                product.store.commit(change).await.unwrap();
            }
        };
        let reading = async {
            for _ in 0..20 {
                let catalog = product.store.catalog().await.unwrap();
                // One tool from the beginning, and one by each change that counted.
                assert_eq!(i64::try_from(catalog.tools.len()).unwrap(), catalog.revision + 1);
                assert_eq!(catalog.versions.len(), catalog.tools.len());
            }
        };
        tokio::join!(writing, reading);
        assert_eq!(product.store.catalog().await.unwrap().revision, 60);
        assert_eq!(product.store.registry_revision().await.unwrap(), 60);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_nobody_and_switches_off_what_it_may_have_guarded() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let other = Product::with(store.clone(), 32).await;
        let product = Product::with(store.clone(), 33).await;
        let broken: ToolId = Id::new(&product.clock, &product.rng);
        let mut change = Change::new(product.tenant);
        product.add_tool(&mut change, broken, "broken", serde_json::json!({}));
        change.set_enabled(product.tool, true, "x", product.clock.now());
        change.then("UPDATE tool_overrides SET patch = 'secret{' WHERE tenant_id = $1", []);
        change.then("UPDATE agents SET spec = '\"secret\"' WHERE tenant_id = $1", []);
        change.then("INSERT INTO profiles (tenant_id, id, name, spec, created_at, updated_at) VALUES ($1, $2, 'p', '[\"secret\"]', 0, 0)", [broken.into()]);
        change.then("UPDATE workspaces SET slug = 'SECRET !' WHERE tenant_id = $1", []);
        store.commit(change).await.unwrap();
        // Versions cannot be changed through the rules, so one is made wrong.
        let wrong = "INSERT INTO tool_versions (tenant_id, id, tool_id, version, definition, input_schema, definition_digest, behaviour_digest, published_by, created_at)
            SELECT tenant_id, $2, tool_id, '9.0.0', '[\"secret\"]', input_schema, definition_digest, behaviour_digest, published_by, created_at FROM tool_versions WHERE tenant_id = $1 AND tool_id = $3";
        let version: toolgate_contracts::VersionId = Id::new(&product.clock, &product.rng);
        product.run(wrong, [version.into(), broken.into()]).await.unwrap();
        let mut expected = 5;
        if database.kind == Kind::Sqlite {
            database.execute("UPDATE tools SET name = CAST(x'73ff' AS TEXT) WHERE name = 'broken'").await.unwrap();
            expected += 1;
        }

        let catalog = store.catalog().await.unwrap();
        assert_eq!(catalog.tenants.len(), 2);
        assert!(catalog.agents.iter().all(|agent| agent.tenant == other.tenant) && catalog.agents.len() == 1);
        assert!(catalog.profiles.is_empty());
        assert_eq!(catalog.versions.iter().filter(|version| version.tool == broken).count(), 1);
        assert!(catalog.tools.iter().any(|tool| tool.id == other.tool));
        let [over] = catalog.overrides.as_slice() else { panic!("{:?}", catalog.overrides) };
        assert_eq!((over.tool, over.enabled, &over.patch), (product.tool, Some(false), &serde_json::json!({})));

        let unreadable = store.unreadable_rows().await.unwrap();
        assert_eq!(unreadable.len(), expected, "{unreadable:#?}");
        assert!(unreadable.iter().all(|row| !row.to_lowercase().contains("secret")), "{unreadable:#?}");
        for named in [format!("tool_versions {version}: "), format!("tool_overrides {}: ", product.tool), format!("agents {}: ", product.agent)] {
            assert!(unreadable.iter().any(|row| row.starts_with(&named)), "{named}: {unreadable:#?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_user_is_found_by_id_before_name_before_address() {
    every_store(async |store| {
        let product = Product::with(store, 34).await;
        let [first, second, third] = product.users;
        let mut change = Change::new(product.tenant);
        change.then("UPDATE users SET email = 'user1' WHERE tenant_id = $1 AND id = $2", [first.into()]);
        change.then(
            "UPDATE users SET name = $3, login = $3 WHERE tenant_id = $1 AND id = $2",
            [third.into(), second.to_string().into()],
        );
        product.store.commit(change).await.unwrap();
        let find = async |text: &str| product.store.user(product.tenant, text).await.unwrap().map(|user| user.id);
        assert_eq!(find("user1").await, Some(second), "the name, not the first user's address");
        assert_eq!(find(&second.to_string()).await, Some(second), "the id, not the third user's name");
        product
            .run("UPDATE users SET login = 'other' WHERE tenant_id = $1 AND id = $2", [second.into()])
            .await
            .unwrap();
        assert_eq!(find("user1").await, Some(first), "the address, when nobody has the name");
        assert_eq!(find("nobody").await, None);
    })
    .await;
}

#[tokio::test]
async fn keys_are_found_by_id_and_by_name() {
    every_store(async |store| {
        let other = Product::with(store.clone(), 35).await;
        let product = Product::with(store, 36).await;
        let ids: Vec<KeyId> = (0..3).map(|_| Id::new(&product.clock, &product.rng)).collect();
        let mut change = Change::new(product.tenant);
        for (number, id) in ids.iter().enumerate() {
            let key = ApiKey {
                id: *id,
                name: if number == 2 { "other".into() } else { "deploy".into() },
                owner: product.users[number],
                owner_name: String::new(),
                agent: None,
                scopes: vec![],
                client: None,
                resource: None,
                created_at: product.clock.now(),
                expires_at: None,
                revoked_at: None,
                last_used_at: None,
            };
            change.insert_key(&key, Digest::of(b"x"));
        }
        change.revoke_key(ids[1], product.clock.now());
        product.store.commit(change).await.unwrap();
        let named = product.store.keys_by_name(product.tenant, "deploy").await.unwrap();
        assert_eq!(named.iter().map(|key| key.id).collect::<Vec<_>>(), [ids[0]]);
        let revoked = product.store.key_by_id(product.tenant, ids[1]).await.unwrap().unwrap();
        assert!(revoked.revoked_at.is_some() && revoked.owner_name == "user1");
        assert_eq!(product.store.key_by_id(other.tenant, ids[0]).await.unwrap(), None);
        assert!(product.store.keys_by_name(other.tenant, "deploy").await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn calls_of_many_agents_are_all_listed() {
    every_store(async |store| {
        let product = Product::with(store, 37).await;
        let [owner, _, stranger] = product.users;
        let mut agents = vec![product.agent];
        for number in 0..150 {
            let agent = Id::new(&product.clock, &product.rng);
            let sql = "INSERT INTO agents (tenant_id, id, name, workspace_id, owner_id, spec, created_at, updated_at)
                SELECT tenant_id, $2, $3, workspace_id, owner_id, spec, 0, 0 FROM agents WHERE tenant_id = $1 AND id = $4";
            product.run(sql, [agent.into(), format!("a{number}").into(), product.agent.into()]).await.unwrap();
            agents.push(agent);
        }
        for agent in [agents[0], agents[70], agents[149]] {
            product.add(&product.call(stranger, Some(agent), Status::Completed)).await.unwrap();
        }
        product.add(&product.call(owner, Some(agents[149]), Status::Completed)).await.unwrap();
        product.add(&product.call(owner, None, Status::Completed)).await.unwrap();
        product.add(&product.call(stranger, None, Status::Completed)).await.unwrap();
        let sight = Sight::OwnAndManaged { viewer: Principal::User(owner), agents: agents.clone() };
        let walk = async |filter: CallFilter| {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = product.store.calls(product.tenant, &sight, &filter, cursor.as_deref(), 2).await.unwrap();
                seen.extend(page.items.iter().map(|call| call.id));
                match page.next_cursor {
                    Some(next) => cursor = Some(next),
                    None => return seen,
                }
            }
        };
        let all = walk(CallFilter::default()).await;
        assert_eq!(all.len(), 5);
        assert!(all.is_sorted_by(|left, right| left > right), "newest first, none twice");
        assert_eq!(walk(CallFilter { agent: Some(agents[149]), ..CallFilter::default() }).await.len(), 2);
        let unmanaged = Id::new(&product.clock, &product.rng);
        assert!(walk(CallFilter { agent: Some(unmanaged), ..CallFilter::default() }).await.is_empty());
    })
    .await;
}
