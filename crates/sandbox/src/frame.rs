//! Frames on the channel to an instance: one byte that says what it is, four that say how long, and so many bytes.
//!
//! The instance is hostile: a length is believed only within its bound, and memory is taken as bytes come, not as they
//! are promised.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// What an instance may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Prepared, and behind all barriers.
    Ready,
    /// Could not be prepared; the text says why.
    Unready,
    /// The result as JSON.
    Value,
    /// An exception as JSON.
    Raised,
    /// The word of a limit that it ran into.
    Limit,
    /// A host call as JSON.
    Call,
}

impl Kind {
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            b'R' => Self::Ready,
            b'X' => Self::Unready,
            b'V' => Self::Value,
            b'E' => Self::Raised,
            b'L' => Self::Limit,
            b'H' => Self::Call,
            _ => return None,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the channel ended")]
    Ended,
    #[error("the channel broke: {0}")]
    Io(io::Error),
    #[error("`{0:#04x}` begins no frame")]
    Kind(u8),
    #[error("a frame of {length} bytes, at most {max} are possible")]
    TooLong { kind: Kind, length: u64, max: u64 },
}

/// How much is asked for at once.
const CHUNK: u64 = 64 * 1024;

/// The next frame; `max` says how long one of its kind may be.
pub async fn read(
    from: &mut (impl AsyncRead + Unpin),
    max: impl Fn(Kind) -> u64,
) -> Result<(Kind, Vec<u8>), FrameError> {
    let mut head = [0; 5];
    fill(from, &mut head).await?;
    let [kind, length @ ..] = head;
    let kind = Kind::of(kind).ok_or(FrameError::Kind(kind))?;
    let (length, max) = (u64::from(u32::from_le_bytes(length)), max(kind));
    if length > max {
        return Err(FrameError::TooLong { kind, length, max });
    }
    let mut body = Vec::new();
    while (body.len() as u64) < length {
        let wanted = (length - body.len() as u64).min(CHUNK);
        match (&mut *from).take(wanted).read_to_end(&mut body).await {
            Ok(0) => return Err(FrameError::Ended),
            Ok(_) => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    Ok((kind, body))
}

async fn fill(from: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> Result<(), FrameError> {
    match from.read_exact(buffer).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(FrameError::Ended),
        Err(error) => Err(FrameError::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hostile_frames_are_told_apart() {
        async fn check(bytes: &[u8], expected: &str) {
            let mut from = bytes;
            let said = match read(&mut from, |kind| if kind == Kind::Value { 8 } else { 2 }).await {
                Ok((kind, body)) => format!("{kind:?} {body:?}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected);
        }
        check(b"V\x02\0\0\0{}", "Value [123, 125]").await;
        check(b"R\0\0\0\0", "Ready []").await;
        check(b"", "the channel ended").await;
        check(b"V\x02\0", "the channel ended").await;
        check(b"V\x02\0\0\0{", "the channel ended").await;
        check(b"V\xff\xff\xff\xff", "a frame of 4294967295 bytes, at most 8 are possible").await;
        check(b"H\x03\0\0\0abc", "a frame of 3 bytes, at most 2 are possible").await;
        check(b"Z\0\0\0\0", "`0x5a` begins no frame").await;
    }
}
