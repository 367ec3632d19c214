//! Links to servers: over pipes, over HTTP, over the transport of the first revisions, and all of them together.

mod http;
mod paired;
mod pipes;
mod pool;
mod served;
mod world;
