//! Who is at the other end: the peer of the connection, or the client that a trusted proxy speaks for.
//!
//! What a stranger writes into `Forwarded` or `X-Forwarded-…` is neither believed nor refused: it is not looked at. A
//! proxy that sets one of the two kinds lets the other through as the client wrote it, so where both are there and name
//! different clients neither is believed.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{FORWARDED, HOST};
use ipnet::IpNet;

use crate::app::App;

/// Proxies that one request may have passed; more are not followed.
const HOPS_MAX: usize = 16;

const FOR: &str = "x-forwarded-for";
const PROTO: &str = "x-forwarded-proto";
const FORWARDED_HOST: &str = "x-forwarded-host";

/// The other end of the connection. Absent where a request was made in process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Where a request comes from, as far as that can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The origin by which the client reached us; a trusted proxy may say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedBy {
    pub https: bool,
    /// As a trusted proxy was asked for it; absent where none says so.
    pub forwarded_host: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let nets = words.map(|word| {
            word.parse::<IpNet>().or_else(|_| word.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
                format!("`{word}` is neither an address such as 10.1.2.3 nor a network such as 10.0.0.0/8")
            })
        });
        nets.collect::<Result<_, _>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&address))
    }

    /// `https`: how the connection itself is.
    pub fn client(&self, peer: IpAddr, https: bool, headers: &HeaderMap) -> (ClientAddress, ReachedBy) {
        let peer = peer.to_canonical();
        let direct = (ClientAddress(peer), ReachedBy { https, forwarded_host: None });
        if !self.trust(peer) {
            return direct;
        }
        let standard = headers.contains_key(FORWARDED).then(|| self.by_forwarded(peer, https, headers));
        let common = headers.contains_key(FOR).then(|| self.by_x_forwarded(peer, https, headers));
        match (standard, common) {
            (Some(one), Some(other)) if one.0 != other.0 => direct,
            (Some(said), _) | (None, Some(said)) => said,
            (None, None) => self.by_x_forwarded(peer, https, headers),
        }
    }

    /// From the nearest hop outwards, as long as the one that speaks is trusted. Who is first not trusted is the client,
    /// whatever it says of others.
    fn walk<T>(&self, peer: IpAddr, hops: impl Iterator<Item = (Option<IpAddr>, T)>) -> (IpAddr, Option<T>) {
        let mut client = (peer, None);
        for (address, said) in hops.take(HOPS_MAX) {
            // "unknown" and made-up names: the proxy will not say, so it stands for its client.
            let Some(address) = address else { return client };
            client = (address, Some(said));
            if !self.trust(address) {
                return client;
            }
        }
        client
    }

    fn by_x_forwarded(&self, peer: IpAddr, https: bool, headers: &HeaderMap) -> (ClientAddress, ReachedBy) {
        let hops = list(headers, FOR).into_iter().rev().map(|hop| (address(hop), ()));
        let (client, _) = self.walk(peer, hops);
        // The nearest proxy's word, which stands last.
        let proto = list(headers, PROTO).pop();
        let host = list(headers, FORWARDED_HOST).pop();
        let https = proto.map_or(https, |proto| proto.eq_ignore_ascii_case("https"));
        (ClientAddress(client), ReachedBy { https, forwarded_host: host.map(str::to_owned) })
    }

    fn by_forwarded(&self, peer: IpAddr, https: bool, headers: &HeaderMap) -> (ClientAddress, ReachedBy) {
        let name = FORWARDED.as_str();
        let hops = list(headers, name).into_iter().rev().map(|hop| (member(hop, "for").and_then(address), hop));
        let (client, said) = self.walk(peer, hops);
        let proto = said.and_then(|said| member(said, "proto"));
        let host = said.and_then(|said| member(said, "host"));
        let https = proto.map_or(https, |proto| proto.eq_ignore_ascii_case("https"));
        (ClientAddress(client), ReachedBy { https, forwarded_host: host.map(str::to_owned) })
    }
}

/// The items of a header that may be repeated, in order. One that is no text says nothing.
fn list<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

/// One parameter of an element of `Forwarded`; a quoted string without escapes, as addresses and hosts are.
fn member<'h>(element: &'h str, name: &str) -> Option<&'h str> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(known, _)| known.trim().eq_ignore_ascii_case(name))?;
    let value = value.trim();
    Some(value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value))
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    parsed.ok().map(|address| address.to_canonical())
}

/// Whether anybody claims to pass the request on, trusted or not.
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
    })
}

/// Notes on each request where it comes from.
pub fn note_client(app: &App, request: &mut Request) {
    if let Some(Peer(peer)) = request.extensions().get::<Peer>().copied() {
        let https = app.config.has_tls();
        let (client, reached) = app.config.proxies().client(peer.ip(), https, request.headers());
        request.extensions_mut().insert(client);
        request.extensions_mut().insert(reached);
    }
}

