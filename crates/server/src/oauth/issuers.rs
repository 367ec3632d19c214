//! The issuers whose access tokens are taken at `/mcp`: the key `mcp_issuers`, and the keys that each of them publishes.
//!
//! INVARIANT: keys are asked for by one at a time, and not more often than once in [`ASK_EVERY_S`], whatever is shown.

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::{Slug, TenantId, Timestamp};
use toolgate_egress::Url;

use crate::app::App;
use crate::identity::oidc::id_token::{self, Key};

const KNOWN_FOR_S: i64 = 3600;
/// New keys are not looked for more often: whoever shows made-up tokens makes us ask.
const ASK_EVERY_S: i64 = 60;
/// After a failure, while nothing is known.
const ASK_AGAIN_S: i64 = 10;
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;
const ISSUERS_MAX: usize = 16;

/// Who somebody is here, by what a token says of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Whoever signs in here with the same issuer and is its `sub`.
    Subject,
    /// The user whose name or address the claim holds.
    Claim(String),
}

pub struct Issuer {
    /// As it calls itself.
    pub name: String,
    /// What it may call this server, beside its address.
    pub audiences: Vec<String>,
    pub whom: Whom,
    pub tenant: Slug,
    /// What a token must be for.
    pub scope: Option<String>,
    keys_at: Option<Url>,
    memory: tokio::sync::Mutex<Published>,
}

#[derive(Default)]
struct Published {
    keys: Vec<Key>,
    known_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
    wrong: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    issuer: String,
    #[serde(default)]
    audience: OneOrMore,
    user: Option<String>,
    tenant: Option<String>,
    scope: Option<String>,
    jwks: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    #[default]
    None,
    One(String),
    More(Vec<String>),
}

/// A JSON list, or nothing.
pub fn read(text: &str) -> Result<Vec<Issuer>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let written: Vec<Written> =
        serde_json::from_str(text).map_err(|error| format!("it is not a JSON list of issuers: {error}"))?;
    if written.len() > ISSUERS_MAX {
        return Err(format!("it has {} issuers, {ISSUERS_MAX} at most", written.len()));
    }
    let issuers: Vec<Issuer> = written.into_iter().map(issuer).collect::<Result<_, _>>()?;
    for (at, issuer) in issuers.iter().enumerate() {
        if issuers.iter().skip(at + 1).any(|other| other.name == issuer.name) {
            return Err(format!("`{}` is in it twice", issuer.name));
        }
    }
    Ok(issuers)
}

fn issuer(written: Written) -> Result<Issuer, String> {
    let Written { issuer, audience, user, tenant, scope, jwks } = written;
    let address = |text: &str| {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
        let plain = url.filter(|url| url.username().is_empty() && url.fragment().is_none() && url.query().is_none());
        plain.ok_or_else(|| format!("`{text}` is no address such as https://id.example.com"))
    };
    address(&issuer)?;
    let audiences = match audience {
        OneOrMore::None => Vec::new(),
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(several) => several,
    };
    if audiences.iter().any(String::is_empty) {
        return Err(format!("`audience` of `{issuer}` has one that is empty"));
    }
    let whom = match user.as_deref() {
        None | Some("sub") => Whom::Subject,
        Some("") => return Err(format!("`user` of `{issuer}` names no claim")),
        Some(claim) => Whom::Claim(claim.to_owned()),
    };
    let tenant = tenant.unwrap_or_else(|| crate::app::FIRST_TENANT.to_owned());
    let tenant = tenant.parse().map_err(|_| format!("`{tenant}` is no short name of a tenant"))?;
    if scope.as_ref().is_some_and(|scope| scope.is_empty() || !scope.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(format!("`scope` of `{issuer}` is not one word"));
    }
    let keys_at = jwks.map(|jwks| address(&jwks)).transpose()?;
    Ok(Issuer { name: issuer, audiences, whom, tenant, scope, keys_at, memory: tokio::sync::Mutex::default() })
}

