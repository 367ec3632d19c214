//! Where tokens for a server are to be had: what the server says of itself (RFC 9728), and what the authorisation server
//! that it names says of itself (RFC 8414, `OpenID` Connect discovery).
//!
//! Invariant: a document counts only for whom it is about. The server's names the server that was asked, the authorisation
//! server's names it by the very text under which it was looked for.

use serde_json::Value;
use toolgate_egress::Url;

use super::asked::document;
use super::{OauthError, TEXT_BYTES_MAX, shown, wrong};
use crate::upstream::{Challenge, Outlet};

const SCOPES_MAX: usize = 100;
const ISSUERS_MAX: usize = 16;

/// What is known of where tokens are to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The address that was asked about.
    pub address: Url,
    /// What tokens are asked for (RFC 8707).
    pub resource: String,
    pub issuer: String,
    pub authorization_endpoint: Option<Url>,
    pub token_endpoint: Url,
    pub registration_endpoint: Option<Url>,
    /// What the server says that it takes.
    pub scopes: Vec<String>,
    /// Whether it is of use to ask to be let in while nobody is there.
    pub offers_offline: bool,
    /// How clients show who they are; empty: nothing is said.
    pub methods: Vec<String>,
    /// It says in each answer who it is (RFC 9207).
    pub names_itself: bool,
    /// A client may be the address of a document about itself.
    pub takes_documents: bool,
    pub takes_challenges: bool,
}

/// Asks the server at `address`, and the authorisation server that it names; `issuer` is the only one that is wanted.
pub async fn discover(
    outlet: &dyn Outlet,
    address: &Url,
    challenge: &Challenge,
    issuer: Option<&str>,
) -> Result<Authority, OauthError> {
    let Some(said) = protected_resource(outlet, address, challenge).await? else {
        return oldest(outlet, address, issuer).await;
    };
    let resource = match said.get("resource").and_then(Value::as_str) {
        Some(resource) if covers(resource, address) => resource.to_owned(),
        Some(resource) => {
            let told = format!("the server's metadata is about `{}`, not about `{address}`", shown(resource));
            return Err(wrong(told));
        }
        None => return Err(wrong("the server's metadata does not say what it is about (`resource`)")),
    };
    let named = texts(&said, "authorization_servers", ISSUERS_MAX);
    let chosen = match issuer {
        Some(issuer) => named
            .iter()
            .find(|named| *named == issuer)
            .ok_or_else(|| wrong(format!("the server names other authorisation servers than `{}`", shown(issuer))))?,
        None => named.first().ok_or_else(|| wrong("the server names no authorisation server"))?,
    };
    let metadata = authorization_server(outlet, chosen, address).await?;
    let metadata = metadata.ok_or_else(|| wrong(format!("`{}` publishes no metadata", shown(chosen))))?;
    let scopes = texts(&said, "scopes_supported", SCOPES_MAX);
    of_metadata(&metadata, chosen, address, resource, scopes)
}

