//! Somebody decides whether a client may use tools in their name: what they are shown, and what comes of it.
//!
//! INVARIANT: a browser is sent on only after the person in its session decided, and only to where the client said
//! beforehand. A request that is wrong is told to the person, not to the client: an address of ours that sent browsers
//! on by itself would lend our name to anybody. It is asked anew each time; nothing of what was allowed before is known.

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{AgentId, Caller, Digest, Fault, FaultKind, Permission, Slug};
use toolgate_egress::Url;
use toolgate_store::Change;
use toolgate_store::oauth::{OauthClient, OauthCode};
use utoipa::ToSchema;

use super::client::Client;
use super::redirect::Place;
use super::{parameters, resource, scopes_of};
use crate::app::App;
use crate::seal;

/// How long a client has to take what it was allowed.
const CODE_S: i64 = 60;
const STATE_BYTES_MAX: usize = 4096;

/// The client, as far as it can be known.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OauthAskedClient)]
pub struct AskedClient {
    /// What it calls itself; nobody vouches for it.
    name: String,
    /// The host that its document is at, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<String>,
    /// Where the browser goes afterwards: a host, `this computer`, or the scheme of a program.
    goes_to: String,
    /// `site`, `this_computer` or `app`.
    goes_to_kind: &'static str,
}

/// An agent that the client may act as.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OauthAgent)]
pub struct Agent {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

/// What somebody is to decide about.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OauthAsked)]
pub struct Asked {
    client: AskedClient,
    tenant: Slug,
    tenant_name: String,
    /// The one address that it is about.
    resource: String,
    /// The agent or group of tools that the address is narrowed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    narrowed: Option<String>,
    scopes: Vec<String>,
    /// The agents that the client may act as; without one it acts as the person.
    agents: Vec<Agent>,
    /// The address is this agent's, so there is no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OauthDecision)]
pub struct Decision {
    /// What stood behind the `?` of the address that the client sent the browser to.
    query: String,
    allow: bool,
    /// The agent that the client acts as; absent: the person.
    agent: Option<String>,
}

/// What a client wants, read and checked.
struct Wanted {
    client: Client,
    redirect: String,
    place: Place,
    challenge: Digest,
    state: Option<String>,
    resource: String,
    /// The part of the address behind `/mcp/`.
    name: Option<String>,
    scope: Option<String>,
}

impl App {
    /// What a client wants, for whoever is signed in.
    pub async fn oauth_asked(&self, caller: &Caller, origin: &str, query: &str) -> Result<Asked, Fault> {
        require_person(caller)?;
        let wanted = self.wanted(caller, origin, query).await?;
        let fixed = self.agent_of_address(caller, wanted.name.as_deref()).await?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let mut agents = Vec::new();
        for agent in registry.agents.values() {
            let offered = fixed.as_ref().is_none_or(|(id, _)| *id == agent.id);
            if offered && self.registry.may_manage(caller, agent).await? {
                let description = agent.spec.description.clone();
                agents.push(Agent { name: agent.spec.name.to_string(), description });
            }
        }
        agents.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Asked {
            client: AskedClient {
                goes_to: wanted.place.host(),
                goes_to_kind: wanted.place.kind(),
                name: wanted.client.name,
                site: wanted.client.site,
            },
            tenant: caller.tenant_slug.clone(),
            tenant_name: registry.tenant.name.clone(),
            resource: wanted.resource,
            narrowed: wanted.name,
            scopes: scopes_of(&caller.permissions, wanted.scope.as_deref()),
            agents,
            agent: fixed.map(|(_, name)| name),
        })
    }

