//! Servers of others that are put behind the gate: where one is, what it is given, and what it may ask.
//!
//! Invariant: a process is an entry of the operator's configuration, never a command line; a secret is a name.
//! Deliberately absent: what such a server speaks, which is the protocol's own crate.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::definition::words;
use crate::digest::Digest;
use crate::fault::Fault;
use crate::name::{FoldedName, Slug, ToolName};
use crate::secret::is_secret_name;

/// Headers and variables of one server, each.
pub const GIVEN_MAX: usize = 32;
/// Tools that one server may offer.
pub const TOOLS_MAX: usize = 2000;
const TITLE_CHARS_MAX: usize = 200;
const VALUE_BYTES_MAX: usize = 4096;

words! {
    /// What a server may ask of people while a call is under way. `person`: it goes to people here, under the server's
    /// name. `pass`: it goes on to whoever called, where they can be asked.
    ElicitationPolicy { Refuse = "refuse", Person = "person", Pass = "pass" }
}
words! {
    /// Whether a server may ask the caller's program: for an answer of its model, for the folders that it works in.
    SamplingPolicy { Refuse = "refuse", Pass = "pass" }
}
words! {
    /// How a tool differs from what was accepted of it, mildest first. `annotation`: only a hint turned. `rename`: a new
    /// name with the schema of one that is gone.
    DriftClass {
        Description = "description", Annotation = "annotation", Widening = "widening",
        Narrowing = "narrowing", Breaking = "breaking", Rename = "rename"
    }
}

impl DriftClass {
    /// Whether calls that fit what was accepted still do what they did.
    pub const fn keeps_calls(self) -> bool {
        match self {
            Self::Description | Self::Annotation | Self::Widening => true,
            Self::Narrowing | Self::Breaking | Self::Rename => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    /// A process: an entry below `upstreams` in the operator's `entries.yaml`.
    Stdio { entry: String },
    /// Streamable HTTP.
    Http { url: String },
    /// The transport of the first revisions.
    Sse { url: String },
}

/// A header that every request carries: a secret's value, or a plain one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamHeader {
    pub name: String,
    /// The name of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What stands before the secret, as `Bearer` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A variable of a process that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamVariable {
    pub name: String,
    pub secret: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamAsks {
    pub elicitation: ElicitationPolicy,
    pub sampling: SamplingPolicy,
    pub roots: SamplingPolicy,
}

impl Default for UpstreamAsks {
    fn default() -> Self {
        let (elicitation, refused) = (ElicitationPolicy::Refuse, SamplingPolicy::Refuse);
        Self { elicitation, sampling: refused, roots: refused }
    }
}

impl UpstreamAsks {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// How a token comes to be: by somebody's yes in a browser, or by the client's own secret.
    OauthGrant { Code = "code", ClientCredentials = "client_credentials" }
}
words! {
    /// Whose connection a call takes: the organisation's, or the caller's own.
    ConnectionOf { Org = "org", User = "user" }
}

/// How a server is told who comes, beside headers and variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UpstreamAuth {
    /// With tokens of the authorisation server that the server names.
    Oauth(UpstreamOauth),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamOauth {
    pub grant: OauthGrant,
    pub per: ConnectionOf,
    /// What is asked for; absent: what the server says that it wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// A client that was registered with the authorisation server; absent: one registers itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The name of the secret of that client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The only authorisation server that is used, as it calls itself; absent: the first that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

impl Default for UpstreamOauth {
    fn default() -> Self {
        Self {
            grant: OauthGrant::Code,
            per: ConnectionOf::Org,
            scope: None,
            client_id: None,
            client_secret: None,
            issuer: None,
        }
    }
}

/// One server as the operator put it behind the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    #[serde(default = "one")]
    pub version: u32,
    /// Its tools are `NAME.TOOL`. Lower-case letters, digits and `-`, beginning with a letter.
    #[schema(value_type = String)]
    pub name: Slug,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub transport: Transport,
    /// The only revision of the protocol that is spoken with it; absent: it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<UpstreamHeader>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<UpstreamVariable>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<UpstreamAuth>,
    /// Which of its tools are taken, by the server's own names; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its tools have their own names, without the server's before them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unprefixed: bool,
    #[serde(default, skip_serializing_if = "UpstreamAsks::is_default")]
    pub asks: UpstreamAsks,
    /// Each caller has a connection, process or session of their own; otherwise callers with the same secrets share one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apart: bool,
    /// Changes that are taken without asking anybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<DriftClass>,
    /// Of each call; absent: a tool's usual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Upstream {
    /// The names of the secrets that it is given.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let headers = self.headers.iter().filter_map(|header| header.secret.as_deref());
        let variables = self.environment.iter().map(|variable| variable.secret.as_str());
        let client = self.oauth().and_then(|oauth| oauth.client_secret.as_deref());
        headers.chain(variables).chain(client).collect()
    }

    pub const fn oauth(&self) -> Option<&UpstreamOauth> {
        match &self.auth {
            Some(UpstreamAuth::Oauth(oauth)) => Some(oauth),
            None => None,
        }
    }

    /// Under which a secret is given to all of its tools at once.
    pub fn as_tool_name(&self) -> Option<ToolName> {
        self.name.as_str().parse().ok()
    }

    pub fn folded(&self) -> FoldedName {
        FoldedName::of(self.name.as_str())
    }

    pub fn takes(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|taken| taken.iter().any(|name| name == tool))
    }

