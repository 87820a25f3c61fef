//! Confinement of a process that parses untrusted files.
//!
//! Parsers of diagrams, source code and documents run in child processes, because a bug in one of them must not reach
//! the server. After [`confine`] such a process can compute, allocate memory, and use the files that are already open:
//! its standard input and output.

use std::io;

/// Restricts all threads of this process, for ever, to system calls that touch nothing outside of it. Other calls
/// fail with `EPERM`: opening files and sockets, starting programs and threads, signals to other processes.
///
/// Uses seccomp on Linux on `x86_64` and `aarch64`. Does nothing on other systems.
pub fn confine() -> io::Result<()> {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    linux::confine().map_err(io::Error::other)?;
    Ok(())
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux {
    use std::collections::BTreeMap;

    use seccompiler::SeccompCmpArgLen::{Dword, Qword};
    use seccompiler::{
        BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
    };

    /// Calls that need no argument check. A list of what is allowed, so that calls of future kernels, and calls in
    /// the numbering of another ABI, are rejected.
    const ALLOWED: &[i64] = &[
        // Open files: standard input and output.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_lseek,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        libc::SYS_ppoll,
        // Memory.
        libc::SYS_brk,
        libc::SYS_madvise,
        libc::SYS_mmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_munmap,
        // Threads that exist already.
        libc::SYS_futex,
        libc::SYS_membarrier,
        libc::SYS_rseq,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_set_robust_list,
        // Signals: panics, stack overflows and the end of the process.
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        // Time, identity, random numbers.
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_getpid,
        libc::SYS_getrandom,
        libc::SYS_getrusage,
        libc::SYS_gettid,
        libc::SYS_nanosleep,
    ];

    pub(super) fn confine() -> Result<(), Error> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
        // Limits and signals of this process only.
        rules.insert(libc::SYS_prlimit64, vec![if_first_argument_is(0, Qword)?]);
        let pid = u64::from(std::process::id());
        rules.insert(libc::SYS_tgkill, vec![if_first_argument_is(pid, Dword)?]);
        let (reject, allow) =
            (SeccompAction::Errno(libc::EPERM.unsigned_abs()), SeccompAction::Allow);
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?;
        let filter = SeccompFilter::new(rules, reject, allow, arch).map_err(Error::Backend)?;
        let program = BpfProgram::try_from(filter).map_err(Error::Backend)?;
        apply_filter_all_threads(&program)
    }

    fn if_first_argument_is(value: u64, size: SeccompCmpArgLen) -> Result<SeccompRule, Error> {
        let condition = SeccompCondition::new(0, size, SeccompCmpOp::Eq, value);
        let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
        rule.map_err(Error::Backend)
    }
}
