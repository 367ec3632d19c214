//! The pure half of the registry from outside: whole files, hostile schemas, properties, golden renderings.

mod files;
mod golden;
mod hostile;
mod properties;