    /// What can be said of it without looking anywhere.
    pub fn check(&self) -> Result<(), Fault> {
        let wrong = |pointer: &str, told: String, remedy: &str| Err(Fault::invalid(told, remedy).at(pointer));
        if self.version != 1 {
            return wrong("/version", format!("`version` is {}", self.version), "write `\"version\": 1`");
        }
        if self.as_tool_name().is_none() {
            let told = format!("`{}` cannot stand before the names of tools", self.name);
            return wrong("/name", told, "begin it with a letter");
        }
        if let Some(title) = &self.title {
            crate::unseen::check_text("title", title)?;
            if title.chars().count() > TITLE_CHARS_MAX {
                return wrong("/title", "`title` is too long".to_owned(), "keep it below 200 characters");
            }
        }
        if self.headers.len() > GIVEN_MAX || self.environment.len() > GIVEN_MAX {
            let told = format!("there are more than {GIVEN_MAX} headers or variables");
            return wrong("/headers", told, "leave out what the server does not need");
        }
        let is_process = matches!(self.transport, Transport::Stdio { .. });
        if is_process && !self.headers.is_empty() {
            let told = "`headers` with the transport `stdio`".to_owned();
            return wrong("/headers", told, "give a process what it needs in `environment`");
        }
        if !is_process && !self.environment.is_empty() {
            let told = "`environment` with a transport that starts no process".to_owned();
            return wrong("/environment", told, "give the server what it needs in `headers`");
        }
        for (index, header) in self.headers.iter().enumerate() {
            check_header(header).map_err(|fault| fault.at(format!("/headers/{index}")))?;
        }
        for (index, variable) in self.environment.iter().enumerate() {
            check_variable(variable).map_err(|fault| fault.at(format!("/environment/{index}")))?;
        }
        if let Some(oauth) = self.oauth() {
            if is_process {
                let told = "`auth` with the transport `stdio`".to_owned();
                return wrong("/auth", told, "give a process what it needs in `environment`");
            }
            if self.headers.iter().any(|header| header.name.eq_ignore_ascii_case("authorization")) {
                let told = "`auth` beside a header `Authorization`".to_owned();
                return wrong("/auth", told, "leave one of them out");
            }
            check_oauth(oauth)?;
        }
        if let Some(tools) = &self.tools
            && tools.len() > TOOLS_MAX
        {
            return wrong("/tools", format!("`tools` has more than {TOOLS_MAX} names"), "leave it out to take all");
        }
        Ok(())
    }
}

