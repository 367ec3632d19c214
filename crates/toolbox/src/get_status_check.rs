//! What the checks of a pull request say, by the GitHub REST API.
//!
//! A check is a commit status or a check run: two generations of the same thing, told as one.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, Slug, ToolError};
use toolgate_egress::{HeaderName, HeaderValue, Request, Url, Way};
use toolgate_engine::secrets::Secrets;
use toolgate_engine::{Call, Outcome, Permit};
use toolgate_runners::http::{Failure, with_secret};

use crate::builtin::{Tools, input, invalid};
use crate::outgoing;

const TOKEN: &str = "GITHUB_TOKEN";
const ENTRY: &str = "github";
const USUAL_URL: &str = "https://api.github.com";
const PAGE_ITEMS: usize = 100;
const PAGES_MAX: usize = 10;
const NAME_CHARS_MAX: usize = 200;
/// Of each text that says something about a check.
const TEXT_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    pr_id: Value,
    #[serde(default)]
    repository: Option<String>,
    #[serde(default)]
    check_name: Option<String>,
}

struct Wanted {
    owner: String,
    repository: String,
    number: u64,
    check_name: Option<String>,
}

pub(crate) async fn run(tools: &Tools, permit: &Permit) -> Outcome {
    match ask(tools, permit).await {
        Ok(output) => Outcome::structured(output),
        Err(failure) => failure.into(),
    }
}

async fn ask(tools: &Tools, permit: &Permit) -> Result<Value, Failure> {
    let call = permit.call();
    let (wanted, server) = asked(tools, call)?;
    let way = way(tools, call, &server)?;
    let asking = Asking { tools, permit, way: &way, server: &server, wanted: &wanted };
    let pull =
        asking.get(&["pulls", &wanted.number.to_string()], &[]).await.map_err(|failure| wanted.missing(failure))?;
    let text = |pointer: &str| pull.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let Some(commit) = text("/head/sha").filter(|sha| sha.bytes().all(|byte| byte.is_ascii_hexdigit())) else {
        return Err(asking.unexpected("answers without the head of the pull request").into());
    };
    let mut checks = Vec::new();
    let by_name = wanted.check_name.as_deref().map(|name| ("check_name", name));
    asking.list(&["commits", &commit, "check-runs"], by_name, "check_runs", &mut checks, check_run).await?;
    asking.list(&["commits", &commit, "status"], None, "statuses", &mut checks, commit_status).await?;
    if let Some(name) = &wanted.check_name {
        checks.retain(|check| check["name"] == name.as_str());
    }
    checks.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let mut output = json!({
        "pr_id": wanted.number,
        "repository": format!("{}/{}", wanted.owner, wanted.repository),
        "commit": commit,
        "state": together(&checks),
        "checks": checks,
    });
    for (member, pointer) in [("title", "/title"), ("pr_state", "/state"), ("url", "/html_url")] {
        if let Some(text) = text(pointer) {
            output[member] = Value::String(text);
        }
    }
    Ok(output)
}

pub(crate) fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (wanted, server) = asked(tools, call)?;
    let request = request(call, &server, &wanted, &["pulls", &wanted.number.to_string()], &[]);
    Ok(outgoing::planned(tools, call, &way(tools, call, &server)?, &request))
}

pub(crate) fn ready(tools: &Tools, tenant: Option<&Slug>) -> Result<(), ToolError> {
    outgoing::readable(tools, ENTRY, tenant)?;
    match &tools.entries.github {
        Some(entry) => outgoing::server(ENTRY, &entry.url).map(drop),
        None => Ok(()),
    }
}

fn asked(tools: &Tools, call: &Call) -> Result<(Wanted, Url), ToolError> {
    let wanted = Wanted::read(input(call)?)?;
    outgoing::readable(tools, ENTRY, Some(&call.tenant_slug))?;
    let entry = tools.entries.github.as_ref().filter(|entry| entry.tenants.include(&call.tenant_slug));
    let server = outgoing::server(ENTRY, entry.map_or(USUAL_URL, |entry| &entry.url))?;
    Ok((wanted, server))
}

/// What the operator wrote is open; GitHub itself is public.
fn way(tools: &Tools, call: &Call, server: &Url) -> Result<Way, ToolError> {
    if server.as_str().trim_end_matches('/') == USUAL_URL {
        return outgoing::way(tools, call);
    }
    outgoing::way_to(tools, call, server)
}

