//! Who we are at an authorisation server: a client that the operator registered there, the address of a document about
//! us, or one that we register ourselves.

use std::fmt;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_egress::HeaderValue;
use zeroize::Zeroize as _;

use super::asked::{encoded, posted};
use super::{Authority, OauthError, TEXT_BYTES_MAX, wrong};
use crate::upstream::Outlet;

/// How a client shows at the token endpoint who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    None,
    Basic,
    Post,
}

impl ClientAuth {
    fn of(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "client_secret_basic" => Some(Self::Basic),
            "client_secret_post" => Some(Self::Post),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }
}

/// A client, as one authorisation server knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Whose it is: another knows nothing of it.
    pub issuer: String,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub auth: ClientAuth,
    /// Where it said that browsers come back to, where it registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} at {})", self.id, self.issuer)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl Client {
    /// Adds who we are to a request for a token: to its form, or as the header that is given back.
    pub(super) fn show<'c>(
        &'c self,
        pairs: &mut Vec<(&'static str, &'c str)>,
    ) -> Result<Option<HeaderValue>, OauthError> {
        match (self.auth, &self.secret) {
            (ClientAuth::Basic, Some(secret)) => {
                let pair = format!("{}:{}", encoded(&self.id), encoded(secret));
                let value = HeaderValue::from_str(&format!("Basic {}", BASE64.encode(pair.as_bytes())));
                return value.map(Some).map_err(|_| wrong("the client's secret cannot be sent"));
            }
            (ClientAuth::Post, Some(secret)) => {
                pairs.push(("client_id", &self.id));
                pairs.push(("client_secret", secret));
            }
            _ => pairs.push(("client_id", &self.id)),
        }
        Ok(None)
    }
}

/// What we say of ourselves where we register.
#[derive(Clone, Debug)]
pub struct Registering<'a> {
    pub name: &'a str,
    /// Where the browser comes back to.
    pub redirect: &'a str,
    pub scope: Option<&'a str>,
}

/// What is known of ourselves before anybody is asked.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    /// A client that the operator registered.
    pub registered: Option<(&'a str, Option<&'a str>)>,
    /// The address of a document about us.
    pub document: Option<&'a str>,
    /// One that registered itself before; of use where it is that authority's and comes back to the same place.
    pub before: Option<&'a Client>,
}

/// The client to be at an authority, in this order: the operator's, a document, one of before, a new one.
pub async fn client_for(
    outlet: &dyn Outlet,
    authority: &Authority,
    known: &Known<'_>,
    registering: &Registering<'_>,
) -> Result<Client, OauthError> {
    let issuer = authority.issuer.clone();
    if let Some((id, secret)) = known.registered {
        let auth = auth_of(&authority.methods, secret.is_some());
        return Ok(Client { issuer, id: id.to_owned(), secret: secret.map(str::to_owned), auth, redirect: None });
    }
    if let Some(document) = known.document.filter(|_| authority.takes_documents) {
        return Ok(Client { issuer, id: document.to_owned(), secret: None, auth: ClientAuth::None, redirect: None });
    }
    let before = known.before.filter(|before| before.issuer == authority.issuer);
    if let Some(before) = before.filter(|before| before.redirect.as_deref() == Some(registering.redirect)) {
        return Ok(before.clone());
    }
    register(outlet, authority, registering).await
}

/// Registers a client (RFC 7591).
async fn register(
    outlet: &dyn Outlet,
    authority: &Authority,
    registering: &Registering<'_>,
) -> Result<Client, OauthError> {
    let at = authority.registration_endpoint.as_ref().ok_or_else(|| {
        wrong(format!(
            "`{}` lets no client register itself: register one there, and name it in `auth`",
            authority.issuer
        ))
    })?;
    let Registering { name, redirect, scope } = registering;
    let wanted = auth_of(&authority.methods, true);
    let is_here = redirect.starts_with("http://127.0.0.1") || redirect.starts_with("http://localhost");
    let mut said = json!({
        "client_name": name,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted.name(),
        "application_type": if is_here { "native" } else { "web" },
    });
    if let Some(scope) = scope {
        said["scope"] = (*scope).into();
    }
    let answer = posted(outlet, at, "application/json", said.to_string(), None).await?;
    let text = |member: &str| {
        let text = answer.get(member).and_then(Value::as_str);
        text.filter(|text| (1..=TEXT_BYTES_MAX).contains(&text.len())).map(str::to_owned)
    };
    let id = text("client_id").ok_or_else(|| wrong("it registers a client and does not name it"))?;
    let secret = text("client_secret");
    let auth = text("token_endpoint_auth_method").and_then(|name| ClientAuth::of(&name));
    let auth = auth.unwrap_or_else(|| auth_of(&authority.methods, secret.is_some()));
    let auth = if secret.is_none() { ClientAuth::None } else { auth };
    Ok(Client { issuer: authority.issuer.clone(), id, secret, auth, redirect: Some((*redirect).to_owned()) })
}

/// The way to show who we are that the other side takes. Where it says nothing, it takes the usual one.
fn auth_of(methods: &[String], has_secret: bool) -> ClientAuth {
    let takes = |auth: ClientAuth| methods.is_empty() || methods.iter().any(|method| method == auth.name());
    let order =
        if has_secret { [ClientAuth::Basic, ClientAuth::Post, ClientAuth::None] } else { [ClientAuth::None; 3] };
    order.into_iter().find(|auth| takes(*auth)).unwrap_or(ClientAuth::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_shows_who_it_is_as_the_other_side_takes_it() {
        #[track_caller]
        fn check(methods: &[&str], has_secret: bool, expected: ClientAuth) {
            let methods: Vec<String> = methods.iter().map(|method| (*method).to_owned()).collect();
            assert_eq!(auth_of(&methods, has_secret), expected, "{methods:?}");
        }
        check(&[], true, ClientAuth::Basic);
        check(&["client_secret_post"], true, ClientAuth::Post);
        check(&["none"], true, ClientAuth::None);
        check(&["none", "client_secret_basic"], true, ClientAuth::Basic);
        check(&["private_key_jwt"], true, ClientAuth::None);
        check(&["client_secret_basic"], false, ClientAuth::None);
        let client = |auth| Client {
            issuer: "https://a.test".to_owned(),
            id: "an id".to_owned(),
            secret: Some("a:b".to_owned()),
            auth,
            redirect: None,
        };
        let (basic, mut pairs) = (client(ClientAuth::Basic), Vec::new());
        let header = basic.show(&mut pairs).unwrap().unwrap();
        let pair = BASE64.decode(header.to_str().unwrap().strip_prefix("Basic ").unwrap().as_bytes()).unwrap();
        assert_eq!((pair.as_slice(), pairs.len()), (b"an+id:a%3Ab".as_slice(), 0));
        let (post, mut pairs) = (client(ClientAuth::Post), Vec::new());
        assert!(post.show(&mut pairs).unwrap().is_none());
        assert_eq!(pairs, [("client_id", "an id"), ("client_secret", "a:b")]);
        assert!(!format!("{post:?}").contains("a:b"));
    }
}
