//! From a name to its addresses. The connector asks once per hop and connects only to what it was told and judged.

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// The system's resolver cannot be interrupted: one that hangs holds a thread, and no more than these.
const LOOKUPS_MAX: usize = 32;

pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

pub trait Resolve: Send + Sync {
    /// All addresses of a name, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a>;
}

/// As every other program on this machine does it: hosts file, search domains and all.
pub struct SystemResolver(Arc<Semaphore>);

impl Default for SystemResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS_MAX)))
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a> {
        Box::pin(async move {
            let permit = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let looked_up = tokio::task::spawn_blocking(move || {
                // Held until the thread is free again, not until somebody stops waiting for it.
                let _permit = permit;
                (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(io::Error::other)?
        })
    }
}
