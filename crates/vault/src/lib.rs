//! Keys, secrets and the redactor.
