//! One operation as one definition: its arguments in one flat object, its request whole.

use serde_json::{Value, json};
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::runner::{Method, Openapi, Runner};
use toolgate_contracts::{Definition, ToolName};
use toolgate_egress::{Template, Url};

use super::document::{Document, Part};
use super::parameters::{self, Arguments};
use super::schema::{Schemas, Side};
use super::{Choice, answer, body, prose, security};
use crate::finding::{Finding, shown};
use crate::schema::{self, Dialect};
use crate::tool_md;

const DESCRIPTION_CHARS_MAX: usize = 4_000;
const TITLE_CHARS_MAX: usize = 100;
const TAG_CHARS_MAX: usize = 40;

/// An operation in its document.
pub(super) struct Item<'d> {
    pub method: Method,
    pub path: &'d str,
    pub path_part: Part<'d>,
    pub part: Part<'d>,
}

impl Item<'_> {
    pub fn id(&self) -> Option<&str> {
        self.part.text("operationId").filter(|id| !id.trim().is_empty())
    }

    /// `operationId`, or method and path.
    pub fn label(&self) -> String {
        self.id().map_or_else(|| format!("{} {}", self.method, self.path), str::to_owned)
    }

    pub fn is_deprecated(&self) -> bool {
        self.part.flag("deprecated")
    }

    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.part.value.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
}

/// The definition, with what is worth saying of it among `findings`; or why there is none.
pub(super) fn definition(
    document: &Document,
    item: &Item<'_>,
    name: &ToolName,
    choice: &Choice,
    findings: &mut Vec<Finding>,
) -> Result<Definition, Vec<Finding>> {
    let one = |finding: Finding| vec![finding];
    let server = server(document, item, choice).map_err(one)?;
    let mut schemas = Schemas::new(document, Side::Input);
    let mut arguments = Arguments::default();
    let (parameters, path) =
        parameters::read(document, item.path, &item.path_part, &item.part, &mut schemas, &mut arguments, findings)
            .map_err(one)?;
    let body = body::read(document, item.method, &item.part, &mut schemas, &mut arguments, findings).map_err(one)?;
    let prefix = choice.prefix.as_deref();
    let credential =
        security::credential(document, &item.part, choice.secret.as_deref(), prefix, findings).map_err(one)?;
    let answer = answer::read(document, item.method, &item.part, findings);
    let Arguments { properties, required } = arguments;
    let input_less = properties.is_empty();
    let mut input = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        input["required"] = required.into();
    }
    let mut input = schemas.complete(input).map_err(one)?;
    forgive_patterns(&mut input, &item.part.pointer, findings);

    let (auth, secret) = match credential {
        Some(credential) => (Some(credential.auth), Some(credential.secret)),
        None => (None, None),
    };
    let auth = auth.and_then(|auth| serde_json::from_value(auth).ok());
    let class =
        if matches!(item.method, Method::Get | Method::Head) { EgressClass::ReadOnly } else { EgressClass::Write };
    let runner = Runner::Openapi(Openapi {
        document: choice.named(document),
        digest: Some(document.digest),
        operation: prose::line(&item.label(), 200),
        method: item.method,
        server: server.clone(),
        path,
        parameters,
        body,
        auth,
        accept: answer.accept,
    });
    let mut members = json!({
        "name": name,
        "description": description(document, item),
        "egress_class": class,
        "input_schema": input,
        "runner": runner,
    });
    if let Some(title) = item.part.text("summary").map(|title| prose::line(title, TITLE_CHARS_MAX))
        && !title.is_empty()
    {
        members["title"] = title.into();
    }
    let mut tags: Vec<String> =
        item.tags().map(|tag| prose::line(tag, TAG_CHARS_MAX)).filter(|tag| !tag.is_empty()).collect();
    tags.dedup();
    if !tags.is_empty() {
        members["tags"] = tags.into();
    }
    if input_less {
        members["input_less"] = true.into();
    }
    if let Some(schema) = answer.schema {
        members["output_schema"] = schema;
    }
    if let Some(secret) = secret {
        members["secrets"] = json!([secret]);
    }
    if let Some(host) = host(&server) {
        members["hosts"] = json!([host]);
    }
    tool_md::parse_value(members, Dialect::Draft202012).map(|authored| authored.definition)
}

