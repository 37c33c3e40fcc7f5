//! The life of a package on a node, enumerated: the table by itself, and what the whole planner
//! does first in every situation.

mod first;
mod steps;

use nodewright::model::{Stage, State};
use nodewright::plan::lifecycle::{At, Owes, Seen, Wish};

const STAGES: [Stage; 7] = [
    Stage::Uninstall,
    Stage::UninstallInterrupt,
    Stage::Upgrade,
    Stage::Apply,
    Stage::Config,
    Stage::Interrupt,
    Stage::PostInterrupt,
];

const STATES: [State; 5] =
    [State::InProgress, State::Complete, State::Skipped, State::Erroring, State::Unknown];

/// Returns every argument of the table.
pub fn combinations() -> impl Iterator<Item = (At, Owes, Wish, Seen)> {
    let entries = STAGES.iter().flat_map(|stage| STATES.iter().map(|state| (*stage, *state)));
    let places = std::iter::once(None).chain(entries.map(Some));
    places.flat_map(|at| {
        steps::OWES.iter().flat_map(move |owes| {
            steps::WISHES
                .iter()
                .flat_map(move |wish| steps::SEEN.iter().map(move |seen| (at, *owes, *wish, *seen)))
        })
    })
}

/// Compares with a golden file of this folder, and leaves what is there for a look.
fn compare(name: &str, actual: &str, expected: &str) {
    if actual != expected {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(path, actual).expect("the folder for results of tests");
        panic!(
            "diff target/tmp/{name} tests/it/plan/lifecycle_table/{name}; as meant? copy it there"
        );
    }
}
