//! `secrets`: known shapes of keys and tokens, and random-looking values under names that say what they are.
//!
//! A random-looking value alone is nothing: ids, digests and cursors look the same.

use regex::Regex;
use serde::Deserialize;
use toolgate_contracts::Fault;

use super::walk::{Content, Found, Leaf};
use super::{Kinds, compile};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Aws,
    Github,
    Gitlab,
    Slack,
    Stripe,
    Google,
    /// Keys of model providers.
    Model,
    /// Tokens for publishing packages.
    Package,
    PrivateKey,
    Jwt,
    /// Our own keys.
    Toolgate,
    /// A random-looking value under a name such as `api_key`.
    Named,
}

const ALL: [Kind; 12] = [
    Kind::Aws,
    Kind::Github,
    Kind::Gitlab,
    Kind::Slack,
    Kind::Stripe,
    Kind::Google,
    Kind::Model,
    Kind::Package,
    Kind::PrivateKey,
    Kind::Jwt,
    Kind::Toolgate,
    Kind::Named,
];

impl Kind {
    const fn shown(self) -> &'static str {
        match self {
            Self::Aws => "what looks like an AWS access key",
            Self::Github => "what looks like a GitHub token",
            Self::Gitlab => "what looks like a GitLab token",
            Self::Slack => "what looks like a Slack token",
            Self::Stripe => "what looks like a Stripe key",
            Self::Google => "what looks like a Google key",
            Self::Model => "what looks like a model provider's key",
            Self::Package => "what looks like a package registry's token",
            Self::PrivateKey => "a private key",
            Self::Jwt => "a signed token (JWT)",
            Self::Toolgate => "a Toolgate key",
            Self::Named => "a random-looking value under the name of a secret",
        }
    }

    const fn pattern(self) -> &'static str {
        match self {
            Self::Aws => r"(?:^|[^A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?:$|[^A-Za-z0-9])",
            Self::Github => r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
            Self::Gitlab => r"(?:^|[^A-Za-z0-9])gl(?:pat|dt|rt|ptt|oas)-[A-Za-z0-9_-]{20}",
            Self::Slack => {
                r"(?:^|[^A-Za-z0-9])(?:xox[abeoprs]-[0-9]{6,}-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Z0-9]{6,}-[0-9]{6,}-[a-f0-9]{20,})|hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{20,}"
            }
            Self::Stripe => r"(?:^|[^A-Za-z0-9])(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,})",
            Self::Google => r"(?:^|[^A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}(?:$|[^A-Za-z0-9_-])|GOCSPX-[A-Za-z0-9_-]{28}",
            Self::Model => {
                r"(?:^|[^A-Za-z0-9_-])sk-(?:ant-[a-z0-9]{3,8}-[A-Za-z0-9_-]{32,}|(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,}|[A-Za-z0-9]{48})"
            }
            Self::Package => {
                r"(?:^|[^A-Za-z0-9])(?:npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{50,}|cio[A-Za-z0-9]{32})(?:$|[^A-Za-z0-9])"
            }
            Self::PrivateKey => {
                r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----|AGE-SECRET-KEY-1[A-Z0-9]{58}"
            }
            Self::Jwt => r"(?:^|[^A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}",
            Self::Toolgate => r"(?:^|[^A-Za-z0-9])tg_[A-Za-z0-9_-]{22}_[A-Za-z0-9_-]{43}",
            Self::Named => {
                r#"(?i)([a-z][a-z0-9_.-]{1,60})["']?\s{0,3}(?:=>|[:=])\s{0,3}["']?(?:bearer |basic )?((?-u:[!#$%*-+\-./0-9:=?@A-Z^_a-z~]){16,})"#
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Secrets {
    shapes: Vec<(Kind, Regex)>,
    named: Option<Regex>,
}

impl Secrets {
    pub fn new(config: &Kinds<Kind>) -> Result<Self, Fault> {
        let mut secrets = Self { shapes: Vec::new(), named: None };
        for kind in config.chosen(&ALL)? {
            let pattern = compile(kind.pattern())?;
            match kind {
                Kind::Named => secrets.named = Some(pattern),
                _ => secrets.shapes.push((kind, pattern)),
            }
        }
        Ok(secrets)
    }

    pub fn look(&self, leaf: &Leaf<'_>, found: &mut Found) {
        let Some(text) = leaf.text() else { return };
        for (kind, pattern) in &self.shapes {
            if pattern.is_match(text) {
                found.mark(kind.shown());
            }
        }
        if let Some(assigned) = &self.named {
            let under_name = matches!(leaf.content, Content::Text(_)) && leaf.name.is_some_and(names_a_secret);
            let bare = text.trim().trim_start_matches("Bearer ").trim_start_matches("Basic ");
            let is_named = under_name && is_random(bare)
                || assigned.captures_iter(text).any(|captures| {
                    let part = |index| captures.get(index).map_or("", |part| part.as_str());
                    names_a_secret(part(1)) && is_random(part(2))
                });
            if is_named {
                found.mark(Kind::Named.shown());
            }
        }
    }
}

/// Whether a member or variable of this name holds a secret: `apiKey`, `DB_PASSWORD`, but not `next_page_token`.
fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let ends = |list: &[&str]| words.last().is_some_and(|word| list.contains(&word.as_str()));
    let of_a_key = words.windows(2).any(|pair| {
        pair[1] == "key"
            && ["api", "access", "private", "secret", "signing", "encryption", "auth", "master"]
                .contains(&pair[0].as_str())
    });
    let said = of_a_key
        || has(&[
            "password",
            "passwd",
            "passphrase",
            "secret",
            "token",
            "credential",
            "credentials",
            "apikey",
            "authorization",
        ]);
    let of_a_list =
        has(&["page", "next", "prev", "previous", "continuation", "cursor", "sync", "max", "min", "resume"]);
    let about = ends(&[
        "id",
        "ids",
        "name",
        "hash",
        "digest",
        "sha256",
        "fingerprint",
        "type",
        "count",
        "url",
        "uri",
        "path",
        "file",
        "expires",
        "expiry",
        "ttl",
        "length",
        "version",
        "ref",
        "arn",
        "endpoint",
        "policy",
    ]);
    said && !of_a_list && !about
}

/// The words of a name, whatever joins them.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for character in name.chars().take(200) {
        if !character.is_alphanumeric() || (character.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        before_lower = character.is_lowercase() || character.is_numeric();
        if let Some(word) = words.last_mut()
            && character.is_alphanumeric()
        {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Long, and of a mixture that words, paths, dates and UUIDs do not have.
fn is_random(text: &str) -> bool {
    let text = text.trim_end_matches(['=', '.']);
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/_-.~!@#$%^*".contains(&byte));
    if !plain || !(16..=512).contains(&text.len()) || is_uuid(text) || text.contains("//") {
        return false;
    }
    text.split(['/', '_', '-', '.']).any(|part| {
        part.len() >= 12 && part.bytes().any(|byte| byte.is_ascii_digit()) && turns(part) >= 4 && entropy(part) >= 3.0
    })
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// How often the kind of character changes from one to the next.
fn turns(text: &str) -> usize {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase(), byte.is_ascii_lowercase());
    text.as_bytes().windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count()
}

/// Bits for each character, by how often each occurs.
#[expect(clippy::cast_precision_loss, reason = "a text of at most 512 bytes")]
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = text.len() as f64;
    let bits = counts.iter().filter(|count| **count > 0).map(|count| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    });
    bits.sum()
}
