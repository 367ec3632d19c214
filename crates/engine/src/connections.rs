//! Connections with servers of others that want tokens: begun, ended and taken away by who may.
//!
//! Invariant: the organisation's connection is the operator's to make, a person's own is theirs; an agent makes none.
//! Deliberately absent: tokens. The runner of such servers gets and keeps them.

use std::sync::Arc;

use serde_json::json;
use toolgate_contracts::upstream::{ConnectionOf, OauthGrant, UpstreamOauth};
use toolgate_contracts::{
    Caller, Fault, FaultKind, Permission, Principal, Runner, SecretInfo, SecretPlace, SecretScope, Slug, TenantId,
    Upstream,
};
use toolgate_registry::toolset::View;
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::upstreams::StoredUpstream;

use crate::engine::Engine;
use crate::runner::{Connecting, Connection, UpstreamAsked};

/// Under which the tokens of a server are kept. No secret of anybody has such a name.
pub fn kept_as(server: &Slug) -> String {
    format!("oauth:{server}")
}

impl Engine {
    /// Where somebody goes with a browser to connect a server; without a scope, as its calls are made.
    pub async fn connect_upstream(
        &self,
        caller: &Caller,
        name: &Slug,
        scope: Option<SecretScope>,
        redirect: String,
        document: Option<String>,
    ) -> Result<String, Fault> {
        let (asked, place) = self.connecting(caller, name, scope).await?;
        let by = caller.principal.to_string();
        let runner = Arc::clone(self.runners.of_upstreams()?);
        runner.connect_upstream(asked, Connecting { place, by, redirect, document }).await
    }

    /// Connects it with what the browser came back with.
    pub async fn connected_upstream(
        &self,
        caller: &Caller,
        name: &Slug,
        scope: Option<SecretScope>,
        back: String,
    ) -> Result<Connection, Fault> {
        let (asked, place) = self.connecting(caller, name, scope).await?;
        let by = caller.principal.to_string();
        let runner = Arc::clone(self.runners.of_upstreams()?);
        let connecting = Connecting { place, by, redirect: String::new(), document: None };
        let connection = runner.connected_upstream(asked, connecting, back).await?;
        self.forget_upstream(caller.tenant, name).await;
        Ok(connection)
    }

    /// Takes the tokens away; whoever gave them is not told.
    pub async fn disconnect_upstream(
        &self,
        caller: &Caller,
        name: &Slug,
        scope: Option<SecretScope>,
    ) -> Result<SecretScope, Fault> {
        let (stored, oauth) = self.wanting_tokens(caller, name)?;
        let place = place_of(caller, &oauth, scope)?;
        let kept = kept_as(&stored.spec.name);
        if self.vault().find(caller.tenant, place, &kept).await?.is_none() {
            let told = format!("the server `{name}` is not connected (`{}`)", place.scope);
            return Err(Fault::new(
                FaultKind::NotFound,
                told,
                format!("connect it with `toolgate upstream connect {name}`"),
            ));
        }
        let mut change = Change::new(caller.tenant);
        let details = json!({"scope": place.scope, "scope_id": place.id});
        change.audit(&Entry {
            id: toolgate_contracts::Id::new(&self.clock, &self.rng),
            at: self.clock.now(),
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: "upstream.disconnect".to_owned(),
            object: name.to_string(),
            details: details.as_object().cloned().unwrap_or_default(),
        });
        change.delete_secret(place, &kept);
        self.store.commit(change).await?;
        self.forget_upstream(caller.tenant, name).await;
        Ok(place.scope)
    }

    /// Which connection there is for whoever asks a server: the same as long as its tokens are renewed, another one when
    /// it was connected anew. A server that wants none has one, which never ends.
    pub async fn upstream_connection(
        &self,
        tenant: TenantId,
        name: &Slug,
        principal: Principal,
    ) -> Result<Option<String>, Fault> {
        let snapshot = self.registry.snapshot();
        let stored = snapshot.tenant(tenant)?.upstreams.get(name);
        let oauth = stored.ok_or_else(|| Fault::not_found("upstream", name))?.spec.oauth();
        let Some(oauth) = oauth.filter(|oauth| oauth.grant == OauthGrant::Code) else {
            return Ok(Some(String::new()));
        };
        let place = match oauth.per {
            ConnectionOf::Org => SecretPlace::org(tenant),
            ConnectionOf::User => SecretPlace::of(principal),
        };
        self.runners.of_upstreams()?.upstream_connection(tenant, place, name).await
    }

