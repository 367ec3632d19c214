//! `toolgate mcp`: the protocol of agents' tools on the standard streams, for clients that start their servers.
//!
//! What is read goes to the `/mcp` of a server, and what it says is written: one line, one message. Where no server has
//! the data folder, this process serves it for as long as it lives, so that there is a console to decide in; also later,
//! when the one that had it has ended. Standard output carries messages and nothing else.

mod bridge;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolgate_contracts::{Clock, Fault, Rng};
use toolgate_server::{App, DataFolder, Ready, Running};

use self::bridge::{Again, Bridge, Route};
use crate::client::{Client, Reached, Remote};
use crate::code::code_tools;
use crate::connect::{Place, Session, Taken, is_listening};
use crate::failure::{Done, Exit, Failure};
use crate::output::{note, text_of};
use crate::{input, log};

/// The key that is made for one process lasts no longer than a day, should nobody be left to revoke it.
const KEY_DAYS: u32 = 1;
/// A server that is started again is back within this, and shall find its data folder free.
const RESTART: Duration = Duration::from_secs(3);
const RESTART_RETRY: Duration = Duration::from_millis(100);

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
        return Bridge::new(Route::to(remote), target).run().await;
    };
    let holder = Arc::new(tokio::sync::Mutex::new(Holder::new(session.clone(), folder.clone())));
    let done = relay(session, &holder, agent, target).await;
    let ended = holder.lock().await.end().await;
    done.and_then(|exit| ended.map(|()| exit))
}

/// As an agent's program and not as the owner of the folder: who decides must be somebody else than who asks.
async fn relay(
    session: &Session,
    holder: &Arc<tokio::sync::Mutex<Holder>>,
    agent: Option<String>,
    target: String,
) -> Done {
    let running = holder.lock().await.find().await?;
    let (tenant, reached) = (session.tenant.as_deref(), holder.lock().await.reached(&running));
    let name = format!("mcp {}", Clock::System.now()) + &data_encoding::HEXLOWER.encode(&Rng::System.bytes::<3>());
    let own = if session.acting_with.is_none() {
        let owner = input::read_key(&running.key_file)?;
        let owner = Client::Remote(Remote::new(&running.url, &owner, tenant, reached.clone())?);
        Some(owner.post(&["keys"], json!({"name": name, "agent": agent, "days": KEY_DAYS})).await?)
    } else {
        None
    };
    let shown = session.acting_with.clone();
    let key = shown.or_else(|| own.as_ref().map(|own| text_of(own, "secret"))).unwrap_or_default();
    let remote = Remote::new(&running.url, &key, tenant, reached)?;
    let route = Route::to(remote).or(again(Arc::clone(holder), key));
    let done = Bridge::new(route, target).run().await;
    if let Some(own) = own {
        // By whoever has the folder now, which may be nobody.
        let revoked = async {
            let owner = session.connect_with(None).await?;
            let revoked = owner.delete(&["keys", &text_of(&own, "id")]).await;
            owner.close().await;
            revoked
        };
        if let Err(failure) = revoked.await {
            note(&format!("the key {name} was not revoked and lapses within a day: {}", failure.told()));
        }
    }
    done.map(|_| Exit::Done)
}

/// The same key is good wherever the folder is served.
fn again(holder: Arc<tokio::sync::Mutex<Holder>>, key: String) -> Again {
    Arc::new(move |gone| {
        let (holder, key) = (Arc::clone(&holder), key.clone());
        Box::pin(async move {
            let deadline = tokio::time::Instant::now() + RESTART;
            while tokio::time::Instant::now() < deadline && !is_listening(gone.url()).await {
                tokio::time::sleep(RESTART_RETRY).await;
            }
            let mut holder = holder.lock().await;
            let running = holder.find().await?;
            Remote::new(&running.url, &key, holder.session.tenant.as_deref(), holder.reached(&running))
        })
    })
}

/// Who answers on a data folder: a server that has it, or this process where nobody does.
struct Holder {
    session: Session,
    folder: PathBuf,
    serving: Option<Serving>,
}

/// What this process serves.
struct Serving {
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), Fault>>,
}

impl Holder {
    fn new(session: Session, folder: PathBuf) -> Self {
        Self { session, folder, serving: None }
    }

    async fn find(&mut self) -> Result<Running, Failure> {
        match self.session.take_folder(&self.folder).await? {
            Taken::Served(running) => return Ok(running),
            Taken::Ours(folder) => self.serve(*folder).await?,
        }
        match self.session.take_folder(&self.folder).await? {
            Taken::Served(running) => Ok(running),
            Taken::Ours(_) => Err(Fault::internal("the server ended as soon as it had begun").into()),
        }
    }

    fn reached(&self, running: &Running) -> Reached {
        Reached::Holding { folder: self.folder.clone(), certificates: running.certificates.clone() }
    }

    async fn serve(&mut self, mut folder: DataFolder) -> Result<(), Failure> {
        let config = self.session.config(&folder.path, &[])?;
        log::of_command(&config)?;
        let config = if is_free(config.get("listen")) { config } else { self.session.config(&folder.path, &free())? };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ready) = oneshot::channel::<Ready>();
        let served = tokio::spawn(async move {
            let stop = async move {
                // Gone with whoever would have said it.
                let _ = stopped.await;
            };
            let before = async |_: &App| Ok::<(), Fault>(());
            toolgate_server::serve(config, &mut folder, code_tools(), stop, before, |ready| {
                let _ = tell.send(ready);
            })
            .await
        });
        let Ok(ready) = ready.await else {
            served.await.map_err(Fault::internal)??;
            return Err(Fault::internal("the server ended before it began").into());
        };
        note(&format!("Toolgate's console is at {} (sign in at {})", ready.url, ready.sign_in_url));
        self.serving = Some(Serving { stop, served });
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Failure> {
        let Some(Serving { stop, served }) = self.serving.take() else { return Ok(()) };
        // It may have ended by itself.
        let _ = stop.send(());
        served.await.map_err(Fault::internal)??;
        Ok(())
    }
}

fn is_free(address: &str) -> bool {
    std::net::TcpListener::bind(address).is_ok()
}

/// Any free port of this machine.
fn free() -> [(&'static str, String); 1] {
    [("listen", "127.0.0.1:0".to_owned())]
}
