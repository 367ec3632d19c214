//! Cedar policies of one tenant: compiled once, asked for every call.
