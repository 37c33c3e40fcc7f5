//! Which combinations the table was asked about: what a test proves that it has led to.
//!
//! In: every question to [`super::step`] on this thread, while somebody watches. Out: the set.
//! Must never: change an answer.

use std::cell::RefCell;

use super::{At, Owes, Seen, Wish};

/// Values of each argument, as many as there are: stages and states of an entry, and none.
const STATES: usize = 5;
const PLACES: usize = 1 + 7 * STATES;
const OWES: usize = 2;
const WISHES: usize = 14;
const SEEN: usize = 17;

thread_local! {
    static WATCHED: RefCell<Option<Asked>> = const { RefCell::new(None) };
}

/// A set of combinations.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// One bit each, by [`number`].
    bits: Vec<u64>,
}

impl Asked {
    /// Returns whether the table was asked about this combination.
    pub fn contains(&self, at: At, owes: Owes, wish: Wish, seen: Seen) -> bool {
        let number = number(at, owes, wish, seen);
        self.bits.get(number / 64).is_some_and(|bits| bits & (1 << (number % 64)) != 0)
    }

    /// Takes in another set.
    pub fn merge(&mut self, other: &Self) {
        self.bits.resize(self.bits.len().max(other.bits.len()), 0);
        for (ours, theirs) in self.bits.iter_mut().zip(&other.bits) {
            *ours |= theirs;
        }
    }

    fn insert(&mut self, number: usize) {
        if self.bits.is_empty() {
            self.bits.resize((PLACES * OWES * WISHES * SEEN).div_ceil(64), 0);
        }
        if let Some(bits) = self.bits.get_mut(number / 64) {
            *bits |= 1 << (number % 64);
        }
    }
}

/// Returns what the table is asked while `run` runs, on this thread.
pub fn watch<T>(run: impl FnOnce() -> T) -> (T, Asked) {
    WATCHED.with_borrow_mut(|watched| *watched = Some(Asked::default()));
    let result = run();
    let asked = WATCHED.with_borrow_mut(Option::take);
    (result, asked.unwrap_or_default())
}

/// Notes a question.
pub(super) fn note(at: At, owes: Owes, wish: Wish, seen: Seen) {
    WATCHED.with_borrow_mut(|watched| {
        if let Some(asked) = watched {
            asked.insert(number(at, owes, wish, seen));
        }
    });
}

fn number(at: At, owes: Owes, wish: Wish, seen: Seen) -> usize {
    let place = at.map_or(0, |(stage, state)| 1 + stage as usize * STATES + state as usize);
    ((place * OWES + owes as usize) * WISHES + wish as usize) * SEEN + seen as usize
}
