//! `secrets`: known shapes of keys and tokens, and random-looking values under names that say what they are.
//!
//! A random-looking value alone is nothing: ids, digests and cursors look the same. What is written out under the name of
//! a password or key may be short and chosen by a person; words, types, places and stand-ins are not taken for one.

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
    /// A password or key that is written out: `password=…`, `pwd: …`, `api_key = "…"`.
    Password,
}

const ALL: [Kind; 13] = [
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
    Kind::Password,
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
            Self::Password => "what looks like a password or key, written out",
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
            // Quoted in either way, also within a text of JSON, or bare up to what ends a value.
            Self::Password => {
                r#"(?i)([a-z][a-z0-9_.-]{1,60})(?:\\?["'])?\s{0,3}(?:=>|[:=])\s{0,3}(?:\\?"([^"\\\n]{6,128})\\?"|'([^'\n]{6,128})'|([^\s"'`,;&<>{}()\[\]\\]{6,128}))"#
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Secrets {
    shapes: Vec<(Kind, Regex)>,
    named: Option<Regex>,
    assigned: Option<Regex>,
}

impl Secrets {
    pub fn new(config: &Kinds<Kind>) -> Result<Self, Fault> {
        let mut secrets = Self { shapes: Vec::new(), named: None, assigned: None };
        for kind in config.chosen(&ALL)? {
            let pattern = compile(kind.pattern())?;
            match kind {
                Kind::Named => secrets.named = Some(pattern),
                Kind::Password => secrets.assigned = Some(pattern),
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
                    names_a_secret(part(1)) && is_random(part(2)) && !is_place(part(1), part(2))
                });
            if is_named {
                found.mark(Kind::Named.shown());
            }
        }
        if let Some(assigned) = &self.assigned
            && self.is_written_out(assigned, leaf, text)
        {
            found.mark(Kind::Password.shown());
        }
    }

    fn is_written_out(&self, assigned: &Regex, leaf: &Leaf<'_>, text: &str) -> bool {
        // What is random enough is told once, as what it is.
        let told = |name: &str, value: &str| self.named.is_some() && names_a_secret(name) && is_random(value);
        let shown =
            |name: &str, value: &str, quoted| names_a_password(name) && is_chosen(value, quoted) && !told(name, value);
        let under_name =
            matches!(leaf.content, Content::Text(_)) && leaf.name.is_some_and(|name| shown(name, text, true));
        under_name
            || assigned.captures_iter(text).any(|captures| {
                let part = |index| captures.get(index).map(|part| part.as_str());
                let name = part(1).unwrap_or_default();
                match (part(2).or(part(3)), part(4)) {
                    (Some(quoted), _) => shown(name, quoted, true),
                    (None, Some(bare)) => shown(name, bare.trim_end_matches(['.', ':', '!', '?']), false),
                    (None, None) => false,
                }
            })
    }
}

/// Whether a name is that of a password or of a key for an interface, which people choose and write down.
fn names_a_password(name: &str) -> bool {
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    names_a_secret(name)
        && (has(&["password", "passwd", "pwd", "passphrase", "apikey"]) || words.iter().any(|word| word == "key"))
}

/// Whether a value is one that somebody chose: neither a word, a type or a place, nor what stands for a value.
fn is_chosen(value: &str, quoted: bool) -> bool {
    if !(6..=128).contains(&value.len())
        || value.chars().any(|character| character.is_whitespace() || character.is_control())
    {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    let stands_for = value.starts_with(['$', '%', '<', '{', '[', '*', '/', '~', '.', '@'])
        || value.contains("://")
        || ["your", "example", "changeme", "change_me", "placeholder", "redacted", "xxx", "***", "dummy"]
            .iter()
            .any(|word| lower.contains(word))
        || value
            .split_once(':')
            .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase()))
        || value.split_once('@').is_some_and(|(_, host)| host.contains('.'));
    // Of code: a variable, a member of one, a constant; and what counts or names a manner.
    let in_code = !quoted
        && (is_path_of_names(value) || !words(value).iter().all(|word| !SECRET_WORDS.contains(&word.as_str())))
        || is_constant(value)
        || MANNERS.contains(&lower.as_str());
    if stands_for || in_code || is_uuid(value) {
        return false;
    }
    value.split(['-', '_', '.', '/']).any(|part| {
        let has = |kind: fn(&u8) -> bool| part.as_bytes().iter().any(kind);
        let mixed = has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit);
        mixed && part.len() >= 5 || has(u8::is_ascii_alphabetic) && has(|byte| b"!#$%^*+=?~".contains(byte))
    })
}

const SECRET_WORDS: [&str; 8] = ["password", "passwd", "pwd", "passphrase", "secret", "token", "key", "apikey"];

/// What is written after `password:` and is none.
const MANNERS: [&str; 14] = [
    "sha256", "sha384", "sha512", "sha3-256", "base64", "base32", "argon2", "argon2id", "oauth2", "uint32", "uint64",
    "string64", "md5sum", "bcrypt12",
];

/// `PWD=/srv/ada` is where somebody is.
fn is_place(name: &str, value: &str) -> bool {
    value.starts_with(['/', '~']) && words(name).last().is_some_and(|word| word == "pwd")
}

/// `config.password2`, `process.env.KEY_2`.
fn is_path_of_names(text: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.contains('.') && text.split('.').all(is_name)
}

/// `DB_PASSWORD_2`.
fn is_constant(text: &str) -> bool {
    text.contains('_') && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
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
            "pwd",
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
