//! The prepared interpreter, seen from the server: orders go in with the descriptors of an instance, and out come its
//! process and, one day, how it ended.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::SandboxError;
use crate::kernel;
use crate::process::group::Group;
use crate::process::interpreter::Interpreter;
use crate::request::Settings;
use crate::spawner::Spawner;

/// How long the interpreter may take to be ready, on a machine under load.
const START: Duration = Duration::from_mins(1);
const ORDER_BYTES: usize = 32;
const NOTE_BYTES: usize = 37;
/// A note and, once, the names of modules that are missing.
const NOTE_BYTES_MAX: usize = NOTE_BYTES + 1024;
/// How much of what the interpreter prints is kept.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// How an instance ended, as its parent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// As `wait` says it.
    pub status: i32,
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
}

/// When an instance is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Before anybody asks for it.
    Ahead,
    /// Because somebody waits for it.
    Asked,
}

/// An instance that was born.
pub struct Born {
    pub process: OwnedFd,
    pub exit: oneshot::Receiver<Exit>,
}

#[derive(Default)]
struct Waiting {
    born: HashMap<u64, oneshot::Sender<io::Result<OwnedFd>>>,
    exits: HashMap<u64, oneshot::Sender<Exit>>,
    /// Nothing more will come.
    over: bool,
}

pub struct Zygote {
    control: Arc<AsyncFd<OwnedFd>>,
    waiting: Arc<Mutex<Waiting>>,
    process: OwnedFd,
    spawner: Spawner,
    listener: JoinHandle<()>,
    next: AtomicU64,
    /// The version of Landlock that instances are under; 0 if the kernel has none.
    pub landlock: i32,
    group: Group,
}

/// What the interpreter says.
struct Note {
    kind: u8,
    instance: u64,
    number: i32,
    cpu: Duration,
    peak_memory_bytes: u64,
    process: Option<OwnedFd>,
}

