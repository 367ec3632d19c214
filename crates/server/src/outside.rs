//! What goes out of this server, and on whose behalf: the connector, and the ways that the registry opens and closes.
//!
//! Deliberately absent: any other client. Whoever here reaches for a place that somebody else chose asks for a [`Way`].

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use toolgate_contracts::{Clock, Fault, HostPattern, Opening, OpeningId, OpeningSpec, TenantId, ToolName};
use toolgate_egress::mail::{Mailer, Relay};
use toolgate_egress::{Connector, HostList, Openings, Purpose, Settings, Url, Way};
use toolgate_registry::commands::Registry;

use crate::config::Config;

#[derive(Clone)]
pub struct Outside {
    pub connector: Connector,
    registry: Arc<Registry>,
    /// Of the snapshot whose revision they carry.
    openings: Arc<ArcSwap<Openings>>,
}

impl Outside {
    pub(crate) fn new(registry: Arc<Registry>, clock: Clock) -> Self {
        let connector = Connector::new(Settings::system(clock));
        let openings = Arc::new(ArcSwap::from_pointee(Openings { revision: -1, list: Vec::new() }));
        Self { connector, registry, openings }
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
        let id = OpeningId::from_uuid(uuid::Uuid::nil());
        let openings = Openings { revision: 0, list: vec![Opening { id, spec: open }] };
        let way = Way::new(Purpose::Discovery, Arc::new(openings));
        self.connector.judge(&way, &url).map_err(|error| Fault::from(error).at("/host"))
    }
}

/// The operator's relay, where one is configured.
pub(crate) fn mailer(config: &Config, connector: &Connector) -> Result<Option<Mailer>, Fault> {
    let relay = config.get("smtp");
    if relay.is_empty() {
        return Ok(None);
    }
    let hello =
        Url::parse(config.get("public_url")).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    Ok(Some(Mailer::new(connector.clone(), Relay::parse(relay)?, &hello)))
}
