//! Connecting somebody with a server that wants tokens: where they go with a browser, and what becomes of what it brings.
//!
//! Invariant: an attempt is kept with whom it is for and ends with its answer, whatever that is. What a browser brings
//! back counts for that one attempt, of that one person, within its time.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde_json::json;
use toolgate_contracts::{Fault, FaultKind, ToolError};
use toolgate_egress::{HeaderValue, Method, Request, StatusCode, Url};
use toolgate_engine::Outcome;
use toolgate_engine::connections::{OF_ONES_OWN, kept_as};
use toolgate_engine::runner::{Connecting, Connection, UpstreamAsked};
use toolgate_vault::Redactor;

use super::keeper::{Authorised, Holder, Keeper};
use super::{Servers, places};
use crate::oauth::{self, Answer, Attempt, Challenge, Known, Registering, Tokens, Wanting};
use crate::upstream::{Outlet, challenge_of};

const NAME: &str = "Toolgate";

impl Servers {
    /// Where somebody goes with a browser.
    pub(super) async fn connect(&self, asked: UpstreamAsked, connecting: Connecting) -> Result<String, Fault> {
        let keeper = &self.0.keeper;
        let Connecting { place, by, redirect, document } = connecting;
        let holder = Holder { place, ..holder_of(&asked)? };
        let wrong = |error: oauth::OauthError| error.fault(holder.server.as_str());
        let redirect = own_redirect(&redirect)?;
        let way = keeper.way(holder.tenant);
        let challenge = self.challenge(&asked, &holder).await?;
        let issuer = holder.oauth.issuer.as_deref();
        let authority = oauth::discover(&way, &holder.address, &challenge, issuer).await.map_err(wrong)?;
        let before: Option<Tokens> = keeper.read(&holder, &kept_as(&holder.server)).await?.map(|(tokens, _)| tokens);
        let scope = oauth::scope_for(&authority, &challenge, holder.oauth.scope.as_deref());
        // What the server wanted since, beside what there was.
        let more = before.as_ref().filter(|before| before.issuer == authority.issuer).and_then(|before| {
            let wanted = before.wanted.as_deref()?;
            Some(oauth::with_more(before.scope.as_deref(), wanted))
        });
        let scope = match more {
            Some(more) => Some(oauth::with_more(scope.as_deref(), &more)),
            None => scope,
        };
        let kept = keeper.client_before(&holder).await?;
        let registered = holder.registered(&authority).map_err(wrong)?;
        let known = Known { registered, document: document.as_deref(), before: kept.as_ref() };
        let registering = Registering { name: NAME, redirect: &redirect, scope: scope.as_deref() };
        let client = oauth::client_for(&way, &authority, &known, &registering).await.map_err(wrong)?;
        if client.redirect.is_some() && kept.as_ref() != Some(&client) {
            keeper.keep_client(&holder, &client, &by).await?;
        }
        let wanting = Wanting { client, redirect: &redirect, scope };
        let (page, attempt) = oauth::begin(&authority, wanting, keeper.rng(), keeper.clock().now()).map_err(wrong)?;
        keeper.write(&holder, &attempt_name(&holder), &attempt, &by, None).await?;
        Ok(page.to_string())
    }

    /// What the browser brought becomes tokens.
    pub(super) async fn connected(
        &self,
        asked: UpstreamAsked,
        connecting: Connecting,
        back: &str,
    ) -> Result<Connection, Fault> {
        let keeper = &self.0.keeper;
        let holder = Holder { place: connecting.place, ..holder_of(&asked)? };
        let name = attempt_name(&holder);
        let Some((attempt, _)) = keeper.read::<Attempt>(&holder, &name).await? else {
            let told = format!("nobody is connecting the server `{}`", holder.server);
            return Err(Fault::conflict(told, format!("begin with `toolgate upstream connect {}`", holder.server)));
        };
        // Whatever comes of it, it is over: a code is good once.
        keeper.remove(&holder, &name).await?;
        let answer = Url::parse(back).map(|back| Answer::of(&back)).map_err(|_| {
            Fault::invalid("`answer` is no address", "give the address that the browser came back to").at("/answer")
        })?;
        let way = keeper.way(holder.tenant);
        let tokens = oauth::finish(&way, &attempt, &answer, keeper.clock().now()).await;
        let mut tokens = tokens.map_err(|error| error.fault(holder.server.as_str()))?;
        tokens.connection = HEXLOWER.encode(&keeper.rng().bytes::<16>());
        if tokens.address != holder.address.as_str() {
            let told = format!("the server `{}` moved while it was connected", holder.server);
            return Err(Fault::conflict(told, "connect it again"));
        }
        let details = json!({
            "scope": holder.place.scope, "scope_id": holder.place.id, "issuer": tokens.issuer, "granted": tokens.scope,
        });
        let entry = Some(("upstream.connect", details));
        keeper.write(&holder, &kept_as(&holder.server), &tokens, &connecting.by, entry).await?;
        Ok(Connection {
            scope: holder.place.scope,
            issuer: tokens.issuer.clone(),
            granted: tokens.scope.clone(),
            renews: tokens.refresh_token.is_some(),
            expires_at: tokens.expires_at,
        })
    }