    /// The connections with a server that the caller may see: the organisation's, and their own.
    pub async fn upstream_connections(&self, caller: &Caller, spec: &Upstream) -> Result<Vec<SecretInfo>, Fault> {
        if spec.oauth().is_none() {
            return Ok(Vec::new());
        }
        let (kept, own) = (kept_as(&spec.name), SecretPlace::of(caller.principal));
        let all = self.store.secrets(caller.tenant).await?.into_iter();
        let seen =
            |one: &SecretInfo| one.scope == SecretScope::Org || (one.scope == own.scope && one.scope_id == own.id);
        Ok(all.filter(|one| one.name == kept && seen(one)).collect())
    }

    async fn connecting(
        &self,
        caller: &Caller,
        name: &Slug,
        scope: Option<SecretScope>,
    ) -> Result<(UpstreamAsked, SecretPlace), Fault> {
        let (stored, oauth) = self.wanting_tokens(caller, name)?;
        let place = place_of(caller, &oauth, scope)?;
        if oauth.grant == OauthGrant::ClientCredentials {
            let told = format!("the server `{name}` is not connected by anybody: it gets its tokens by itself");
            return Err(Fault::conflict(told, "leave it, or use the grant `code`"));
        }
        let now = self.upstream_place(&caller.tenant_slug, &stored.spec)?;
        if now != stored.place {
            let told = format!("the server `{name}` is elsewhere than when it was accepted");
            return Err(Fault::conflict(told, format!("look at it, then run `toolgate upstream accept {name}`")));
        }
        let (secrets, found) = self.secrets_of_upstream(caller.tenant, &stored).await?;
        let asked = UpstreamAsked {
            tenant: caller.tenant,
            tenant_slug: caller.tenant_slug.clone(),
            principal: None,
            upstream: stored.spec.clone(),
            secrets,
            found,
        };
        Ok((asked, place))
    }

    /// A server of the caller's tenant that wants tokens. Who may call it may know that it is there.
    fn wanting_tokens(&self, caller: &Caller, name: &Slug) -> Result<(Arc<StoredUpstream>, UpstreamOauth), Fault> {
        let may = caller.may(&Permission::UPSTREAMS_EDIT) || caller.may(&Permission::SECRETS_USER);
        if caller.agent.is_some() || !may {
            let told = "a key made for an agent connects nobody, and whoever connects must be allowed to keep secrets";
            return Err(Fault::new(FaultKind::Forbidden, told, "use a person's own key, or sign in"));
        }
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let today = self.clock.now().day();
        let view = View::of(registry, caller, &today)?;
        let stored = registry.upstreams.get(name).cloned();
        let stored = stored.ok_or_else(|| {
            // Of a server none of whose tools they have, they do not learn that it is there.
            let is_shown = view.tools().any(|(tool, _)| {
                let of_system = tool.tool.tenant == TenantId::SYSTEM;
                of_system && matches!(&tool.definition.runner, Runner::Mcp(runner) if runner.server == name.as_str())
            });
            if is_shown { shared(name) } else { Fault::not_found("upstream", name) }
        })?;
        let Some(oauth) = stored.spec.oauth().cloned() else {
            let told = format!("the server `{name}` takes no connections");
            return Err(Fault::conflict(told, "the operator adds `--oauth` to it"));
        };
        Ok((stored, oauth))
    }
}

/// Tokens for a server of the system are the system's own: no other tenant's people connect it.
fn shared(name: &Slug) -> Fault {
    let told = format!("the server `{name}` is the system tenant's, and only that tenant can be connected with it");
    Fault::new(FaultKind::Forbidden, told, OF_ONES_OWN)
}

/// What else there is to do about a server of the system that wants tokens.
pub const OF_ONES_OWN: &str = "ask your operator for one of your own tenant (`toolgate upstream add`)";

/// Whose the tokens are, if the caller may keep them there.
fn place_of(caller: &Caller, oauth: &UpstreamOauth, scope: Option<SecretScope>) -> Result<SecretPlace, Fault> {
    let usual = match oauth.per {
        ConnectionOf::Org => SecretScope::Org,
        ConnectionOf::User => SecretScope::User,
    };
    match scope.unwrap_or(usual) {
        SecretScope::Org => {
            caller.require(&Permission::UPSTREAMS_EDIT)?;
            Ok(SecretPlace::org(caller.tenant))
        }
        SecretScope::User if oauth.per == ConnectionOf::User => {
            caller.require(&Permission::SECRETS_USER)?;
            Ok(SecretPlace::of(caller.principal))
        }
        scope => {
            let told = format!("the server takes no connection of the scope `{scope}`");
            Err(Fault::invalid(told, "its calls are made with the organisation's (`org`)").at("/scope"))
        }
    }
}
