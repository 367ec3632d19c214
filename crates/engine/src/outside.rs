//! What goes out of this server, and on whose behalf: the connector, and the ways that the registry opens and closes.
//!
//! Invariant: what a call sends goes by the openings, lists of hosts and profiles of the moment it is sent, and what was
//! reached only because the operator opened it is in the log.
//! Deliberately absent: any other client. Whoever here reaches for a place that somebody else chose asks for a [`Way`].

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::json;
use toolgate_contracts::{
    Caller, Clock, Fault, HostPattern, Id, Opening, OpeningId, OpeningSpec, Rng, TenantId, ToolName,
};
use toolgate_egress::{Connector, EgressError, HostList, Openings, Purpose, Request, Response, Settings, Url, Way};
use toolgate_registry::commands::Registry;
use toolgate_store::audit::Entry;
use toolgate_store::{Change, Store};

use crate::admit::profiles_of;
use crate::call::Call;
use crate::uses;

#[derive(Clone)]
pub struct Outside {
    pub connector: Connector,
    registry: Arc<Registry>,
    store: Store,
    clock: Clock,
    rng: Rng,
    /// Of the snapshot whose revision they carry.
    openings: Arc<ArcSwap<Openings>>,
}

impl Outside {
    pub fn new(registry: Arc<Registry>, store: Store, clock: Clock, rng: Rng) -> Self {
        let settings = Settings::system(clock.clone());
        Self::with(settings, registry, store, clock, rng)
    }

    /// With another resolver or other certificates.
    pub fn with(settings: Settings, registry: Arc<Registry>, store: Store, clock: Clock, rng: Rng) -> Self {
        let connector = Connector::new(settings);
        let openings = Arc::new(ArcSwap::from_pointee(Openings { revision: -1, list: Vec::new() }));
        Self { connector, registry, store, clock, rng, openings }
    }

    /// Where this server listens: nothing that goes out may come in there.
    pub fn listen(&self, address: SocketAddr) {
        self.connector.listen(vec![address]);
    }

    /// The way out for a tenant: with what the operator opened for it, within the hosts that it closed itself to.
    pub fn way(&self, purpose: Purpose, tenant: TenantId, tool: Option<&ToolName>) -> Result<Way, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let mut way = Way::new(purpose, self.openings()?).for_tenant(tenant, registry.tenant.slug.clone());
        if let Some(hosts) = &registry.tenant.settings.hosts {
            way = way.within(HostList::parse(hosts)?);
        }
        if let Some(tool) = tool {
            way = way.for_tool(tool.clone());
        }
        Ok(way)
    }

    /// The way out for a call: the tenant's, within the hosts of the tool and of the profiles that bind its agent.
    pub fn way_of(&self, call: &Call) -> Result<Way, Fault> {
        let mut way = self.way(Purpose::Tool, call.tenant, Some(&call.tool.tool.name))?;
        if !call.tool.definition.hosts.is_empty() {
            way = way.within(HostList::parse(&call.tool.definition.hosts)?);
        }
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(call.tenant)?;
        let agent = call.agent.and_then(|agent| registry.agents.get(&agent));
        for profile in profiles_of(registry, agent, &call.tool) {
            if let Some(hosts) = &profile.hosts {
                way = way.within(HostList::parse(hosts)?);
            }
        }
        Ok(way)
    }

    /// Sends what a call sends, and puts into the log which openings it needed, or leaves it to the entry of its end.
    pub async fn send(&self, call: &Call, way: &Way, request: Request) -> Result<Response, EgressError> {
        let answer = self.connector.send(way, request).await;
        let openings = match &answer {
            Ok(answer) => answer.openings.as_slice(),
            Err(error) => error.openings(),
        };
        if !openings.is_empty()
            && !call.uses.keep(openings)
            && let Err(fault) = self.note(call, openings).await
        {
            tracing::error!(call = %call.id, "an opening was used and not noted: {}", fault.logged().unwrap_or(fault.told()));
        }
        answer
    }

    async fn note(&self, call: &Call, openings: &[OpeningId]) -> Result<(), Fault> {
        let mut change = Change::new(call.tenant);
        uses::note(&mut change, call, openings, &self.clock, &self.rng);
        self.store.commit(change).await?;
        Ok(())
    }

    /// Puts into the log which openings something else than a call needed.
    pub async fn note_use(&self, caller: &Caller, purpose: Purpose, openings: &[OpeningId]) -> Result<(), Fault> {
        self.note_use_of(caller.tenant, &caller.principal.to_string(), purpose, openings).await
    }

    /// The same where nobody in particular asked.
    pub async fn note_use_of(
        &self,
        tenant: TenantId,
        actor: &str,
        purpose: Purpose,
        openings: &[OpeningId],
    ) -> Result<(), Fault> {
        if openings.is_empty() {
            return Ok(());
        }
        let mut change = Change::new(tenant);
        for opening in openings {
            let details = json!({"for": purpose.as_str()});
            change.audit(&Entry {
                id: Id::new(&self.clock, &self.rng),
                at: self.clock.now(),
                tenant,
                actor: actor.to_owned(),
                action: "egress.use".to_owned(),
                object: opening.to_string(),
                details: details.as_object().cloned().unwrap_or_default(),
            });
        }
        self.store.commit(change).await?;
        Ok(())
    }

    fn openings(&self) -> Result<Arc<Openings>, Fault> {
        let snapshot = self.registry.snapshot();
        let known = self.openings.load_full();
        if known.revision == snapshot.revision {
            return Ok(known);
        }
        let list = snapshot.tenant(TenantId::SYSTEM)?.deciding.opened();
        let fresh = Arc::new(Openings { revision: snapshot.revision, list });
        self.openings.store(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Whether something may be opened at all: neither a metadata service nor a port of this server.
    pub fn check_opening(&self, spec: &OpeningSpec) -> Result<(), Fault> {
        Openings::check(spec)?;
        let literal = match &spec.host {
            HostPattern::Address(address) => *address,
            HostPattern::Name(name) if name == "localhost" || name.ends_with(".localhost") => [127, 0, 0, 1].into(),
            // Whatever they stand for is judged when it is known.
            HostPattern::Name(_) | HostPattern::Network(_) => return Ok(()),
        };
        let address = SocketAddr::new(literal, spec.port);
        let url = Url::parse(&format!("{}://{address}/", spec.scheme)).map_err(Fault::internal)?;
        // As if it were open to all, here and now.
        let open = OpeningSpec {
            host: HostPattern::Address(literal),
            tenants: None,
            tools: None,
            expires_at: None,
            ..spec.clone()
        };
        let id = OpeningId::from_uuid(TenantId::SYSTEM.uuid());
        let openings = Openings { revision: 0, list: vec![Opening { id, spec: open }] };
        let way = Way::new(Purpose::Discovery, Arc::new(openings));
        self.connector.judge(&way, &url).map_err(|error| Fault::from(error).at("/host"))
    }
}