/// The origin that a browser on our own page sends, where no `public_url` says it.
pub fn own_origin(headers: &HeaderMap, reached: Option<&ReachedBy>) -> Option<String> {
    let own = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = reached.and_then(|reached| reached.forwarded_host.as_deref()).or(own)?;
    let scheme = if reached.is_some_and(|reached| reached.https) { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[track_caller]
    fn check(proxies: &str, peer: &str, headers: &[(&'static str, &str)], client: &str, reached: (bool, Option<&str>)) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let found = Proxies::parse(proxies).unwrap().client(peer.parse().unwrap(), false, &map);
        let (https, host) = reached;
        let expected = ReachedBy { https, forwarded_host: host.map(str::to_owned) };
        assert_eq!(found, (ClientAddress(client.parse().unwrap()), expected), "{headers:?}");
    }

    const NOTHING: (bool, Option<&str>) = (false, None);

    #[test]
    fn a_stranger_is_never_believed() {
        let spoofed = [
            (FOR, "127.0.0.1"),
            ("forwarded", "for=127.0.0.1;proto=https;host=localhost"),
            (PROTO, "https"),
            (FORWARDED_HOST, "localhost"),
        ];
        check("", "203.0.113.9", &spoofed, "203.0.113.9", NOTHING);
        check("10.0.0.0/8", "203.0.113.9", &spoofed, "203.0.113.9", NOTHING);
        check("10.0.0.0/8", "::ffff:203.0.113.9", &spoofed, "203.0.113.9", NOTHING);
        // Loopback is no proxy unless it is named.
        check("", "127.0.0.1", &[(FOR, "203.0.113.9")], "127.0.0.1", NOTHING);
    }

    #[test]
    fn a_trusted_proxy_speaks_for_its_client_and_not_for_what_the_client_says() {
        let proxies = "10.0.0.0/8, 2001:db8::1";
        check(proxies, "10.1.1.1", &[], "10.1.1.1", NOTHING);
        check(proxies, "10.1.1.1", &[(FOR, "203.0.113.9")], "203.0.113.9", NOTHING);
        check(proxies, "::ffff:10.1.1.1", &[(FOR, "203.0.113.9")], "203.0.113.9", NOTHING);
        check(proxies, "2001:db8::1", &[(FOR, "[2001:db8::9]:443")], "2001:db8::9", NOTHING);
        // What stands left of the client was written by the client.
        check(proxies, "10.1.1.1", &[(FOR, "127.0.0.1, 203.0.113.9")], "203.0.113.9", NOTHING);
        check(proxies, "10.1.1.1", &[(FOR, "127.0.0.1"), (FOR, "203.0.113.9")], "203.0.113.9", NOTHING);
        // Through two of ours.
        check(proxies, "10.1.1.1", &[(FOR, "1.1.1.1, 203.0.113.9, 10.2.2.2")], "203.0.113.9", NOTHING);
        check(proxies, "10.1.1.1", &[(FOR, "10.3.3.3, 10.2.2.2")], "10.3.3.3", NOTHING);
        // It will not say, or cannot be read.
        check(proxies, "10.1.1.1", &[(FOR, "203.0.113.9, unknown")], "10.1.1.1", NOTHING);
        check(proxies, "10.1.1.1", &[(FOR, "203.0.113.9, ")], "10.1.1.1", NOTHING);
        check(proxies, "10.1.1.1", &[(FOR, "1.1.1.1.1")], "10.1.1.1", NOTHING);
        check(
            proxies,
            "10.1.1.1",
            &[(FOR, "203.0.113.9"), (PROTO, "http, https"), (FORWARDED_HOST, "evil.test, tools.example.com")],
            "203.0.113.9",
            (true, Some("tools.example.com")),
        );
    }

    #[test]
    fn the_standard_header_is_read_alike() {
        let proxies = "10.0.0.0/8";
        let said = "for=127.0.0.1;host=evil.test, FOR=\"203.0.113.9:4711\"; Proto=https;host=\"tools.example.com\"";
        check(proxies, "10.1.1.1", &[("forwarded", said)], "203.0.113.9", (true, Some("tools.example.com")));
        let said = "for=\"[2001:db8::9]:1\", for=10.2.2.2;proto=https";
        check(proxies, "10.1.1.1", &[("forwarded", said)], "2001:db8::9", NOTHING);
        for said in ["for=_hidden", "for=unknown;proto=https", "proto=https", "", ";;=,"] {
            check(proxies, "10.1.1.1", &[("forwarded", said)], "10.1.1.1", NOTHING);
        }
    }

    #[test]
    fn two_headers_that_disagree_are_worth_nothing() {
        let proxies = "10.0.0.0/8";
        let one = ("forwarded", "for=127.0.0.1;host=evil.test");
        check(proxies, "10.1.1.1", &[one, (FOR, "203.0.113.9")], "10.1.1.1", NOTHING);
        let same = [("forwarded", "for=203.0.113.9;proto=https"), (FOR, "203.0.113.9")];
        check(proxies, "10.1.1.1", &same, "203.0.113.9", (true, None));
    }

    #[test]
    fn a_long_list_is_not_followed_for_ever() {
        let hops = vec!["10.2.2.2"; 10_000].join(", ");
        check("10.0.0.0/8", "10.1.1.1", &[(FOR, &hops)], "10.2.2.2", NOTHING);
    }
}
