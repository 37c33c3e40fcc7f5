//! Makes a history that breaks something short: what is left out does not matter.

use super::event::Event;
use super::story::{Broken, play};

/// Plays that shortening may take: a minute's worth, so that a failure is reported soon.
const PLAYS_MAX: usize = 300;

/// Returns a history that breaks the same rule and from which nothing more can be left out.
pub fn shrink(seed: u64, events: &[Event], broken: &Broken) -> (Vec<Event>, Broken) {
    let mut shortest = events.to_vec();
    let mut last = broken.clone();
    let mut plays = 0;
    let mut chunk = shortest.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        let before = shortest.len();
        while at < shortest.len() && plays < PLAYS_MAX {
            let mut shorter = shortest.clone();
            shorter.drain(at..(at + chunk).min(shortest.len()));
            plays += 1;
            match play(seed, &shorter).0 {
                Err(same) if same.rule == broken.rule => (shortest, last) = (shorter, same),
                Err(_) | Ok(()) => at += chunk,
            }
        }
        // At single events, again and again for as long as that helps.
        if chunk > 1 || shortest.len() == before {
            chunk /= 2;
        }
    }
    (shortest, last)
}
