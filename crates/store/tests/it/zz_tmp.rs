use toolgate_store::testing::every_store;
use toolgate_store::{Change, Scope};
use toolgate_contracts::*;
#[tokio::test(flavor = "multi_thread")]
async fn product() {
    every_store(async |store| {
        println!("{:?}", store.migration_state().await);
        println!("{:?}", store.tenants().await);
        println!("{:?}", store.keys(TenantId::from_uuid(uuid::Uuid::nil()), None, None, 5).await.map(|k| k.len()));
        println!("{:?}", store.users(TenantId::from_uuid(uuid::Uuid::nil()), "", 5).await.map(|k| k.len()));
        println!("{:?}", store.user(TenantId::from_uuid(uuid::Uuid::nil()), "x").await.map(|k| k.is_some()));
        let t = TenantId::from_uuid(uuid::Uuid::from_u128(5));
        let mut c = Change::new(t);
        c.insert_tenant(&toolgate_store::people::Tenant{id:t, slug:"acme".parse().unwrap(), name:"A".into(), currency:"USD".into(), open_write:false, created_at:Timestamp::from_millis(1)});
        println!("{:?}", store.commit(c).await.map(|o| o.changed));
        for sight in [toolgate_store::calls::Sight::Everything, toolgate_store::calls::Sight::OwnAndManaged{viewer: Principal::Local(1), agents: vec![AgentId::from_uuid(uuid::Uuid::nil())]}] {
            println!("{:?}", store.calls(t, &sight, &Default::default(), None, 10).await.map(|p| p.items.len()));
        }
        println!("{:?}", store.query(&Scope::Everyone("x"), "SELECT count(*) FROM tenants", vec![]).await);
    }).await;
}
