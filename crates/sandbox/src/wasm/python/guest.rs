//! What stands behind the imports of an interpreter: clocks, random numbers and arguments of WASI as they are; reading and
//! writing by us, since the three streams are the channel to the server and what the code prints.
//!
//! Invariant: there is no fourth descriptor. No folder is opened beforehand, so no path leads anywhere but into the files
//! that the interpreter brings in its own memory.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use wasmtime::{Caller, Engine, Extern, Linker, Memory};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p1::{self, WasiP1Ctx};

use crate::request::{Limits, Stream};
use crate::wasm::limiter::Limiter;
use crate::wasm::streams::Captured;

const WASI: &str = "wasi_snapshot_preview1";
/// What is carried at once.
const CARRIED_BYTES_MAX: usize = 64 * 1024;
/// What may be listed at once.
const SEGMENTS_MAX: u32 = 1024;
/// Random bytes asked for at once.
const RANDOM_BYTES_MAX: u64 = 1024 * 1024;
/// What the interpreter takes before it is ready.
const START_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The numbers of WASI.
const SUCCESS: i32 = 0;
const BAD_DESCRIPTOR: i32 = 8;
const FAULT: i32 = 21;
const INVALID: i32 = 28;
const BROKEN: i32 = 29;
const NO_SOCKET: i32 = 57;

pub struct Guest {
    wasi: WasiP1Ctx,
    pub limiter: Limiter,
    captured: Arc<Captured>,
    /// Gone when it has ended: then the server hears what was said before, and the end.
    pub channel: Option<DuplexStream>,
    memory_bytes: u64,
    began: bool,
}

impl Guest {
    pub fn new(arguments: &[&str], limits: &Limits, channel: DuplexStream, captured: Arc<Captured>) -> Self {
        let wasi = WasiCtxBuilder::new()
            .args(arguments)
            .max_random_size(RANDOM_BYTES_MAX)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build_p1();
        Self {
            wasi,
            limiter: Limiter::new(START_BYTES_MAX),
            captured,
            channel: Some(channel),
            memory_bytes: limits.memory_bytes,
            began: false,
        }
    }
}

pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, |guest: &mut Guest| &mut guest.wasi)?;
    linker.allow_shadowing(true);
    linker.func_wrap_async(WASI, "fd_read", |caller, (number, list, count, told)| {
        Box::new(read(caller, Segments { number, list, count, told }))
    })?;
    linker.func_wrap_async(WASI, "fd_write", |caller, (number, list, count, told)| {
        Box::new(write(caller, Segments { number, list, count, told }))
    })?;
    linker.func_wrap(WASI, "fd_close", close)?;
    // The library refuses them too, but writes a warning of it into our log each time.
    linker.func_wrap(WASI, "sock_accept", |_: i32, _: i32, _: i32| NO_SOCKET)?;
    linker.func_wrap(WASI, "sock_recv", |_: i32, _: i32, _: i32, _: i32, _: i32, _: i32| NO_SOCKET)?;
    linker.func_wrap(WASI, "sock_send", |_: i32, _: i32, _: i32, _: i32, _: i32| NO_SOCKET)?;
    linker.func_wrap(WASI, "sock_shutdown", |_: i32, _: i32| NO_SOCKET)?;
    Ok(linker)
}

/// What is read into or written from: addresses in the interpreter's memory, none of which is believed.
struct Segments {
    number: u32,
    list: u32,
    count: u32,
    /// Where it is told how much it was.
    told: u32,
}

