//! `toolgate approvals watch`: what waits, and each call that begins to, as it comes.
//!
//! What happens in the tenant says when to look; what is printed is what the list says then. So nothing is missed where
//! a connection is lost, and nothing is printed that somebody else has decided on already.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::time::Duration;

use super::{asker, codes};
use crate::client::{Client, Follower};
use crate::failure::{Done, Exit, Failure};
use crate::output::{Output, clean_line, items_of, note, print, text_of, time_of};

/// How often whoever may not follow the tenant looks, and whoever does looks all the same: deadlines pass silently.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_ANYWAY: Duration = Duration::from_secs(30);
const OPEN_MAX: u32 = 500;

/// Nothing can happen while a command has the data folder, so it needs a server.
pub async fn run(client: &Client, output: &Output) -> Done {
    if client.is_local() {
        return Err(Failure::usage(
            "nothing can be asked while this command has the data folder",
            "start a server with `toolgate serve`, and watch that",
        ));
    }
    if !output.is_json() {
        note("Waiting for calls that ask; decide with `toolgate approvals approve ID`. Ctrl-C ends.");
    }
    tokio::select! {
        failed = look(client, output) => failed,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Done),
    }
}

async fn look(client: &Client, output: &Output) -> Done {
    let mut known = BTreeSet::new();
    let mut events = Some(client.follow_tenant()?);
    loop {
        let page = client.list(&["approvals"], &[("state", Some("open".to_owned()))], OPEN_MAX).await?;
        let open: BTreeSet<String> = items_of(&page).iter().map(|card| text_of(card, "id")).collect();
        for card in items_of(&page).iter().filter(|card| !known.contains(&text_of(card, "id"))) {
            output.show_line(card, |card, _| line(card))?;
        }
        for gone in known.difference(&open).filter(|_| !output.is_json()) {
            print(&format!("{}  no longer waits", clean_line(gone)))?;
        }
        known = open;
        let patience = if events.is_some() { LOOK_ANYWAY } else { LOOK_EVERY };
        let asked = async {
            match &mut events {
                Some(events) => next_ask(events).await,
                None => std::future::pending().await,
            }
        };
        match tokio::time::timeout(patience, asked).await {
            // Only whoever may read all calls may follow the tenant; others look often.
            Ok(Err(failure)) if failure.exit() == Exit::NoRight => events = None,
            Ok(heard) => heard?,
            Err(_) => {}
        }
    }
}

/// Waits for something about an approval, or for a connection behind which something may have been missed.
async fn next_ask(events: &mut Follower<'_>) -> Result<(), Failure> {
    loop {
        let event = events.next().await?;
        let about = event["type"].as_str().is_none_or(|kind| kind.starts_with("approval."));
        if about {
            return Ok(());
        }
    }
}

fn line(card: &Value) -> String {
    let until = format!("until {}", time_of(card, "expires_at"));
    let parts = [text_of(card, "id"), text_of(card, "tool"), asker(card), codes(card), until];
    parts.map(|part| clean_line(&part)).join("  ")
}
