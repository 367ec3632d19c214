//! Who a client is: what it registered, sealed into its own `client_id`, or the document at the address that its
//! `client_id` is.
//!
//! Either is the client's own word. Nothing here is stored, so nobody fills the database with clients, and what was
//! registered yesterday works on every replica. Deliberately absent: logos and links of clients, which would be pictures
//! and addresses of strangers on the page that asks for trust.

use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::{Caller, Digest, Fault, unseen};
use toolgate_egress::Url;
use toolgate_vault::{Purpose, Sealer};

use super::exchange::Refused;
use super::redirect::{self, Place};
use crate::app::App;

const PREFIX: &str = "tgc_";
const CONTEXT: &str = "oauth-client/1";
const NAME_CHARS_MAX: usize = 80;
const REDIRECTS_MAX: usize = 16;
const DOCUMENT_BYTES_MAX: usize = 16 * 1024;
const ADDRESS_BYTES_MAX: usize = 512;
const UNNAMED: &str = "A client without a name";

/// A client, as far as it can be known.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    /// Its own word.
    pub name: String,
    /// The host that its document is at, which alone may have written it.
    pub site: Option<String>,
    redirects: Redirects,
}

#[derive(Clone, Debug)]
enum Redirects {
    /// By the beginning of their digests, which is what fits into a `client_id`.
    Digests(Vec<String>),
    Texts(Arc<Document>),
}

/// What a client's document says.
#[derive(Debug)]
pub struct Document {
    name: String,
    redirects: Vec<String>,
}

/// What a registration is kept as: by the client, sealed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    n: String,
    r: Vec<String>,
}

/// What a registration answers (RFC 7591).
pub struct Registered(pub Value);

impl Client {
    /// Where a browser is sent to, if the client said so beforehand.
    pub fn place(&self, asked: &str) -> Result<Place, Fault> {
        let wrong = |what: &str| {
            let shown: String = asked.chars().take(120).flat_map(char::escape_debug).collect();
            Fault::invalid(
                format!("`redirect_uri` {what}: `{shown}`"),
                "nothing was sent anywhere; begin again from the program that sent you here",
            )
        };
        let place = redirect::check(asked).map_err(wrong)?;
        let asked_for = redirect::canonical(asked);
        let known = match &self.redirects {
            Redirects::Digests(known) => known.contains(&short(&asked_for)),
            Redirects::Texts(document) => document.redirects.iter().any(|one| redirect::canonical(one) == asked_for),
        };
        if known { Ok(place) } else { Err(wrong("is none that the client registered")) }
    }
}

fn short(text: &str) -> String {
    BASE64URL_NOPAD.encode(&Digest::of(text.as_bytes()).as_bytes()[..16])
}

impl App {
    async fn client_sealer(&self) -> Result<Sealer, Fault> {
        let present = self.keyring.key(Purpose::Seal, None).await?;
        let mut sealer = Sealer::new(&present, self.rng.clone());
        for key in self.keyring.all(Purpose::Seal, None).await? {
            sealer = sealer.opening(&key);
        }
        Ok(sealer)
    }

    /// Registers a client (RFC 7591): what it says of itself becomes its name here.
    pub async fn register_client(&self, metadata: &Value) -> Result<Registered, Refused> {
        let refused = |error, told: String| Err(Refused::new(error, told));
        let Value::Object(members) = metadata else {
            return refused("invalid_client_metadata", "send a JSON object".to_owned());
        };
        let redirects = match texts(members.get("redirect_uris")) {
            Some(redirects) if !redirects.is_empty() && redirects.len() <= REDIRECTS_MAX => redirects,
            _ => {
                let told = format!("`redirect_uris` is a list of 1 to {REDIRECTS_MAX} addresses");
                return refused("invalid_redirect_uri", told);
            }
        };
        for one in &redirects {
            if let Err(what) = redirect::check(one) {
                let shown: String = one.chars().take(120).flat_map(char::escape_debug).collect();
                return refused("invalid_redirect_uri", format!("`{shown}` {what}"));
            }
        }
        let Some(name) = name(members.get("client_name")) else {
            let told = format!("`client_name` has 1 to {NAME_CHARS_MAX} characters that are seen");
            return refused("invalid_client_metadata", told);
        };
        let digests = redirects.iter().map(|one| short(&redirect::canonical(one))).collect();
        let sealed = serde_json::to_vec(&Sealed { n: name.clone(), r: digests }).map_err(Fault::internal)?;
        let id = format!("{PREFIX}{}", self.client_sealer().await?.seal(CONTEXT, &sealed));
        Ok(Registered(json!({
            "client_id": id,
            "client_id_issued_at": self.clock.now().millis() / 1000,
            "client_name": name,
            "redirect_uris": redirects,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        })))
    }