/// What the server says of itself: where its refusal points, or at the usual places.
async fn protected_resource(
    outlet: &dyn Outlet,
    address: &Url,
    challenge: &Challenge,
) -> Result<Option<Value>, OauthError> {
    if let Some(at) = &challenge.resource_metadata {
        let at = not_weaker(at, address)
            .ok_or_else(|| wrong("the server points to metadata at an address that is not used"))?;
        return document(outlet, at).await;
    }
    for at in well_known(address, "oauth-protected-resource") {
        if let Some(found) = document(outlet, at).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A server of the first revision with authorisation says nothing of itself: it is its own authorisation server.
async fn oldest(outlet: &dyn Outlet, address: &Url, issuer: Option<&str>) -> Result<Authority, OauthError> {
    let origin = address.origin().ascii_serialization();
    if issuer.is_some_and(|issuer| issuer.trim_end_matches('/') != origin) {
        return Err(wrong("the server names no authorisation server"));
    }
    let root = Url::parse(&origin).map_err(|_| wrong("the server's address has no origin"))?;
    for at in well_known(&root, "oauth-authorization-server") {
        if let Some(found) = document(outlet, at).await? {
            let said = found.get("issuer").and_then(Value::as_str).unwrap_or_default().to_owned();
            if said.trim_end_matches('/') != origin {
                return Err(wrong(format!("the metadata at `{origin}` is of `{}`", shown(&said))));
            }
            return of_metadata(&found, &said, address, address.to_string(), Vec::new());
        }
    }
    // And if it publishes nothing at all, it has these.
    let at = |path: &str| root.join(path).map_err(|_| wrong("the server's address has no origin"));
    Ok(Authority {
        address: address.clone(),
        resource: address.to_string(),
        issuer: origin.clone(),
        authorization_endpoint: Some(at("/authorize")?),
        token_endpoint: at("/token")?,
        registration_endpoint: Some(at("/register")?),
        scopes: Vec::new(),
        offers_offline: false,
        methods: Vec::new(),
        names_itself: false,
        takes_documents: false,
        takes_challenges: true,
    })
}

async fn authorization_server(outlet: &dyn Outlet, issuer: &str, address: &Url) -> Result<Option<Value>, OauthError> {
    let at = not_weaker(issuer, address)
        .filter(|url| url.query().is_none() && url.fragment().is_none())
        .ok_or_else(|| wrong(format!("`{}` is no authorisation server that is used", shown(issuer))))?;
    let mut places = well_known(&at, "oauth-authorization-server");
    places.truncate(1);
    let mut oidc = well_known(&at, "openid-configuration");
    oidc.truncate(1);
    places.append(&mut oidc);
    if at.path() != "/" {
        let mut behind = at.clone();
        behind.set_path(&format!("{}/.well-known/openid-configuration", at.path().trim_end_matches('/')));
        places.push(behind);
    }
    for at in places {
        if let Some(found) = document(outlet, at).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn of_metadata(
    metadata: &Value,
    issuer: &str,
    address: &Url,
    resource: String,
    scopes: Vec<String>,
) -> Result<Authority, OauthError> {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).filter(|text| text.len() <= TEXT_BYTES_MAX);
    // By the very text: two spellings of one address may be two authorities.
    if text("issuer") != Some(issuer) {
        let told = format!(
            "the metadata of `{}` is of `{}`, so it is not believed",
            shown(issuer),
            shown(text("issuer").unwrap_or_default())
        );
        return Err(wrong(told));
    }
    let endpoint = |name: &str| match text(name) {
        None => Ok(None),
        Some(at) => not_weaker(at, address)
            .map(Some)
            .ok_or_else(|| wrong(format!("`{name}` is not used: it is no `https` address"))),
    };
    let is = |name: &str| metadata.get(name) == Some(&Value::Bool(true));
    let challenges = texts(metadata, "code_challenge_methods_supported", SCOPES_MAX);
    Ok(Authority {
        address: address.clone(),
        resource,
        issuer: issuer.to_owned(),
        authorization_endpoint: endpoint("authorization_endpoint")?,
        token_endpoint: endpoint("token_endpoint")?.ok_or_else(|| wrong("it names no `token_endpoint`"))?,
        registration_endpoint: endpoint("registration_endpoint")?,
        scopes,
        offers_offline: texts(metadata, "scopes_supported", SCOPES_MAX).iter().any(|scope| scope == "offline_access"),
        methods: texts(metadata, "token_endpoint_auth_methods_supported", SCOPES_MAX),
        names_itself: is("authorization_response_iss_parameter_supported"),
        takes_documents: is("client_id_metadata_document_supported"),
        takes_challenges: challenges.iter().any(|method| method == "S256"),
    })
}

/// With the path of an address behind the name, and at the root.
fn well_known(url: &Url, name: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let mut with_path = url.clone();
    with_path.set_query(None);
    with_path.set_fragment(None);
    let mut root = with_path.clone();
    with_path.set_path(&format!("/.well-known/{name}{path}"));
    root.set_path(&format!("/.well-known/{name}"));
    if path.is_empty() { vec![root] } else { vec![with_path, root] }
}

/// An address of the web that is not less guarded than the server that leads there.
fn not_weaker(text: &str, than: &Url) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let fits = url.scheme() == "https" || (url.scheme() == "http" && than.scheme() == "http");
    (fits && url.host_str().is_some() && url.username().is_empty() && url.password().is_none()).then_some(url)
}

/// Whether what a document is about is the address, or what the address is part of.
fn covers(resource: &str, address: &Url) -> bool {
    let Ok(about) = Url::parse(resource) else { return false };
    if about.origin() != address.origin() || about.fragment().is_some() {
        return false;
    }
    let (about, path) = (about.path().trim_end_matches('/'), address.path().trim_end_matches('/'));
    path == about || path.strip_prefix(about).is_some_and(|rest| rest.starts_with('/'))
}

fn texts(value: &Value, member: &str, max: usize) -> Vec<String> {
    let list = value.get(member).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let fitting = |text: &&str| !text.is_empty() && text.len() <= 500;
    list.iter().filter_map(Value::as_str).filter(fitting).take(max).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_about_the_server_or_what_it_is_part_of() {
        #[track_caller]
        fn check(resource: &str, covered: bool) {
            let address = Url::parse("https://a.test/team/mcp").unwrap();
            assert_eq!(covers(resource, &address), covered, "{resource}");
        }
        check("https://a.test/team/mcp", true);
        check("https://a.test/team/mcp/", true);
        check("https://a.test/team", true);
        check("https://a.test", true);
        check("https://a.test/tea", false);
        check("https://a.test/team/mcp/more", false);
        check("http://a.test/team/mcp", false);
        check("https://a.test:8443/team/mcp", false);
        check("https://b.test/team/mcp", false);
        check("team", false);
    }

    #[test]
    fn metadata_lies_at_the_usual_places() {
        let at = |text: &str| {
            let url = Url::parse(text).unwrap();
            well_known(&url, "x").iter().map(Url::to_string).collect::<Vec<_>>()
        };
        assert_eq!(at("https://a.test/"), ["https://a.test/.well-known/x"]);
        assert_eq!(at("https://a.test/b/c/?q=1"), ["https://a.test/.well-known/x/b/c", "https://a.test/.well-known/x"]);
    }

    #[test]
    fn nobody_is_led_from_a_guarded_address_to_an_open_one() {
        let guarded = Url::parse("https://a.test/mcp").unwrap();
        let open = Url::parse("http://127.0.0.1:1/mcp").unwrap();
        assert!(not_weaker("https://b.test/", &guarded).is_some() && not_weaker("http://b.test/", &open).is_some());
        for wrong in ["http://b.test/", "javascript:alert(1)", "https://user:word@b.test/", "b.test"] {
            assert!(not_weaker(wrong, &guarded).is_none(), "{wrong}");
        }
    }
}
