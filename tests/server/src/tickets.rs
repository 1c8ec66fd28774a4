//! Tickets: how a browser's socket, which cannot carry headers, proves who it is.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::principal::Principal;

/// How long a ticket is good for.
const LIFE: Duration = Duration::from_secs(30);
/// How many of one user may be out at once; the rest is refused.
const MOST: usize = 1000;

/// The tickets of one life of the server: single use, short.
#[derive(Debug, Default)]
pub struct Tickets {
    out: Mutex<HashMap<String, (Principal, Instant)>>,
}

impl Tickets {
    /// A new ticket, or `None` where too many of this user are out.
    pub fn issue(&self, principal: Principal) -> Option<String> {
        let now = Instant::now();
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.retain(|_, (_, until)| *until > now);
        if out.values().filter(|(whose, _)| *whose == principal).count() >= MOST {
            return None;
        }
        let ticket = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        out.insert(ticket.clone(), (principal, now + LIFE));
        Some(ticket)
    }

    /// Whose ticket this is. It is used up by asking.
    pub fn redeem(&self, ticket: &str) -> Option<Principal> {
        let (principal, until) = self.out.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket)?;
        (until > Instant::now()).then_some(principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_of_one_user_lock_nobody_else_out() {
        let tickets = Tickets::default();
        let (greedy, other): (Principal, Principal) = ("ws/greedy".parse().unwrap(), "ws/other".parse().unwrap());
        assert_eq!((0..MOST + 9_000).filter(|_| tickets.issue(greedy.clone()).is_some()).count(), MOST);
        assert!(tickets.issue(other).is_some());
    }

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = Tickets::default();
        let principal: Principal = "ws/user".parse().unwrap();
        let ticket = tickets.issue(principal.clone()).unwrap();
        assert_eq!(tickets.redeem(&ticket), Some(principal));
        assert_eq!(tickets.redeem(&ticket), None);
        assert_eq!(tickets.redeem("guess"), None);
    }
}
