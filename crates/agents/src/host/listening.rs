//! What a model says, shown as it comes: put together for a moment, then written where followers read it.
//!
//! Invariant: nobody waits for it. What cannot be written is in the answer, which is kept whole.

use std::time::Duration;

use tokio::sync::mpsc;
use toolgate_contracts::{RunId, TenantId};
use toolgate_store::events::of_model;
use toolgate_store::{Change, Durability};

use super::Host;
use super::drive::Driven;
use crate::fold::Delta;

/// Words are written this often, or sooner when there are many.
const WRITTEN_EVERY: Duration = Duration::from_millis(250);
const WRITTEN_BYTES: usize = 4 * 1024;

/// Hears an answer. Dropped, what was heard last is written.
pub(super) struct Listening(mpsc::UnboundedSender<String>);

impl Listening {
    /// Of calls the name alone: their arguments are in the call, if it is made.
    pub fn hear(&mut self, delta: &Delta) {
        let text = match delta {
            Delta::Text { text } => text.clone(),
            Delta::Call { .. } | Delta::Arguments { .. } => return,
        };
        // The writer ends after the last sender.
        let _ = self.0.send(text);
    }
}

impl Host {
    /// To be called when the question is in the log.
    pub(super) fn listen(&self, driven: &Driven) -> Listening {
        let (tenant, run) = (driven.tenant, driven.run.id);
        // Bounded by what is taken of an answer.
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(self.clone().write_down(tenant, run, receiver));
        Listening(sender)
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
