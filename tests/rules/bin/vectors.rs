//! `vectors digest|answers|scenarios FILE`: one line per failing case, a last line `N passed, M failed`, exit 1 if any
//! failed, 2 if the file cannot be read.

use std::fs;
use std::process::ExitCode;

use patchkeep_rules::answers::AnswerVectors;
use patchkeep_rules::digests::DigestVectors;
use patchkeep_rules::scenario::ScenarioFile;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file] = args.as_slice() else { return unusable("usage: vectors digest|answers|scenarios FILE") };
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return unusable(&format!("{file}: {error}")),
    };
    let results = match kind.as_str() {
        "digest" => digest(&text),
        "scenarios" => scenarios(&text),
        "answers" => answers(&text),
        other => return unusable(&format!("unknown kind {other}: digest, answers or scenarios")),
    };
    match results {
        Ok(results) => report(&results),
        Err(error) => unusable(&format!("{file}: {error}")),
    }
}

type Outcome = (String, Result<(), String>);

fn digest(text: &str) -> serde_json::Result<Vec<Outcome>> {
    let file: DigestVectors = serde_json::from_str(text)?;
    let accepted = file.accepted.into_iter().map(|v| (v.check(), v.name));
    let rejected = file.rejected.into_iter().map(|v| (v.check(), v.name));
    Ok(accepted.chain(rejected).map(|(outcome, name)| (name, outcome)).collect())
}

fn answers(text: &str) -> serde_json::Result<Vec<Outcome>> {
    let file: AnswerVectors = serde_json::from_str(text)?;
    Ok(file.cases.into_iter().map(|c| (c.check(), c.name)).map(|(o, n)| (n, o)).collect())
}

fn scenarios(text: &str) -> serde_json::Result<Vec<Outcome>> {
    let file: ScenarioFile = serde_json::from_str(text)?;
    Ok(file.scenarios.into_iter().map(|s| (s.run(), format!("{} ({})", s.name, s.rule))).map(|(o, n)| (n, o)).collect())
}

fn report(results: &[Outcome]) -> ExitCode {
    let mut failed = 0;
    for (name, outcome) in results {
        if let Err(why) = outcome {
            failed += 1;
            println!("FAILED {name}: {why}");
        }
    }
    println!("{} passed, {failed} failed", results.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn unusable(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}
