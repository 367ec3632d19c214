//! On whose behalf something goes out, and what of it is open: the operator's openings, the closed lists of hosts.

use std::net::IpAddr;
use std::sync::Arc;

use toolgate_contracts::egress::REASON_CHARS_MAX;
use toolgate_contracts::id::OpeningId;
use toolgate_contracts::{Fault, HostPattern, Opening, OpeningSpec, Scheme, Slug, TenantId, Timestamp, ToolName};
use url::Host;

use crate::address::{self, Range};
use crate::error::{EgressError, Rule};

/// All openings at one time. `revision` grows with every change, so that no connection outlives the opening it was
/// made under.
#[derive(Clone, Debug, Default)]
pub struct Openings {
    pub revision: i64,
    pub list: Vec<Opening>,
}

impl Openings {
    /// What an opening must be before it is stored. Whatever is stored, the connector judges each request again.
    pub fn check(spec: &OpeningSpec) -> Result<(), Fault> {
        if spec.port == 0 {
            return Err(Fault::invalid("`port` is 0", "name the port that the host listens on").at("/port"));
        }
        let chars = spec.reason.trim().chars().count();
        if chars == 0 || chars > REASON_CHARS_MAX {
            let told = format!("`reason` has {chars} characters, between 1 and {REASON_CHARS_MAX} are expected");
            return Err(Fault::invalid(told, "say why the host is opened; it is shown in the log").at("/reason"));
        }
        let never = match &spec.host {
            HostPattern::Name(name) => address::is_metadata_name(name),
            HostPattern::Address(ip) => matches!(address::range(*ip), Range::Never(_)),
            // A network may hold such addresses: they stay closed within it.
            HostPattern::Network(net) => {
                let (first, last) = (address::range(net.network()), address::range(net.broadcast()));
                matches!((first, last), (Range::Never(first), Range::Never(last)) if first == last)
            }
        };
        if never {
            let told = format!("`{}` can never be opened: it is or may be a metadata service, or no host", spec.host);
            return Err(Fault::invalid(told, "open the one host that is needed, by its name or address").at("/host"));
        }
        Ok(())
    }
}

/// A closed list of hosts: `api.example.com`, `*.example.com`, an address or a network, each perhaps with `:port`.
#[derive(Clone, Debug)]
pub struct HostList(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    host: Listed,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Listed {
    Host(HostPattern),
    /// Everything below a name, the name itself left out.
    Below(String),
}

impl HostList {
    /// An empty list admits nothing.
    pub fn parse<T: AsRef<str>>(hosts: &[T]) -> Result<Self, Fault> {
        hosts.iter().map(|host| Entry::parse(host.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    fn admits(&self, host: &Host<String>, port: u16) -> bool {
        self.0.iter().any(|entry| entry.port.is_none_or(|only| only == port) && entry.host.holds(host))
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
            let remedy = "write `api.example.com`, `*.example.com`, an address or a network, with `:port` if only one";
            Fault::invalid(format!("`{shown}` is no entry of a list of hosts"), remedy)
        };
        // An IPv6 address has colons of its own, unless it stands in brackets.
        let is_bare_v6 = text.matches(':').count() > 1 && !text.starts_with('[');
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_v6 && !text.ends_with(']') => {
                (host, Some(port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong)?))
            }
            _ => (text, None),
        };
        let host = match host.strip_prefix("*.") {
            Some(below) => match below.parse() {
                Ok(HostPattern::Name(name)) => Listed::Below(name),
                _ => return Err(wrong()),
            },
            None => Listed::Host(host.parse().map_err(|_| wrong())?),
        };
        Ok(Self { host, port })
    }
}

impl Listed {
    fn holds(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (Self::Host(HostPattern::Name(name)), Host::Domain(host)) => name == host,
            (Self::Below(name), Host::Domain(host)) => {
                host.strip_suffix(name.as_str()).is_some_and(|head| head.len() > 1 && head.ends_with('.'))
            }
            (Self::Host(pattern), Host::Ipv4(ip)) => holds_address(pattern, (*ip).into()),
            (Self::Host(pattern), Host::Ipv6(ip)) => holds_address(pattern, (*ip).into()),
            _ => false,
        }
    }
}

