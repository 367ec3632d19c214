//! What a plug-in says of itself. It is asked before anybody grants it anything, and believed in nothing.

use std::sync::Arc;
use std::time::Duration;

use toolgate_contracts::definition::SecretUse;
use toolgate_contracts::json;
use toolgate_contracts::plugin::{PluginDescription, ReadPlugin};
use toolgate_contracts::runner::HostAccess;

use super::Prepared;
use super::bindings::{Kind, types};
use super::host::State;
use super::run::Clockwork;
use super::streams::Captured;
use crate::error::SandboxError;
use crate::request::{Limits, Network};
use crate::result::Ended;

/// What a schema may hold.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;
const TITLE_CHARS_MAX: usize = 200;
const DESCRIPTION_CHARS_MAX: usize = 8_000;
const WISHES_MAX: usize = 50;

pub async fn describe(clockwork: &Clockwork, prepared: &Prepared) -> Result<ReadPlugin, SandboxError> {
    let limits = Limits { cpu: Duration::from_secs(5), wall: Duration::from_secs(10), ..Limits::default() };
    let state = State::new(&limits, Network::Denied, Arc::new(Captured::new(limits.output_bytes, None)));
    let kind = Arc::clone(&prepared.kind);
    let (tell, told) = tokio::sync::oneshot::channel();
    let result = clockwork
        .with_instance(limits, state, move |store| {
            Box::pin(async move {
                let description = match &*kind {
                    Kind::Tool(tool) => tool.instantiate_async(&mut *store).await?.call_describe(&mut *store).await?,
                    Kind::Detector(detector) => {
                        detector.instantiate_async(&mut *store).await?.call_describe(&mut *store).await?
                    }
                };
                let _ = tell.send(description);
                Ok(Ended::Finished(serde_json::Value::Null))
            })
        })
        .await?;
    let unfit = |why: String| SandboxError::Component { why };
    result.outcome(&limits).map_err(|error| unfit(format!("`describe` failed: {}", error.message)))?;
    let said = told.await.map_err(|_| unfit("`describe` gave no answer".to_owned()))?;
    let description = read(said).map_err(|why| unfit(format!("`describe` answered {why}")))?;
    Ok(ReadPlugin { world: prepared.world(), description })
}

fn read(said: types::Description) -> Result<PluginDescription, String> {
    let types::Description { name, version, title, description, input_schema, output_schema, hosts, secrets } = said;
    for (member, text, most) in
        [("title", &title, TITLE_CHARS_MAX), ("description", &description, DESCRIPTION_CHARS_MAX)]
    {
        if text.chars().count() > most {
            return Err(format!("a `{member}` of more than {most} characters"));
        }
    }
    for (member, count) in [("hosts", hosts.len()), ("secrets", secrets.len())] {
        if count > WISHES_MAX {
            return Err(format!("{count} `{member}`, at most {WISHES_MAX} are possible"));
        }
    }
    Ok(PluginDescription {
        name: name.parse().map_err(|error| format!("a `name` that is none: {error}"))?,
        version: version.parse().map_err(|error| format!("a `version` that is none: {error}"))?,
        title,
        description,
        input_schema: schema("input-schema", &input_schema)?,
        output_schema: output_schema.as_deref().map(|text| schema("output-schema", text)).transpose()?,
        hosts: hosts.into_iter().map(host).collect::<Result<_, _>>()?,
        secrets: secrets.into_iter().map(secret).collect(),
    })
}

fn schema(member: &str, text: &str) -> Result<serde_json::Value, String> {
    match json::read(text.as_bytes(), SCHEMA_BYTES_MAX) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(format!("an `{member}` that is no object")),
        Err(error) => Err(format!("an `{member}` that is no JSON: {error}")),
    }
}

fn host(said: types::HostAccess) -> Result<HostAccess, String> {
    let methods = said.methods.iter().map(|method| method.parse()).collect::<Result<_, _>>();
    let methods = methods.map_err(|_| format!("methods of `{}` that are none", said.host.escape_debug()))?;
    Ok(HostAccess { host: said.host, methods })
}

fn secret(said: types::SecretUse) -> SecretUse {
    let types::SecretUse { name, required, purpose } = said;
    SecretUse { name, required, purpose: (!purpose.is_empty()).then_some(purpose) }
}
