//! Which addresses may be connected to: IANA's special ranges, the metadata services of clouds, this machine itself.
//!
//! Deliberately absent: names. What a name resolves to is judged here, address by address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ipnet::{Ipv4Net, Ipv6Net};

/// How far away an address is kept. From the mildest to the strictest, so that the strictest of several is their `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Range {
    /// Anybody's.
    Public,
    /// Closed unless the operator opens it.
    Closed(&'static str),
    /// Closed to everybody, always.
    Never(&'static str),
}

const fn v4(address: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = address;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(parts: [u16; 8], prefix: u8) -> Ipv6Net {
    let address = Ipv6Addr::new(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7]);
    Ipv6Net::new_assert(address, prefix)
}

const METADATA: &str = "a metadata service";
const PRIVATE: &str = "a private address";
const RESERVED: &str = "a reserved address";
const LOOPBACK: &str = "a loopback address";
const OWN: &str = "an address of this machine";
const TRANSITION: &str = "an IPv6 form of an IPv4 address";

/// The first that holds an address counts, so metadata services stand before the ranges around them.
const IPV4: [(Ipv4Net, Range); 20] = [
    (v4([168, 63, 129, 16], 32), Range::Never(METADATA)), // Azure's host, within a public range
    (v4([100, 100, 100, 200], 32), Range::Never(METADATA)), // Alibaba
    (v4([192, 0, 0, 192], 32), Range::Never(METADATA)),   // Oracle
    (v4([169, 254, 0, 0], 16), Range::Never("a link-local address, where metadata services are")),
    (v4([0, 0, 0, 0], 8), Range::Never("no address of a host")),
    (v4([224, 0, 0, 0], 4), Range::Never("a multicast address")),
    (v4([255, 255, 255, 255], 32), Range::Never("the broadcast address")),
    (v4([10, 0, 0, 0], 8), Range::Closed(PRIVATE)),
    (v4([100, 64, 0, 0], 10), Range::Closed(PRIVATE)),
    (v4([127, 0, 0, 0], 8), Range::Closed(LOOPBACK)),
    (v4([172, 16, 0, 0], 12), Range::Closed(PRIVATE)),
    (v4([192, 0, 0, 0], 24), Range::Closed(RESERVED)),
    (v4([192, 0, 2, 0], 24), Range::Closed(RESERVED)),
    (v4([192, 88, 99, 0], 24), Range::Closed(RESERVED)),
    (v4([192, 168, 0, 0], 16), Range::Closed(PRIVATE)),
    (v4([198, 18, 0, 0], 15), Range::Closed(RESERVED)),
    (v4([198, 51, 100, 0], 24), Range::Closed(RESERVED)),
    (v4([203, 0, 113, 0], 24), Range::Closed(RESERVED)),
    (v4([240, 0, 0, 0], 4), Range::Closed(RESERVED)),
    (v4([0, 0, 0, 0], 0), Range::Public),
];

/// What is not named is not public. Forms that hold an IPv4 address can never be opened: through them every address of
/// the other table could be written a second time.
const IPV6: [(Ipv6Net, Range); 18] = [
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32), Range::Never(METADATA)), // Amazon
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Range::Never(METADATA)), // Google
    (v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), Range::Never(METADATA)), // Oracle
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Range::Closed(LOOPBACK)),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Range::Never("no address of a host")),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), Range::Never(TRANSITION)),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Range::Never(TRANSITION)),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Range::Never(TRANSITION)),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Range::Never(TRANSITION)),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), Range::Never(TRANSITION)),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Range::Never(TRANSITION)),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Range::Never("a link-local address")),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Range::Never("a multicast address")),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Range::Closed(PRIVATE)),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Range::Closed(RESERVED)),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Range::Closed(RESERVED)),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Range::Closed(RESERVED)),
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Range::Public),
];

/// The range that an address is in, wherever this machine stands.
pub fn range(address: IpAddr) -> Range {
    match address {
        IpAddr::V4(address) => {
            IPV4.iter().find(|(net, _)| net.contains(&address)).map_or(Range::Closed(RESERVED), |(_, range)| *range)
        }
        IpAddr::V6(address) => {
            IPV6.iter().find(|(net, _)| net.contains(&address)).map_or(Range::Closed(RESERVED), |(_, range)| *range)
        }
    }
}

/// The range as seen from here: this machine's own addresses are closed, and its own listening ports for ever.
pub fn seen_from_here(address: SocketAddr, listening: &[SocketAddr]) -> Range {
    let range = range(address.ip());
    if matches!(range, Range::Never(_)) || !is_own(address.ip()) {
        return range;
    }
    if listening.iter().any(|own| own.port() == address.port()) {
        return Range::Never("a port that Toolgate itself listens on");
    }
    range.max(Range::Closed(OWN))
}

/// Asks the kernel, which knows addresses that were added since: whoever is reached from the address itself is this
/// machine. Connecting a datagram socket sends nothing.
fn is_own(address: IpAddr) -> bool {
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    // Without a route there is nobody to reach, which connecting will say.
    from.is_ok_and(|from| from.ip() == address)
}

/// Names by which clouds serve their metadata; of some the answer is a public address or comes from a search domain.
const METADATA_NAMES: [&str; 8] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "instance-data",
    "instance-data.ec2.internal",
];

/// `name` is in lower case and without a last dot.
pub fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.iter().any(|known| {
        name.strip_suffix(known).is_some_and(|head| head.is_empty() || (head.ends_with('.') && known.contains('.')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_found_without_asking_anybody() {
        assert!(is_own(Ipv4Addr::new(127, 8, 9, 10).into()));
        assert!(!is_own(Ipv4Addr::new(203, 0, 113, 7).into()));
        let own: SocketAddr = ([127, 0, 0, 1], 8080).into();
        let any: SocketAddr = ([0, 0, 0, 0], 8080).into();
        assert!(matches!(seen_from_here(own, &[any]), Range::Never(_)));
        assert_eq!(seen_from_here(own, &[]), Range::Closed(OWN).max(Range::Closed(LOOPBACK)));
    }

    #[test]
    fn metadata_names_are_known_with_their_subdomains() {
        for (name, expected) in [
            ("metadata.google.internal", true),
            ("x.metadata.google.internal", true),
            ("metadata", true),
            ("instance-data", true),
            ("metadata.example.com", false),
            ("mymetadata.goog", false),
            ("my.metadata", false),
        ] {
            assert_eq!(is_metadata_name(name), expected, "{name}");
        }
    }
}
