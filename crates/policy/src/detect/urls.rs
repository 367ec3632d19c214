//! `urls`: addresses in texts, held against a list of hosts. Hosts are what a URL parser makes of them, so other
//! spellings of the same host are the same host.

use regex::Regex;
use serde::Deserialize;
use toolgate_contracts::Fault;
use url::{Host, Url};

use super::walk::{Found, Leaf};
use super::{compile, refuse};

/// Where an address may begin. What follows is looked at from each beginning anew, so that one cannot hide in another.
const BEGINNING: &str =
    r"(?i)(?:https?|wss?|ftp|file):|\bjavascript:|\bdata:[a-z]+/|//[^\s/\\]|\\\\[^\s/\\]|\bwww\.[a-z0-9]";
const ADDRESS_BYTES_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The only hosts that addresses may have: `example.com`, or `*.example.com` for all below it.
    #[serde(default)]
    allow: Option<Vec<String>>,
    /// Hosts that no address may have.
    #[serde(default)]
    deny: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub struct Urls {
    beginning: Regex,
    allow: Option<Vec<HostRule>>,
    deny: Vec<HostRule>,
}

#[derive(Clone, Debug)]
enum HostRule {
    Is(Host),
    Below(String),
}

impl HostRule {
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Is(listed), host) => listed == host,
            (Self::Below(suffix), Host::Domain(name)) => {
                name.strip_suffix(suffix.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Self::Below(_), Host::Ipv4(_) | Host::Ipv6(_)) => false,
        }
    }
}

impl Urls {
    pub fn new(config: Config) -> Result<Self, Fault> {
        let Config { allow, deny } = config;
        if allow.is_none() && deny.is_none() {
            return Err(refuse("", "neither `allow` nor `deny` lists hosts", "write one of the two lists"));
        }
        let parse = |member: &str, hosts: Vec<String>| {
            let rules = hosts.iter().enumerate().map(|(index, text)| {
                let (below, name) = text.strip_prefix("*.").map_or((false, text.as_str()), |name| (true, name));
                match (Host::parse(name), below) {
                    (Ok(host), false) => Ok(HostRule::Is(without_root(host))),
                    (Ok(Host::Domain(name)), true) => Ok(HostRule::Below(name)),
                    _ => {
                        let told = format!("`{}` is no host", text.chars().take(80).collect::<String>().escape_debug());
                        let remedy = "write `example.com`, `*.example.com` or an address, without scheme and port";
                        Err(refuse(&format!("{member}/{index}"), told, remedy))
                    }
                }
            });
            rules.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            beginning: compile(BEGINNING)?,
            allow: allow.map(|hosts| parse("allow", hosts)).transpose()?,
            deny: parse("deny", deny.unwrap_or_default())?,
        })
    }

    pub fn look(&self, leaf: &Leaf<'_>, found: &mut Found) {
        let Some(text) = leaf.text() else { return };
        // Addresses side by side are together no longer than the text. One in another, over and over, is an attack.
        let mut budget = text.len() * 2 + ADDRESS_BYTES_MAX;
        for beginning in self.beginning.find_iter(text) {
            let rest = &text[beginning.start()..];
            // The two slashes of an address that has a scheme.
            if rest.starts_with("//") && text[..beginning.start()].ends_with(':') {
                continue;
            }
            let rest = &rest[..rest.floor_char_boundary(ADDRESS_BYTES_MAX)];
            let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`'));
            let address = &rest[..end.unwrap_or(rest.len())];
            let Some(left) = budget.checked_sub(address.len()) else {
                found.mark("more addresses than can be examined");
                return;
            };
            budget = left;
            if address.len() == rest.len() && rest.len() + 4 > ADDRESS_BYTES_MAX {
                found.mark("an address that is too long to be examined");
            } else {
                self.judge(address.trim_end_matches([')', ']', '}', '.', ',', ';', ':', '!', '?']), found);
            }
        }
    }

    fn judge(&self, address: &str, found: &mut Found) {
        let url = match address.as_bytes() {
            [b'/', b'/', ..] | [b'\\', b'\\', ..] => Url::parse(&format!("https:{address}")),
            [b'w' | b'W', b'w' | b'W', b'w' | b'W', b'.', ..] => Url::parse(&format!("https://{address}")),
            _ => Url::parse(address),
        };
        let host = url.ok().and_then(|url| url.host().map(|host| without_root(host.to_owned())));
        match host {
            Some(host) => {
                if self.deny.iter().any(|rule| rule.covers(&host)) {
                    found.mark("an address on a host that is not allowed");
                } else if self.allow.as_ref().is_some_and(|rules| !rules.iter().any(|rule| rule.covers(&host))) {
                    found.mark("an address on a host that is not listed");
                }
            }
            // Nothing to hold against a list: only what is listed passes, and this is not.
            None if self.allow.is_some() && address.contains([':', '/', '.']) && !is_bare_scheme(address) => {
                found.mark("an address without a host that could be listed");
            }
            None => {}
        }
    }
}

/// `see http: the protocol` speaks of no address.
fn is_bare_scheme(address: &str) -> bool {
    address.trim_end_matches(['/', '\\', ':']).bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// `example.com.` and `example.com` are one host; and what follows a name in running text is not part of it.
fn without_root(host: Host) -> Host {
    match host {
        Host::Domain(name) => {
            let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
            let name = name.split(odd).next().unwrap_or_default();
            Host::Domain(name.trim_end_matches('.').to_owned())
        }
        address => address,
    }
}
