//! What comes out of a process on its two streams, kept up to a bound.

use std::io;

use tokio::net::unix::pipe;

use crate::request::{OutputSink, Stream};

const CHUNK: usize = 16 * 1024;

pub struct Capture {
    streams: [Option<pipe::Receiver>; 2],
    kept: [Vec<u8>; 2],
    /// How much more may be kept.
    left: usize,
    over: bool,
    sink: Option<OutputSink>,
}

impl Capture {
    pub fn new(stdout: pipe::Receiver, stderr: pipe::Receiver, bytes_max: u64, sink: Option<OutputSink>) -> Self {
        Self {
            streams: [Some(stdout), Some(stderr)],
            kept: [Vec::new(), Vec::new()],
            left: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            over: false,
            sink,
        }
    }

    /// Keeps what comes. Returns only when more came than is kept.
    pub async fn run(&mut self) {
        while !self.over {
            self.some().await;
        }
    }

    /// Takes what comes and keeps nothing of it. Never returns.
    pub async fn discard(&mut self) {
        self.left = 0;
        loop {
            self.some().await;
        }
    }

    /// Keeps what is there already. It asks the kernel itself: the runtime may not have been told yet that there is
    /// something, and would say that there is nothing.
    pub fn drain(&mut self) {
        for index in [0, 1] {
            while !self.over
                && self.take(index, |stream, buffer| rustix::io::read(stream, buffer).map_err(io::Error::from))
            {
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        let [stdout, stderr] = self.kept;
        (stdout, stderr)
    }

    /// Waits until there is something on a stream, and takes it.
    async fn some(&mut self) {
        let [stdout, stderr] = &self.streams;
        let index = tokio::select! {
            () = readable(stdout.as_ref()) => 0,
            () = readable(stderr.as_ref()) => 1,
        };
        self.take(index, pipe::Receiver::try_read);
    }

    /// Whether there may be more.
    fn take(&mut self, index: usize, read: impl Fn(&pipe::Receiver, &mut [u8]) -> io::Result<usize>) -> bool {
        let mut buffer = [0; CHUNK];
        let (Some(place), Some(kept)) = (self.streams.get_mut(index), self.kept.get_mut(index)) else { return false };
        let Some(stream) = place else { return false };
        match read(stream, &mut buffer) {
            Ok(0) => *place = None,
            Ok(count) => {
                let new = &buffer[..count.min(self.left)];
                self.over |= count > self.left;
                self.left -= new.len();
                kept.extend_from_slice(new);
                if let Some(sink) = self.sink.as_ref().filter(|_| !new.is_empty()) {
                    sink(if index == 0 { Stream::Stdout } else { Stream::Stderr }, new);
                }
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => *place = None,
        }
        false
    }
}

/// Never, for a stream that has ended.
async fn readable(stream: Option<&pipe::Receiver>) {
    if let Some(stream) = stream
        && stream.readable().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
