//! The matrix of end-to-end cases and engines: each test leaves its cell as a file, and the table is made of them.
//!
//! A cell's file is named `case.engine`. It says `running` while the test runs, so that one that fails, hangs or kills
//! its process shows as failed; then `passed`, or `lacks` and the evidence that the engine has no such thing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::util::files;
use crate::util::paths::at;
use crate::util::sh::Cmd;

/// Where the tests leave their cells.
const FOLDER_VAR: &str = "PATCHKEEP_MATRIX";

/// In the order of the columns.
const ENGINES: [&str; 3] = ["chromium", "firefox", "webkit"];

/// The folder of one run.
pub struct Cells(PathBuf);

impl Cells {
    /// An empty folder.
    pub fn fresh() -> Result<Self> {
        let folder = at("target/e2e-matrix");
        files::fresh_dir(&folder)?;
        Ok(Self(folder))
    }

    /// Tells a command where to leave cells.
    pub fn tell(&self, cmd: Cmd) -> Cmd {
        cmd.env(FOLDER_VAR, &self.0)
    }

    /// The table, and below it what each `lacks` rests on.
    pub fn table(&self) -> Result<String> {
        let mut cells = BTreeMap::new();
        for entry in fs::read_dir(&self.0).with_context(|| format!("cannot list {}", self.0.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some((case, engine)) = name.rsplit_once('.') {
                cells.insert((case.to_owned(), engine.to_owned()), fs::read_to_string(&path)?);
            }
        }
        Ok(table(&cells))
    }
}

fn table(cells: &BTreeMap<(String, String), String>) -> String {
    let cases: BTreeSet<&str> = cells.keys().map(|(case, _)| case.as_str()).collect();
    let wide = cases.iter().map(|case| case.len()).max().unwrap_or(0).max(4);
    let row = |case: &str, columns: [&str; 3]| {
        let [one, two, three] = columns;
        format!("{case:wide$}  {one:8}  {two:8}  {three:8}").trim_end().to_owned()
    };
    let mut lines = vec![row("case", ENGINES)];
    let mut notes = Vec::new();
    for case in cases {
        lines.push(row(
            case,
            ENGINES.map(|engine| {
                let said = cells.get(&(case.to_owned(), engine.to_owned())).map(String::as_str);
                if let Some(evidence) = said.and_then(|said| said.strip_prefix("lacks ")) {
                    notes.push(format!("  {case} · {engine}: {}", evidence.trim()));
                }
                match said.map(|said| said.split_whitespace().next().unwrap_or_default()) {
                    Some("passed") => "passed",
                    Some("lacks") => "lacks it",
                    Some("absent") => "not here",
                    Some(_) => "FAILED",
                    None => "–",
                }
            }),
        ));
    }
    if !notes.is_empty() {
        lines.push("what an engine lacks, and how that was seen:".into());
        lines.append(&mut notes);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_was_left_running_has_failed_and_what_is_lacking_is_explained() {
        let cell = |case: &str, engine: &str, said: &str| ((case.into(), engine.into()), said.to_owned());
        let cells = BTreeMap::from([
            cell("b06", "chromium", "passed"),
            cell("b06", "firefox", "running"),
            cell("b06", "webkit", "lacks navigator.locks is undefined"),
        ]);
        let text = table(&cells);
        assert!(text.contains("b06   passed    FAILED    lacks it"), "{text}");
        assert!(text.ends_with("b06 · webkit: navigator.locks is undefined"), "{text}");
    }
}
