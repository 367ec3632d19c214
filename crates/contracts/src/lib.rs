//! The words of Toolgate as types: names, ids, definitions, errors, rights, time.
//!
//! Invariant: nothing here does I/O, and nothing here knows a database, a socket or a file.
//! Invariant: bytes from outside become values only through [`json::read`].

pub mod agent;
pub mod agent_outputs;
pub mod amount;
pub mod approval;
pub mod call;
pub mod caller;
pub mod clock;
pub mod definition;
pub mod digest;
pub mod egress;
pub mod entries;
pub mod event;
pub mod fault;
pub mod guardrail;
pub mod id;
pub mod input_request;
pub mod json;
pub mod login;
pub mod name;
pub mod notice;
pub mod page;
pub mod permission;
pub mod plugin;
pub mod provider;
pub mod runner;
pub mod secret;
pub mod settings;
pub mod skill;
pub mod sql;
pub mod token;
pub mod unseen;
pub mod upstream;
pub mod workflow;

pub use agent::{Agent, AgentState, KillScope, Limits, Profile, RateLimit, TenantLimits, Toolset};
pub use agent_outputs::{AgentOutputs, ToolEnvelope};
pub use amount::Amount;
pub use approval::{ApprovalState, AskCode, AskReason, Vote};
pub use call::{ApprovalStatus, CallRequest, Envelope, Mode, Status, ToolResult};
pub use caller::{Caller, Principal, Source};
pub use clock::{Clock, Rng, Timestamp};
pub use definition::Definition;
pub use digest::Digest;
pub use egress::{HostPattern, Opening, OpeningSpec, Scheme};
pub use entries::Entries;
pub use fault::{ErrorCode, Fault, FaultKind, ToolError};
pub use guardrail::Guardrail;
pub use id::{
    AcceptanceId, AccountId, AgentId, ApprovalId, BlobId, CallId, DeliveryId, GrantId, Id, InputRequestId,
    InvitationId, KeyId, LeafId, LeaseId, OpeningId, PlaceId, ProfileId, RunId, SessionId, StepId, TenantId, TokenId,
    ToolId, UserId, VersionId, WebhookId, WorkspaceId,
};
pub use input_request::{InputRequest, InputRequestState, NewQuestion};
pub use login::LoginName;
pub use name::{FoldedName, Slug, ToolName, ToolRef};
pub use notice::{DeliveryState, Notice, NoticeType, WebhookState};
pub use page::Page;
pub use permission::{Permission, Permissions, Role};
pub use plugin::{Plugin, PluginDescription, PluginWorld};
pub use provider::{ModelRef, ProviderKind, ProviderSpec};
pub use runner::Runner;
pub use secret::{ResolvedSecret, SecretAllowed, SecretInfo, SecretPlace, SecretScope};
pub use settings::TenantSettings;
pub use skill::{Skill, SkillArgument};
pub use token::{HeldToken, Scope};
pub use upstream::{DriftClass, Upstream, UpstreamHealth};
pub use workflow::{PinnedHandle, Workflow};
