//! What decides a tenant's calls beside the definitions: policies, guardrails, openings, accepted labels, and whom to
//! tell. Each is read from its text once for a snapshot.
//!
//! Invariant: what cannot be read refuses. A guardrail, a policy or an acceptance that is broken never means that there
//! is none.

use std::sync::OnceLock;

use toolgate_contracts::guardrail::Guardrail;
use toolgate_contracts::{NoticeType, Opening, TenantId, WebhookId, json};
use toolgate_policy::cedar::Policies;
use toolgate_policy::detect::Detector;
use toolgate_policy::labels::Acceptance;
use toolgate_store::catalog::Spec;

/// The rows of all tenants.
pub(crate) struct Specs {
    pub policies: Vec<Spec>,
    pub guardrails: Vec<Spec>,
    pub openings: Vec<Spec>,
    pub acceptances: Vec<Spec>,
    pub webhooks: Vec<Spec>,
}

/// Those of one tenant.
#[derive(Debug)]
pub struct Deciding {
    /// The active revision's text, where the tenant has one of its own.
    pub policy: Option<String>,
    pub guardrails: Vec<Spec>,
    /// The operator's, for every tenant.
    pub openings: Vec<Spec>,
    pub acceptances: Vec<Spec>,
    pub webhooks: Vec<Spec>,
    /// The tenant says that it has policies of its own.
    has_policies: bool,
    /// The webhooks by what they want to be told, in the order of [`NoticeType::ALL`].
    wanted: OnceLock<Vec<Vec<WebhookId>>>,
    policies: OnceLock<Result<Policies, String>>,
    guards: OnceLock<Result<Vec<Guard>, String>>,
    accepted: OnceLock<Vec<Acceptance>>,
}

/// A guardrail, ready to look.
#[derive(Debug)]
pub struct Guard {
    pub guardrail: Guardrail,
    /// Absent: a tool or a plug-in looks.
    pub detector: Option<Detector>,
}

impl Deciding {
    /// The policies that decide; `None` is the default set, which permits whatever the tool set allows. `Err`: there
    /// should be policies, and there are none that can be read, so nothing is allowed.
    pub fn policies(&self) -> Option<Result<&Policies, &str>> {
        if !self.has_policies {
            return None;
        }
        let policies = self.policies.get_or_init(|| {
            let source = self.policy.as_deref().ok_or_else(|| "the active policies are missing".to_owned())?;
            Policies::load(source).map_err(|findings| {
                let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
                format!("the active policies cannot be read: {first}")
            })
        });
        Some(policies.as_ref().map_err(String::as_str))
    }

    /// The guardrails in their order. `Err`: one of them cannot be read, so nothing passes.
    pub fn guards(&self) -> Result<&[Guard], &str> {
        if self.guardrails.is_empty() {
            return Ok(&[]);
        }
        let guards = self.guards.get_or_init(|| {
            let mut guards = self.guardrails.iter().map(guard).collect::<Result<Vec<_>, _>>()?;
            guards.sort_by(|left, right| {
                let key = |guard: &Guard| (guard.guardrail.order, guard.guardrail.name.clone());
                key(left).cmp(&key(right))
            });
            Ok(guards)
        });
        guards.as_ref().map(Vec::as_slice).map_err(String::as_str)
    }

    /// Which labels the operator accepts where. What cannot be read accepts nothing.
    pub fn accepted(&self) -> &[Acceptance] {
        self.accepted.get_or_init(|| {
            let read = |row: &Spec| match serde_json::from_str(&row.text) {
                Ok(acceptance) => Some(acceptance),
                Err(error) => {
                    tracing::error!(acceptance = row.name, "accepts nothing: it cannot be read: {error}");
                    None
                }
            };
            self.acceptances.iter().filter_map(read).collect()
        })
    }
}

fn guard(row: &Spec) -> Result<Guard, String> {
    let broken = |why: String| format!("the guardrail `{}` cannot be read: {why}", row.name);
    let guardrail: Guardrail = serde_json::from_str(&row.text)
        .map_err(|error| broken(toolgate_contracts::json::spoken(&error.to_string())))?;
    let detector = Detector::of(&guardrail.detector).map_err(|fault| broken(fault.told().to_owned()))?;
    Ok(Guard { guardrail, detector })
}

impl Deciding {
    /// The webhooks that want to be told of this. One that cannot be read is told nothing.
    pub fn wants(&self, notice: NoticeType) -> &[WebhookId] {
        if self.webhooks.is_empty() {
            return &[];
        }
        let wanted = self.wanted.get_or_init(|| {
            let all: Vec<(WebhookId, Vec<NoticeType>)> = self.webhooks.iter().filter_map(webhook).collect();
            let wanting = |notice: &NoticeType| {
                all.iter().filter(|(_, types)| types.contains(notice)).map(|(id, _)| *id).collect()
            };
            NoticeType::ALL.iter().map(wanting).collect()
        });
        let at = NoticeType::ALL.iter().position(|known| *known == notice);
        at.and_then(|at| wanted.get(at)).map_or(&[], Vec::as_slice)
    }

    /// What the operator opened. What cannot be read is not open.
    pub fn opened(&self) -> Vec<Opening> {
        let opening = |row: &Spec| {
            let spec = json::read(row.text.as_bytes(), json::SCHEMA_BYTES_MAX).and_then(json::decode);
            match (row.name.parse(), spec) {
                (Ok(id), Ok(spec)) => Some(Opening { id, spec }),
                (_, read) => {
                    tracing::error!(opening = row.name, "not open: it cannot be read: {:?}", read.err());
                    None
                }
            }
        };
        self.openings.iter().filter_map(opening).collect()
    }
}

fn webhook(row: &Spec) -> Option<(WebhookId, Vec<NoticeType>)> {
    let types = serde_json::from_str(&row.text);
    match (row.name.parse(), types) {
        (Ok(id), Ok(types)) => Some((id, types)),
        (_, types) => {
            tracing::error!(webhook = row.name, "is told nothing: its types cannot be read: {:?}", types.err());
            None
        }
    }
}

impl Specs {
    pub fn of(&self, tenant: TenantId, policy_revision: i64) -> Deciding {
        let own = |rows: &[Spec]| rows.iter().filter(|row| row.tenant == tenant).cloned().collect();
        Deciding {
            policy: self.policies.iter().find(|row| row.tenant == tenant).map(|row| row.text.clone()),
            guardrails: own(&self.guardrails),
            openings: self.openings.clone(),
            acceptances: own(&self.acceptances),
            webhooks: own(&self.webhooks),
            has_policies: policy_revision != 0,
            wanted: OnceLock::new(),
            policies: OnceLock::new(),
            guards: OnceLock::new(),
            accepted: OnceLock::new(),
        }
    }
}
