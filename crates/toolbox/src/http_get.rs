//! Reads any address. Reading is sending: what stands in the address leaves, so that the sink is open.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::ToolError;
use toolgate_egress::Request;
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, input};
use crate::outgoing;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    let (request, way) = match request(call).and_then(|request| Ok((request, outgoing::way(tools, call)?))) {
        Ok(ready) => ready,
        Err(error) => return error.into(),
    };
    outgoing::told(outgoing::ask(tools, call, &way, request).await)
}

pub(crate) fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let request = request(call)?;
    Ok(outgoing::planned(tools, call, &outgoing::way(tools, call)?, &request))
}

fn request(call: &Call) -> Result<Request, ToolError> {
    let Input { url, headers } = input(call)?;
    let mut request = outgoing::prepared(Request::get(outgoing::url("url", &url)?), call);
    outgoing::set_headers(&mut request, &headers)?;
    Ok(request)
}
