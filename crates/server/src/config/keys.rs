//! The table of keys, and what each of them may be.

use super::without_password;

/// One key of the table in `docs/configuration.md`.
pub struct Key {
    pub name: &'static str,
    pub default: &'static str,
    pub about: &'static str,
    pub(super) check: fn(&str) -> Result<(), String>,
}

impl Key {
    pub fn variable(&self) -> String {
        format!("TOOLGATE_{}", self.name.to_uppercase())
    }
}

pub const KEYS: &[Key] = &[
    Key {
        name: "listen",
        default: "127.0.0.1:8787",
        about: "Address and port to serve on; port 0 takes a free one.",
        check: is_address,
    },
    Key {
        name: "public_url",
        default: "",
        about: "How people and agents reach the server; links are made from it. Empty: the listening address.",
        check: is_origin,
    },
    Key {
        name: "tls_cert",
        default: "",
        about: "A file with the server's certificate and those between it and its authority (PEM). With `tls_key` the server speaks HTTPS.",
        check: anything,
    },
    Key {
        name: "tls_key",
        default: "",
        about: "A file with the certificate's private key (PEM). Both files are read again when they change.",
        check: anything,
    },
    Key {
        name: "trusted_proxies",
        default: "",
        about: "Addresses or networks of proxies, separated by commas: what they say of their clients (`Forwarded`, `X-Forwarded-…`) is believed. Nobody else is.",
        check: |text| crate::proxies::Proxies::parse(text).map(drop),
    },
    Key {
        name: "entries_file",
        default: "",
        about: "A file with the commands, databases and services that tools may name. Empty: `entries.yaml` in the data folder, where there is one.",
        check: anything,
    },
    Key {
        name: "database",
        default: "",
        about: "`postgres://…`, or empty for SQLite in the data folder.",
        check: is_database,
    },
    Key {
        name: "database_connections",
        default: "8",
        about: "Connections to PostgreSQL, at most.",
        check: |text| is_number(text, 2, 200),
    },
    Key {
        name: "redis",
        default: "",
        about: "`redis://…` for what several replicas share: rate limits and kept results. Empty: each has its own, in memory.",
        check: is_redis,
    },
    Key {
        name: "master_key",
        default: "",
        about: "The key that wraps all other keys of the server, 32 bytes as hexadecimal or base64; the same on every replica. Better in a file.",
        check: anything,
    },
    Key {
        name: "master_key_file",
        default: "",
        about: "A file with the master key. Empty: `master.key` in the data folder, made when it is missing.",
        check: anything,
    },
    Key {
        name: "master_key_command",
        default: "",
        about: "A command that prints the master key, such as a key service's client: a program and its arguments, separated by spaces or as a JSON list. No shell reads it. It wins over the two above.",
        check: |text| command(text).map(drop),
    },
    Key {
        name: "master_key_previous",
        default: "",
        about: "The master key before this one, until `toolgate keys rewrap` has put everything under the new one.",
        check: anything,
    },
    Key {
        name: "master_key_previous_file",
        default: "",
        about: "A file with the master key before this one.",
        check: anything,
    },
    Key {
        name: "durability",
        default: "auto",
        about: "`auto`: what has an effect is on the disk before it is answered. `power`: everything is.",
        check: |text| is_one_of(text, &["auto", "power"]),
    },
    Key {
        name: "allowed_hosts",
        default: "",
        about: "Further host names to answer to, separated by commas. The listening address, loopback names and the host of `public_url` always are.",
        check: anything,
    },
    Key {
        name: "log",
        default: "info",
        about: "What to log: `error`, `warn`, `info`, `debug`, or a filter such as `info,toolgate_store=debug`.",
        check: anything,
    },
    Key {
        name: "log_format",
        default: "text",
        about: "`text` or `json`.",
        check: |text| is_one_of(text, &["text", "json"]),
    },
    Key {
        name: "otlp_endpoint",
        default: "",
        about: "An OpenTelemetry collector to send traces to, by OTLP over HTTP, such as `http://127.0.0.1:4318`. Empty: none.",
        check: is_endpoint,
    },
    Key {
        name: "metrics_open",
        default: "false",
        about: "`true`: everybody who reaches the server may read `/metrics`. `false`: this machine and operators.",
        check: |text| is_one_of(text, &["true", "false"]),
    },
    Key {
        name: "dev_bypass",
        default: "false",
        about: "`true`: keys of the role `service` may skip approvals (`toolgate call --force-no-approval`). For development: only with SQLite, on a loopback address, without TLS, proxies and a public URL.",
        check: |text| is_one_of(text, &["true", "false"]),
    },
    Key {
        name: "smtp",
        default: "",
        about: "The mail relay that approvers are told through: `smtp://user:password@host:587`, with `?tls=implicit` or `?tls=none` where it does not speak STARTTLS. Empty: no mail.",
        check: is_relay,
    },
    Key {
        name: "mail_from",
        default: "",
        about: "Whom mail comes from, such as `Toolgate <toolgate@example.com>`; needed with `smtp`.",
        check: is_sender,
    },
    Key {
        name: "password_sign_in",
        default: "true",
        about: "`true`: people may sign in with a password. `false`: by OIDC and by links alone.",
        check: |text| is_one_of(text, &["true", "false"]),
    },
    Key {
        name: "oidc_issuer",
        default: "",
        about: "The provider of identities that people sign in with (OpenID Connect), such as `https://id.example.com`; exactly as it calls itself. Needs `public_url`, and `oidc_roles` or `oidc_default_role`. Empty: none.",
        check: is_endpoint,
    },
    Key { name: "oidc_client_id", default: "", about: "What the provider calls this server.", check: anything },
    Key {
        name: "oidc_client_secret",
        default: "",
        about: "The secret that the provider gave this server. Better in a file.",
        check: anything,
    },
    Key {
        name: "oidc_client_secret_file",
        default: "",
        about: "A file with that secret. Neither: a public client, by PKCE alone.",
        check: anything,
    },
    Key {
        name: "oidc_scopes",
        default: "openid profile email",
        about: "What the provider is asked for, separated by spaces.",
        check: is_scopes,
    },
    Key {
        name: "oidc_groups_claim",
        default: "groups",
        about: "Where the ID token names the groups of a person; a path with dots where it lies deeper.",
        check: anything,
    },
    Key {
        name: "oidc_roles",
        default: "",
        about: "The role of each group: `staff=member, tool-admins=admin`, or a JSON object. Roles follow the groups at each sign-in.",
        check: |text| crate::identity::oidc::check_roles(text).map(drop),
    },
    Key {
        name: "oidc_default_role",
        default: "",
        about: "The role of whoever is in none of these groups. Empty: they are refused.",
        check: |text| {
            if text.is_empty() { Ok(()) } else { crate::identity::oidc::check_roles(&format!("all={text}")).map(drop) }
        },
    },
    Key {
        name: "oidc_tenant",
        default: "default",
        about: "The tenant that people of the provider are members of.",
        check: anything,
    },
    Key {
        name: "oidc_other_tenants",
        default: "",
        about: "Other tenants that take the provider's word, separated by commas: members there whose address the provider vouches for change to them without another sign-in. Empty: none.",
        check: |text| crate::identity::oidc::check_tenants(text).map(drop),
    },
    Key {
        name: "oidc_label",
        default: "Single sign-on",
        about: "What the button on the sign-in page says.",
        check: is_label,
    },
    Key {
        name: "mcp_issuers",
        default: "",
        about: "Other issuers whose access tokens `/mcp` takes, with `public_url`, as a JSON list of `{issuer, audience?, user?, tenant?, scope?, jwks?}`; see the page on authorisation. Empty: none, only what this server issues itself.",
        check: |text| crate::oauth::issuers::read(text).map(drop),
    },
    Key {
        name: "session_idle_minutes",
        default: "30",
        about: "A browser session ends after this long without use.",
        check: |text| is_number(text, 1, 1440),
    },
    Key {
        name: "session_hours",
        default: "8",
        about: "A browser session ends after this long in any case.",
        check: |text| is_number(text, 1, 168),
    },
    Key {
        name: "mcp_patience_seconds",
        default: "50",
        about: "How long a client of MCP that cannot be sent to a page waits for a person before it is told `pending`. Many give up after 60.",
        check: |text| is_number(text, 0, 3600),
    },
    Key {
        name: "traces_url",
        default: "",
        about: "Where people see what happened in a run, as an address with `{run_id}` in it. Empty: in the console.",
        check: is_trace_address,
    },
];

