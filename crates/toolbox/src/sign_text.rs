//! A signature over a text by a key that only this function sees: what a tool with a secret looks like.

use std::future::{Ready, ready};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use serde_json::json;
use sha2::Sha256;
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_engine::{Outcome, Permit};

use crate::builtin::{Tools, input, invalid};

const KEY: &str = "SIGNING_KEY";
const TEXT_CHARS_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    text: String,
}

pub(crate) fn run(_tools: &Tools, permit: &Permit) -> Ready<Outcome> {
    ready(match input(permit.call()).and_then(|Input { text }| signed(permit, &text)) {
        Ok(signature) => Outcome::structured(json!({"algorithm": "HMAC-SHA256", "signature": signature})),
        Err(error) => error.into(),
    })
}

fn signed(permit: &Permit, text: &str) -> Result<String, ToolError> {
    let chars = text.chars().count();
    if chars > TEXT_CHARS_MAX {
        return Err(invalid("text", format!("it has {chars} characters; expected at most {TEXT_CHARS_MAX}")));
    }
    // A definition of the tenant's own may have forgotten to declare it.
    let missing = || {
        let message = format!("the function signs with the secret `{KEY}`; declare it under `secrets`");
        ToolError::because(ErrorCode::AuthRequired, "secret_missing", message).with("secret", KEY)
    };
    let key = permit.secrets().get(KEY).ok_or_else(missing)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose()).map_err(|_| missing())?;
    mac.update(text.as_bytes());
    Ok(HEXLOWER.encode(&mac.finalize().into_bytes()))
}
