//! Debian packages, for root on Debian only: nobody's own machine is changed through sudo.

use std::sync::Once;

use anyhow::{Context, Result, bail};

use crate::util::machine;
use crate::util::sh::{Cmd, say};

/// Installs packages, or fails with a message that names them.
pub fn install(packages: &[&str], what_for: &str) -> Result<()> {
    let list = packages.join(" ");
    if !machine::can_apt() {
        bail!("{what_for}: not found, and xtask installs packages only as root on Debian; please install {list}");
    }
    say(format!("installing {list} with apt ({what_for})"));
    update_once();
    apt(&["install", "-y", "--no-install-recommends"])
        .args(packages)
        .quiet()
        .with_context(|| format!("could not install {list}"))
}

/// Brings the package lists up to date once per run. A failure is not the end: old lists may still do, and if they
/// do not, the install names what is missing.
fn update_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = apt(&["update"]).quiet() {
            say(format!("apt-get update failed, going on with the lists there are: {error:#}"));
        }
    });
}

/// apt-get without questions; it waits for another apt instead of failing.
fn apt(args: &[&str]) -> Cmd {
    Cmd::new("apt-get")
        .args(["-q", "-o", "DPkg::Lock::Timeout=600"])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
}
