//! `toolgate init`.

use serde_json::json;

use crate::client::{Client, Reached};
use crate::connect::{Place, Session};
use crate::failure::Done;
use crate::output::{Detail, text_of};

/// Connecting to a data folder makes what is missing; this says what is there now, and what to do with it.
pub async fn init(client: &Client, session: &Session) -> Done {
    let me = client.get(&["me"], &[]).await?;
    let database = client.get(&["db"], &[]).await?;
    let place = match &session.place {
        Place::Folder(path) => path.display().to_string(),
        Place::Server { url, .. } => url.clone(),
    };
    let served = match client {
        Client::Remote(remote) if remote.reached != Reached::Named => Some(remote.url().to_owned()),
        _ => None,
    };
    let value = json!({
        "data": place, "database": database["url"], "kind": database["kind"],
        "migration": database["applied"], "tenant": me["tenant"], "server": served,
    });
    session.output.show(&value, |value, paint| {
        let next = match &served {
            Some(url) => format!(
                "A server is running on it: {url}\nSign in with the link from: toolgate user sign-in-link admin"
            ),
            None => "toolgate serve              start the server and open the link it prints\n\
                     toolgate tool test PATH     check a TOOL.md\n\
                     toolgate tool register --file PATH --apply\n\
                     toolgate doctor             see whether everything is well"
                .to_owned(),
        };
        Detail::new(paint, "Toolgate is ready to use")
            .field("Data", text_of(value, "data"))
            .field("Database", format!("{}, migration {}", text_of(value, "database"), text_of(value, "migration")))
            .field("Tenant", text_of(value, "tenant"))
            .section("Next", &next)
            .end()
    })
}