impl Segments {
    /// The first that is not empty: where it begins, and its length; `None` if there is none.
    fn first(&self, memory: &[u8]) -> Result<Option<(usize, usize)>, i32> {
        if self.count > SEGMENTS_MAX {
            return Err(INVALID);
        }
        let word = |at: u64| {
            let at = usize::try_from(at).ok()?;
            let bytes = memory.get(at..at.checked_add(4)?)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        for index in 0..u64::from(self.count) {
            let at = u64::from(self.list) + index * 8;
            let (start, length) = word(at).zip(word(at + 4)).ok_or(FAULT)?;
            if length > 0 {
                let (start, length) = (start as usize, length as usize);
                let inside = start.checked_add(length).is_some_and(|end| end <= memory.len());
                return if inside { Ok(Some((start, length))) } else { Err(FAULT) };
            }
        }
        Ok(None)
    }

    fn tell(&self, caller: &mut Caller<'_, Guest>, memory: Memory, count: usize) -> i32 {
        let count = u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        match memory.write(caller, self.told as usize, &count) {
            Ok(()) => SUCCESS,
            Err(_) => FAULT,
        }
    }
}

fn memory_of(caller: &mut Caller<'_, Guest>) -> wasmtime::Result<Memory> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    memory.ok_or_else(|| wasmtime::Error::msg("the interpreter shows no memory"))
}

/// Only the streams are ours to close: the interpreter's own files never come here.
fn close(mut caller: Caller<'_, Guest>, number: u32) -> i32 {
    match number {
        0 => {
            caller.data_mut().channel = None;
            SUCCESS
        }
        1 | 2 => SUCCESS,
        _ => BAD_DESCRIPTOR,
    }
}

async fn read(mut caller: Caller<'_, Guest>, segments: Segments) -> wasmtime::Result<i32> {
    let memory = memory_of(&mut caller)?;
    if segments.number != 0 {
        return Ok(BAD_DESCRIPTOR);
    }
    let (start, length) = match segments.first(memory.data(&caller)) {
        Ok(Some(first)) => first,
        Ok(None) => return Ok(segments.tell(&mut caller, memory, 0)),
        Err(refused) => return Ok(refused),
    };
    let guest = caller.data_mut();
    if !guest.began {
        // It asks for its first order, so all that it took until now is the interpreter itself.
        guest.began = true;
        guest.limiter.begin(guest.memory_bytes);
    }
    let Some(channel) = guest.channel.as_mut() else { return Ok(BROKEN) };
    let mut bytes = vec![0; length.min(CARRIED_BYTES_MAX)];
    let Ok(count) = channel.read(&mut bytes).await else { return Ok(BROKEN) };
    match memory.write(&mut caller, start, bytes.get(..count).unwrap_or_default()) {
        Ok(()) => Ok(segments.tell(&mut caller, memory, count)),
        Err(_) => Ok(FAULT),
    }
}

async fn write(mut caller: Caller<'_, Guest>, segments: Segments) -> wasmtime::Result<i32> {
    let memory = memory_of(&mut caller)?;
    let (start, length) = match segments.first(memory.data(&caller)) {
        Ok(first) => first.unwrap_or_default(),
        Err(refused) => return Ok(refused),
    };
    let end = start + length;
    match segments.number {
        0 => {
            // All of it, as a socket takes it; never more of it at once than is carried.
            let mut next = start;
            while next < end {
                let (seen, guest) = memory.data_and_store_mut(&mut caller);
                let part = seen.get(next..end.min(next + CARRIED_BYTES_MAX)).unwrap_or_default().to_vec();
                let Some(channel) = guest.channel.as_mut() else { return Ok(BROKEN) };
                let Ok(()) = channel.write_all(&part).await else { return Ok(BROKEN) };
                next += part.len();
            }
        }
        1 | 2 => {
            let (seen, guest) = memory.data_and_store_mut(&mut caller);
            let stream = if segments.number == 1 { Stream::Stdout } else { Stream::Stderr };
            guest.captured.print(stream, seen.get(start..end).unwrap_or_default())?;
        }
        _ => return Ok(BAD_DESCRIPTOR),
    }
    Ok(segments.tell(&mut caller, memory, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_outside_of_the_memory_are_refused() {
        let mut memory = vec![0; 64];
        let entry = |memory: &mut Vec<u8>, at: usize, start: u32, length: u32| {
            memory[at..at + 4].copy_from_slice(&start.to_le_bytes());
            memory[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
        };
        entry(&mut memory, 0, 40, 0);
        entry(&mut memory, 8, 40, 24);
        entry(&mut memory, 16, 40, 25);
        entry(&mut memory, 24, u32::MAX, u32::MAX);
        let check = |list, count, expected| {
            let segments = Segments { number: 0, list, count, told: 0 };
            assert_eq!(segments.first(&memory), expected, "{list} {count}");
        };
        check(0, 0, Ok(None));
        check(0, 1, Ok(None));
        check(0, 2, Ok(Some((40, 24))));
        check(16, 1, Err(FAULT));
        check(24, 1, Err(FAULT));
        check(60, 1, Err(FAULT));
        check(u32::MAX, 1, Err(FAULT));
        check(0, 1025, Err(INVALID));
    }
}
