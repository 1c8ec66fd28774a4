//! `Retry-After` (RFC 9110 §10.2.3): seconds, or a date read against the answer's own `Date`, never against a local
//! clock that may be an hour off.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wait it asks for, in ms, or `None` for anything that is neither form: what cannot be read must not mean "now".
///
/// `server_now_ms` is the server's clock where the answer has no readable `Date`, as cross-origin answers hide it.
pub fn retry_after_ms(value: &str, date: Option<&str>, server_now_ms: Option<u64>) -> Option<u64> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        let seconds: u64 = value.parse().unwrap_or(u64::MAX);
        return Some(seconds.saturating_mul(1000));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let said = date.and_then(|d| httpdate::parse_http_date(d.trim()).ok());
    let now = said.or_else(|| server_now_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)))?;
    Some(duration_ms(now, until))
}

fn duration_ms(from: SystemTime, to: SystemTime) -> u64 {
    to.duration_since(from).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: Option<&str> = Some("Tue, 01 Dec 2026 12:00:00 GMT");

    #[test]
    fn b23_seconds_dates_and_nonsense() {
        let read = |value| retry_after_ms(value, DATE, Some(0));
        assert_eq!(read("2"), Some(2_000));
        assert_eq!(read("120"), Some(120_000));
        assert_eq!(read("Tue, 01 Dec 2026 12:02:00 GMT"), Some(120_000));
        assert_eq!(read("2592000"), Some(2_592_000_000));
        for nonsense in ["-5", "7.5", "1e3", "soon", ""] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn b23_without_a_date_header_the_estimate_of_the_servers_clock_counts() {
        let value = "Tue, 01 Dec 2026 12:02:00 GMT";
        assert_eq!(retry_after_ms(value, None, None), None);
        assert_eq!(retry_after_ms(value, None, Some(1_796_126_400_000 + 60_000)), Some(60_000));
    }
}
