//! Starting the prepared interpreter behind namespaces of its own. This is what runs between `fork` and `execve`.
//!
//! Our process has many threads, so after the fork there is one rule: system calls on memory that was prepared before,
//! nothing that allocates, locks or unwinds. Everything is therefore laid out in [`Launch`] beforehand.
//! The order: give up root, enter new namespaces, build an empty root with the interpreter bound into it read-only,
//! leave the old root, become the first process of a new process namespace, close every descriptor, execute.

#![expect(unsafe_code, reason = "fork, namespaces and mounts have no safe interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

/// The interpreter finds its control socket, the old `/proc` and its rules for files at 3, 4 and 5, after the standard
/// streams; this is only there until it executes.
const STATUS_FD: RawFd = 6;
/// Where descriptors are parked before they get their number.
const PARKED_FD: c_int = 16;

/// Something of the machine that is seen inside, under the same path.
#[derive(Debug)]
pub struct Bind {
    /// Below `/old`.
    pub from: CString,
    pub to: CString,
    /// Devices keep working; everything else cannot have any.
    pub device: bool,
}

/// All that a launch needs, in the form in which the kernel takes it.
#[derive(Debug)]
pub struct Launch {
    /// The user to become first, when we are root.
    pub become_uid: Option<u32>,
    pub uid_map: CString,
    pub gid_map: CString,
    /// An existing folder to build the new root on; what it holds stays reachable below `/old` while binding.
    pub base: CString,
    /// Folders inside, parents first.
    pub folders: Vec<CString>,
    /// Empty files inside, to bind onto.
    pub files: Vec<CString>,
    /// What a link says, and where it is.
    pub links: Vec<(CString, CString)>,
    pub binds: Vec<Bind>,
    pub program: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    pub control: OwnedFd,
    pub stderr: OwnedFd,
    pub ruleset: Option<OwnedFd>,
}

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    Fork = 1,
    Session,
    User,
    Namespaces,
    Maps,
    Private,
    Root,
    Pivot,
    Folders,
    Binds,
    ReadOnly,
    Detach,
    Pid,
    Descriptors,
    Execute,
}

impl Step {
    const ALL: [Self; 15] = [
        Self::Fork,
        Self::Session,
        Self::User,
        Self::Namespaces,
        Self::Maps,
        Self::Private,
        Self::Root,
        Self::Pivot,
        Self::Folders,
        Self::Binds,
        Self::ReadOnly,
        Self::Detach,
        Self::Pid,
        Self::Descriptors,
        Self::Execute,
    ];

    const fn words(self) -> &'static str {
        match self {
            Self::Fork => "forking",
            Self::Session => "beginning a session",
            Self::User => "giving up root",
            Self::Namespaces => "entering new namespaces",
            Self::Maps => "mapping the user",
            Self::Private => "making mounts private",
            Self::Root => "mounting an empty root",
            Self::Pivot => "changing the root",
            Self::Folders => "making folders in the new root",
            Self::Binds => "binding the interpreter into the new root",
            Self::ReadOnly => "making the new root read-only",
            Self::Detach => "leaving the old root",
            Self::Pid => "entering a new process namespace",
            Self::Descriptors => "closing descriptors",
            Self::Execute => "executing the interpreter",
        }
    }
}

#[derive(Debug)]
pub struct LaunchError {
    pub step: Option<Step>,
    pub source: io::Error,
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let doing = self.step.map_or("starting the interpreter", Step::words);
        write!(f, "{doing}: {}", self.source)
    }
}

/// What the two processes report through the status pipe: a step and its error, or a process id.
const REPORT_BYTES: usize = 12;
const STARTED: u32 = 0;