    /// What the person decided: where their browser goes now.
    pub async fn oauth_decide(&self, caller: &Caller, origin: &str, decision: Decision) -> Result<String, Fault> {
        require_person(caller)?;
        let Decision { query, allow, agent } = decision;
        let wanted = self.wanted(caller, origin, &query).await?;
        if !allow {
            let said = [("error", "access_denied"), ("error_description", "the person did not allow it")];
            return sent_back(&wanted, origin, &said);
        }
        self.require_fresh(caller).await?;
        let agent = self.chosen_agent(caller, wanted.name.as_deref(), agent.as_deref()).await?;
        let user = caller.user().ok_or_else(only_people)?;
        let now = self.clock.now();
        let scopes = scopes_of(&caller.permissions, wanted.scope.as_deref());
        let code = OauthCode {
            user,
            agent,
            key: toolgate_contracts::Id::new(&self.clock, &self.rng),
            client: OauthClient {
                name: wanted.client.name.clone(),
                host: wanted.client.site.clone().unwrap_or_else(|| wanted.place.host()),
                id: Digest::of(wanted.client.id.as_bytes()),
                issuer: None,
            },
            resource: wanted.resource.clone(),
            scopes,
            redirect: wanted.redirect.clone(),
            challenge: wanted.challenge,
            expires_at: now.plus_seconds(CODE_S),
            used_at: None,
        };
        let (text, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.insert_oauth_code(hash, &code)?;
        let details = json!({
            "key": code.key, "goes_to": wanted.place.host(), "site": wanted.client.site, "resource": code.resource,
            "agent": agent, "scopes": code.scopes,
        });
        change.audit(&self.entry(caller, caller.tenant, "oauth.allow", &code.client.name, details));
        self.store.commit(change).await?;
        sent_back(&wanted, origin, &[("code", &text)])
    }

    async fn wanted(&self, caller: &Caller, origin: &str, query: &str) -> Result<Wanted, Fault> {
        let begin = "begin again from the program that sent you here";
        let wrong = |told: String| Fault::invalid(told, begin);
        let mut said = parameters(query).map_err(wrong)?;
        let mut take = |name: &str| said.remove(name);
        let missing = |name: &'static str| wrong(format!("`{name}` is missing"));
        // Who asks and where the answer would go, before anything else of it is judged.
        let client = take("client_id").ok_or_else(|| missing("client_id"))?;
        let client = self.client(caller, &client).await?;
        let redirect = take("redirect_uri").ok_or_else(|| missing("redirect_uri"))?;
        let place = client.place(&redirect)?;
        if take("response_type").as_deref() != Some("code") {
            return Err(wrong("`response_type` is not `code`".to_owned()));
        }
        if take("code_challenge_method").as_deref() != Some("S256") {
            return Err(wrong("`code_challenge_method` is not `S256`".to_owned()));
        }
        let challenge = take("code_challenge").ok_or_else(|| missing("code_challenge"))?;
        let challenge = data_encoding::BASE64URL_NOPAD.decode(challenge.as_bytes()).ok();
        let challenge = challenge.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()).map(Digest::from_bytes);
        let challenge =
            challenge.ok_or_else(|| wrong("`code_challenge` is no SHA-256 digest as base64url".to_owned()))?;
        let state = take("state");
        if state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
            return Err(wrong(format!("`state` has more than {STATE_BYTES_MAX} bytes")));
        }
        let root = resource(origin, None);
        // Whoever names no address means the one there is.
        let asked = take("resource").unwrap_or_else(|| root.clone());
        let asked = asked.strip_suffix('/').unwrap_or(&asked);
        let name = asked.strip_prefix(&root).and_then(|rest| rest.strip_prefix('/')).map(str::to_owned);
        let fits = name.as_ref().is_none_or(|name| !name.is_empty() && !name.contains(['/', '?', '#', '%']));
        if (asked != root && name.is_none()) || !fits {
            let shown: String = asked.chars().take(120).flat_map(char::escape_debug).collect();
            return Err(wrong(format!("`resource` is not of this server: `{shown}`, where `{root}` is expected")));
        }
        let (resource, scope) = (asked.to_owned(), take("scope"));
        Ok(Wanted { client, redirect, place, challenge, state, resource, name, scope })
    }

    /// The agent whose address it is. An address that is neither an agent's nor a group's is nobody's.
    async fn agent_of_address(&self, caller: &Caller, name: Option<&str>) -> Result<Option<(AgentId, String)>, Fault> {
        let Some(name) = name else { return Ok(None) };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        if let Some(agent) = registry.agent(name)
            && self.registry.may_manage(caller, agent).await?
        {
            return Ok(Some((agent.id, agent.spec.name.to_string())));
        }
        if registry.has_group(name) { Ok(None) } else { Err(Fault::not_found("agent or group of tools", name)) }
    }

    async fn chosen_agent(
        &self,
        caller: &Caller,
        name: Option<&str>,
        chosen: Option<&str>,
    ) -> Result<Option<AgentId>, Fault> {
        let fixed = self.agent_of_address(caller, name).await?;
        let chosen = match chosen {
            None => return Ok(fixed.map(|(id, _)| id)),
            Some(chosen) => self.managed_agent(caller, chosen).await?,
        };
        match fixed {
            Some((id, _)) if id != chosen => {
                Err(Fault::invalid("the address is another agent's", "choose that agent, or none").at("/agent"))
            }
            Some(_) | None => Ok(Some(chosen)),
        }
    }
}

/// Who decides sits at a browser: no key, token or agent opens a door for another program.
fn require_person(caller: &Caller) -> Result<(), Fault> {
    if caller.agent.is_some() || !matches!(caller.credential, Credential::BrowserSession(_)) {
        return Err(only_people());
    }
    // What comes of it is a key of one's own.
    caller.require(&Permission::KEYS_OWN)
}

fn only_people() -> Fault {
    Fault::new(
        FaultKind::Forbidden,
        "only somebody who is signed in in a browser lets a client in",
        "open the address in a browser; for a program of your own, make a key with `toolgate key create`",
    )
}

/// The client's address with what was decided, and with whose word it is (RFC 9207).
fn sent_back(wanted: &Wanted, origin: &str, said: &[(&str, &str)]) -> Result<String, Fault> {
    let mut url = Url::parse(&wanted.redirect).map_err(Fault::internal)?;
    let mut pairs = url.query_pairs_mut();
    pairs.extend_pairs(said);
    if let Some(state) = &wanted.state {
        pairs.append_pair("state", state);
    }
    pairs.append_pair("iss", origin);
    drop(pairs);
    Ok(url.into())
}