fn check_oauth(oauth: &UpstreamOauth) -> Result<(), Fault> {
    let UpstreamOauth { grant, per, scope, client_id, client_secret, issuer } = oauth;
    let wrong =
        |member: &str, told: &str, remedy: &str| Err(Fault::invalid(told, remedy).at(format!("/auth/oauth/{member}")));
    let plain = |text: &Option<String>| {
        text.as_deref().is_none_or(|text| {
            (1..=VALUE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        })
    };
    for (member, text) in [("scope", scope), ("client_id", client_id), ("issuer", issuer)] {
        if !plain(text) {
            return wrong(
                member,
                &format!("`{member}` is empty, too long, or has other characters"),
                "write printable ASCII",
            );
        }
    }
    if client_secret.as_deref().is_some_and(|secret| !is_secret_name(secret)) {
        return wrong("client_secret", "`client_secret` names no secret", "keep it as a secret and name that");
    }
    if client_secret.is_some() && client_id.is_none() {
        return wrong("client_secret", "`client_secret` without `client_id`", "say whose secret it is");
    }
    if *grant == OauthGrant::ClientCredentials {
        if client_secret.is_none() {
            let told = "the grant `client_credentials` without `client_id` and `client_secret`";
            return wrong("grant", told, "register a client with the authorisation server, and name it");
        }
        if *per == ConnectionOf::User {
            let told = "`per: user` with the grant `client_credentials`, which stands for nobody";
            return wrong("per", told, "leave `per` out, or use the grant `code`");
        }
    }
    Ok(())
}

/// Headers that say what the gate itself says, or who it is.
const OWN_HEADERS: [&str; 12] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "last-event-id",
    "origin",
];

fn check_header(header: &UpstreamHeader) -> Result<(), Fault> {
    let UpstreamHeader { name, secret, scheme, value } = header;
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let lower = name.to_ascii_lowercase();
    if !token(name) || OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-") {
        let told = format!("`{}` is not a header that may be set", name.escape_debug());
        return Err(Fault::invalid(told, "name one that the server asks for, as `Authorization` or `X-Api-Key`"));
    }
    if secret.is_some() == value.is_some() {
        let told = format!("the header `{name}` has neither or both of `secret` and `value`");
        return Err(Fault::invalid(told, "name a secret, or write a value that is none"));
    }
    if secret.as_deref().is_some_and(|secret| !is_secret_name(secret)) {
        return Err(Fault::invalid(format!("the header `{name}` names no secret"), "name one, as `GITHUB_TOKEN`"));
    }
    if scheme.as_deref().is_some_and(|scheme| !token(scheme)) || scheme.is_some() && secret.is_none() {
        let told = format!("`scheme` of the header `{name}`");
        return Err(Fault::invalid(told, "write a word such as `Bearer`, beside a secret"));
    }
    let plain = |text: &str| text.len() <= VALUE_BYTES_MAX && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if value.as_deref().is_some_and(|value| !plain(value)) {
        let told = format!("the value of the header `{name}` is too long, or has characters that headers do not have");
        return Err(Fault::invalid(told, "write printable ASCII"));
    }
    if matches!(lower.as_str(), "authorization" | "cookie" | "proxy-authorization") && secret.is_none() {
        let told = format!("the header `{name}` is written out, and everybody who may look here would see it");
        return Err(Fault::invalid(told, "keep it as a secret and name that"));
    }
    Ok(())
}

fn check_variable(variable: &UpstreamVariable) -> Result<(), Fault> {
    let UpstreamVariable { name, secret } = variable;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.len() > 128 || !name.bytes().all(legal) || name.as_bytes()[0].is_ascii_digit() {
        let told = format!("`{}` is not the name of a variable", name.escape_debug());
        return Err(Fault::invalid(told, "write letters, digits and `_`"));
    }
    if !is_secret_name(secret) {
        return Err(Fault::invalid(format!("the variable `{name}` names no secret"), "name one, as `GITHUB_TOKEN`"));
    }
    Ok(())
}

