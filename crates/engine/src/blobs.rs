//! Large payloads as files: on the disk before the row that names them is committed.
//!
//! Not here: other stores than the data folder's. A deployment of several replicas shares that folder.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use toolgate_contracts::call::Attachment;
use toolgate_contracts::{BlobId, CallId, Clock, Digest, Fault, Rng, TenantId};
use toolgate_store::blobs::Blob;

use crate::runner::NewAttachment;

/// How long an attachment can be fetched.
pub const BLOB_DAYS: i64 = 30;

#[derive(Clone, Debug)]
pub struct Blobs {
    folder: PathBuf,
    clock: Clock,
    rng: Rng,
}

impl Blobs {
    pub fn new(folder: PathBuf, clock: Clock, rng: Rng) -> Self {
        Self { folder, clock, rng }
    }

    /// Writes the file; what it returns is to be committed with the call.
    pub async fn keep(
        &self,
        tenant: TenantId,
        call: CallId,
        by: &str,
        new: NewAttachment,
    ) -> Result<(Blob, Attachment), Fault> {
        let NewAttachment { kind, content_type, bytes } = new;
        let id = BlobId::new(&self.clock, &self.rng);
        let location = format!("{tenant}/{id}");
        let path = self.folder.join(&location);
        let length = bytes.len() as u64;
        let written = tokio::task::spawn_blocking(move || {
            let sha256: [u8; 32] = Sha256::digest(&bytes).into();
            write(&path, &bytes).map(|()| Digest::from_bytes(sha256))
        });
        let sha256 = written.await.map_err(Fault::internal)?.map_err(|error| {
            Fault::new(
                toolgate_contracts::FaultKind::Unavailable,
                "an attachment could not be written",
                "check the data folder's disk, then try again",
            )
            .with_log(error)
        })?;
        let now = self.clock.now();
        let blob = Blob {
            id,
            call: Some(call),
            sha256,
            content_type: content_type.clone(),
            bytes: length,
            location,
            labels: Vec::new(),
            created_by: by.to_owned(),
            created_at: now,
            expires_at: Some(now.plus_seconds(BLOB_DAYS * 24 * 60 * 60)),
        };
        let url = format!("/api/v1/blobs/{id}");
        Ok((blob, Attachment { kind, url, content_type: Some(content_type), bytes: Some(length) }))
    }

    /// The whole of it. A file that is not what its row says is not given out.
    pub async fn read(&self, blob: &Blob) -> Result<Vec<u8>, Fault> {
        let path = self.folder.join(&blob.location);
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await.map_err(Fault::internal)?;
        let bytes = read.map_err(|_| Fault::not_found("blob", blob.id))?;
        let sha256: [u8; 32] = Sha256::digest(&bytes).into();
        if Digest::from_bytes(sha256) == blob.sha256 {
            Ok(bytes)
        } else {
            Err(Fault::internal(format!("the file of blob {} was changed", blob.id)))
        }
    }

    pub async fn remove(&self, blob: &Blob) {
        let path = self.folder.join(&blob.location);
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_file(path)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(blob = %blob.id, "cannot remove an expired blob: {error}");
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::File::open(folder)?.sync_all()
}