/// A program and its arguments, as a JSON list or separated by spaces. Nothing is quoted or expanded.
pub(super) fn command(text: &str) -> Result<Vec<String>, String> {
    if text.trim_start().starts_with('[') {
        let words: Vec<String> = serde_json::from_str(text).map_err(|_| "it is not a JSON list of texts".to_owned())?;
        return if words.is_empty() { Err("the list names no program".to_owned()) } else { Ok(words) };
    }
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

#[expect(clippy::unnecessary_wraps, reason = "a check of the table")]
fn anything(_: &str) -> Result<(), String> {
    Ok(())
}

fn is_address(text: &str) -> Result<(), String> {
    text.parse::<std::net::SocketAddr>()
        .map(drop)
        .map_err(|_| format!("`{text}` is not an address and port such as 127.0.0.1:8787"))
}

fn is_origin(text: &str) -> Result<(), String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        _ if text.is_empty() => Ok(()),
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']) => Ok(()),
        _ => Err(format!("`{text}` is not an origin such as https://tools.example.com (no path)")),
    }
}

fn is_endpoint(text: &str) -> Result<(), String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        _ if text.is_empty() => Ok(()),
        Some(host) if !host.is_empty() && !host.starts_with('/') && !host.contains(['?', '#', '@', ' ']) => Ok(()),
        _ => Err(format!("`{}` is not an address such as http://127.0.0.1:4318", without_password(text))),
    }
}

