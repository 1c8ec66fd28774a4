//! `journal verify FILE`: checks a journal that a session exported. One line per flaw; exit 1 if there is any, 2 if the
//! file cannot be read.

use std::fs;
use std::process::ExitCode;

use patchkeep_core::journal::{RecordState, verify};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [verb, file] = args.as_slice() else { return unusable("usage: journal verify FILE") };
    if verb != "verify" {
        return unusable("usage: journal verify FILE");
    }
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return unusable(&format!("{file}: {error}")),
    };
    match verify(&text) {
        Ok(records) => {
            let open = |record: &&patchkeep_core::journal::Record| !record.is_final() || record.confirmed.is_none();
            let unknown = records.iter().filter(|record| record.state == RecordState::Unknown).count();
            let open = records.iter().filter(open).count();
            println!("{file}: {} records, {open} open, {unknown} unknown: whole", records.len());
            ExitCode::SUCCESS
        }
        Err(flaws) => {
            for flaw in &flaws {
                println!("{file}: {flaw}");
            }
            ExitCode::FAILURE
        }
    }
}

fn unusable(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(2)
}
