//! A piece of a file in the tenant's own folder: text as text, everything else as an attachment.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;

use data_encoding::BASE64;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ToolError, ToolResult};
use toolgate_engine::runner::Done;
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, input, invalid};
use crate::files::{Doing, Place, failed, found, missing};

const LIMIT_DEFAULT: u64 = 64 * 1024;
const LIMIT_MAX: u64 = 1024 * 1024;
/// What of bytes that are no text stands in the result itself.
const BASE64_BYTES_MAX: usize = 8 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    #[serde(default)]
    offset: u64,
    #[serde(default = "limit_default")]
    limit: u64,
}

const fn limit_default() -> u64 {
    LIMIT_DEFAULT
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    let job = match Job::new(tools, call) {
        Ok(job) => job,
        Err(error) => return error.into(),
    };
    match tokio::task::spawn_blocking(move || job.read()).await {
        Ok(Ok(done)) => Outcome::Done(done),
        Ok(Err(error)) => error.into(),
        Err(_) => failed("disk", "the file could not be read").into(),
    }
}

struct Job {
    place: Place,
    offset: u64,
    limit: u64,
}

impl Job {
    fn new(tools: &Tools, call: &Call) -> Result<Self, ToolError> {
        let Input { path, offset, limit } = input(call)?;
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(invalid("limit", format!("{limit} is not between 1 and {LIMIT_MAX}; read a file in pieces")));
        }
        Ok(Self { place: Place::new(tools, call, &path)?, offset, limit })
    }

    fn read(&self) -> Result<Done, ToolError> {
        let Self { place, offset, limit } = self;
        let path = &place.path;
        let (mut file, bytes) = self.opened()?;
        if *offset > bytes {
            return Err(invalid("offset", format!("{offset} is beyond the end of `{path}`, which has {bytes} bytes")));
        }
        let mut piece = Vec::new();
        let read = file.seek(SeekFrom::Start(*offset)).and_then(|_| file.take(*limit).read_to_end(&mut piece));
        read.map_err(|error| Doing::Read.stopped_by_io(path, &error))?;
        Ok(told(path, bytes, *offset, piece))
    }

    /// An ordinary file, and how many bytes it has. Opened without waiting, so that a pipe holds nobody up.
    fn opened(&self) -> Result<(File, u64), ToolError> {
        let path = &self.place.path;
        let folder = self.place.existing_folder(Doing::Read)?.ok_or_else(|| missing(path))?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = self.place.name();
        // Looked at first: opening a device can do something.
        let before = found(folder.as_fd(), name).map_err(|errno| Doing::Read.stopped_by(path, errno))?;
        if before.is_folder() {
            return Err(invalid("path", format!("`{path}` is a folder; `list_files` tells what is in it")));
        }
        let other = || failed("files", format!("`{path}` is no ordinary file and is left alone"));
        if !before.is_file() {
            return Err(other());
        }
        let file = rustix::fs::openat(&folder, name, flags, Mode::empty())
            .map_err(|errno| Doing::Read.stopped_by(path, errno))?;
        let now = rustix::fs::fstat(&file).map_err(|errno| Doing::Read.stopped_by(path, errno))?;
        let now = crate::files::Found::from(now);
        if !now.is_file() {
            return Err(other());
        }
        Ok((File::from(file), now.bytes))
    }
}

fn told(path: &str, bytes: u64, offset: u64, mut piece: Vec<u8>) -> Done {
    let is_text = !piece.contains(&0) && cut_to_whole_characters(&mut piece, bytes, offset);
    let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
    let mut output = json!({"path": path, "bytes": bytes, "offset": offset, "read": length});
    let next = offset.saturating_add(length);
    if next < bytes && length > 0 {
        output["next_offset"] = json!(next);
    }
    if is_text {
        output["text"] = Value::String(String::from_utf8_lossy(&piece).into_owned());
        return Done { result: ToolResult::structured(output), ..Done::default() };
    }
    if piece.len() <= BASE64_BYTES_MAX {
        output["base64"] = Value::String(BASE64.encode(&piece));
    }
    let content_type = kind_of(&piece);
    output["content_type"] = json!(content_type);
    let attachment = toolgate_runners::http::attachment(content_type.to_owned(), piece);
    Done { result: ToolResult::structured(output), attachments: vec![attachment], ..Done::default() }
}

/// Whether it is text, once the character that the end of the piece cuts through is left for the next piece.
fn cut_to_whole_characters(piece: &mut Vec<u8>, bytes: u64, offset: u64) -> bool {
    let Err(error) = std::str::from_utf8(piece) else { return true };
    let whole = error.valid_up_to();
    let goes_on = offset.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX)) < bytes;
    // `None`: it ends before it is a whole character, which at the end of a file it never becomes.
    let is_text = error.error_len().is_none() && goes_on && whole > 0;
    if is_text {
        piece.truncate(whole);
    }
    is_text
}

/// By its first bytes: enough to show an image.
fn kind_of(bytes: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 6] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
    ];
    KINDS.iter().find(|(begin, _)| bytes.starts_with(begin)).map_or("application/octet-stream", |(_, kind)| kind)
}
