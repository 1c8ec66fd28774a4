//! `agent -- ARGS`, `vectors ARGS`, `journal ARGS`, `simulate ARGS`: our own binaries, called as if they were typed directly. Arguments, the caller's
//! folder, output and exit code pass through unchanged.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::demo;
use crate::util::machine::var;
use crate::util::paths;
use crate::util::sh::{Cmd, cargo};

/// Runs the command line client against the demo server, unless variables or flags name another.
pub fn agent(args: &[OsString]) -> Result<ExitCode> {
    cargo(&["build", "--quiet", "--package", "patchkeep-server"]).run()?;
    let mut cmd = Cmd::new(paths::native_binary("patchkeep-agent")).args(args);
    let says = |flag: &str| args.iter().any(|arg| arg.to_string_lossy().starts_with(flag));
    let elsewhere = var("PATCHKEEP_SERVER").is_some() || says("--server");
    // A token is never sent to a server it was not made for: the two of the demo go together or not at all.
    if !elsewhere && !says("--help") && !args.is_empty() {
        let (server, token) = demo::for_agent().context("no demo server is running; `cargo xtask demo` starts one")?;
        cmd = cmd.env("PATCHKEEP_SERVER", server);
        if var("PATCHKEEP_TOKEN").is_none() {
            cmd = cmd.env("PATCHKEEP_TOKEN", token);
        }
    }
    pass_on(cmd)
}

/// Runs a file of cases through the core.
pub fn vectors(args: &[OsString]) -> Result<ExitCode> {
    cargo(&["build", "--quiet", "--package", "patchkeep-rules", "--bin", "vectors"]).run()?;
    pass_on(Cmd::new(paths::native_binary("vectors")).args(args))
}

/// Looks at an exported journal.
pub fn journal(args: &[OsString]) -> Result<ExitCode> {
    cargo(&["build", "--quiet", "--package", "patchkeep-rules", "--bin", "journal"]).run()?;
    pass_on(Cmd::new(paths::native_binary("journal")).args(args))
}

/// Runs the simulator. Its dev build is quick to make and fast enough to try a thousand seeds in seconds.
pub fn simulate(args: &[OsString]) -> Result<ExitCode> {
    cargo(&["build", "--quiet", "--package", "patchkeep-sim"]).run()?;
    pass_on(Cmd::new(paths::native_binary("patchkeep-sim")).args(args))
}

fn pass_on(cmd: Cmd) -> Result<ExitCode> {
    let code = cmd.status()?.code().context("it was ended by a signal")?;
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}