impl Launch {
    /// Starts it, and says its process id. Call it on a thread that outlives the interpreter: the kernel kills the
    /// interpreter when that thread ends.
    pub fn start(&self) -> Result<libc::pid_t, LaunchError> {
        let unstarted = |source| LaunchError { step: None, source };
        let (status_read, status_write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| unstarted(error.into()))?;
        // Pointers for `execve`, made while it is still allowed to allocate.
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        // SAFETY: the child calls nothing but `Launch::inside`, which keeps to system calls and never returns.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(LaunchError { step: Some(Step::Fork), source: io::Error::last_os_error() });
        }
        if pid == 0 {
            self.inside(status_write.as_raw_fd(), &arguments, &environment);
        }
        drop(status_write);
        // Ends when both processes are gone or have become the interpreter.
        let mut reports = Vec::new();
        let read = File::from(status_read).take(4096).read_to_end(&mut reports);
        wait_for(pid);
        read.map_err(unstarted)?;
        let mut started = None;
        for report in reports.chunks_exact(REPORT_BYTES) {
            let word =
                |at: usize| report.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
            let (step, error, child) = (word(0), word(4), word(8));
            if step == Some(STARTED) {
                started = child.and_then(|child| libc::pid_t::try_from(child).ok());
            } else {
                if let Some(child) = started {
                    wait_for(child);
                }
                let step = Step::ALL.into_iter().find(|known| Some(*known as u32) == step);
                let source = io::Error::from_raw_os_error(error.and_then(|error| error.try_into().ok()).unwrap_or(0));
                return Err(LaunchError { step, source });
            }
        }
        started.ok_or_else(|| unstarted(io::Error::other("it was killed before it began")))
    }

    /// The first child: all namespaces but that of processes, which only a child of it can be born into.
    fn inside(&self, status: RawFd, arguments: &[*const c_char], environment: &[*const c_char]) -> ! {
        let failed = self.enter().and_then(|(proc_fd, null_fd)| self.number_descriptors(status, proc_fd, null_fd));
        match failed {
            Err((step, error)) => report(status, step as u32, error, 0),
            // From here on the status has its own number.
            Ok(()) => {
                if let Err((step, error)) = self.replace(arguments, environment) {
                    report(STATUS_FD, step as u32, error, 0);
                }
            }
        }
        // SAFETY: `_exit` ends the process without running anything of ours.
        unsafe { libc::_exit(127) }
    }

    /// Ends outside of everything, with the descriptors of the old `/proc` and `/dev/null`.
    fn enter(&self) -> Result<(RawFd, RawFd), (Step, c_int)> {
        let unset: *const c_char = ptr::null();
        // SAFETY: plain system call.
        check(Step::Session, unsafe { libc::setsid() })?;
        self.unblock_signals();
        if let Some(uid) = self.become_uid {
            // SAFETY: no groups are read from the null pointer, because there are none.
            check(Step::User, unsafe { libc::setgroups(0, ptr::null()) })?;
            // SAFETY: plain system call.
            check(Step::User, unsafe { libc::setresgid(uid, uid, uid) })?;
            // SAFETY: plain system call.
            check(Step::User, unsafe { libc::setresuid(uid, uid, uid) })?;
            // Changing users made us invisible in /proc, where our maps are about to be written.
            // SAFETY: plain system call.
            check(Step::User, unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) })?;
        }
        // SAFETY: plain system call; this process has one thread.
        check(Step::Namespaces, unsafe {
            libc::unshare(
                libc::CLONE_NEWUSER
                    | libc::CLONE_NEWNS
                    | libc::CLONE_NEWNET
                    | libc::CLONE_NEWIPC
                    | libc::CLONE_NEWUTS
                    | libc::CLONE_NEWPID,
            )
        })?;
        write_file(Step::Maps, c"/proc/self/setgroups", c"deny")?;
        write_file(Step::Maps, c"/proc/self/uid_map", &self.uid_map)?;
        write_file(Step::Maps, c"/proc/self/gid_map", &self.gid_map)?;
        // SAFETY: plain system call.
        check(Step::Namespaces, unsafe { libc::sethostname(c"sandbox".as_ptr(), 7) })?;

        mount(Step::Private, c"none", c"/", unset, libc::MS_REC | libc::MS_PRIVATE, unset)?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        mount(Step::Root, c"root", &self.base, c"tmpfs".as_ptr(), flags, c"size=1m,mode=755".as_ptr())?;
        // SAFETY: the path is a C string.
        check(Step::Root, unsafe { libc::chdir(self.base.as_ptr()) })?;
        // SAFETY: the path is a C string.
        check(Step::Root, unsafe { libc::mkdir(c"old".as_ptr(), 0o700) })?;
        // SAFETY: both paths are C strings.
        check_long(Step::Pivot, unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c"old".as_ptr()) })?;
        // SAFETY: the path is a C string.
        check(Step::Pivot, unsafe { libc::chdir(c"/".as_ptr()) })?;
        for folder in &self.folders {
            // SAFETY: the path is a C string.
            check(Step::Folders, unsafe { libc::mkdir(folder.as_ptr(), 0o755) })?;
        }
        for file in &self.files {
            // SAFETY: the path is a C string.
            let made = unsafe { libc::open(file.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o444) };
            check(Step::Folders, made)?;
            // SAFETY: we opened it, and nobody else knows it.
            unsafe { libc::close(made) };
        }
        for (says, place) in &self.links {
            // SAFETY: both paths are C strings.
            check(Step::Folders, unsafe { libc::symlink(says.as_ptr(), place.as_ptr()) })?;
        }
        for Bind { from, to, device } in &self.binds {
            mount(Step::Binds, from, to, unset, libc::MS_BIND | libc::MS_REC, unset)?;
            let devices = if *device { libc::MOUNT_ATTR_NOEXEC } else { libc::MOUNT_ATTR_NODEV };
            set_attributes(Step::Binds, to, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | devices, true)?;
        }
        // The interpreter writes maps for its children here. They close it before they read a byte.
        // SAFETY: the path is a C string.
        let proc_fd = unsafe { libc::open(c"/old/proc".as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        check(Step::Descriptors, proc_fd)?;
        // SAFETY: the path is a C string.
        let null_fd = unsafe { libc::open(c"/old/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        check(Step::Descriptors, null_fd)?;
        // SAFETY: the path is a C string.
        check(Step::Detach, unsafe { libc::umount2(c"/old".as_ptr(), libc::MNT_DETACH) })?;
        // SAFETY: the path is a C string.
        check(Step::Detach, unsafe { libc::rmdir(c"/old".as_ptr()) })?;
        let closed = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        set_attributes(Step::ReadOnly, c"/", closed | libc::MOUNT_ATTR_NOEXEC, false)?;
        Ok((proc_fd, null_fd))
    }

    /// Gives the wanted descriptors their numbers and closes every other one.
    fn number_descriptors(&self, status: RawFd, proc_fd: RawFd, null_fd: RawFd) -> Result<(), (Step, c_int)> {
        let ruleset = self.ruleset.as_ref().map_or(null_fd, AsRawFd::as_raw_fd);
        let wanted = [null_fd, null_fd, self.stderr.as_raw_fd(), self.control.as_raw_fd(), proc_fd, ruleset, status];
        let mut parked = [-1; 7];
        for (place, fd) in parked.iter_mut().zip(wanted) {
            // SAFETY: plain system call on our own descriptor.
            *place = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, PARKED_FD) };
            check(Step::Descriptors, *place)?;
        }
        for (number, fd) in (0..).zip(parked) {
            let flags = if number == STATUS_FD { libc::O_CLOEXEC } else { 0 };
            // SAFETY: plain system call; whatever had the number is not used any more.
            check(Step::Descriptors, unsafe { libc::dup3(fd, number, flags) })?;
        }
        let first = STATUS_FD as c_uint + 1;
        // SAFETY: plain system call; nothing above is used any more.
        check_long(Step::Descriptors, unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) })
    }

    /// The second child becomes the interpreter; the first reports its process id and ends.
    fn replace(&self, arguments: &[*const c_char], environment: &[*const c_char]) -> Result<(), (Step, c_int)> {
        let flags = libc::CLONE_PARENT | libc::SIGCHLD;
        // A child of our parent, not of ours: so the parent learns of its end, and we can go.
        // SAFETY: without CLONE_VM this is a fork; the child makes system calls only, and then executes.
        let pid = unsafe { libc::syscall(libc::SYS_clone, c_long::from(flags), 0, 0, 0, 0) };
        check_long(Step::Pid, pid)?;
        if pid > 0 {
            report(STATUS_FD, STARTED, 0, u32::try_from(pid).unwrap_or(0));
            // SAFETY: `_exit` ends the process without running anything of ours.
            unsafe { libc::_exit(0) }
        }
        let killed = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
        // SAFETY: plain system call.
        let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, killed, 0, 0, 0) };
        let done = check(Step::Pid, asked).and_then(|()| {
            // SAFETY: plain system call.
            check(Step::Pid, unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
        });
        let failed = if let Err(failed) = done {
            failed
        } else {
            // SAFETY: the path is a C string, both lists end with a null pointer and live until then.
            unsafe { libc::execve(self.program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            (Step::Execute, errno())
        };
        report(STATUS_FD, failed.0 as u32, failed.1, 0);
        // SAFETY: `_exit` ends the process without running anything of ours.
        unsafe { libc::_exit(127) }
    }

    /// The runtime blocks and ignores signals for itself; the interpreter begins with none of that.
    #[expect(clippy::unused_self, reason = "it is a part of entering")]
    fn unblock_signals(&self) {
        // SAFETY: an all-zero set is a valid value to be overwritten.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is ours.
        unsafe { libc::sigemptyset(&raw mut none) };
        // SAFETY: the set is initialised, and the old one is not asked for.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) };
        // SAFETY: the default action needs no handler of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

/// The list that `execve` takes; it borrows the strings.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn errno() -> c_int {
    // `last_os_error` reads `errno` and does not allocate.
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn check(step: Step, returned: c_int) -> Result<(), (Step, c_int)> {
    if returned < 0 { Err((step, errno())) } else { Ok(()) }
}

fn check_long(step: Step, returned: c_long) -> Result<(), (Step, c_int)> {
    if returned < 0 { Err((step, errno())) } else { Ok(()) }
}

fn report(status: RawFd, step: u32, error: c_int, pid: u32) {
    let mut bytes = [0_u8; REPORT_BYTES];
    let (first, rest) = bytes.split_at_mut(4);
    let (second, third) = rest.split_at_mut(4);
    first.copy_from_slice(&step.to_le_bytes());
    second.copy_from_slice(&error.to_le_bytes());
    third.copy_from_slice(&pid.to_le_bytes());
    // SAFETY: the buffer is valid for its length.
    unsafe { libc::write(status, bytes.as_ptr().cast::<c_void>(), REPORT_BYTES) };
}

fn write_file(step: Step, path: &CStr, text: &CStr) -> Result<(), (Step, c_int)> {
    // SAFETY: the path is a C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    check(step, file)?;
    let bytes = text.to_bytes();
    // SAFETY: the buffer is valid for its length.
    let written = unsafe { libc::write(file, bytes.as_ptr().cast::<c_void>(), bytes.len()) };
    let failed = if written < 0 { Err((step, errno())) } else { Ok(()) };
    // SAFETY: we opened it, and nobody else knows it.
    unsafe { libc::close(file) };
    failed
}

fn mount(
    step: Step,
    from: &CStr,
    to: &CStr,
    kind: *const c_char,
    flags: libc::c_ulong,
    data: *const c_char,
) -> Result<(), (Step, c_int)> {
    // SAFETY: the strings are C strings or, where the kernel allows it, null.
    check(step, unsafe { libc::mount(from.as_ptr(), to.as_ptr(), kind, flags, data.cast::<c_void>()) })
}

/// Adds attributes to a mount. Nothing is taken away, which the kernel would refuse anyway.
fn set_attributes(step: Step, path: &CStr, set: u64, below: bool) -> Result<(), (Step, c_int)> {
    let wanted = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: path and attributes are valid, and the size is that of the attributes.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const wanted,
            size_of::<libc::mount_attr>(),
        )
    };
    check_long(step, returned)
}

/// Reaps a child of ours that ends by itself.
fn wait_for(pid: libc::pid_t) {
    loop {
        // SAFETY: the status is not asked for.
        let waited = unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        if waited >= 0 || errno() != libc::EINTR {
            return;
        }
    }
}
