//! The API at its edge: every test drives the router, on SQLite and on PostgreSQL.

mod access;
mod agents;
mod doors;
mod isolation;
mod people;
mod registry;
mod replicas;
mod world;
