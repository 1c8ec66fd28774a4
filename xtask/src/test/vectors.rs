//! The vectors: each file in `tests/vectors/` by its own command, and the copy of them that may lie beside the work
//! tree, which is the original: where the two differ, ours is out of date.

use std::path::Path;

use anyhow::{Result, bail};

use super::Summary;
use crate::util::files;
use crate::util::paths::{self, at};
use crate::util::sh::{Cmd, cargo};

const KINDS: [&str; 3] = ["digest", "answers", "scenarios"];

pub fn run(summary: &mut Summary) -> Result<()> {
    cargo(&["build", "--quiet", "--package", "patchkeep-rules", "--bin", "vectors"]).run()?;
    let mut failed = Vec::new();
    for kind in KINDS {
        let file = at("tests/vectors").join(format!("{kind}.json"));
        println!("vectors {kind} {}", paths::short(&file));
        let command = Cmd::new(paths::native_binary("vectors")).arg(kind).arg(&file);
        if !command.tee(|line| summary.see(line))?.success() {
            failed.push(kind);
        }
    }
    for difference in differences(&at("tests/vectors"), &at("../shared/vectors"))? {
        summary.fail(format!("vectors: {difference}"));
        failed.push("copy");
    }
    if !failed.is_empty() {
        bail!("vectors failed: {}", failed.join(" "));
    }
    Ok(())
}

/// What our copy lacks or has otherwise than the original; nothing where there is no original.
fn differences(ours: &Path, original: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in files::below(original)?.iter().filter(|file| file.extension().is_some_and(|kind| kind == "json")) {
        let Some(name) = file.file_name() else { continue };
        let copy = ours.join(name);
        if !copy.exists() {
            found.push(format!("{} is missing", paths::short(&copy)));
        } else if files::read(&copy)? != files::read(file)? {
            found.push(format!("{} is not what the original says", paths::short(&copy)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_missing_or_differs_is_named() {
        let scratch = at("target/xtask-tests").join(format!("vectors-{}", std::process::id()));
        files::fresh_dir(&scratch).unwrap();
        let (ours, original) = (scratch.join("ours"), scratch.join("original"));
        assert!(differences(&ours, &original).unwrap().is_empty(), "no original, nothing to compare");
        for name in ["same.json", "other.json", "missing.json", "README.md"] {
            files::write(&original.join(name), name).unwrap();
        }
        files::write(&ours.join("same.json"), "same.json").unwrap();
        files::write(&ours.join("other.json"), "changed").unwrap();
        let found = differences(&ours, &original).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("missing.json is missing") && found[1].contains("other.json is not"));
        std::fs::remove_dir_all(scratch).unwrap();
    }
}
