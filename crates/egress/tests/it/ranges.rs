//! Every address against a second table, written as the standards and security rules name it, with other arithmetic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use toolgate_egress::address::{Range, range};

const V4_CLOSED: [&str; 17] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "168.63.129.16/32",
];
const V6_OPEN: &str = "2000::/3";
const V6_CLOSED: [&str; 17] = [
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "::/128",
    "::1/128",
    "::/96",
    "::ffff:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "fd00:ec2::254/128",
];

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

/// First and last number of a network.
fn span(net: &str) -> (u128, u128) {
    let (address, prefix) = net.split_once('/').unwrap();
    let (first, width) = bits(address.parse().unwrap());
    let free = width - prefix.parse::<u32>().unwrap();
    (first, first + ((1_u128 << (free / 2)) << (free - free / 2)).wrapping_sub(1))
}

fn is_in(address: IpAddr, net: &str) -> bool {
    let (first, last) = span(net);
    (first..=last).contains(&bits(address).0)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !V4_CLOSED.iter().any(|net| is_in(address, net)),
        IpAddr::V6(_) => is_in(address, V6_OPEN) && !V6_CLOSED.iter().any(|net| is_in(address, net)),
    }
}

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    // Anywhere, and at or around the ends of a network.
    let edges =
        (proptest::sample::select(V4_CLOSED.to_vec()), any::<bool>(), -2_i64..=2).prop_map(|(net, last, by)| {
            let (first, end) = span(net);
            let from = i64::try_from(if last { end } else { first }).unwrap();
            Ipv4Addr::from(u32::try_from((from + by).rem_euclid(1 << 32)).unwrap())
        });
    prop_oneof![any::<u32>().prop_map(Ipv4Addr::from), edges]
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    let nets: Vec<&str> = V6_CLOSED.iter().copied().chain([V6_OPEN]).collect();
    let inside = (proptest::sample::select(nets.clone()), any::<u128>()).prop_map(|(net, number)| {
        let (first, last) = span(net);
        let size = last - first;
        Ipv6Addr::from(first + if size == u128::MAX { number } else { number % (size + 1) })
    });
    let edges = (proptest::sample::select(nets), any::<bool>(), -2_i128..=2).prop_map(|(net, last, by)| {
        let (first, end) = span(net);
        Ipv6Addr::from((if last { end } else { first }).wrapping_add_signed(by))
    });
    prop_oneof![any::<u128>().prop_map(Ipv6Addr::from), inside, edges]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn an_ipv4_address_is_public_only_outside_all_special_ranges(address in v4()) {
        prop_assert_eq!(range(address.into()) == Range::Public, is_public(address.into()), "{}", address);
    }

    #[test]
    fn an_ipv6_address_is_public_only_within_global_unicast_without_its_special_ranges(address in v6()) {
        prop_assert_eq!(range(address.into()) == Range::Public, is_public(address.into()), "{}", address);
    }

    #[test]
    fn no_form_that_holds_an_ipv4_address_can_ever_be_opened(inner in any::<u32>()) {
        let v4 = u128::from(inner);
        let mapped = 0xffff_0000_0000 | v4;
        let nat64 = (0x64_ff9b_u128 << 96) | v4;
        let six_to_four = (0x2002_u128 << 112) | (v4 << 80);
        let teredo = (0x2001_u128 << 112) | u128::from(!inner);
        for number in [mapped, nat64, six_to_four, teredo] {
            let address = Ipv6Addr::from(number);
            prop_assert!(matches!(range(address.into()), Range::Never(_)), "{}", address);
        }
        // `::` and `::1` have meanings of their own.
        if inner > 1 {
            prop_assert!(matches!(range(Ipv6Addr::from(v4).into()), Range::Never(_)));
        }
    }
}

#[test]
fn metadata_services_are_never_open() {
    for address in [
        "169.254.169.254",
        "169.254.170.2",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "0.0.0.0",
        "::",
    ] {
        assert!(matches!(range(address.parse().unwrap()), Range::Never(_)), "{address}");
    }
    for address in ["10.0.0.1", "127.0.0.1", "::1", "fd12::1", "192.168.1.1"] {
        assert!(matches!(range(address.parse().unwrap()), Range::Closed(_)), "the operator may open {address}");
    }
}