impl Zygote {
    pub async fn start(
        spawner: &Spawner,
        settings: &Settings,
        interpreter: &Interpreter,
    ) -> Result<Arc<Self>, SandboxError> {
        let broke = || SandboxError::broke("starting the interpreter");
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)
                .map_err(broke())?;
        let (complaints, complaining) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(broke())?;
        let launch = interpreter.launch(settings, theirs, complaining)?;
        let group = Group::make(settings)?;
        // What it holds for the interpreter is dropped with it on the thread, so that ends are seen here.
        let started = spawner
            .on_thread(move || {
                let pid = launch.start().map_err(|error| error.to_string())?;
                let pid = Pid::from_raw(pid).ok_or("it has no process id")?;
                let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
                process.map(|process| (process, pid)).map_err(|error| error.to_string())
            })
            .await?;
        let (process, pid) = started.map_err(|why| SandboxError::Start { why: format!("{why}{}", hint()) })?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(io::Error::from).map_err(broke())?;
        let control = Arc::new(kernel::watch(ours).map_err(broke())?);
        let complaints = pipe::Receiver::from_owned_fd(complaints).map_err(broke())?;
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let mut zygote = Self {
            listener: tokio::spawn(async {}),
            control,
            waiting,
            process,
            spawner: spawner.clone(),
            next: AtomicU64::new(1),
            landlock: 0,
            group,
        };
        // Before it has forked anything; should it fail, dropping the interpreter kills it.
        zygote.group.admit(pid.as_raw_nonzero().get())?;
        match tokio::time::timeout(START, receive(&zygote.control)).await {
            Ok(Ok(Some(Note { kind: b'H', number, .. }))) => zygote.landlock = number,
            Ok(Err(error)) => return Err(broke()(error)),
            Ok(Ok(_)) => {
                let said = complaint(&complaints).await;
                return Err(SandboxError::Start { why: format!("the interpreter gave up: {said}") });
            }
            Err(_) => return Err(SandboxError::Start { why: format!("the interpreter was not ready in {START:?}") }),
        }
        zygote.listener = tokio::spawn(listen(Arc::clone(&zygote.control), Arc::clone(&zygote.waiting), complaints));
        Ok(Arc::new(zygote))
    }

    pub fn is_over(&self) -> bool {
        lock(&self.waiting).over
    }

    /// Has an instance born that holds these: channel, standard output, standard error. One that is made ahead of its
    /// run has time to warm up.
    pub async fn order(&self, scratch_bytes: u64, made: Made, descriptors: [OwnedFd; 3]) -> io::Result<Born> {
        let instance = self.next.fetch_add(1, Ordering::Relaxed);
        let (born, process) = oneshot::channel();
        let (ended, exit) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.over {
                return Err(io::Error::other("the interpreter is gone"));
            }
            waiting.born.insert(instance, born);
            waiting.exits.insert(instance, ended);
        }
        let mut order = [0; ORDER_BYTES];
        let inodes = (scratch_bytes / 4096).clamp(16, 65_536);
        for (place, word) in
            order.chunks_exact_mut(8).zip([instance, scratch_bytes, inodes, u64::from(made == Made::Ahead)])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.control
            .async_io(tokio::io::Interest::WRITABLE, |control| {
                let handed = descriptors.each_ref().map(AsFd::as_fd);
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(&handed));
                Ok(rustix::net::sendmsg(control, &[IoSlice::new(&order)], &mut ancillary, SendFlags::NOSIGNAL)?)
            })
            .await?;
        let gone = |_| io::Error::other("the interpreter is gone");
        Ok(Born { process: process.await.map_err(gone)??, exit })
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.listener.abort();
        // The first process of its namespace: with it the kernel ends everything in there.
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
        if let Ok(process) = self.process.try_clone() {
            let group = std::mem::take(&mut self.group);
            self.spawner.reap(Box::new(move || {
                // Removed when nobody is left in it.
                let _ = &group;
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                !matches!(rustix::process::waitid(WaitId::PidFd(process.as_fd()), options), Ok(None))
            }));
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(control: Arc<AsyncFd<OwnedFd>>, waiting: Arc<Mutex<Waiting>>, complaints: pipe::Receiver) {
    while let Ok(Some(note)) = receive(&control).await {
        let mut waiting = lock(&waiting);
        match (note.kind, note.process) {
            (b'P', Some(process)) => {
                if let Some(born) = waiting.born.remove(&note.instance) {
                    let _ = born.send(Ok(process));
                }
            }
            (b'F', _) => {
                waiting.exits.remove(&note.instance);
                if let Some(born) = waiting.born.remove(&note.instance) {
                    let _ = born.send(Err(io::Error::from_raw_os_error(note.number)));
                }
            }
            (b'E', _) => {
                if let Some(ended) = waiting.exits.remove(&note.instance) {
                    let Note { number: status, cpu, peak_memory_bytes, .. } = note;
                    let _ = ended.send(Exit { status, cpu, peak_memory_bytes });
                }
            }
            (kind, _) => tracing::warn!(kind, "the interpreter of the sandbox said something unknown"),
        }
    }
    let said = complaint(&complaints).await;
    tracing::warn!(%said, "the interpreter of the sandbox ended");
    let mut waiting = lock(&waiting);
    waiting.over = true;
    waiting.born.clear();
    waiting.exits.clear();
}

/// The next note; `None` when the interpreter is gone.
async fn receive(control: &AsyncFd<OwnedFd>) -> io::Result<Option<Note>> {
    control
        .async_io(tokio::io::Interest::READABLE, |control| {
            let mut bytes = [0; NOTE_BYTES_MAX];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
            let process = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut handed) => handed.next(),
                _ => None,
            });
            if received.bytes == 0 {
                return Ok(None);
            }
            let word = |at: usize| {
                let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u64::from_le_bytes)
            };
            let number = bytes.get(9..13).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_le_bytes);
            Ok(Some(Note {
                kind: if received.bytes < NOTE_BYTES { 0 } else { bytes[0] },
                instance: word(1),
                number,
                cpu: Duration::from_micros(word(13).saturating_add(word(21))),
                peak_memory_bytes: word(29).saturating_mul(1024),
                process,
            }))
        })
        .await
}

/// The last line that the interpreter printed.
async fn complaint(complaints: &pipe::Receiver) -> String {
    let mut said = Vec::new();
    let read = async {
        while said.len() < COMPLAINT_BYTES_MAX && complaints.readable().await.is_ok() {
            let mut buffer = [0; 1024];
            match complaints.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
    let said = String::from_utf8_lossy(&said);
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

/// What usually stands in the way of new namespaces, if it does here.
fn hint() -> String {
    let set = |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    let hints = [
        ("user.max_user_namespaces", "/proc/sys/user/max_user_namespaces", "0"),
        ("kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    let found: Vec<String> = hints
        .into_iter()
        .filter(|(_, path, value)| set(path, value))
        .map(|(name, _, value)| format!("`{name}` is {value}, which forbids it"))
        .collect();
    if found.is_empty() { String::new() } else { format!("; {}", found.join(", ")) }
}
