//! What a model says, shown as it comes: put together for a moment, then written where followers read it.
//!
//! Invariant: it stands behind its question and before the answer, so whoever follows a run gets it in its place. What
//! cannot be written is in the answer, which is kept whole.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolgate_contracts::{RunId, TenantId};
use toolgate_store::events::of_model;
use toolgate_store::{Change, Durability};

use super::Host;
use super::drive::Driven;
use crate::fold::Delta;

/// Words are written this often, or sooner when there are many.
const WRITTEN_EVERY: Duration = Duration::from_millis(250);
const WRITTEN_BYTES: usize = 4 * 1024;

/// The end of an answer does not wait longer for what was heard of it.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// Hears an answer. Dropped, what was heard last is written.
pub(super) struct Listening {
    heard: mpsc::UnboundedSender<String>,
    writing: JoinHandle<()>,
}

impl Listening {
    /// Of calls the name alone: their arguments are in the call, if it is made.
    pub fn hear(&mut self, delta: &Delta) {
        let text = match delta {
            Delta::Text { text } => text.clone(),
            Delta::Call { .. } | Delta::Arguments { .. } => return,
        };
        // The writer ends after the last sender.
        let _ = self.heard.send(text);
    }

    /// Nothing more comes: until what was heard is written.
    pub async fn written(self) {
        let Self { heard, writing } = self;
        drop(heard);
        let _ = tokio::time::timeout(WRITTEN_WITHIN, writing).await;
    }
}

impl Host {
    /// To be called when the question is in the log.
    pub(super) fn listen(&self, driven: &Driven) -> Listening {
        let (tenant, run) = (driven.tenant, driven.run.id);
        // Bounded by what is taken of an answer.
        let (heard, hearing) = mpsc::unbounded_channel();
        Listening { heard, writing: tokio::spawn(self.clone().write_down(tenant, run, hearing)) }
    }

    async fn write_down(self, tenant: TenantId, run: RunId, mut heard: mpsc::UnboundedReceiver<String>) {
        let mut part = 0;
        let mut stands_behind = None;
        while let Some(mut text) = heard.recv().await {
            let until = tokio::time::Instant::now() + WRITTEN_EVERY;
            while text.len() < WRITTEN_BYTES
                && let Ok(Some(more)) = tokio::time::timeout_at(until, heard.recv()).await
            {
                text.push_str(&more);
            }
            part += 1;
            // Many answers are calls alone: what stands last in the log is asked for with the first words.
            let after = match stands_behind {
                Some(after) => after,
                None => *stands_behind.insert(self.0.store.last_event_of(tenant, run).await.unwrap_or(0)),
            };
            let mut change = Change::new(tenant).durability(Durability::Process);
            change.append_part(run, after, of_model(run), part, &text, self.0.engine.now());
            match self.0.store.commit(change).await {
                Ok(_) => self.0.engine.signal_run(tenant, run),
                Err(error) => tracing::debug!(%run, "what a model says is not shown as it comes: {error}"),
            }
        }
    }
}
