//! The order of a tab's incarnations of one document: `(epoch, generation)` (W1).

use patchkeep_core::ids::Incarnation;
use patchkeep_core::json::MAX_SAFE_INTEGER;

use super::row::Announced;

/// Where an incarnation stands beside the newest that was announced or saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is that one.
    Newest,
    /// It comes after it.
    Later,
    /// It comes before it, and is fenced.
    Earlier,
    /// It comes before it, since a person settled what this epoch holds as not applied (S10): only a later epoch is taken.
    Settled,
    /// One of the two has no generation, as an older tab says it: nobody can tell.
    Unordered,
}

/// Orders an incarnation. `replaced`: it was announced itself, and another after it.
pub fn place(newest: Option<Announced>, this: Announced, replaced: bool) -> Place {
    let Some(newest) = newest else { return Place::Later };
    let by_generation = this.generation > 0 && newest.generation > 0;
    match this.epoch.cmp(&newest.epoch) {
        std::cmp::Ordering::Less => Place::Earlier,
        std::cmp::Ordering::Greater => Place::Later,
        _ if this.incarnation == newest.incarnation => Place::Newest,
        _ if newest.generation == SETTLED => Place::Settled,
        _ if replaced => Place::Earlier,
        _ if by_generation && this.generation > newest.generation => Place::Later,
        _ if by_generation => Place::Earlier,
        _ => Place::Unordered,
    }
}

/// After everything that a tab holds or will yet hold of a document in this epoch (S10).
pub fn after_all(epoch: u64, nobodys: Incarnation) -> Announced {
    Announced { epoch, generation: SETTLED, incarnation: nobodys }
}

/// No tab counts so far.
const SETTLED: u64 = MAX_SAFE_INTEGER;

#[cfg(test)]
mod tests {
    use patchkeep_core::ids::Uuid;

    use super::*;

    const fn content(epoch: u64, generation: u64, n: u128) -> Announced {
        Announced { epoch, generation, incarnation: Incarnation(Uuid::from_u128(n)) }
    }

    #[test]
    fn w01_epoch_and_generation_order_all_incarnations_of_a_tab() {
        let newest = Some(content(2, 3, 1));
        for (this, replaced, expected) in [
            (content(2, 3, 1), false, Place::Newest),
            (content(2, 4, 2), false, Place::Later),
            (content(3, 1, 2), false, Place::Later),
            (content(2, 2, 2), false, Place::Earlier),
            (content(1, 9, 2), false, Place::Earlier),
            (content(2, 3, 2), false, Place::Earlier),
            (content(2, 0, 2), false, Place::Unordered),
            (content(2, 0, 2), true, Place::Earlier),
        ] {
            assert_eq!(place(newest, this, replaced), expected, "{this:?}");
        }
        assert_eq!(place(Some(content(2, 0, 1)), content(2, 4, 2), false), Place::Unordered);
        assert_eq!(place(None, content(1, 0, 1), false), Place::Later);
    }

    #[test]
    fn s10_what_was_settled_is_after_everything_of_its_epoch() {
        let settled = Some(after_all(2, Incarnation(Uuid::from_u128(7))));
        for generation in [0, 1, u64::from(u32::MAX)] {
            assert_eq!(place(settled, content(2, generation, 2), false), Place::Settled);
        }
        assert_eq!(place(settled, content(3, 1, 2), false), Place::Later);
    }
}
