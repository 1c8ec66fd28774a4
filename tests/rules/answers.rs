//! `answers.json`: rule K5 as a table.

use patchkeep_core::outbox::{Answer, Reading, Standing, read};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The file.
#[derive(Debug, Deserialize)]
pub struct AnswerVectors {
    /// One answer each.
    pub cases: Vec<AnswerCase>,
}

/// One answer, and how it is read.
#[derive(Debug, Deserialize)]
pub struct AnswerCase {
    /// What it shows.
    pub name: String,
    answer: RawAnswer,
    idempotency_keys_listed: bool,
    earlier_attempt_ambiguous: bool,
    #[serde(default)]
    expects_other_type: bool,
    expect: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawAnswer {
    Failed {
        #[allow(dead_code, reason = "only that the request failed counts")]
        network_error: String,
    },
    Answered {
        status: u16,
        #[serde(default)]
        headers: Map<String, Value>,
        #[serde(default)]
        body: Value,
    },
}

impl AnswerCase {
    /// What is wrong, if anything.
    ///
    /// # Errors
    /// A sentence for a person.
    pub fn check(&self) -> Result<(), String> {
        let reading = read(&self.answer.parse(), self.standing());
        for (name, expected) in &self.expect {
            let actual = told(&reading, name).ok_or_else(|| format!("expect {name} is not known"))?;
            if actual != *expected {
                return Err(format!("{name} is {actual}, expected {expected}"));
            }
        }
        Ok(())
    }

    const fn standing(&self) -> Standing {
        Standing {
            keys_listed: self.idempotency_keys_listed,
            earlier_ambiguous: self.earlier_attempt_ambiguous,
            expects_other_type: self.expects_other_type,
            server_now_ms: None,
        }
    }
}

impl RawAnswer {
    /// A body that is a string is no JSON but the text itself; `null` is an empty one.
    fn parse(&self) -> Answer {
        let Self::Answered { status, headers, body } = self else { return Answer::Failed };
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().into()));
        let body = match body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            json => json.to_string(),
        };
        Answer::Answered { status: *status, headers: headers.collect(), body }
    }
}

fn told(reading: &Reading, name: &str) -> Option<Value> {
    Some(match name {
        "outcome" => reading.outcome.as_str().into(),
        "retry" => reading.retry.as_str().into(),
        "replayed" => reading.replayed.into(),
        "min_wait_ms" => reading.min_wait_ms.into(),
        "code" => reading.code.clone().into(),
        "conflict" => reading.conflict.into(),
        _ => return None,
    })
}
