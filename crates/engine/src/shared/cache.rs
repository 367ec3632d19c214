//! Results of effect-free tools, kept to be given again.
//!
//! Invariant: whatever a result may depend on is in its key: the tool's behaviour, the input, the tenant, each secret in
//! the version used, the rights, and the caller unless the tool says that callers do not matter. What differs in any of
//! them never meets.
//! Invariant: labels are kept with the result, so that a hit cannot launder them.
//! Not here: whether a result may be kept and given. Policy, rates, budgets and the record come first, in `submit`.
//! Redis sees results in clear; it must be as private as the database.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use moka::Expiry;
use moka::sync::Cache;
use semver::Version;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::json;
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{
    AgentId, Digest, Principal, TenantId, Timestamp, ToolName, ToolResult, WorkspaceId, json as strict,
};

use super::link::{KEY_PREFIX, Link};
use crate::runner::NewAttachment;

/// Larger ones are not kept.
pub const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// At the bound those go that were asked for least.
const MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What an entry costs beside its bytes, about.
const ENTRY_BYTES_OVERHEAD: usize = 256;
/// `cache: forever`.
pub const KEPT_S_MAX: u64 = 30 * 24 * 60 * 60;

/// Everything that a result may depend on.
#[derive(Clone, Debug)]
pub struct CacheParts<'a> {
    pub tool: &'a ToolName,
    pub version: &'a Version,
    pub behaviour: Digest,
    /// Of the canonical form of the effective input.
    pub input: Digest,
    pub tenant: TenantId,
    /// In any order.
    pub secrets: &'a [SecretUsed],
    pub sharing: Sharing,
    /// Of all rights that the call was decided with. Callers share only with equals, whatever `sharing` says.
    pub rights: Digest,
}

/// One secret as it was found: where, and in which version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SecretUsed {
    pub scope: String,
    pub scope_id: String,
    pub name: String,
    pub version: u64,
}

/// Who gets the same result: the definition's `cache_scope`, with whom it means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    Principal { principal: Principal, agent: Option<AgentId> },
    Workspace(WorkspaceId),
    Tenant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey(Digest);

impl CacheKey {
    pub fn of(parts: &CacheParts<'_>) -> Self {
        let CacheParts { tool, version, behaviour, input, tenant, secrets, sharing, rights } = parts;
        let mut secrets: Vec<&SecretUsed> = secrets.iter().collect();
        secrets.sort();
        Self(strict::digest(&json!({
            "kind": "toolgate/result/1",
            "tool": format!("{tool}@{version}"),
            "behaviour_digest": behaviour,
            "input": input,
            "tenant": tenant,
            "secrets": secrets,
            "sharing": sharing,
            "rights": rights,
        })))
    }

