//! An answer's body, piece by piece, with its limits counted while it comes.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use url::Host;

use crate::error::{EgressError, Rule};
use crate::limits::{Limits, RATIO_FROM_BYTES};
use crate::pool::{Connection, Key, Pool};

/// Inflated in pieces of this size, so that what comes out of one is bounded before it is counted.
const INFLATE_BYTES: usize = 1024;
const INFLATED_CHUNK_BYTES: usize = 256 * 1024;
/// A connection that does not settle after its answer is not kept.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) struct Body {
    pub incoming: Incoming,
    pub inflate: Option<Inflate>,
    /// Given back when the body was read to its end, otherwise closed with the body.
    pub kept: Option<(Pool, Key, Connection)>,
    pub host: Host<String>,
    pub limits: Limits,
    pub deadline: Instant,
    pub wire_bytes: u64,
    /// Time spent waiting for the other side; how long the reader takes is not its fault.
    pub waited: Duration,
    /// What it failed with; a reader that asks again gets the same.
    pub failed: Option<EgressError>,
}

pub(crate) struct Inflate {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Of the last piece, not inflated yet.
    pending: Bytes,
    bytes: u64,
}

impl Inflate {
    pub fn gzip() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), pending: Bytes::new(), bytes: 0 }
    }
}

impl Body {
    /// The next piece, or `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let chunk = self.next().await;
        if let Err(error) = &chunk {
            self.failed = Some(error.clone());
            self.kept = None;
        }
        chunk
    }

    async fn next(&mut self) -> Result<Option<Bytes>, EgressError> {
        loop {
            if let Some(inflated) = self.inflated()? {
                return Ok(Some(inflated));
            }
            let Some(piece) = self.wire().await? else {
                let rest = self.finished()?;
                self.settle().await;
                return Ok(rest);
            };
            match &mut self.inflate {
                Some(inflate) => inflate.pending = piece,
                None if piece.is_empty() => {}
                None => return Ok(Some(piece)),
            }
        }
    }

    async fn wire(&mut self) -> Result<Option<Bytes>, EgressError> {
        let from = Instant::now();
        let allowed = Duration::from_secs(self.wire_bytes / self.limits.rate_bytes_per_s_min.max(1));
        let too_slow = from + allowed.max(self.limits.rate_after).saturating_sub(self.waited);
        let until = (from + self.limits.idle).min(self.deadline).min(too_slow);
        let frame = self.incoming.frame();
        let brought = match &mut self.kept {
            Some((_, _, connection)) => timeout_at(until, connection.driver.bring(frame)).await,
            None => timeout_at(until, frame).await,
        };
        let Ok(frame) = brought else {
            let what = if until == self.deadline {
                "the answer did not end in time".to_owned()
            } else if until == too_slow {
                format!("the answer came slower than {} bytes/s", self.limits.rate_bytes_per_s_min)
            } else {
                format!("the answer paused for more than {} s", self.limits.idle.as_secs_f32())
            };
            return Err(self.broken(Rule::Timeout, &what, "try again later, or ask for less"));
        };
        self.waited += from.elapsed();
        match frame {
            None => Ok(None),
            Some(Err(error)) => {
                let lost = self.broken(Rule::Reset, "the connection was lost within the answer", "try again");
                Err(lost.with_log(error))
            }
            Some(Ok(frame)) => {
                let piece = frame.into_data().unwrap_or_default();
                self.wire_bytes += piece.len() as u64;
                if self.wire_bytes > self.limits.wire_bytes_max {
                    return Err(self.too_large(self.limits.wire_bytes_max));
                }
                Ok(Some(piece))
            }
        }
    }

    fn inflated(&mut self) -> Result<Option<Bytes>, EgressError> {
        let Some(mut inflate) = self.inflate.take() else { return Ok(None) };
        let made = self.inflate_pending(&mut inflate);
        self.inflate = Some(inflate);
        made
    }

    /// At most [`INFLATED_CHUNK_BYTES`] and a little at once; the rest waits until it is asked for.
    fn inflate_pending(&self, inflate: &mut Inflate) -> Result<Option<Bytes>, EgressError> {
        while !inflate.pending.is_empty() && inflate.decoder.get_ref().len() < INFLATED_CHUNK_BYTES {
            let piece = inflate.pending.split_to(inflate.pending.len().min(INFLATE_BYTES));
            let before = inflate.decoder.get_ref().len();
            inflate.decoder.write_all(&piece).map_err(|error| {
                let told = "the answer is not the gzip that it says it is";
                self.broken(Rule::Encoding, told, "ask the host's owner").with_log(error)
            })?;
            inflate.bytes += (inflate.decoder.get_ref().len() - before) as u64;
            self.judge_inflated(inflate.bytes)?;
        }
        Ok(inflate.take())
    }

    fn finished(&mut self) -> Result<Option<Bytes>, EgressError> {
        // No byte at all is an empty body, whatever its header says.
        let Some(inflate) = self.inflate.take().filter(|_| self.wire_bytes > 0) else { return Ok(None) };
        let before = inflate.decoder.get_ref().len();
        let made = inflate.decoder.finish().map_err(|error| {
            self.broken(Rule::Reset, "the compressed answer ends too early", "try again").with_log(error)
        })?;
        self.judge_inflated(inflate.bytes + (made.len() - before) as u64)?;
        Ok((!made.is_empty()).then(|| Bytes::from(made)))
    }

    fn judge_inflated(&self, bytes: u64) -> Result<(), EgressError> {
        if bytes > self.limits.inflated_bytes_max {
            return Err(self.too_large(self.limits.inflated_bytes_max));
        }
        if bytes > RATIO_FROM_BYTES && bytes > self.wire_bytes.saturating_mul(self.limits.ratio_max) {
            let told = format!("the answer inflates to more than {} times its size", self.limits.ratio_max);
            return Err(self.broken(Rule::TooLarge, &told, "ask for it without compression"));
        }
        Ok(())
    }

    async fn settle(&mut self) {
        if let Some((pool, key, mut connection)) = self.kept.take()
            && matches!(
                tokio::time::timeout(SETTLE, connection.driver.bring(connection.sender.ready())).await,
                Ok(Ok(()))
            )
        {
            pool.put(key, connection);
        }
    }

    fn too_large(&self, most: u64) -> EgressError {
        self.broken(Rule::TooLarge, &format!("the answer has more than {most} bytes"), "ask for less")
    }

    fn broken(&self, rule: Rule, what: &str, remedy: &str) -> EgressError {
        EgressError::new(rule, format!("`{}`: {what}", self.host), remedy).of(&self.host).perhaps_sent()
    }
}

impl Inflate {
    fn take(&mut self) -> Option<Bytes> {
        let made = std::mem::take(self.decoder.get_mut());
        (!made.is_empty()).then(|| Bytes::from(made))
    }
}
