//! `toolgate mcp`: the protocol of agents' tools on the standard streams, for clients that start their servers.
//!
//! What is read goes to the `/mcp` of a server, and what it says is written: one line, one message. Where no server has
//! the data folder, this process serves it for as long as it lives, so that there is a console to decide in. Standard
//! output carries messages and nothing else.

mod bridge;

use serde_json::json;
use toolgate_contracts::{Clock, Fault, Rng};
use toolgate_server::{App, Ready};

use self::bridge::Bridge;
use crate::client::{Client, Reached, Remote};
use crate::code::code_tools;
use crate::connect::{Place, Session, Taken};
use crate::failure::{Done, Exit, Failure};
use crate::output::{note, text_of};
use crate::{input, log};

/// The key that is made for one process lasts no longer than a day, should nobody be left to revoke it.
const KEY_DAYS: u32 = 1;

pub async fn run(agent: Option<String>, at: Option<String>, session: &Session) -> Done {
    if agent.is_some() && matches!(session.place, Place::Server { .. }) {
        return Err(Failure::usage(
            "--agent makes a key on the data folder of this machine",
            "give a key that was made for the agent: `toolgate key create NAME --agent AGENT` on the server",
        ));
    }
    let target = at.map_or_else(|| "/mcp".to_owned(), |name| format!("/mcp/{}", crate::client::segment(&name)));
    let Place::Folder(folder) = &session.place else {
        let Client::Remote(remote) = session.connect().await? else { return Err(Fault::internal("no server").into()) };
        return Bridge::new(remote, target).run().await;
    };
    match session.take_folder(folder).await? {
        Taken::Served(running) => {
            let reached = Reached::Holding { folder: folder.clone(), certificates: running.certificates };
            let key = input::read_key(&running.key_file)?;
            relay(session, &running.url, &key, reached, agent, target).await
        }
        Taken::Ours(mut folder) => {
            let config = session.config(&folder.path, &[])?;
            log::of_command(&config)?;
            let config = if is_free(config.get("listen")) { config } else { session.config(&folder.path, &free())? };
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let (tell, ready) = tokio::sync::oneshot::channel::<Ready>();
            let path = folder.path.clone();
            let served = async move {
                let stop = async move {
                    // Gone with whoever would have said it.
                    let _ = stopped.await;
                };
                let before = async |_: &App| Ok::<(), Fault>(());
                toolgate_server::serve(config, &mut folder, code_tools(), stop, before, |ready| {
                    let _ = tell.send(ready);
                })
                .await
            };
            let served = tokio::spawn(served);
            let Ok(ready) = ready.await else {
                served.await.map_err(Fault::internal)??;
                return Err(Fault::internal("the server ended before it began").into());
            };
            note(&format!("Toolgate's console is at {} (sign in at {})", ready.url, ready.sign_in_url));
            let key = input::read_key(&ready.key_file)?;
            let reached = Reached::Holding { folder: path, certificates: Vec::new() };
            let done = relay(session, &ready.url, &key, reached, agent, target).await;
            let _ = stop.send(());
            served.await.map_err(Fault::internal)??;
            done
        }
    }
}

/// As an agent's program and not as the owner of the folder: who decides must be somebody else than who asks.
async fn relay(
    session: &Session,
    url: &str,
    owner: &str,
    reached: Reached,
    agent: Option<String>,
    target: String,
) -> Done {
    let tenant = session.tenant.as_deref();
    if let Some(key) = &session.acting_with {
        return Bridge::new(Remote::new(url, key, tenant, reached)?, target).run().await;
    }
    let owner = Client::Remote(Remote::new(url, owner, tenant, reached.clone())?);
    let name = format!("mcp {}", Clock::System.now()) + &data_encoding::HEXLOWER.encode(&Rng::System.bytes::<3>());
    let made = owner.post(&["keys"], json!({"name": name, "agent": agent, "days": KEY_DAYS})).await?;
    let bridge = Bridge::new(Remote::new(url, &text_of(&made, "secret"), tenant, reached)?, target);
    let done = bridge.run().await;
    if let Err(failure) = owner.delete(&["keys", &text_of(&made, "id")]).await {
        note(&format!("the key {name} was not revoked and lapses within a day: {}", failure.told()));
    }
    done.map(|_| Exit::Done)
}

fn is_free(address: &str) -> bool {
    std::net::TcpListener::bind(address).is_ok()
}

/// Any free port of this machine.
fn free() -> [(&'static str, String); 1] {
    [("listen", "127.0.0.1:0".to_owned())]
}