    /// The client that is meant. Its document is asked for on behalf of whoever is to decide.
    pub(super) async fn client(&self, caller: &Caller, id: &str) -> Result<Client, Fault> {
        if let Some(sealed) = id.strip_prefix(PREFIX) {
            let opened = self.client_sealer().await?.open(CONTEXT, sealed);
            let opened = opened.and_then(|bytes| serde_json::from_slice::<Sealed>(&bytes).ok());
            let Some(Sealed { n, r }) = opened else { return Err(unknown()) };
            return Ok(Client { id: id.to_owned(), name: n, site: None, redirects: Redirects::Digests(r) });
        }
        let url = address(id).ok_or_else(unknown)?;
        let site = url.host_str().map(str::to_owned);
        let document = self.client_document(caller, id, url).await?;
        let name = document.name.clone();
        Ok(Client { id: id.to_owned(), name, site, redirects: Redirects::Texts(document) })
    }

    async fn client_document(&self, caller: &Caller, id: &str, url: Url) -> Result<Arc<Document>, Fault> {
        let key = (caller.tenant, id.to_owned());
        if let Some(known) = self.oauth.documents.get(&key) {
            return Ok(known);
        }
        let found = self.oauth_document(caller.tenant, url, DOCUMENT_BYTES_MAX).await;
        let document = found.and_then(|document| read(id, &document)).map_err(|why| {
            Fault::invalid(
                format!("the client's document cannot be used: {why}"),
                "tell whoever made the program that sent you here; it names the document at `client_id`",
            )
        })?;
        let document = Arc::new(document);
        self.oauth.documents.insert(key, Arc::clone(&document));
        Ok(document)
    }
}

fn unknown() -> Fault {
    Fault::invalid(
        "`client_id` is no client that is known here",
        "let the program that sent you here forget this server, and connect again: it registers anew",
    )
}

/// The address that a `client_id` is: written as browsers write it, so that two spellings are not two clients.
fn address(id: &str) -> Option<Url> {
    let url = Url::parse(id).ok().filter(|url| url.as_str() == id && id.len() <= ADDRESS_BYTES_MAX)?;
    // Without encryption only where the operator opened this computer to it: for whoever writes a client.
    let host = url.host_str().unwrap_or_default();
    let fits = url.scheme() == "https" || (url.scheme() == "http" && crate::app::is_loopback(host));
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (fits && plain && url.query().is_none() && url.path().len() > 1).then_some(url)
}

fn read(id: &str, document: &Value) -> Result<Document, String> {
    if document.get("client_id").and_then(Value::as_str) != Some(id) {
        return Err("it is of another client (`client_id`)".to_owned());
    }
    if document.get("client_secret").is_some() {
        return Err("it shows a secret (`client_secret`)".to_owned());
    }
    let name = name(document.get("client_name")).ok_or("its `client_name` cannot be shown")?;
    let redirects = texts(document.get("redirect_uris")).unwrap_or_default();
    // Those that nobody is sent to from here are left out.
    let redirects: Vec<String> =
        redirects.into_iter().take(REDIRECTS_MAX).filter(|one| redirect::check(one).is_ok()).collect();
    if redirects.is_empty() {
        return Err("it names no `redirect_uris` that can be used".to_owned());
    }
    Ok(Document { name, redirects })
}

fn texts(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
}

/// A name that can be shown to people, or none.
fn name(value: Option<&Value>) -> Option<String> {
    match value {
        None => Some(UNNAMED.to_owned()),
        Some(value) => {
            let text = value.as_str()?.trim();
            unseen::check_name(text, NAME_CHARS_MAX).ok().map(|()| text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_is_an_address_in_one_spelling() {
        for (id, fits) in [
            ("https://app.example/client.json", true),
            ("https://app.example:8443/a/b", true),
            ("http://127.0.0.1:9/client.json", true),
            ("http://app.example/client.json", false),
            ("https://app.example/", false),
            ("https://app.example", false),
            ("https://APP.example/client.json", false),
            ("https://app.example/a/../client.json", false),
            ("https://app.example/client.json?x=1", false),
            ("https://app.example/client.json#x", false),
            ("https://me@app.example/client.json", false),
            ("file:///etc/passwd", false),
            ("data:application/json,{}", false),
            ("client", false),
        ] {
            assert_eq!(address(id).is_some(), fits, "{id}");
        }
    }

    #[test]
    fn a_document_says_whose_it_is_and_shows_nothing_secret() {
        let id = "https://app.example/client.json";
        let check = |change: Value, fits: bool| {
            let mut document =
                json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/cb"]});
            document.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(read(id, &document).is_ok(), fits, "{document}");
        };
        check(json!({}), true);
        check(json!({"redirect_uris": ["javascript:1", "https://app.example/cb"]}), true);
        check(json!({"client_id": "https://app.example/other.json"}), false);
        check(json!({"client_secret": "x"}), false);
        check(json!({"client_name": "a\u{202e}b"}), false);
        check(json!({"client_name": 7}), false);
        check(json!({"redirect_uris": ["javascript:1"]}), false);
        check(json!({"redirect_uris": "https://app.example/cb"}), false);
    }
}
