//! One build at a time: two commands that run at once must not replace each other's files half-way.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::paths;
use super::sh::say;

/// Held until dropped, or until the process ends in whatever way: the system lets go of it.
pub struct Lock(#[expect(dead_code, reason = "closing the file is what unlocks it")] File);

impl Lock {
    /// Takes the lock of this name, and waits for whoever has it.
    pub fn take(name: &str) -> Result<Self> {
        if let Some(lock) = Self::try_take(name)? {
            return Ok(lock);
        }
        say(format!("waiting for another xtask to finish its {name}"));
        let file = open(name)?;
        file.lock().with_context(|| format!("cannot lock {}", path(name).display()))?;
        Ok(Self(file))
    }

    /// Takes the lock of this name, or nothing if somebody has it.
    pub fn try_take(name: &str) -> Result<Option<Self>> {
        let file = open(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path(name).display()))
            }
        }
    }
}

fn open(name: &str) -> Result<File> {
    std::fs::create_dir_all(paths::at("target")).context("cannot make target/")?;
    let open = OpenOptions::new().create(true).append(true).open(path(name));
    open.with_context(|| format!("cannot open {}", path(name).display()))
}

fn path(name: &str) -> PathBuf {
    paths::at("target").join(format!("xtask-{name}.lock"))
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn one_has_it_until_it_is_dropped() {
        let name = format!("test-{}", std::process::id());
        let first = Lock::try_take(&name).unwrap();
        assert!(first.is_some() && Lock::try_take(&name).unwrap().is_none());
        drop(first);
        assert!(Lock::try_take(&name).unwrap().is_some());
        std::fs::remove_file(super::path(&name)).unwrap();
    }
}