/// What a server answered when it was asked what it offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The revision of the protocol that it speaks.
    pub revision: String,
    /// What it calls itself.
    pub server: ServerInfo,
    pub instructions: Option<String>,
    /// As they came, whatever is wrong with them.
    pub tools: Vec<Value>,
    /// Of the place that it was asked at.
    pub place: Digest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How it stands with a server, as far as this process knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamHealth {
    /// Whether a connection is open here.
    pub open: bool,
    pub failures_in_a_row: u32,
    /// It failed too often and is left alone for a while.
    pub resting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
    /// The last that a process complained about when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    /// The revision of the protocol that is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_server_is_told_by_its_place() {
        #[track_caller]
        fn check(extra: Value, pointer: &str) {
            let mut spec = json!({"name": "files", "transport": {"kind": "http", "url": "https://a.test/mcp"}});
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let checked = crate::json::decode::<Upstream>(spec).unwrap().check();
            let at = checked.as_ref().err().and_then(Fault::pointer).unwrap_or_default();
            assert_eq!(at, pointer, "{checked:?}");
        }
        check(json!({}), "");
        check(json!({"name": "3d"}), "/name");
        check(json!({"version": 2}), "/version");
        check(json!({"headers": [{"name": "Authorization", "secret": "TOKEN", "scheme": "Bearer"}]}), "");
        check(json!({"headers": [{"name": "X-Team", "value": "a b"}]}), "");
        check(json!({"headers": [{"name": "Authorization", "value": "Bearer abc"}]}), "/headers/0");
        check(json!({"headers": [{"name": "X-Team"}]}), "/headers/0");
        check(json!({"headers": [{"name": "X-Team", "value": "a\r\nb: c"}]}), "/headers/0");
        check(json!({"headers": [{"name": "Mcp-Session-Id", "value": "x"}]}), "/headers/0");
        check(json!({"headers": [{"name": "Host", "value": "x"}]}), "/headers/0");
        check(json!({"environment": [{"name": "TOKEN", "secret": "TOKEN"}]}), "/environment");
        check(json!({"auth": {"oauth": {}}}), "");
        check(json!({"auth": {"oauth": {"per": "user", "scope": "read write"}}}), "");
        check(json!({"auth": {"oauth": {"scope": "a\nb"}}}), "/auth/oauth/scope");
        check(json!({"auth": {"oauth": {"client_secret": "SECRET"}}}), "/auth/oauth/client_secret");
        check(
            json!({"auth": {"oauth": {"client_id": "we", "client_secret": "not a name"}}}),
            "/auth/oauth/client_secret",
        );
        check(json!({"auth": {"oauth": {"grant": "client_credentials"}}}), "/auth/oauth/grant");
        let ours = json!({"grant": "client_credentials", "client_id": "we", "client_secret": "SECRET"});
        check(json!({"auth": {"oauth": ours}}), "");
        let mine = json!({"grant": "client_credentials", "client_id": "we", "client_secret": "SECRET", "per": "user"});
        check(json!({"auth": {"oauth": mine}}), "/auth/oauth/per");
        let beside = json!([{"name": "authorization", "secret": "TOKEN", "scheme": "Bearer"}]);
        check(json!({"auth": {"oauth": {}}, "headers": beside}), "/auth");
        check(json!({"auth": {"oauth": {}}, "transport": {"kind": "stdio", "entry": "files"}}), "/auth");
        let stdio = json!({"kind": "stdio", "entry": "files"});
        check(json!({"transport": stdio, "environment": [{"name": "TOKEN", "secret": "TOKEN"}]}), "");
        check(json!({"transport": stdio, "environment": [{"name": "A=B", "secret": "T"}]}), "/environment/0");
        check(json!({"transport": stdio, "headers": [{"name": "X-A", "value": "b"}]}), "/headers");
    }

    #[test]
    fn a_name_that_has_a_dot_is_none() {
        let spec = json!({"name": "a.b", "transport": {"kind": "stdio", "entry": "x"}});
        assert_eq!(crate::json::decode::<Upstream>(spec).unwrap_err().pointer, "/name");
    }
}
