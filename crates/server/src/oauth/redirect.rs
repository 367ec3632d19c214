//! Where a browser may be sent with a code: only where the client said beforehand, text for text, and never to what a
//! browser would run or open on this computer.
//!
//! The one exception is RFC 8252's: an application on the same computer takes whatever port is free.

use toolgate_egress::Url;

pub const REDIRECT_BYTES_MAX: usize = 512;

/// Programs that take a browser's call under a short name of their own. Others name theirs like a domain, with dots.
const APPS: [&str; 12] = [
    "claude",
    "code-oss",
    "cursor",
    "cursor-nightly",
    "goose",
    "kiro",
    "raycast",
    "vscode",
    "vscode-insiders",
    "vscodium",
    "windsurf",
    "zed",
];

/// What is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A site, by its name as browsers write it.
    Site(String),
    /// A program on the computer of whoever decides.
    ThisComputer,
    /// A program that has a scheme of its own.
    App(String),
}

impl Place {
    /// For people.
    pub fn host(&self) -> String {
        match self {
            Self::Site(host) => host.clone(),
            Self::ThisComputer => "this computer".to_owned(),
            Self::App(scheme) => format!("{scheme}:"),
        }
    }

    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Site(_) => "site",
            Self::ThisComputer => "this_computer",
            Self::App(_) => "app",
        }
    }
}

/// `Err` says what is wrong with it.
pub fn check(text: &str) -> Result<Place, &'static str> {
    if text.len() > REDIRECT_BYTES_MAX {
        return Err("is too long");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err("has characters that do not belong into an address");
    }
    let url = Url::parse(text).map_err(|_| "is no address")?;
    if url.fragment().is_some() {
        return Err("has a fragment (`#`)");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user's name in it (`@`)");
    }
    match url.scheme() {
        "https" => url.host_str().map(|host| Place::Site(host.to_owned())).ok_or("names no host"),
        "http" if is_loopback(&url) => Ok(Place::ThisComputer),
        "http" => Err("is not encrypted: `http` is for programs on the same computer"),
        scheme if APPS.contains(&scheme) || is_domain_like(scheme) => Ok(Place::App(scheme.to_owned())),
        _ => Err("has a scheme that browsers are not sent to from here"),
    }
}

/// `com.example.app`: nobody's browser knows such a scheme but for its program.
fn is_domain_like(scheme: &str) -> bool {
    let labels: Vec<&str> = scheme.split('.').collect();
    labels.len() >= 2 && labels.iter().all(|label| !label.is_empty())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What two addresses have in common that mean the same: the text, but for the port on the same computer.
pub fn canonical(text: &str) -> String {
    let here = Url::parse(text).ok().filter(|url| url.scheme() == "http" && is_loopback(url));
    match here.map(|mut url| url.set_port(None).map(|()| url)) {
        Some(Ok(url)) => url.into(),
        Some(Err(())) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_sent_to_sites_and_programs_and_to_nothing_that_runs_or_opens_files() {
        let site = |host: &str| Ok(Place::Site(host.to_owned()));
        let app = |scheme: &str| Ok(Place::App(scheme.to_owned()));
        for (text, expected) in [
            ("https://claude.ai/api/mcp/auth_callback", site("claude.ai")),
            ("https://claude.ai:8443/cb?x=1", site("claude.ai")),
            ("https://XN--80AK6AA92E.com/", site("xn--80ak6aa92e.com")),
            ("http://localhost:3118/callback", Ok(Place::ThisComputer)),
            ("http://127.0.0.1/cb", Ok(Place::ThisComputer)),
            ("http://[::1]:9/cb", Ok(Place::ThisComputer)),
            ("cursor://anysphere.cursor-mcp/oauth/callback", app("cursor")),
            ("com.example.app:/cb", app("com.example.app")),
        ] {
            assert_eq!(check(text), expected, "{text}");
        }
        for text in [
            "",
            "/cb",
            "//evil.example/cb",
            "javascript:alert(1)",
            "JavaScript:alert(1)//https://a.example",
            "data:text/html,<script>",
            "file:///etc/passwd",
            "vbscript:x",
            "blob:https://a.example/1",
            "view-source:https://a.example",
            "ms-msdt:/id",
            "intent://x#Intent;end",
            "http://evil.example/cb",
            "http://localhost.evil.example/cb",
            "http://localhost@evil.example/cb",
            "https://user:word@a.example/cb",
            "https://a.example/cb#fragment",
            "https://a.example\\@evil.example/",
            "https://a.example/c b",
            "https://a.example/\r\nset-cookie: x",
            "https://",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
        assert!(check(&format!("https://a.example/{}", "x".repeat(600))).is_err());
    }

    #[test]
    fn only_the_port_of_this_computer_is_free() {
        for (left, right, same) in [
            ("http://localhost:1/cb", "http://localhost:2/cb", true),
            ("http://localhost/cb", "http://localhost:2/cb", true),
            ("http://127.0.0.1:1/cb", "http://localhost:1/cb", false),
            ("http://localhost:1/cb", "http://localhost:1/cb2", false),
            ("http://localhost:1/cb", "http://localhost:1/cb?x", false),
            ("https://a.example/cb", "https://a.example:444/cb", false),
            ("https://a.example/cb", "https://a.example/cb/", false),
            ("https://a.example/cb", "https://A.example/cb", false),
        ] {
            assert_eq!(canonical(left) == canonical(right), same, "{left} {right}");
        }
    }
}