/// When to use it, in the words of the document; where it has none, what it is.
fn description(document: &Document, item: &Item<'_>) -> String {
    let of = |member: &str| prose::text(item.part.text(member).unwrap_or_default(), DESCRIPTION_CHARS_MAX / 2);
    let (summary, description) = (of("summary"), of("description"));
    let mut text = summary.clone();
    if !description.is_empty() && !description.starts_with(&summary) || summary.is_empty() {
        if !text.is_empty() {
            text.push_str(if text.ends_with(['.', '!', '?']) { "\n\n" } else { ".\n\n" });
        }
        text.push_str(&description);
    } else if !description.is_empty() {
        text = description;
    }
    if text.is_empty() {
        text = format!("{} {} of {}.", item.method, prose::line(item.path, 200), document.title);
    }
    text
}

/// The address that paths are below: what was chosen, the operation's, the path's, the document's.
fn server(document: &Document, item: &Item<'_>, choice: &Choice) -> Result<String, Finding> {
    let root = document.root();
    let declared = [&item.part, &item.path_part, &root]
        .into_iter()
        .find_map(|part| part.member("servers").and_then(|servers| servers.items().next()));
    let pointer = declared.as_ref().map(|part| part.pointer.clone()).unwrap_or_default();
    let text = match (&choice.server, &declared) {
        (Some(chosen), _) => chosen.clone(),
        (None, Some(server)) => filled(server),
        (None, None) => "/".to_owned(),
    };
    let refuse = |message: String| {
        let fix = "say where the API is, with its base URL (`--base-url https://api.example.com/v1`)";
        Err(Finding::error("openapi.server", pointer.clone(), message, fix))
    };
    let url = match (Url::parse(&text), &choice.base) {
        (Ok(url), _) => Ok(url),
        (Err(_), Some(base)) => base.join(&text).map_err(|_| ()),
        (Err(_), None) => Err(()),
    };
    let Ok(url) = url else { return refuse(format!("`{}` does not say where the API is", shown(&text))) };
    if url.query().is_some() || url.fragment().is_some() {
        return refuse(format!("`{}` has a query or a fragment", shown(&text)));
    }
    let address = url.as_str().trim_end_matches('/').to_owned();
    match Template::parse(&format!("{address}/")) {
        Ok(template) if template.values().next().is_none() => Ok(address),
        _ => refuse(format!("`{}` is no `https` or `http` address", shown(&text))),
    }
}

/// With the defaults of its variables.
fn filled(server: &Part<'_>) -> String {
    let mut url = server.text("url").unwrap_or_default().to_owned();
    for (name, variable) in server.member("variables").iter().flat_map(Part::members) {
        if let Some(default) = variable.text("default") {
            url = url.replace(&format!("{{{name}}}"), default);
        }
    }
    url
}

/// The only host that the tool may reach. An address of IPv6 is no entry of such a list.
fn host(server: &str) -> Option<String> {
    let url = Url::parse(server).ok()?;
    let host = url.host_str()?.to_owned();
    let plain =
        host.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    plain.then(|| url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
}

/// A pattern that cannot be run here is the other side's to check.
fn forgive_patterns(input: &mut Value, at: &str, findings: &mut Vec<Finding>) {
    // Only some are told at once.
    for _ in 0..32 {
        let refused: Vec<Finding> =
            schema::check(input, "").into_iter().filter(|finding| finding.code == "schema.pattern").collect();
        let mut removed = false;
        for Finding { pointer, message, .. } in refused {
            let Some(parent) = pointer.strip_suffix("/pattern") else { continue };
            if let Some(Value::Object(keywords)) = input.pointer_mut(parent)
                && keywords.shift_remove("pattern").is_some()
            {
                removed = true;
                let told = format!("a pattern is left out: {message}");
                let fix = "nothing to do: the other side checks it";
                findings.push(Finding::note("openapi.pattern", at, told, fix));
            }
        }
        if !removed {
            return;
        }
    }
}
