//! Processes below another, as Linux tells of them: browsers are killed, renderers are found.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process and what it was started with.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// Its command line.
    pub line: String,
}

/// Every process that descends from this one, parents first.
pub fn below(ancestor: u32) -> Vec<Process> {
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((id, parent(id)?))
        })
        .collect();
    let mut found = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for (id, _) in all.iter().filter(|(_, of)| *of == parent) {
            parents.push(*id);
            // One that ended meanwhile has no command line any more.
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            found.push(Process { id: *id, line: String::from_utf8_lossy(&line).replace('\0', " ") });
        }
    }
    found
}

/// Kills every process that descends from this one, so that none can clean up.
pub fn kill_below(ancestor: u32) {
    for process in below(ancestor) {
        kill(process.id);
    }
}

/// Kills a process. One that is gone already stays gone.
pub fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, Signal::KILL);
    }
}

fn parent(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name stands in parentheses and may hold anything: state and parent follow the last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
