//! The one way out of the server: webhooks, mail, tools that fetch, imports and discovery all go through here.