    /// What the server says that it wants, asked without anything.
    async fn challenge(&self, asked: &UpstreamAsked, holder: &Holder) -> Result<Challenge, Fault> {
        let mut request = Request::new(Method::POST, holder.address.clone());
        request.headers.insert("content-type", HeaderValue::from_static("application/json"));
        request.headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        request.body = hello.to_string().into();
        let outlet = self.outlet(asked.tenant, &asked.upstream);
        let answer = outlet.send(request).await.map_err(|error| {
            let told = format!("the server `{}` cannot be reached: {}", holder.server, error.told());
            Fault::new(FaultKind::Unavailable, told, error.remedy().to_owned())
        })?;
        let wants = matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        Ok(if wants { challenge_of(&answer.headers) } else { Challenge::default() })
    }

    /// The way out with tokens, where a server wants them.
    pub(super) fn bearing(&self, outlet: Arc<dyn Outlet>, holder: Option<&Arc<Holder>>) -> Arc<dyn Outlet> {
        match holder {
            Some(holder) => {
                let (keeper, holder) = (Arc::clone(&self.0.keeper), Arc::clone(holder));
                Arc::new(Authorised { inner: outlet, keeper, holder })
            }
            None => outlet,
        }
    }
}

fn attempt_name(holder: &Holder) -> String {
    format!("oauth-attempt:{}", holder.server)
}

fn holder_of(asked: &UpstreamAsked) -> Result<Holder, Fault> {
    let url = places::url_of(&asked.upstream)?;
    Holder::of(asked.tenant, None, &asked.upstream, &url, &asked.secrets).ok_or_else(|| {
        Fault::conflict(format!("the server `{}` takes no connections", asked.upstream.name), "add `auth` to it")
    })
}

/// A browser comes back to the computer it is on: to whoever began, and to nobody else.
fn own_redirect(redirect: &str) -> Result<String, Fault> {
    let url = Url::parse(redirect).ok();
    let is_here = |url: &Url| {
        let loopback = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
        url.scheme() == "http" && loopback && url.port().is_some() && url.query().is_none() && url.fragment().is_none()
    };
    let url = url.filter(is_here).ok_or_else(|| {
        let remedy = "name one such as `http://127.0.0.1:PORT/callback`, where you listen";
        Fault::invalid("`redirect` is no address of this computer", remedy).at("/redirect")
    })?;
    Ok(url.to_string())
}

/// What is told of a call to a server that wants tokens: where to connect, and never a token.
pub fn told(keeper: &Keeper, holder: &Holder, is_shared: bool, outcome: Outcome) -> Outcome {
    use toolgate_contracts::ErrorCode;
    let outcome = match outcome {
        Outcome::Failed(error) if error.code == ErrorCode::AuthRequired && is_shared => {
            let message = format!(
                "{}; the server is the system tenant's, and takes no connection of yours: {OF_ONES_OWN}",
                error.message
            );
            Outcome::Failed(ToolError { message, ..error })
        }
        Outcome::Failed(error) if error.code == ErrorCode::AuthRequired => {
            let connect = format!("toolgate upstream connect {}", holder.server);
            let why = keeper.problem(holder).map(|why| format!("; {why}")).unwrap_or_default();
            let message = format!("{}{why}; connect with `{connect}`", error.message);
            let error = ToolError { message, ..error };
            Outcome::Failed(error.with("connect", connect).with("url", format!("/upstreams/{}", holder.server)))
        }
        other => other,
    };
    match holder.sent.redactor() {
        Ok(redactor) => without_tokens(outcome, &redactor),
        Err(fault) => {
            tracing::error!(upstream = %holder.server, "{}", fault.logged().unwrap_or(fault.told()));
            Outcome::Unknown("what the server said could not be kept apart from tokens".to_owned())
        }
    }
}

/// A server that says back what it was sent does not tell it to the caller, however it says it.
fn without_tokens(outcome: Outcome, redactor: &Redactor) -> Outcome {
    match outcome {
        Outcome::Done(mut done) => {
            done.result = super::answer::redacted(done.result, redactor);
            for attachment in &mut done.attachments {
                attachment.bytes = redactor.redact_bytes(&attachment.bytes).into_owned();
            }
            Outcome::Done(done)
        }
        Outcome::Failed(error) => Outcome::Failed(redacted(error, redactor)),
        Outcome::Spent { error, cost, units } => Outcome::Spent { error: redacted(error, redactor), cost, units },
        Outcome::Unknown(why) => Outcome::Unknown(redactor.redact_text(&why).into_owned()),
        Outcome::HandedOver => Outcome::HandedOver,
    }
}

fn redacted(error: ToolError, redactor: &Redactor) -> ToolError {
    let ToolError { code, message, details, retry_after_s } = error;
    let message = redactor.redact_text(&message).into_owned();
    ToolError { code, message, details: details.map(|details| redactor.redact_json(details)), retry_after_s }
}
