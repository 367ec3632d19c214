//! Which credential an operation wants, as one secret of the tool. What cannot be sent from here (cookies, client
//! certificates, several credentials at once) is refused by name.

use serde_json::{Value, json};

use super::document::{Document, Part};
use crate::finding::{Finding, shown};
use crate::words;

const SECRET_CHARS_MAX: usize = 64;

/// How the credential goes out, and whether the operation works without.
pub(super) struct Credential {
    /// `auth` of the runner.
    pub auth: Value,
    /// An item of the definition's `secrets`.
    pub secret: Value,
}

pub(super) fn credential(
    document: &Document,
    operation: &Part<'_>,
    secret: Option<&str>,
    prefix: Option<&str>,
    findings: &mut Vec<Finding>,
) -> Result<Option<Credential>, Finding> {
    let root = document.root();
    let Some(wanted) = operation.member("security").or_else(|| root.member("security")) else { return Ok(None) };
    let mut optional = false;
    let mut refusal = None;
    let mut found = None;
    for alternative in wanted.items() {
        let mut schemes = alternative.members();
        match (schemes.next(), schemes.next()) {
            (None, _) => optional = true,
            (Some((name, at)), None) if found.is_none() => match scheme(document, name, &at, findings) {
                Ok(way) => found = Some((name, way)),
                Err(finding) => refusal = refusal.or(Some(finding)),
            },
            (Some(_), None) => {}
            (Some((name, at)), Some((other, _))) => {
                let message = format!("`{}` and `{}` are wanted at once", shown(name), shown(other));
                let fix = "a tool sends one credential; leave the operation out, or call it with a tool of kind `http`";
                refusal = refusal.or(Some(Finding::error("openapi.security", at.pointer, message, fix)));
            }
        }
    }
    let Some((name, Way { mut auth, what })) = found else {
        return match refusal {
            Some(_) if optional => Ok(None),
            Some(refusal) => Err(refusal),
            None => Ok(None),
        };
    };
    let secret = secret.map_or_else(|| secret_name(prefix.unwrap_or(&document.title), name), str::to_owned);
    auth["secret"] = secret.as_str().into();
    let purpose = format!("{what} of {}", document.title);
    let secret = json!({"name": secret, "required": !optional, "purpose": purpose});
    Ok(Some(Credential { auth, secret }))
}

struct Way {
    auth: Value,
    what: &'static str,
}

fn scheme(document: &Document, name: &str, at: &Part<'_>, findings: &mut Vec<Finding>) -> Result<Way, Finding> {
    let refused =
        |message: String, fix: &str| Err(Finding::error("openapi.security", at.pointer.clone(), message, fix));
    let declared = document
        .root()
        .member("components")
        .and_then(|components| components.member("securitySchemes"))
        .and_then(|schemes| schemes.member(name));
    let Some(declared) = declared else {
        let message = format!("the security scheme `{}` is not defined", shown(name));
        return refused(message, "define it under `components.securitySchemes`");
    };
    let declared = document.resolved(&declared)?;
    let bearer = Way { auth: json!({}), what: "the access token" };
    match (declared.text("type"), declared.text("scheme"), declared.text("in")) {
        (Some("http"), Some(scheme), _) if scheme.eq_ignore_ascii_case("bearer") => Ok(bearer),
        (Some("http"), Some(scheme), _) if scheme.eq_ignore_ascii_case("basic") => {
            Ok(Way { auth: json!({"scheme": "Basic"}), what: "the user and password, as `user:password`," })
        }
        (Some("http"), Some(scheme), _) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
            Ok(Way { auth: json!({"scheme": scheme}), what: "the credential" })
        }
        (Some("oauth2" | "openIdConnect"), _, _) => {
            let message = format!("`{}` is sent as a token that somebody keeps as a secret", shown(name));
            let fix = "renew the secret when the token ends; it is not asked for by itself";
            findings.push(Finding::note("openapi.token", declared.pointer, message, fix));
            Ok(bearer)
        }
        (Some("apiKey"), _, Some(place @ ("header" | "query"))) => {
            let Some(parameter) = declared.text("name").filter(|name| !name.is_empty()) else {
                return refused(format!("`{}` does not say which {place} it is", shown(name)), "add its `name`");
            };
            if place == "header"
                && let Err(error) = toolgate_egress::header(parameter, "")
            {
                let message = format!("`{}` goes into a header that cannot be sent: {error}", shown(name));
                return refused(message, "use another way to sign in that the API offers, or leave the operation out");
            }
            let mut auth = json!({});
            auth[place] = parameter.into();
            Ok(Way { auth, what: "the API key" })
        }
        (Some("apiKey"), _, Some("cookie")) => {
            let message = format!("`{}` is a cookie, and cookies are not sent", shown(name));
            refused(message, "use another way to sign in that the API offers, or leave the operation out")
        }
        (Some("mutualTLS"), _, _) => {
            let message = format!("`{}` is a client certificate, and none is sent", shown(name));
            refused(message, "use another way to sign in that the API offers, or leave the operation out")
        }
        _ => {
            let message = format!("the security scheme `{}` is of no known type", shown(name));
            refused(message, "correct its `type`, or leave the operation out")
        }
    }
}

/// `PETSTORE_API_KEY`: whose it is, and what.
fn secret_name(whose: &str, scheme: &str) -> String {
    let whose: String = whose.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let mut words: Vec<String> = Vec::new();
    for word in words::split(&whose).into_iter().take(4).chain(words::split(scheme)) {
        let word: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
        if !word.is_empty() && words.last() != Some(&word) {
            words.push(word);
        }
    }
    let name = words.join("_").to_ascii_uppercase();
    let name: String = name.chars().take(SECRET_CHARS_MAX).collect();
    if name.is_empty() { "API_TOKEN".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_says_whose_it_is() {
        assert_eq!(secret_name("Swagger Petstore", "api_key"), "SWAGGER_PETSTORE_API_KEY");
        assert_eq!(secret_name("github", "bearerAuth"), "GITHUB_BEARER_AUTH");
        assert_eq!(secret_name("Straße", "…"), "STRA_E");
        assert_eq!(secret_name("…", "…"), "API_TOKEN");
    }
}
