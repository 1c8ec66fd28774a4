//! One build at a time: two commands that run at once must not replace each other's files half-way.

use std::fs::{File, OpenOptions, TryLockError};

use anyhow::{Context, Result};

use super::paths;
use super::sh::say;

/// Held until dropped, or until the process ends in whatever way: the system lets go of it.
pub struct Lock(#[expect(dead_code, reason = "closing the file is what unlocks it")] File);

impl Lock {
    /// Takes the lock of this name, and waits for whoever has it.
    pub fn take(name: &str) -> Result<Self> {
        let path = paths::at("target").join(format!("xtask-{name}.lock"));
        std::fs::create_dir_all(paths::at("target")).context("cannot make target/")?;
        let open = OpenOptions::new().create(true).append(true).open(&path);
        let file = open.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                say(format!("waiting for another xtask to finish its {name}"));
                file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(Self(file))
    }
}
