//! The system calls that untrusted code may make: what an interpreter needs to compute and to use its scratch folder.
//!
//! There are two steps, because a long filter takes the kernel a while to take in: the prepared interpreter is behind the
//! long list already, with what it needs to fork an instance; an instance gives that up too, by a short one.
//! Everything else fails with "operation not permitted": sockets, new processes, other programs, mounts, tracing, new
//! namespaces, shared memory, and everything the kernel will learn after this was written.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::error::SandboxError;

/// Calls that are allowed whatever their arguments.
const PLAIN: &[libc::c_long] = &[
    // Files that are open.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    // Files by name: what there is to name, the mounts and Landlock decide.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    libc::SYS_umask,
    // Memory; `mmap` and `mprotect` have conditions.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads; `clone` has a condition.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_restart_syscall,
    // Signals to oneself; `kill` and its kin have conditions.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sigaltstack,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
    // Time and waiting.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    // Who am I.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_uname,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_getrandom,
];

/// What the interpreter needs to make an instance and to hear of its end, and an instance to put up its barriers. An
/// instance keeps none of it.
const MAKING: &[libc::c_long] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_setsid,
    libc::SYS_mount,
    libc::SYS_capset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_pidfd_open,
    libc::SYS_wait4,
];

/// What the older calls of this processor do as well, and its C library still uses.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// The first process of its namespace is always this, seen from inside: so "to oneself" can be said in a filter.
const SELF: u64 = 1;

fn is(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value)
}

fn any_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.iter().map(|value| SeccompRule::new(vec![is(argument, *value)?])).collect()
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}

fn word(number: libc::c_int) -> u64 {
    u64::from(number.unsigned_abs())
}

/// What an instance gives up: all of [`MAKING`], new processes and namespaces, and all but its name of `prctl`.
fn given_up() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut clone = Vec::new();
    for flag in [libc::CLONE_THREAD, libc::CLONE_VM, libc::CLONE_SIGHAND] {
        clone.extend(masked(0, word(flag), 0)?);
    }
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ] {
        clone.extend(masked(0, word(flag), word(flag))?);
    }
    let other = |value| SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, word(value));
    let names = SeccompRule::new(vec![other(libc::PR_SET_NAME)?, other(libc::PR_GET_NAME)?])?;
    let mut given_up: BTreeMap<i64, Vec<SeccompRule>> = MAKING.iter().map(|number| (*number, Vec::new())).collect();
    given_up.extend([(libc::SYS_clone, clone), (libc::SYS_prctl, vec![names])]);
    Ok(given_up)
}

/// Calls that are allowed with some arguments only.
fn conditional() -> Result<Vec<(libc::c_long, Vec<SeccompRule>)>, seccompiler::BackendError> {
    // No new native code: whatever can execute was mapped before.
    let executable = word(libc::PROT_EXEC);
    let files = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_OFD_GETLK,
        libc::F_OFD_SETLK,
        libc::F_OFD_SETLKW,
    ]
    .map(word);
    let terminal = [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO];
    Ok(vec![
        (libc::SYS_mmap, masked(2, executable, 0)?),
        (libc::SYS_mprotect, masked(2, executable, 0)?),
        (libc::SYS_kill, any_of(0, &[SELF])?),
        (libc::SYS_tgkill, any_of(0, &[SELF])?),
        (libc::SYS_fcntl, any_of(1, &files)?),
        (libc::SYS_ioctl, any_of(1, &terminal)?),
        // Lowering one's own limits; raising them needs a right that nobody has here.
        (libc::SYS_prlimit64, any_of(0, &[0])?),
    ])
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let here = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, matched, here)?.try_into()
}

/// The filters: of the interpreter, in the order in which it installs them, and of an instance.
pub struct Programs {
    pub interpreter: Vec<BpfProgram>,
    pub instance: BpfProgram,
}

pub fn programs() -> Result<Programs, SandboxError> {
    let made = || -> Result<Programs, seccompiler::BackendError> {
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
            PLAIN.iter().chain(OLDER).chain(MAKING).map(|number| (*number, Vec::new())).collect();
        allowed.extend(conditional()?);
        // Both are narrowed by the instance.
        allowed.extend([(libc::SYS_clone, Vec::new()), (libc::SYS_prctl, Vec::new())]);
        // The C library tries `clone3` first, whose flags no filter can read, and goes on only if it does not exist.
        // That takes a filter of its own: the stricter of two answers counts.
        allowed.insert(libc::SYS_clone3, Vec::new());
        let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let newer = compile(newer, SeccompAction::Allow, unknown)?;
        let allowed = compile(allowed, refused.clone(), SeccompAction::Allow)?;
        let instance = compile(given_up()?, SeccompAction::Allow, refused)?;
        Ok(Programs { interpreter: vec![newer, allowed], instance })
    };
    made().map_err(|error| SandboxError::Start { why: format!("no filter for system calls: {error}") })
}

/// The bytes of a program as the kernel reads them.
pub fn bytes(program: &BpfProgram) -> Vec<u8> {
    program
        .iter()
        .flat_map(|instruction| {
            let [code0, code1] = instruction.code.to_ne_bytes();
            let [k0, k1, k2, k3] = instruction.k.to_ne_bytes();
            [code0, code1, instruction.jt, instruction.jf, k0, k1, k2, k3]
        })
        .collect()
}