    #[cfg(test)]
    pub(super) fn numbered(number: usize) -> Self {
        Self(Digest::of(&number.to_be_bytes()))
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was given, after redaction and before capping: on a hit it takes the same way on as a fresh one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cached {
    pub result: ToolResult,
    pub labels: Vec<Label>,
    pub stored_at: Timestamp,
    /// With their bytes, so that each call has its own and nobody reads another's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<KeptAttachment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptAttachment {
    pub kind: AttachmentKind,
    pub content_type: String,
    #[serde(serialize_with = "base64", deserialize_with = "from_base64")]
    pub bytes: Vec<u8>,
}

impl From<KeptAttachment> for NewAttachment {
    fn from(kept: KeptAttachment) -> Self {
        let KeptAttachment { kind, content_type, bytes } = kept;
        Self { kind, content_type, bytes }
    }
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&BASE64.encode_display(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64.decode(String::deserialize(deserializer)?.as_bytes()).map_err(de::Error::custom)
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// By the product's clock; what stores it drops it by its own, sooner or later.
    fresh_until: Timestamp,
    cached: Cached,
}

pub struct Results(Place);

enum Place {
    Memory(Cache<CacheKey, Kept>),
    Redis(Arc<Link>),
}

#[derive(Clone)]
struct Kept {
    bytes: Arc<[u8]>,
    ttl: Duration,
}

struct ByItsOwn;

impl Expiry<CacheKey, Kept> for ByItsOwn {
    fn expire_after_create(&self, _: &CacheKey, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.ttl)
    }

    fn expire_after_update(&self, _: &CacheKey, kept: &Kept, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(kept.ttl)
    }
}

impl Results {
    pub fn memory() -> Self {
        let weight =
            |_: &CacheKey, kept: &Kept| u32::try_from(kept.bytes.len() + ENTRY_BYTES_OVERHEAD).unwrap_or(u32::MAX);
        Self(Place::Memory(
            Cache::builder().max_capacity(MEMORY_BYTES_MAX).weigher(weight).expire_after(ByItsOwn).build(),
        ))
    }

    pub fn redis(link: Arc<Link>) -> Self {
        Self(Place::Redis(link))
    }

    /// A place that is away, slow, or holds what cannot be read has nothing.
    pub async fn get(&self, key: &CacheKey, now: Timestamp) -> Option<Cached> {
        let entry: Entry = match &self.0 {
            Place::Memory(cache) => serde_json::from_slice(&cache.get(key)?.bytes).ok()?,
            Place::Redis(link) => {
                let get = redis::cmd("GET").arg(redis_key(key)).take();
                let bytes: Option<Vec<u8>> =
                    link.ask(async |mut connection| get.query_async(&mut connection).await).await?;
                // Written by a replica of another version, it may be unknown to this one.
                serde_json::from_slice(&bytes?).ok()?
            }
        };
        (now < entry.fresh_until).then_some(entry.cached)
    }

    /// Keeps a result for `ttl`, or without one for as long as any is kept. What does not fit is not kept.
    pub async fn put(&self, key: &CacheKey, cached: Cached, ttl: Option<Duration>) {
        let longest = Duration::from_secs(KEPT_S_MAX);
        let ttl = ttl.map_or(longest, |ttl| ttl.min(longest));
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let fresh_until = cached.stored_at.millis().saturating_add_unsigned(ttl_ms);
        let entry = Entry { fresh_until: Timestamp::from_millis(fresh_until), cached };
        let Ok(bytes) = serde_json::to_vec(&entry) else { return };
        if ttl_ms == 0 || bytes.len() > ENTRY_BYTES_MAX {
            return;
        }
        match &self.0 {
            Place::Memory(cache) => cache.insert(*key, Kept { bytes: bytes.into(), ttl }),
            Place::Redis(link) => {
                let set = redis::cmd("SET").arg(redis_key(key)).arg(bytes).arg("PX").arg(ttl_ms).take();
                let _: Option<()> = link.ask(async |mut connection| set.query_async(&mut connection).await).await;
            }
        }
    }
}

fn redis_key(key: &CacheKey) -> String {
    format!("{KEY_PREFIX}result:{key}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toolgate_contracts::{Clock, Rng};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn secret(scope: &str, scope_id: &str, name: &str, version: u64) -> SecretUsed {
        SecretUsed { scope: scope.into(), scope_id: scope_id.into(), name: name.into(), version }
    }

    fn cached(text: &str) -> Cached {
        Cached {
            result: ToolResult::text(text),
            labels: vec![Label::Untrusted, Label::Private],
            stored_at: NOW,
            attachments: vec![KeptAttachment {
                kind: AttachmentKind::Blob,
                content_type: "application/octet-stream".into(),
                bytes: vec![0, 255, 10],
            }],
        }
    }

    fn key(number: usize) -> CacheKey {
        CacheKey::numbered(number)
    }

    #[test]
    fn whatever_a_result_may_depend_on_is_in_its_key() {
        let (clock, rng) = (Clock::manual(NOW), Rng::seeded(1));
        let (name, other_name): (ToolName, ToolName) = ("weather".parse().unwrap(), "weather2".parse().unwrap());
        let (version, other_version) = (Version::new(1, 2, 3), Version::new(1, 2, 4));
        let one = [secret("user", "u1", "api", 1)];
        let two = [secret("user", "u1", "api", 1), secret("org", "o1", "zone", 4)];
        let turned = [two[1].clone(), two[0].clone()];
        let principal = Principal::Local(1);
        let workspace = WorkspaceId::new(&clock, &rng);
        let base = CacheParts {
            tool: &name,
            version: &version,
            behaviour: Digest::of(b"behaviour"),
            input: Digest::of(b"input"),
            tenant: TenantId::new(&clock, &rng),
            secrets: &one,
            sharing: Sharing::Principal { principal, agent: None },
            rights: Digest::of(b"rights"),
        };
        let of_agent = Sharing::Principal { principal, agent: Some(AgentId::new(&clock, &rng)) };
        let of_other = Sharing::Principal { principal: Principal::Local(2), agent: None };
        let newer = [secret("user", "u1", "api", 2)];
        let elsewhere = [secret("workspace", "u1", "api", 1)];
        let of_another = [secret("user", "u2", "api", 1)];
        let renamed = [secret("user", "u1", "api2", 1)];
        let different = [
            ("itself", base.clone()),
            ("tool", CacheParts { tool: &other_name, ..base.clone() }),
            ("version", CacheParts { version: &other_version, ..base.clone() }),
            ("behaviour", CacheParts { behaviour: Digest::of(b"other"), ..base.clone() }),
            ("input", CacheParts { input: Digest::of(b"other"), ..base.clone() }),
            ("tenant", CacheParts { tenant: TenantId::new(&clock, &rng), ..base.clone() }),
            ("rights", CacheParts { rights: Digest::of(b"more"), ..base.clone() }),
            ("no secret", CacheParts { secrets: &[], ..base.clone() }),
            ("a newer secret", CacheParts { secrets: &newer, ..base.clone() }),
            ("a secret of another scope", CacheParts { secrets: &elsewhere, ..base.clone() }),
            ("a secret of another user", CacheParts { secrets: &of_another, ..base.clone() }),
            ("a secret of another name", CacheParts { secrets: &renamed, ..base.clone() }),
            ("one more secret", CacheParts { secrets: &two, ..base.clone() }),
            ("an agent", CacheParts { sharing: of_agent, ..base.clone() }),
            ("another principal", CacheParts { sharing: of_other, ..base.clone() }),
            ("a workspace", CacheParts { sharing: Sharing::Workspace(workspace), ..base.clone() }),
            ("the tenant", CacheParts { sharing: Sharing::Tenant, ..base.clone() }),
        ];
        let mut keys = BTreeMap::new();
        for (what, parts) in &different {
            let met = keys.insert(CacheKey::of(parts).0, what);
            assert_eq!(met, None, "{what}");
            assert_eq!(CacheKey::of(parts), CacheKey::of(&parts.clone()));
        }
        let in_order = CacheParts { secrets: &two, ..base.clone() };
        assert_eq!(CacheKey::of(&in_order), CacheKey::of(&CacheParts { secrets: &turned, ..base }));
    }

    #[tokio::test]
    async fn a_hit_is_what_was_put_with_its_labels() {
        let results = Results::memory();
        assert_eq!(results.get(&key(1), NOW).await, None);
        results.put(&key(1), cached("a"), None).await;
        assert_eq!(results.get(&key(1), NOW).await, Some(cached("a")));
        assert_eq!(results.get(&key(2), NOW).await, None);
        results.put(&key(1), cached("b"), None).await;
        assert_eq!(results.get(&key(1), NOW).await, Some(cached("b")));
    }

    #[tokio::test]
    async fn a_result_is_given_until_its_time_is_over() {
        let results = Results::memory();
        results.put(&key(1), cached("a"), Some(Duration::from_mins(1))).await;
        results.put(&key(2), cached("a"), None).await;
        results.put(&key(3), cached("a"), Some(Duration::ZERO)).await;
        let days = i64::try_from(KEPT_S_MAX).unwrap();
        for (number, seconds, given) in
            [(1, 59, true), (1, 60, false), (2, days - 1, true), (2, days, false), (3, 0, false)]
        {
            let found = results.get(&key(number), NOW.plus_seconds(seconds)).await;
            assert_eq!(found.is_some(), given, "{number} after {seconds} s");
        }
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let results = Results::memory();
        results.put(&key(0), cached(&"x".repeat(ENTRY_BYTES_MAX)), None).await;
        assert_eq!(results.get(&key(0), NOW).await, None);
        let large = "x".repeat(ENTRY_BYTES_MAX / 2);
        for number in 0..140 {
            results.put(&key(number), cached(&large), None).await;
        }
        let Place::Memory(cache) = &results.0 else { unreachable!() };
        cache.run_pending_tasks();
        assert!(cache.weighted_size() <= MEMORY_BYTES_MAX);
        assert!(cache.entry_count() > 60);
    }
}
