//! Model providers: kept by revision, one name each, read with the catalog, also where one cannot be read.

use serde_json::json;
use toolgate_contracts::{FaultKind, ProviderSpec, json};
use toolgate_store::Change;
use toolgate_store::providers::StoredProvider;
use toolgate_store::testing::every_store;

use crate::product::Product;

fn provider(product: &Product, name: &str, revision: u32) -> StoredProvider {
    let prices = json!({"large": {"input": "2.50", "cached_input": "0.25", "output": revision.to_string()}});
    let spec: ProviderSpec =
        json::decode(json!({"name": name, "kind": "openai_chat", "secret": "KEY", "prices": prices})).unwrap();
    let now = product.clock.now();
    StoredProvider { tenant: product.tenant, spec, revision, saved_by: "x".into(), created_at: now, updated_at: now }
}

async fn put(product: &Product, provider: &StoredProvider) -> Result<(), FaultKind> {
    let mut change = Change::new(product.tenant);
    change.put_provider(provider).count_revision();
    let done = product.store.commit(change).await;
    done.map(drop).map_err(|error| toolgate_contracts::Fault::from(error).kind())
}

#[tokio::test]
async fn a_provider_is_replaced_only_by_whoever_saw_it_as_it_is() {
    every_store(async |store| {
        let product = Product::with(store.clone(), 71).await;
        let other = Product::with(store, 72).await;
        let first = provider(&product, "ours", 1);
        put(&product, &first).await.unwrap();
        put(&other, &provider(&other, "ours", 1)).await.unwrap();
        assert_eq!(put(&product, &provider(&product, "ours", 1)).await, Err(FaultKind::Conflict));
        assert_eq!(put(&product, &provider(&product, "ours", 3)).await, Err(FaultKind::Conflict));
        // `1` and `l` look alike.
        put(&product, &provider(&product, "l-a", 1)).await.unwrap();
        assert!(put(&product, &provider(&product, "1-a", 1)).await.is_err());
        let second = provider(&product, "ours", 2);
        put(&product, &second).await.unwrap();
        let own = |product: &Product, catalog: &toolgate_store::catalog::Catalog| -> Vec<StoredProvider> {
            catalog.providers.iter().filter(|one| one.tenant == product.tenant).cloned().collect()
        };
        let catalog = product.store.catalog().await.unwrap();
        assert_eq!(own(&product, &catalog), [provider(&product, "l-a", 1), second]);
        assert_eq!(own(&other, &catalog), [provider(&other, "ours", 1)]);

        let mut change = Change::new(product.tenant);
        change.delete_provider(&first.spec.name).count_revision();
        product.store.commit(change).await.unwrap();
        let mut again = Change::new(product.tenant);
        again.delete_provider(&first.spec.name);
        assert!(product.store.commit(again).await.is_err());
        product.run("UPDATE providers SET spec = '[\"secret\"]' WHERE tenant_id = $1", []).await.unwrap();
        let catalog = product.store.catalog().await.unwrap();
        assert_eq!(own(&product, &catalog), []);
        assert_eq!(own(&other, &catalog).len(), 1, "another's stays");
        let told = product.store.unreadable_rows().await.unwrap().concat();
        assert!(told.contains("providers") && !told.contains("secret"), "{told}");
    })
    .await;
}
