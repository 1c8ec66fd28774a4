//! Stamps: a step whose inputs are byte for byte those of its last success, and whose outputs are still there, is
//! passed over. Contents are compared and not times: a fresh checkout or a `touch` builds nothing anew.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{files, paths};

/// One step of a build and what it depends on.
///
/// The hash is the standard library's. Another Rust release may change it: the cost is one build, nothing more.
pub struct Step {
    file: PathBuf,
    hash: DefaultHasher,
    outputs: Vec<PathBuf>,
}

impl Step {
    /// A step of this name; the name is the stamp's file name.
    pub fn new(name: &str) -> Self {
        Self::kept_in(&paths::at("target/stamps"), name)
    }

    fn kept_in(folder: &Path, name: &str) -> Self {
        Self { file: folder.join(name), hash: DefaultHasher::new(), outputs: Vec::new() }
    }

    /// Depends on this text: a version, a list of flags.
    pub fn text(mut self, text: &str) -> Self {
        text.hash(&mut self.hash);
        self
    }

    /// Depends on the files at or below `path`: their names and contents. One that is missing counts as missing.
    pub fn input(mut self, path: &Path) -> Result<Self> {
        for file in files::below(path)? {
            file.strip_prefix(path).unwrap_or(&file).hash(&mut self.hash);
            fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut self.hash);
        }
        // Marks where one input ends: a file that moves from one folder to the next is a change.
        "end".hash(&mut self.hash);
        Ok(self)
    }

    /// Makes this file or folder.
    pub fn output(mut self, path: &Path) -> Self {
        self.outputs.push(path.to_path_buf());
        self
    }

    /// Does the work unless nothing changed since it last succeeded. A failure leaves no stamp.
    pub fn run(self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let now = format!("{:016x}", self.hash.finish());
        if self.outputs.iter().all(|path| path.exists()) && fs::read_to_string(&self.file).is_ok_and(|old| old == now) {
            return Ok(());
        }
        // Taken away first: work that is stopped half-way must not look done.
        if self.file.exists() {
            fs::remove_file(&self.file).with_context(|| format!("cannot remove {}", self.file.display()))?;
        }
        work()?;
        files::write(&self.file, &now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the step over `folder` and tells whether it did its work.
    fn ran(folder: &Path, version: &str) -> bool {
        let mut ran = false;
        let out = folder.join("out");
        Step::kept_in(folder, "stamp")
            .text(version)
            .input(&folder.join("in"))
            .unwrap()
            .output(&out)
            .run(|| {
                ran = true;
                files::write(&out, "made")
            })
            .unwrap();
        ran
    }

    fn scratch(name: &str) -> PathBuf {
        let folder = paths::at("target/xtask-tests").join(format!("{name}-{}", std::process::id()));
        files::fresh_dir(&folder).unwrap();
        files::write(&folder.join("in/a"), "1").unwrap();
        folder
    }

    #[test]
    fn works_once_and_again_only_when_an_input_or_an_output_changed() {
        let folder = scratch("stamp");
        assert!(ran(&folder, "1"));
        assert!(!ran(&folder, "1"), "nothing changed");
        assert!(ran(&folder, "2"), "another version");
        files::write(&folder.join("in/a"), "2").unwrap();
        assert!(ran(&folder, "2"), "another content");
        fs::rename(folder.join("in/a"), folder.join("in/b")).unwrap();
        assert!(ran(&folder, "2"), "another name");
        fs::remove_file(folder.join("out")).unwrap();
        assert!(ran(&folder, "2"), "the output is gone");
        assert!(!ran(&folder, "2"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failure_leaves_no_stamp() {
        let folder = scratch("stamp-failure");
        assert!(ran(&folder, "1"));
        files::write(&folder.join("in/a"), "2").unwrap();
        let failing = Step::kept_in(&folder, "stamp").text("1").input(&folder.join("in")).unwrap();
        assert!(failing.run(|| anyhow::bail!("no")).is_err());
        assert!(ran(&folder, "1"));
        fs::remove_dir_all(folder).unwrap();
    }
}
