//! PostgreSQL's programs, for the tests that run the server's suite on it: they start a cluster of their own, so only
//! the programs are wanted and no server that runs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Finding, Found, apt};
use crate::util::machine::{can_apt, on_path};

const PACKAGE: &str = "postgresql";

/// Where Debian keeps them: by version, and not on PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Makes sure of `initdb` and what lies beside it.
pub fn ensure() -> Result<()> {
    if initdb().is_none() {
        apt::install(&[PACKAGE], "PostgreSQL for the server's tests")?;
        if initdb().is_none() {
            bail!("apt installed {PACKAGE}, and yet there is no initdb");
        }
    }
    Ok(())
}

fn initdb() -> Option<PathBuf> {
    let versions = Path::new(DEBIAN).read_dir().into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin/initdb")).collect();
    found.retain(|program| program.exists());
    found.sort();
    found.pop().or_else(|| on_path(&["initdb"]))
}

/// For `doctor`.
pub fn finding() -> Finding {
    let how = if can_apt() { "apt-get install" } else { "install" };
    let found = initdb().as_deref().and_then(Found::asked);
    Finding { tool: "postgresql", found, remedy: format!("{how} {PACKAGE} (for `test` only)") }
}
