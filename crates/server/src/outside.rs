//! The operator's relay for mail. The way out itself is the engine's: tools take it too.

use toolgate_contracts::Fault;
use toolgate_egress::mail::{Mailer, Relay};
use toolgate_egress::{Connector, Url};
pub use toolgate_engine::outside::Outside;

use crate::config::Config;

/// The operator's relay, where one is configured.
pub(crate) fn mailer(config: &Config, connector: &Connector) -> Result<Option<Mailer>, Fault> {
    let relay = config.get("smtp");
    if relay.is_empty() {
        return Ok(None);
    }
    let hello =
        Url::parse(config.get("public_url")).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    Ok(Some(Mailer::new(connector.clone(), Relay::parse(relay)?, config.get("mail_from"), &hello)))
}
