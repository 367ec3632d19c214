//! What an instance writes: its two streams and its log, together within one bound. At the bound it is ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamError, StreamResult};

use crate::request::{OutputSink, Stream};

/// What may be written at once.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Why an instance was ended; looked for in the error that comes out of it.
#[derive(Debug, thiserror::Error)]
#[error("it wrote more than it may")]
pub struct TooMuch;

pub struct Captured {
    kept: Mutex<Kept>,
    log: Option<OutputSink>,
}

#[derive(Default)]
struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    left: usize,
}

impl Captured {
    pub fn new(bytes_max: u64, log: Option<OutputSink>) -> Self {
        let left = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Self { kept: Mutex::new(Kept { left, ..Kept::default() }), log }
    }

    pub fn log(&self, text: &str) -> wasmtime::Result<()> {
        let mut line = text.trim_end_matches('\n').to_owned();
        line.push('\n');
        self.kept().take(line.len())?;
        if let Some(log) = &self.log {
            log(Stream::Stderr, line.as_bytes());
        }
        Ok(())
    }

    /// Keeps what is printed, and shows it as it comes.
    pub fn print(&self, stream: Stream, bytes: &[u8]) -> wasmtime::Result<()> {
        self.write(stream, bytes)?;
        if let Some(log) = &self.log {
            log(stream, bytes);
        }
        Ok(())
    }

    fn write(&self, stream: Stream, bytes: &[u8]) -> wasmtime::Result<()> {
        let mut kept = self.kept();
        kept.take(bytes.len())?;
        match stream {
            Stream::Stdout => kept.stdout.extend_from_slice(bytes),
            Stream::Stderr => kept.stderr.extend_from_slice(bytes),
        }
        Ok(())
    }

    pub fn take(&self) -> (Vec<u8>, Vec<u8>) {
        let mut kept = self.kept();
        (std::mem::take(&mut kept.stdout), std::mem::take(&mut kept.stderr))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| wasmtime::Error::new(TooMuch))?;
        Ok(())
    }
}

/// A stream of an instance.
#[derive(Clone)]
pub struct Writer {
    stream: Stream,
    captured: Arc<Captured>,
}

impl Writer {
    pub fn new(stream: Stream, captured: Arc<Captured>) -> Self {
        Self { stream, captured }
    }
}

impl IsTerminal for Writer {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Writer {
    /// Only for interfaces that are not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.captured.write(self.stream, &bytes).map_err(StreamError::Trap)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}