fn is_database(text: &str) -> Result<(), String> {
    let known =
        text.is_empty() || ["postgres://", "postgresql://", "sqlite://"].iter().any(|scheme| text.starts_with(scheme));
    if known { Ok(()) } else { Err(format!("`{}` is neither postgres://… nor sqlite://…", without_password(text))) }
}

fn is_redis(text: &str) -> Result<(), String> {
    let shown = without_password(text);
    if text.is_empty() || text.starts_with("redis://") {
        Ok(())
    } else if text.starts_with("rediss://") {
        Err(format!("`{shown}` asks for TLS, which is not supported to Redis; use redis:// in a private network"))
    } else {
        Err(format!("`{shown}` is not redis://…"))
    }
}

fn is_relay(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    toolgate_egress::mail::Relay::parse(text).map(drop).map_err(|fault| format!("{}: {}", fault.told(), fault.remedy()))
}

fn is_sender(text: &str) -> Result<(), String> {
    let bare = text.rsplit_once('<').map_or(text, |(_, address)| address.trim_end_matches('>'));
    let is_address = bare.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    if text.is_empty() || (is_address && !bare.contains([' ', ',']) && !text.contains(char::is_control)) {
        return Ok(());
    }
    Err(format!("`{text}` is not an address such as Toolgate <toolgate@example.com>"))
}

fn is_scopes(text: &str) -> Result<(), String> {
    let legal = text.split(' ').all(|scope| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic()));
    if legal && text.split(' ').any(|scope| scope == "openid") {
        return Ok(());
    }
    Err(format!("`{text}` are not scopes separated by spaces with `openid` among them"))
}

fn is_label(text: &str) -> Result<(), String> {
    let chars = text.chars().count();
    if (1..=60).contains(&chars) && toolgate_contracts::unseen::check_seen("it", text).is_ok() {
        return Ok(());
    }
    Err(format!("`{}` has not 1 to 60 characters that are seen", text.escape_debug()))
}

fn is_trace_address(text: &str) -> Result<(), String> {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    if text.is_empty() || (is_web && text.contains("{run_id}")) {
        return Ok(());
    }
    Err("is no address with `{run_id}` in it, such as `https://traces.example.com/runs/{run_id}`".to_owned())
}

fn is_number(text: &str, least: u32, most: u32) -> Result<(), String> {
    match text.parse::<u32>() {
        Ok(number) if (least..=most).contains(&number) => Ok(()),
        _ => Err(format!("`{text}` is not a whole number from {least} to {most}")),
    }
}

fn is_one_of(text: &str, words: &[&str]) -> Result<(), String> {
    if words.contains(&text) { Ok(()) } else { Err(format!("`{text}` is not one of {}", words.join(", "))) }
}
