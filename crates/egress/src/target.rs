//! Where a request wants to go, and whether it may: the one judgement, made anew for every hop.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use toolgate_contracts::id::OpeningId;
use toolgate_contracts::{Scheme, Timestamp};
use url::{Host, Url};

use crate::address::{self, Range};
use crate::error::{EgressError, Rule};
use crate::way::{Way, named};

/// A name with more addresses is nobody's service.
const ADDRESSES_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub scheme: Scheme,
    /// INVARIANT: a name is in lower case and without a last dot.
    pub host: Host<String>,
    pub port: u16,
}

/// An address that was judged, and the opening without which it would have been refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permitted {
    pub address: SocketAddr,
    pub opening: Option<OpeningId>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)
    }
}

impl Target {
    pub fn of(url: &Url) -> Result<Self, EgressError> {
        let scheme = match url.scheme() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            other => {
                let told = format!("the scheme `{other}` is not spoken");
                return Err(EgressError::new(Rule::Scheme, told, "use an `https` URL"));
            }
        };
        let host = url.host().map(|host| named(host.to_owned()));
        let Some(host) = host.filter(|host| !matches!(host, Host::Domain(name) if name.is_empty())) else {
            return Err(EgressError::new(Rule::Url, "the URL names no host", "write `https://host/path`"));
        };
        if !url.username().is_empty() || url.password().is_some() {
            let remedy = "leave it out, and give the credential as a secret header";
            return Err(EgressError::new(Rule::Url, "the URL holds a user or a password", remedy).of(host));
        }
        let port = url.port_or_known_default().unwrap_or(scheme.default_port());
        if port == 0 {
            return Err(EgressError::new(Rule::Url, "port 0 is no port", "name the port to connect to").of(host));
        }
        Ok(Self { scheme, host, port })
    }

    /// What a redirect or a pooled connection must not leave.
    pub fn origin(&self) -> (Scheme, &Host<String>, u16) {
        (self.scheme, &self.host, self.port)
    }

    pub fn literal(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        }
    }

    /// `host` or `host:port`, for the `Host` header.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn is_usual(&self) -> bool {
        self.scheme == Scheme::Https && matches!(self.port, 443 | 80)
    }

    /// What can be refused before the name is looked up: a lookup alone tells somebody something.
    pub fn judge_name(&self, way: &Way, now: Timestamp) -> Result<(), EgressError> {
        if let Host::Domain(name) = &self.host
            && address::is_metadata_name(name)
        {
            return Err(self.never("a metadata service"));
        }
        // Nobody is told to open what can never be opened.
        if let Some(ip) = self.literal()
            && let Range::Never(what) = address::seen_from_here(SocketAddr::new(ip, self.port), &[])
        {
            return Err(self.never(what));
        }
        if !way.lists_admit(&self.host, self.port) {
            let told = format!("`{self}` is not on the list of hosts that this may reach");
            let remedy = "use a listed host, or have the list of the tool, profile or tenant extended";
            return Err(EgressError::new(Rule::Hosts, told, remedy).of(self));
        }
        let is_open = way.is_endpoint(&self.host, self.port)
            || self.is_usual()
            || way.opened_name(&self.host, self.scheme, self.port, now).is_some()
            || way.opens_some_address(self.scheme, self.port, now);
        if is_open { Ok(()) } else { Err(self.unusual()) }
    }

    /// Judges every address: any that is closed refuses all, since who answers for one answers for the others.
    pub fn judge(
        &self,
        way: &Way,
        addresses: &[IpAddr],
        listening: &[SocketAddr],
        now: Timestamp,
    ) -> Result<Vec<Permitted>, EgressError> {
        if addresses.len() > ADDRESSES_MAX {
            let told = format!("`{self}` has {} addresses, {ADDRESSES_MAX} at most are expected", addresses.len());
            return Err(EgressError::new(Rule::Dns, told, "name a host that has fewer").of(self));
        }
        let mut permitted: Vec<Permitted> = Vec::with_capacity(addresses.len());
        for ip in addresses {
            let address = SocketAddr::new(*ip, self.port);
            let opening = self.judge_address(way, address, listening, now).map_err(|error| error.with_log(address))?;
            if !permitted.iter().any(|known| known.address == address) {
                permitted.push(Permitted { address, opening });
            }
        }
        Ok(permitted)
    }

    fn judge_address(
        &self,
        way: &Way,
        address: SocketAddr,
        listening: &[SocketAddr],
        now: Timestamp,
    ) -> Result<Option<OpeningId>, EgressError> {
        let range = address::seen_from_here(address, listening);
        if let Range::Never(what) = range {
            return Err(self.never(what));
        }
        if way.is_endpoint(&self.host, self.port) || (range == Range::Public && self.is_usual()) {
            return Ok(None);
        }
        let opening = way
            .opened_name(&self.host, self.scheme, self.port, now)
            .or_else(|| way.opened_address(address.ip(), self.scheme, self.port, now));
        match (opening, range) {
            (Some(opening), _) => Ok(Some(opening)),
            (None, Range::Closed(what)) => {
                let verb = if self.literal().is_some() { "is" } else { "resolves to" };
                Err(EgressError::new(Rule::Address, format!("`{self}` {verb} {what}"), self.remedy()).of(self))
            }
            (None, _) => Err(self.unusual()),
        }
    }

    fn never(&self, what: &str) -> EgressError {
        let told = format!("`{self}` is or resolves to {what}");
        EgressError::new(Rule::Never, told, "this can never be opened, use another host").of(self)
    }

    fn unusual(&self) -> EgressError {
        let (rule, told) = match self.scheme {
            Scheme::Http => (Rule::Scheme, format!("`{self}` is not open to plain `http`")),
            Scheme::Https => (Rule::Port, format!("port {} of `{self}` is not open", self.port)),
        };
        let first = match self.scheme {
            Scheme::Http => "use `https`",
            Scheme::Https => "use port 443",
        };
        EgressError::new(rule, told, format!("{first}, or {}", self.remedy())).of(self)
    }

    fn remedy(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Https => "",
            Scheme::Http => " --scheme http",
        };
        format!(
            "the operator can open it: `toolgate egress open {} --port {}{scheme} --reason TEXT`",
            self.host.to_string().trim_matches(['[', ']']),
            self.port
        )
    }
}
