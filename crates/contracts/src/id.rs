//! Ids that carry their kind: a `ToolId` where a `CallId` belongs does not compile.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::clock::{Clock, Rng};

/// A UUIDv7 of kind `K`: time-ordered, so that indexes grow at their end.
pub struct Id<K> {
    raw: Uuid,
    kind: PhantomData<fn() -> K>,
}

impl<K> Id<K> {
    pub const fn from_uuid(raw: Uuid) -> Self {
        Self { raw, kind: PhantomData }
    }

    pub fn new(clock: &Clock, rng: &Rng) -> Self {
        let millis = u64::try_from(clock.now().millis()).unwrap_or(0);
        Self::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &rng.bytes()).into_uuid())
    }

    pub const fn uuid(self) -> Uuid {
        self.raw
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.raw.cmp(&other.raw)
    }
}
impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}
impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
impl<K> FromStr for Id<K> {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self::from_uuid)
    }
}
impl<K> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.raw)
    }
}
impl<'de, K> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom(format!("`{text}` is not a UUID")))
    }
}
impl<K> utoipa::PartialSchema for Id<K> {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::Uuid)))
            .into()
    }
}
impl<K> utoipa::ToSchema for Id<K> {
    fn name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }
}

macro_rules! kinds {
    ($($kind:ident => $id:ident),* $(,)?) => {$(
        #[derive(Debug)]
        pub enum $kind {}
        pub type $id = Id<$kind>;
    )*};
}

kinds! {
    AcceptanceKind => AcceptanceId,
    AccountKind => AccountId,
    AgentKind => AgentId,
    ApprovalKind => ApprovalId,
    BlobKind => BlobId,
    CallKind => CallId,
    DeliveryKind => DeliveryId,
    GrantKind => GrantId,
    InputRequestKind => InputRequestId,
    InvitationKind => InvitationId,
    KeyKind => KeyId,
    LeafKind => LeafId,
    LeaseKind => LeaseId,
    OpeningKind => OpeningId,
    PlaceKind => PlaceId,
    ProfileKind => ProfileId,
    RunKind => RunId,
    SessionKind => SessionId,
    StepKind => StepId,
    TenantKind => TenantId,
    TokenKind => TokenId,
    ToolKind => ToolId,
    UserKind => UserId,
    VersionKind => VersionId,
    WebhookKind => WebhookId,
    WorkspaceKind => WorkspaceId,
}

impl TenantId {
    /// The system tenant: the operator lives here, and its registry rows are global.
    pub const SYSTEM: Self = Self::from_uuid(Uuid::nil());
}

impl From<CallId> for RunId {
    /// The run of a lone call has the call's id.
    fn from(call: CallId) -> Self {
        Self::from_uuid(call.uuid())
    }
}

impl From<CallId> for LeafId {
    /// The log's entry of how a call ended has the call's id, so that either is found by the other.
    fn from(call: CallId) -> Self {
        Self::from_uuid(call.uuid())
    }
}

impl From<CallId> for LeaseId {
    /// Who submits in `record` mode is the worker, and the lease is the call itself.
    fn from(call: CallId) -> Self {
        Self::from_uuid(call.uuid())
    }
}