fn holds_address(pattern: &HostPattern, address: IpAddr) -> bool {
    match pattern {
        HostPattern::Name(_) => false,
        HostPattern::Address(only) => *only == address,
        HostPattern::Network(net) => net.contains(&address),
    }
}

/// A host and port that the operator wrote into the configuration, which opens them for what they are configured for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

impl Endpoint {
    pub fn parse(host: &str, port: u16) -> Result<Self, EgressError> {
        let wrong = || {
            let shown: String = host.chars().take(80).flat_map(char::escape_debug).collect();
            EgressError::new(Rule::Url, format!("`{shown}` is no host"), "write a name or an address")
        };
        let parsed = Host::parse(host).map_err(|_| wrong())?;
        match named(parsed) {
            Host::Domain(name) if name.is_empty() => Err(wrong()),
            _ if port == 0 => Err(EgressError::new(Rule::Url, "port 0 is no port", "name the port to connect to")),
            host => Ok(Self { host, port }),
        }
    }
}

/// Without the dot that ends a full name: `localhost.` and `localhost` are one host.
pub(crate) fn named(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => match name.strip_suffix('.') {
            Some(bare) => Host::Domain(bare.to_owned()),
            None => Host::Domain(name),
        },
        address => address,
    }
}

/// What something goes out for; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Tool,
    Webhook,
    Mail,
    Import,
    Discovery,
    Model,
}

impl Purpose {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Webhook => "webhook",
            Self::Mail => "mail",
            Self::Import => "import",
            Self::Discovery => "discovery",
            Self::Model => "model",
        }
    }
}

/// On whose behalf a request goes out, and how far that reaches.
#[derive(Clone, Debug)]
pub struct Way {
    pub tenant: Option<(TenantId, Slug)>,
    pub tool: Option<ToolName>,
    pub openings: Arc<Openings>,
    /// Of the tool, the tenant and the profile, those that have one: a host must be on each.
    pub hosts: Vec<HostList>,
    /// An entry of the operator's configuration, open without an opening; a redirect to anything else is judged as usual.
    pub endpoint: Option<Endpoint>,
    pub purpose: Purpose,
}

impl Way {
    pub fn new(purpose: Purpose, openings: Arc<Openings>) -> Self {
        Self { tenant: None, tool: None, openings, hosts: Vec::new(), endpoint: None, purpose }
    }

    #[must_use]
    pub fn for_tenant(mut self, id: TenantId, slug: Slug) -> Self {
        self.tenant = Some((id, slug));
        self
    }

    #[must_use]
    pub fn for_tool(mut self, tool: ToolName) -> Self {
        self.tool = Some(tool);
        self
    }

    /// Closes it to a list; of several lists a host must be on each.
    #[must_use]
    pub fn within(mut self, hosts: HostList) -> Self {
        self.hosts.push(hosts);
        self
    }

