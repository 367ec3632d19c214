//! What is said between the server and an instance, whatever is around it: the limits and the code go in, calls of the
//! host are answered, one answer comes out.
//!
//! Nothing of it is believed: every frame is bounded, read strictly, and an error of that run if it is none.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use toolgate_contracts::json;

use crate::frame::{self, FrameError, Kind};
use crate::request::{HostCall, HostCalls, Limits, Network, SandboxRequest};
use crate::result::{Ended, LimitKind, Raised};

/// How long an instance may take to be ready, on a machine under load.
const READY: Duration = Duration::from_secs(30);
const TEXT_BYTES_MAX: u64 = 64 * 1024;
/// An exception with the message that an instance tells whole, each letter of it escaped.
const RAISED_BYTES_MAX: u64 = 2 * 1024 * 1024;
const HOST_CALL_BYTES_MAX: usize = 1024 * 1024;
/// One run asks the host no more often than this.
const HOST_CALLS_MAX: usize = 1000;

/// The way to an instance.
pub trait Channel: AsyncRead + AsyncWrite + Unpin {}

impl<C: AsyncRead + AsyncWrite + Unpin> Channel for C {}

/// Waits until all barriers of an instance stand, or says why they do not.
pub async fn ready(channel: &mut impl Channel) -> Result<(), String> {
    match tokio::time::timeout(READY, frame::read(channel, |_| TEXT_BYTES_MAX)).await {
        Ok(Ok((Kind::Ready, _))) => Ok(()),
        Ok(Ok((Kind::Unready, text))) => Err(String::from_utf8_lossy(&text).into_owned()),
        Ok(Ok((kind, _))) => Err(format!("an instance began with {kind:?}")),
        Ok(Err(error)) => Err(format!("an instance did not begin: {error}")),
        Err(_) => Err(format!("an instance was not ready in {READY:?}")),
    }
}

/// Hands over the code and listens until there is an answer; `None` if it left without a word. `spare` is how much
/// further than ours the limit of processor time is that the instance sets itself.
pub async fn run(channel: &mut impl Channel, request: &SandboxRequest, spare: Duration) -> Option<Ended> {
    let SandboxRequest { code, input, limits, network, tier: _, output: _ } = request;
    let head = header(limits, network, spare, code.len(), input.len());
    channel.write_all(&[&head, code.as_bytes(), input].concat()).await.ok()?;
    converse(channel, limits, network).await
}

/// What the instance reads before the code.
fn header(limits: &Limits, network: &Network, spare: Duration, code: usize, input: usize) -> Vec<u8> {
    let Limits { cpu, wall: _, memory_bytes, output_bytes: _, open_files, processes, scratch_bytes } = *limits;
    // Later than we look ourselves: the kernel's limit counts whole seconds, and is there if we are not.
    let seconds = (cpu + spare).as_secs() + 2;
    let hosts = u64::from(matches!(network, Network::Through(_)));
    let mut bytes = Vec::with_capacity(56);
    for word in [seconds, memory_bytes, open_files, processes, scratch_bytes, hosts] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for length in [code, input] {
        bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    bytes
}

/// Listens until there is an answer, and does what is asked of the host; `None` if it left without a word.
async fn converse(channel: &mut impl Channel, limits: &Limits, network: &Network) -> Option<Ended> {
    let unreadable = |why: String| Some(Ended::Unreadable { why });
    let bytes_max = |kind| match kind {
        Kind::Value => limits.output_bytes,
        Kind::Call => HOST_CALL_BYTES_MAX as u64,
        Kind::Raised => RAISED_BYTES_MAX,
        Kind::Ready | Kind::Unready | Kind::Limit => TEXT_BYTES_MAX,
    };
    for _ in 0..=HOST_CALLS_MAX {
        let (kind, body) = match frame::read(channel, bytes_max).await {
            Ok(read) => read,
            Err(FrameError::Ended | FrameError::Io(_)) => return None,
            Err(FrameError::TooLong { kind: Kind::Value, .. }) => return Some(Ended::Limit(LimitKind::Output)),
            Err(error @ (FrameError::Kind(_) | FrameError::TooLong { .. })) => return unreadable(error.to_string()),
        };
        match kind {
            Kind::Value => {
                return match json::read(&body, body.len()) {
                    Ok(value) => Some(Ended::Finished(value)),
                    Err(error) => unreadable(error.to_string()),
                };
            }
            Kind::Raised => {
                let raised = json::read(&body, body.len()).and_then(json::decode::<Raised>);
                return match raised {
                    Ok(raised) => Some(Ended::Raised(raised)),
                    Err(error) => unreadable(error.to_string()),
                };
            }
            Kind::Limit => {
                let named = LimitKind::ALL.into_iter().find(|limit| limit.word().as_bytes() == body);
                return match named {
                    Some(limit) => Some(Ended::Limit(limit)),
                    None => unreadable("it names no limit".to_owned()),
                };
            }
            Kind::Call => {
                let Network::Through(host) = network else {
                    return unreadable("it called the host, and has none".to_owned());
                };
                let (good, told) = match answer(host.as_ref(), &body).await {
                    Ok(value) => (1, value),
                    Err(why) => (0, Value::String(why)),
                };
                let told = told.to_string();
                let length = u32::try_from(told.len()).ok()?.to_le_bytes();
                let [a, b, c, d] = length;
                channel.write_all(&[&[good, a, b, c, d], told.as_bytes()].concat()).await.ok()?;
            }
            Kind::Ready | Kind::Unready => return unreadable(format!("it said {kind:?} while it ran")),
        }
    }
    unreadable(format!("it called the host more than {HOST_CALLS_MAX} times"))
}

async fn answer(host: &dyn HostCalls, body: &[u8]) -> Result<Value, String> {
    let value = json::read(body, HOST_CALL_BYTES_MAX).map_err(|error| error.to_string())?;
    let Value::Object(mut members) = value else { return Err("a host call is an object".to_owned()) };
    let (Some(Value::String(name)), argument) = (members.remove("name"), members.remove("argument")) else {
        return Err("a host call has a name".to_owned());
    };
    host.call(HostCall { name, argument: argument.unwrap_or(Value::Null) }).await
}
