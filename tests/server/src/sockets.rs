//! How many sockets a user has open, whether or not they said hello.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::principal::Principal;

/// The sockets of one life of the server, counted by principal.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    open: Arc<Mutex<HashMap<Principal, usize>>>,
}

/// One socket's place; given back when dropped.
#[derive(Debug)]
pub struct Place {
    sockets: Sockets,
    principal: Principal,
}

impl Sockets {
    fn open(&self) -> MutexGuard<'_, HashMap<Principal, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many the principal has.
    pub fn count(&self, principal: &Principal) -> usize {
        self.open().get(principal).copied().unwrap_or_default()
    }

    /// Takes a place, unless `most` are taken.
    pub fn enter(&self, principal: &Principal, most: usize) -> Option<Place> {
        let mut open = self.open();
        let count = open.entry(principal.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { sockets: self.clone(), principal: principal.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.sockets.open();
        if let Some(count) = open.get_mut(&self.principal) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.principal);
            }
        }
    }
}
