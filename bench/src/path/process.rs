//! What the kernel says of a process: its CPU time, that of its threads by name, and its memory.

use std::collections::BTreeMap;
use std::time::Duration;

/// CPU time of a process, threads that have ended included, to the hundredth of a second.
pub fn cpu_time(process: u32) -> Duration {
    let text = read(process, "stat");
    // The name, in parentheses, may hold anything; what follows is words.
    let words: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks: u64 = words.iter().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

/// CPU time of the threads that live, by their names.
pub fn cpu_by_thread(process: u32) -> BTreeMap<String, Duration> {
    let mut sums = BTreeMap::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return sums };
    for thread in threads.flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let times = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let nanos = times.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        *sums.entry(name.trim().to_owned()).or_default() += Duration::from_nanos(nanos);
    }
    sums
}

/// A line of `/proc/PROCESS/status`, in megabytes: `VmRSS`, or `VmHWM` for the most there was.
pub fn memory(process: u32, line: &str) -> f64 {
    let text = read(process, "status");
    let found = text.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let kib: f64 = found.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    kib * 1024.0 / 1e6
}

/// The load of the machine over the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn read(process: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}
