//! Every case of the vectors in this repository, and our own stories in the same format.

use patchkeep_core::{edit, json};
use patchkeep_rules::answers::AnswerVectors;
use patchkeep_rules::digests::DigestVectors;
use patchkeep_rules::scenario::ScenarioFile;

fn scenarios(text: &str) {
    let file: ScenarioFile = serde_json::from_str(text).unwrap();
    assert!(!file.scenarios.is_empty());
    let failed: Vec<_> = file
        .scenarios
        .iter()
        .filter_map(|s| s.run().err().map(|why| format!("{} ({}): {why}", s.name, s.rule)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn digest_vectors() {
    let file: DigestVectors = serde_json::from_str(include_str!("../../vectors/digest.json")).unwrap();
    for vector in &file.accepted {
        assert_eq!(vector.check(), Ok(()), "{}", vector.name);
    }
    for vector in &file.rejected {
        assert_eq!(vector.check(), Ok(()), "{}", vector.name);
    }
}

#[test]
fn k05_answer_vectors() {
    let file: AnswerVectors = serde_json::from_str(include_str!("../../vectors/answers.json")).unwrap();
    assert!(!file.cases.is_empty());
    for case in &file.cases {
        assert_eq!(case.check(), Ok(()), "{}", case.name);
    }
}

#[test]
fn scenario_vectors() {
    scenarios(include_str!("../../vectors/scenarios.json"));
}

#[test]
fn own_scenarios() {
    scenarios(include_str!("../scenarios.json"));
}

#[test]
fn a_story_that_does_not_go_as_told_fails() {
    let told = r#"{"scenarios":[{"name":"x","steps":[{"open":"D"},{"connect":{}},{"patch":"p1","doc":"D","text":"x"},
        {"expect":{"text":{"D":""}}}]}]}"#;
    let file: ScenarioFile = serde_json::from_str(told).unwrap();
    assert_eq!(file.scenarios[0].run(), Err("step 4: text of D is \"x\", expected \"\"".into()));
}

/// The same cases run through the TypeScript of the package: tab and server make the same text of an edit (§10).
#[test]
fn s10_edit_vectors() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("../../vectors/edits.json")).unwrap();
    assert!(!cases.is_empty());
    for case in &cases {
        let body = case["body"].to_string();
        let result = edit::apply(case["text"].as_str().unwrap(), &json::parse(&body).unwrap());
        let told = match result {
            Ok(text) => serde_json::json!({ "text": text }),
            Err(reason) => serde_json::json!({ "reason": reason.as_str() }),
        };
        assert_eq!(told, case["expect"], "{case}");
    }
}
