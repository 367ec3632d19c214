//! `toolgate verify-response`: whether an answer of the invocation protocol is the server's.

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::VerifyingKey;
use serde_json::{Value, json};
use toolgate_contracts::json::{CALL_BYTES_MAX, SCHEMA_BYTES_MAX};
use toolgate_policy::response::verify_response;

use crate::args::VerifyResponse;
use crate::client::Client;
use crate::connect::Session;
use crate::failure::{Done, Failure};
use crate::input;

/// With keys from a file.
pub fn offline(wanted: &VerifyResponse, session: &Session) -> Done {
    let Some(file) = &wanted.keys else { return Err(Failure::usage("no keys are named", "name a file with --keys")) };
    let text = input::read_file(file, SCHEMA_BYTES_MAX)?;
    let set = serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display()), "give a /.well-known/jwks.json"))?;
    check(wanted, &set, session)
}

/// With the server's keys as they are now.
pub async fn with_client(wanted: &VerifyResponse, client: &Client, session: &Session) -> Done {
    check(wanted, &client.well_known("jwks.json").await?, session)
}

fn check(wanted: &VerifyResponse, set: &Value, session: &Session) -> Done {
    let text = input::read_file(&wanted.file, 2 * CALL_BYTES_MAX + SCHEMA_BYTES_MAX)?;
    let shown = wanted.file.display();
    let body: Value = toolgate_contracts::json::read(&text, text.len())
        .map_err(|error| Failure::failed(format!("{shown}: {error}"), "give the answer as it came"))?;
    let keys: Vec<VerifyingKey> = set["keys"].as_array().into_iter().flatten().filter_map(key_of).collect();
    if keys.is_empty() {
        return Err(Failure::usage(
            "there are no keys of the kind Ed25519",
            "give the server's /.well-known/jwks.json",
        ));
    }
    if !verify_response(&body, &keys) {
        let told = format!("{shown} is not signed by any of {} keys, or was changed", keys.len());
        return Err(Failure::failed(told, "compare it with the call itself: `toolgate calls list`"));
    }
    let request = body["request_id"].as_str().unwrap_or_default();
    let value = json!({"valid": true, "request_id": request, "status": body["status"], "code": body["code"]});
    session.output.say(&value, &format!("The answer to {request} is the server's, unchanged."))
}

fn key_of(jwk: &Value) -> Option<VerifyingKey> {
    if jwk["kty"] != "OKP" || jwk["crv"] != "Ed25519" {
        return None;
    }
    let bytes = BASE64URL_NOPAD.decode(jwk["x"].as_str()?.as_bytes()).ok()?;
    VerifyingKey::from_bytes(&bytes.try_into().ok()?).ok()
}