    #[must_use]
    pub fn to_endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = Some(endpoint);
        self
    }

    pub(crate) fn lists_admit(&self, host: &Host<String>, port: u16) -> bool {
        self.hosts.iter().all(|list| list.admits(host, port))
    }

    pub(crate) fn is_endpoint(&self, host: &Host<String>, port: u16) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.host == *host && endpoint.port == port)
    }

    /// The openings that hold now for this tenant and tool, at a port and scheme.
    fn openings(&self, scheme: Scheme, port: u16, now: Timestamp) -> impl Iterator<Item = &Opening> {
        self.openings.list.iter().filter(move |Opening { id: _, spec }| {
            let OpeningSpec { host: _, port: at, scheme: by, tenants, tools, reason: _, expires_at } = spec;
            let slug = self.tenant.as_ref().map(|(_, slug)| slug);
            *at == port
                && *by == scheme
                && tenants.as_ref().is_none_or(|tenants| slug.is_some_and(|slug| tenants.contains(slug)))
                && tools.as_ref().is_none_or(|tools| self.tool.as_ref().is_some_and(|tool| tools.contains(tool)))
                && expires_at.is_none_or(|expires| now < expires)
        })
    }

    /// An opening of the host by its name.
    pub(crate) fn opened_name(
        &self,
        host: &Host<String>,
        scheme: Scheme,
        port: u16,
        now: Timestamp,
    ) -> Option<OpeningId> {
        let Host::Domain(host) = host else { return None };
        let mut openings = self.openings(scheme, port, now);
        openings.find(|opening| matches!(&opening.spec.host, HostPattern::Name(name) if name == host)).map(|it| it.id)
    }

    pub(crate) fn opened_address(
        &self,
        address: IpAddr,
        scheme: Scheme,
        port: u16,
        now: Timestamp,
    ) -> Option<OpeningId> {
        self.openings(scheme, port, now).find(|opening| holds_address(&opening.spec.host, address)).map(|it| it.id)
    }

    /// Whether asking for the name's addresses can change anything: without it, a name is not even looked up.
    pub(crate) fn opens_some_address(&self, scheme: Scheme, port: u16, now: Timestamp) -> bool {
        self.openings(scheme, port, now).any(|opening| !matches!(opening.spec.host, HostPattern::Name(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_list_names_hosts_all_below_a_name_addresses_and_ports() {
        #[track_caller]
        fn check(listed: &str, host: &str, port: u16, expected: bool) {
            let list = HostList::parse(&[listed]).unwrap();
            let host = named(Host::parse(host).unwrap());
            assert_eq!(list.admits(&host, port), expected, "{listed} {host}:{port}");
        }
        check("api.example.com", "API.example.com.", 443, true);
        check("api.example.com", "x.api.example.com", 443, false);
        check("*.example.com", "a.b.example.com", 443, true);
        check("*.example.com", "example.com", 443, false);
        check("*.example.com", "badexample.com", 443, false);
        check("example.com:8443", "example.com", 8443, true);
        check("example.com:8443", "example.com", 443, false);
        check("203.0.113.0/24", "203.0.113.9", 443, true);
        check("[2001:db8::1]:443", "[2001:db8::1]", 443, true);
        check("2001:db8::1", "[2001:db8::1]", 443, true);
        check("127.0.0.1", "localhost", 443, false);
        for wrong in ["", "*", "*.", "*.10.0.0.1", "a.test:0", "a.test:x", "https://a.test", "a b"] {
            assert!(HostList::parse(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_can_never_be_open_is_refused_when_it_is_asked_for() {
        #[track_caller]
        fn check(host: &str, port: u16, reason: &str, expected: Option<&str>) {
            let spec = OpeningSpec {
                host: host.parse().unwrap(),
                port,
                scheme: Scheme::Https,
                tenants: None,
                tools: None,
                reason: reason.into(),
                expires_at: None,
            };
            assert_eq!(
                Openings::check(&spec).err().and_then(|fault| fault.pointer().map(str::to_owned)).as_deref(),
                expected
            );
        }
        check("10.0.0.5", 8080, "the wiki", None);
        check("10.0.0.0/8", 8080, "the wiki", None);
        check("wiki.internal", 8080, "the wiki", None);
        check("wiki.internal", 0, "the wiki", Some("/port"));
        check("wiki.internal", 80, " ", Some("/reason"));
        for never in
            ["169.254.169.254", "169.254.0.0/16", "168.63.129.16", "fd00:ec2::254", "::ffff:10.0.0.1", "0.0.0.0"]
        {
            check(never, 80, "why not", Some("/host"));
        }
        for name in ["metadata.google.internal", "instance-data", "metadata"] {
            check(name, 80, "why not", Some("/host"));
        }
    }
}