impl App {
    /// The keys of an issuer. `beyond`: those that are known did not do, so newer ones are wanted if it is time.
    pub(super) async fn keys_of(&self, issuer: &Issuer, beyond: bool) -> Result<Vec<Key>, String> {
        let mut known = issuer.memory.lock().await;
        let now = self.clock.now();
        let within = |since: Option<Timestamp>, seconds: i64| since.is_some_and(|at| now < at.plus_seconds(seconds));
        let has = known.known_at.is_some();
        let fresh = within(known.known_at, KNOWN_FOR_S) && !beyond;
        let asked = within(known.asked_at, if has { ASK_EVERY_S } else { ASK_AGAIN_S });
        if fresh || asked {
            // Keys that are older than an hour do for the minutes that an issuer cannot be reached.
            return if has { Ok(known.keys.clone()) } else { Err(known.wrong.clone()) };
        }
        known.asked_at = Some(now);
        match self.published_keys(issuer).await {
            Ok(keys) => {
                *known = Published { keys, known_at: Some(now), asked_at: Some(now), wrong: String::new() };
                Ok(known.keys.clone())
            }
            Err(why) => {
                tracing::warn!(issuer = %issuer.name, "the keys of an issuer cannot be read: {why}");
                known.wrong.clone_from(&why);
                if has { Ok(known.keys.clone()) } else { Err(why) }
            }
        }
    }

    async fn published_keys(&self, issuer: &Issuer) -> Result<Vec<Key>, String> {
        let at = match &issuer.keys_at {
            Some(at) => at.clone(),
            None => self.keys_address(issuer).await?,
        };
        let set = self.oauth_document(TenantId::SYSTEM, at, DOCUMENT_BYTES_MAX).await?;
        let keys = id_token::keys(&set);
        if keys.is_empty() { Err("it publishes no key that can be used".to_owned()) } else { Ok(keys) }
    }

    /// Where an issuer says that its keys are: in its document of RFC 8414, else in that of OpenID Connect.
    async fn keys_address(&self, issuer: &Issuer) -> Result<Url, String> {
        let own = Url::parse(&issuer.name).map_err(|error| error.to_string())?;
        let path = own.path().trim_end_matches('/').to_owned();
        let mut first = own.clone();
        first.set_path(&format!("/.well-known/oauth-authorization-server{path}"));
        let mut second = own.clone();
        second.set_path(&format!("{path}/.well-known/openid-configuration"));
        let mut why = String::new();
        for at in [first, second] {
            match self.oauth_document(TenantId::SYSTEM, at, DOCUMENT_BYTES_MAX).await {
                Ok(document) => {
                    let text = |name: &str| document.get(name).and_then(Value::as_str);
                    if text("issuer") != Some(issuer.name.as_str()) {
                        return Err("it calls itself otherwise than in `mcp_issuers`".to_owned());
                    }
                    let url = text("jwks_uri").and_then(|text| Url::parse(text).ok());
                    // Not weaker than the issuer itself; whether http may be is the operator's to open.
                    let url = url.filter(|url| url.scheme() == "https" || url.scheme() == own.scheme());
                    return url.ok_or_else(|| "it names no `jwks_uri` that can be used".to_owned());
                }
                Err(wrong) => why = wrong,
            }
        }
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_read_with_their_defaults() {
        assert!(read("").unwrap().is_empty());
        let read_two = read(
            r#"[{"issuer": "https://id.example"},
                {"issuer": "https://b.example/realm", "audience": ["api://x"], "user": "email", "tenant": "acme",
                 "scope": "mcp", "jwks": "https://b.example/keys"}]"#,
        )
        .unwrap();
        let [first, second] = &read_two[..] else { panic!("two") };
        assert_eq!((&first.whom, first.tenant.as_str(), first.audiences.len()), (&Whom::Subject, "default", 0));
        assert_eq!(second.whom, Whom::Claim("email".to_owned()));
        assert!(second.keys_at.is_some() && second.scope.as_deref() == Some("mcp"));
        for wrong in [
            "{}",
            "[",
            r#"[{"issuer": "id.example"}]"#,
            r#"[{"issuer": "https://a.example"}, {"issuer": "https://a.example"}]"#,
            r#"[{"issuer": "https://a.example", "audiences": "x"}]"#,
            r#"[{"issuer": "https://a.example", "audience": ""}]"#,
            r#"[{"issuer": "https://a.example", "user": ""}]"#,
            r#"[{"issuer": "https://a.example", "tenant": "A B"}]"#,
            r#"[{"issuer": "https://a.example", "scope": "a b"}]"#,
            r#"[{"issuer": "https://a.example", "jwks": "file:///keys"}]"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
