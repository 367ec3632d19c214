//! What the operator configured about the provider of identities: the keys `oidc_…`.

use std::path::Path;

use serde_json::Value;
use toolgate_contracts::{Fault, FaultKind, Role, Slug};
use zeroize::Zeroizing;

use super::Memory;
use crate::config::Config;

pub struct Oidc {
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Option<Zeroizing<String>>,
    pub(super) scopes: String,
    pub(super) groups_claim: String,
    pub(super) roles: Vec<(String, Role)>,
    pub(super) default_role: Option<Role>,
    /// Where new people come in.
    pub(super) tenant: Slug,
    /// Tenants that take the provider's word as well.
    other_tenants: Vec<Slug>,
    pub label: String,
    pub(super) memory: Memory,
}

impl Oidc {
    /// The provider, where one is configured.
    pub fn open(config: &Config, data: &Path) -> Result<Option<Self>, Fault> {
        let text = |name: &str| config.get(name).to_owned();
        if config.get("oidc_issuer").is_empty() {
            return Ok(None);
        }
        let client_secret = match (config.get("oidc_client_secret"), config.get("oidc_client_secret_file")) {
            ("", "") => None,
            ("", file) => {
                let path = data.join(file);
                let secret = std::fs::read_to_string(&path).map_err(|error| {
                    let told = format!("`oidc_client_secret_file` {} cannot be read: {error}", path.display());
                    Fault::new(FaultKind::Unavailable, told, "check its path, owner and mode")
                })?;
                Some(Zeroizing::new(secret.trim_end_matches(['\r', '\n']).to_owned()))
            }
            (secret, _) => Some(Zeroizing::new(secret.to_owned())),
        };
        let wrong =
            |problem: String| Fault::invalid(problem, "correct the configuration; `toolgate config check` tests it");
        Ok(Some(Self {
            issuer: text("oidc_issuer"),
            client_id: text("oidc_client_id"),
            client_secret,
            scopes: text("oidc_scopes"),
            groups_claim: text("oidc_groups_claim"),
            roles: check_roles(config.get("oidc_roles")).map_err(wrong)?,
            default_role: Some(config.get("oidc_default_role"))
                .filter(|role| !role.is_empty())
                .map(|role| role_of(role).map_err(wrong))
                .transpose()?,
            tenant: config.get("oidc_tenant").parse().map_err(|_| wrong("`oidc_tenant` is no tenant".to_owned()))?,
            other_tenants: check_tenants(config.get("oidc_other_tenants")).map_err(wrong)?,
            label: text("oidc_label"),
            memory: Memory::default(),
        }))
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whether the provider's word counts in a tenant.
    pub fn takes(&self, tenant: &Slug) -> bool {
        *tenant == self.tenant || self.other_tenants.contains(tenant)
    }

    /// The roles of somebody in these groups.
    pub(super) fn roles_of(&self, claims: &Value) -> Vec<Role> {
        let groups = groups(claims, &self.groups_claim);
        let mut roles: Vec<Role> = Vec::new();
        for (group, role) in &self.roles {
            if groups.contains(&group.as_str()) && !roles.contains(role) {
                roles.push(*role);
            }
        }
        if roles.is_empty() {
            roles.extend(self.default_role);
        }
        roles
    }
}

/// The groups that a token names: a list or one text, by the claim's own name or along its dots.
fn groups<'c>(claims: &'c Value, claim: &str) -> Vec<&'c str> {
    let found = claims.get(claim).or_else(|| claim.split('.').try_fold(claims, |value, member| value.get(member)));
    match found {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// `group=role` pairs, separated by commas, or a JSON object where names have commas of their own.
pub fn check_roles(text: &str) -> Result<Vec<(String, Role)>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if text.starts_with('{') {
        let Ok(Value::Object(pairs)) = serde_json::from_str(text) else {
            return Err("it is not a JSON object of groups and roles".to_owned());
        };
        let pair = |(group, role): (String, Value)| match role {
            Value::String(role) => Ok(vec![(group, role_of(&role)?)]),
            Value::Array(roles) => {
                let role = |role: Value| role.as_str().map_or_else(|| Err(no_role(&role.to_string())), role_of);
                roles.into_iter().map(|one| Ok((group.clone(), role(one)?))).collect()
            }
            other => Err(no_role(&other.to_string())),
        };
        let pairs: Vec<Vec<_>> = pairs.into_iter().map(pair).collect::<Result<_, String>>()?;
        return Ok(pairs.into_iter().flatten().collect());
    }
    let pair = |pair: &str| {
        let (group, role) = pair.rsplit_once('=').ok_or_else(|| format!("`{pair}` is not `group=role`"))?;
        let group = group.trim();
        if group.is_empty() {
            return Err(format!("`{pair}` names no group"));
        }
        Ok((group.to_owned(), role_of(role.trim())?))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

/// Short names of tenants, separated by commas.
pub fn check_tenants(text: &str) -> Result<Vec<Slug>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| name.parse().map_err(|_| format!("`{name}` is no short name of a tenant"))).collect()
}

fn role_of(text: &str) -> Result<Role, String> {
    text.parse::<Role>().ok().filter(|role| *role != Role::Service).ok_or_else(|| no_role(text))
}

fn no_role(text: &str) -> String {
    format!("`{text}` is no role of a person: viewer, member, approver, author, admin or operator")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_map_to_roles() {
        let read =
            |text| check_roles(text).map(|pairs| pairs.iter().map(|(g, r)| format!("{g}>{r}")).collect::<Vec<_>>());
        assert_eq!(read("a=admin, tool users=member").unwrap(), ["a>admin", "tool users>member"]);
        assert_eq!(read(r#"{"cn=a,dc=b": ["admin", "operator"], "c": "viewer"}"#).unwrap().len(), 3);
        assert_eq!(read("").unwrap().len(), 0);
        for wrong in ["a", "=admin", "a=king", "a=service", "{", "{\"a\": 1}"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tenants_are_a_list_of_short_names() {
        assert_eq!(check_tenants(" a, b-c ,").unwrap().len(), 2);
        assert_eq!(check_tenants("").unwrap().len(), 0);
        assert!(check_tenants("a b").is_err() && check_tenants("A/B").is_err());
    }

    #[test]
    fn a_claim_is_found_by_its_name_or_along_its_dots() {
        let claims = json!({"groups": ["a", 1, "b"], "one": "c", "realm": {"roles": ["d"]}, "https://x.y/g": ["e"]});
        for (claim, expected) in [
            ("groups", vec!["a", "b"]),
            ("one", vec!["c"]),
            ("realm.roles", vec!["d"]),
            ("https://x.y/g", vec!["e"]),
            ("none", vec![]),
        ] {
            assert_eq!(groups(&claims, claim), expected, "{claim}");
        }
    }
}
