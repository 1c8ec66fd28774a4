//! One file per tool: how it is found, how it is installed where it is missing, how it is called.

pub mod apt;
pub mod bindgen;
pub mod browser;
pub mod debian_std;
pub mod engines;
pub mod nextest;
pub mod node;
pub mod postgres;
pub mod rust;
pub mod wasm_opt;
pub mod wasm_target;

use std::path::Path;

/// What `doctor` says about one tool.
pub struct Finding {
    /// The tool.
    pub tool: &'static str,
    /// Its version and place, if it is here and good enough.
    pub found: Option<Found>,
    /// What xtask would do to get it, or what the person has to.
    pub remedy: String,
}

/// A tool that is here.
pub struct Found {
    /// As the tool says it, shortened to one line.
    pub version: String,
    /// Where it lies.
    pub place: String,
}

impl Found {
    /// A tool at this place that names its version when called with `--version`; nothing if it cannot be started.
    pub fn asked(program: &Path) -> Option<Self> {
        let said = crate::util::sh::Cmd::new(program).arg("--version").output().ok()?;
        Some(Self { version: version_in(&said)?, place: program.display().to_string() })
    }
}

/// The first word of a tool's answer that looks like a version: begins with a digit, perhaps after a `v`, and has a dot.
pub fn version_in(said: &str) -> Option<String> {
    said.split_whitespace()
        .map(|word| word.trim_start_matches('v').trim_end_matches([',', ')']))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn a_version_is_found_in_what_tools_answer() {
        let cases = [
            ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", Some("1.95.0")),
            ("v20.20.2\n", Some("20.20.2")),
            ("Chromium 156.0.8078.114 built on Debian 12", Some("156.0.8078.114")),
            ("wasm-opt version 132 (version_132)", None),
            ("release: 0.9.143\ncommit-hash: 60fa", Some("0.9.143")),
            ("", None),
        ];
        for (said, version) in cases {
            assert_eq!(version_in(said).as_deref(), version, "{said}");
        }
    }
}
