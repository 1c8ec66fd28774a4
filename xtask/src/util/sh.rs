//! Child processes: started loudly, quietly or for their output, with the same clean environment each time.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// One line to the person: what is being done. Everything of xtask's own goes to stderr, results to stdout.
pub fn say(text: impl AsRef<str>) {
    eprintln!("xtask: {}", text.as_ref());
}

/// A command to be run. A thin cover of [`std::process::Command`] that fails with the whole command line.
pub struct Cmd {
    command: Command,
    line: String,
}

impl Cmd {
    /// A command without arguments, in the environment xtask was started in (see [`inherited_noise`]).
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        for name in inherited_noise() {
            command.env_remove(name);
        }
        let line = Path::new(program).file_stem().unwrap_or(program).to_string_lossy().into_owned();
        Self { command, line }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line.push(' ');
        self.line.push_str(&arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    /// Adds several arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        for arg in args {
            self = self.arg(arg);
        }
        self
    }

    /// Sets a variable. Its value never shows in a message.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets several variables.
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, all: impl IntoIterator<Item = (N, V)>) -> Self {
        self.command.envs(all);
        self
    }

    /// The folder to run in; the caller's own unless set.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Runs it on the terminal; an error if it fails.
    pub fn run(self) -> Result<()> {
        let line = self.line.clone();
        check(&line, self.status()?)
    }

    /// Runs it on the terminal and gives back how it ended.
    pub fn status(mut self) -> Result<ExitStatus> {
        self.command.status().with_context(|| format!("cannot start `{}`", self.line))
    }

    /// Runs it silently; what it printed is shown only if it fails.
    pub fn quiet(self) -> Result<()> {
        self.capture().map(drop)
    }

    /// Runs it silently and gives back its standard output; on failure everything it printed is in the error.
    pub fn output(self) -> Result<String> {
        let bytes = self.capture()?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn capture(mut self) -> Result<Vec<u8>> {
        self.command.stdin(Stdio::null());
        let done = self.command.output().with_context(|| format!("cannot start `{}`", self.line))?;
        if !done.status.success() {
            let text = [done.stdout, done.stderr].concat();
            bail!("`{}` failed ({})\n{}", self.line, done.status, String::from_utf8_lossy(&text).trim_end());
        }
        Ok(done.stdout)
    }

    /// Runs it and shows all it prints as it comes, giving each line to `seen` as well; gives back how it ended.
    /// Both streams end up on stdout, in the order they arrive, as a log wants them.
    pub fn tee(mut self, mut seen: impl FnMut(&str)) -> Result<ExitStatus> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        self.command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = self.command.spawn().with_context(|| format!("cannot start `{}`", self.line))?;
        // The command holds the pipe's other writing end: it must go, or the reader never sees the end.
        drop(self.command);
        let mut lines = BufReader::new(reader);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            std::io::stdout().write_all(&line)?;
            seen(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
        Ok(child.wait()?)
    }

    /// Starts it with a pipe on its standard output and leaves it running.
    pub fn spawn(mut self) -> Result<Child> {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped());
        self.command.spawn().with_context(|| format!("cannot start `{}`", self.line))
    }
}

/// An error unless the child succeeded.
pub fn check(line: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// A cargo call for native code, in the root of the work tree.
pub fn cargo(args: &[&str]) -> Cmd {
    Cmd::new("cargo").args(args).dir(super::paths::root())
}

/// What `cargo run` added to the environment of xtask and no child should see: with them a nested cargo would take
/// its own build for changed, and another toolchain's rustc would load this one's libraries.
fn inherited_noise() -> impl Iterator<Item = OsString> {
    let under_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    std::env::vars_os().map(|(name, _)| name).filter(move |name| under_cargo && is_noise(&name.to_string_lossy()))
}

fn is_noise(name: &str) -> bool {
    matches!(name, "CARGO" | "LD_LIBRARY_PATH" | "DYLD_FALLBACK_LIBRARY_PATH" | "OUT_DIR")
        || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_run_adds_is_taken_away_and_what_a_person_set_is_kept() {
        assert!(is_noise("CARGO_PKG_NAME") && is_noise("CARGO_MANIFEST_DIR") && is_noise("CARGO"));
        assert!(!is_noise("CARGO_TARGET_DIR") && !is_noise("CARGO_HOME") && !is_noise("RUSTUP_TOOLCHAIN"));
    }

    #[cfg(unix)]
    #[test]
    fn tee_passes_both_streams_on_and_gives_back_the_exit_code() {
        let mut lines = Vec::new();
        let script = "echo one; echo two >&2; printf three; exit 7";
        let status = Cmd::new("sh").args(["-c", script]).tee(|line| lines.push(line.to_owned())).unwrap();
        lines.sort();
        assert_eq!((status.code(), lines.join(" ").as_str()), (Some(7), "one three two"));
    }

    #[cfg(unix)]
    #[test]
    fn a_quiet_command_that_fails_says_all_it_printed() {
        let error = Cmd::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).quiet().unwrap_err().to_string();
        assert!(error.contains("out\nerr") && error.contains("exit status: 3"), "{error}");
    }
}