fn request(call: &Call, server: &Url, wanted: &Wanted, names: &[&str], query: &[(&str, &str)]) -> Request {
    let Wanted { owner, repository, .. } = wanted;
    let mut url = outgoing::below(&outgoing::below(server, &["repos", owner, repository]), names);
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    let mut request = outgoing::prepared(Request::get(url), call);
    for (name, value) in [("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")] {
        request.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    request
}

impl Wanted {
    /// `42` with `repository`, or `owner/name#42`.
    fn read(Input { pr_id, repository, check_name }: Input) -> Result<Self, ToolError> {
        let wrong = || invalid("pr_id", "expected a number such as 42, or `owner/name#42`");
        let (named, number) = match &pr_id {
            Value::Number(number) => (None, number.as_u64()),
            Value::String(text) => match text.split_once('#') {
                Some((named, number)) => (Some(named.to_owned()), number.parse().ok()),
                None => (None, text.parse().ok()),
            },
            _ => return Err(wrong()),
        };
        let number = number.filter(|number| (1..=i32::MAX.unsigned_abs().into()).contains(number)).ok_or_else(wrong)?;
        let name = match (named, repository) {
            (Some(named), None) => named,
            (None, Some(repository)) => repository,
            (Some(named), Some(repository)) if named == repository => named,
            (Some(_), Some(_)) => return Err(invalid("repository", "`pr_id` names another; leave one out")),
            (None, None) => {
                return Err(invalid("repository", "it is missing; write `owner/name`, or `pr_id` as `owner/name#42`"));
            }
        };
        let is_name = |name: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            (1..=100).contains(&name.len()) && name.chars().all(is_plain) && !matches!(name, "." | "..")
        };
        let Some((owner, repository)) = name.split_once('/').filter(|(owner, name)| is_name(owner) && is_name(name))
        else {
            return Err(invalid("repository", "expected `owner/name`"));
        };
        let chars = check_name.as_deref().map_or(1, |name| name.chars().count());
        if !(1..=NAME_CHARS_MAX).contains(&chars) {
            return Err(invalid("check_name", format!("it has {chars} characters; expected 1 to {NAME_CHARS_MAX}")));
        }
        let (owner, repository) = (owner.to_owned(), repository.to_owned());
        Ok(Self { owner, repository, number, check_name })
    }

    /// GitHub says the same of what does not exist and of what one may not see.
    fn missing(&self, failure: Failure) -> Failure {
        let Failure::Told(mut error) = failure else { return failure };
        let status = error.details.as_ref().and_then(|details| details.get("status")?.as_u64());
        if status == Some(404) {
            let Self { owner, repository, number, .. } = self;
            error.message = format!(
                "there is no pull request {number} in `{owner}/{repository}`, or the secret `{TOKEN}` may not see it"
            );
        }
        Failure::Told(error)
    }
}

struct Asking<'a> {
    tools: &'a Tools,
    permit: &'a Permit,
    way: &'a Way,
    server: &'a Url,
    wanted: &'a Wanted,
}

impl Asking<'_> {
    async fn get(&self, names: &[&str], query: &[(&str, &str)]) -> Result<Value, Failure> {
        let call = self.permit.call();
        let mut request = request(call, self.server, self.wanted, names, query);
        // What is public can be read without.
        if let Some(token) = self.permit.secrets().get(TOKEN) {
            request = with_secret(request, token, None, None)?;
        }
        Ok(outgoing::json_of(outgoing::ask(self.tools, call, self.way, request).await?)?)
    }

    /// All pages of a list, each item read.
    async fn list(
        &self,
        names: &[&str],
        filter: Option<(&str, &str)>,
        member: &str,
        into: &mut Vec<Value>,
        read: fn(&Secrets, &Value) -> Option<Value>,
    ) -> Result<(), Failure> {
        for page in 1..=PAGES_MAX {
            let (size, page) = (PAGE_ITEMS.to_string(), page.to_string());
            let mut query = vec![("per_page", size.as_str()), ("page", page.as_str())];
            query.extend(filter);
            let answer = self.get(names, &query).await?;
            let Some(items) = answer.get(member).and_then(Value::as_array) else {
                return Err(self.unexpected(&format!("answers without a list of `{member}`")).into());
            };
            into.extend(items.iter().filter_map(|item| read(self.permit.secrets(), item)));
            if items.len() < PAGE_ITEMS {
                return Ok(());
            }
        }
        let message = format!("the commit has more than {} checks; give `check_name`", PAGES_MAX * PAGE_ITEMS);
        Err(ToolError::because(ErrorCode::ProviderError, "output_schema", message).into())
    }

    fn unexpected(&self, what: &str) -> ToolError {
        outgoing::unexpected(self.server.host_str().unwrap_or_default(), what)
    }
}

fn check_run(secrets: &Secrets, run: &Value) -> Option<Value> {
    let conclusion = run.get("conclusion").and_then(Value::as_str);
    let state = match (run.get("status")?.as_str()?, conclusion) {
        ("completed", Some("success" | "neutral" | "skipped")) => "success",
        ("completed", _) => "failure",
        _ => "pending",
    };
    let mut check = json!({"name": run.get("name")?.as_str()?, "kind": "check_run", "state": state});
    copy(
        secrets,
        run,
        &mut check,
        &[("conclusion", "conclusion"), ("details_url", "url"), ("completed_at", "completed_at")],
    );
    Some(check)
}

fn commit_status(secrets: &Secrets, status: &Value) -> Option<Value> {
    let said = status.get("state")?.as_str()?;
    let state = match said {
        "success" => "success",
        "pending" => "pending",
        _ => "failure",
    };
    let mut check = json!({"name": status.get("context")?.as_str()?, "kind": "status", "state": state});
    copy(
        secrets,
        status,
        &mut check,
        &[("state", "conclusion"), ("target_url", "url"), ("description", "about"), ("updated_at", "completed_at")],
    );
    Some(check)
}

fn copy(secrets: &Secrets, from: &Value, to: &mut Value, members: &[(&str, &str)]) {
    for (member, name) in members {
        if let Some(text) = from.get(member).and_then(Value::as_str) {
            to[*name] = Value::String(secrets.beginning(text, TEXT_CHARS_MAX));
        }
    }
}

/// One that failed is a failure, one that still runs makes the whole wait.
fn together(checks: &[Value]) -> &'static str {
    let has = |state: &str| checks.iter().any(|check| check["state"] == state);
    match checks {
        [] => "missing",
        _ if has("failure") => "failure",
        _ if has("pending") => "pending",
        _ => "success",
    }
}
