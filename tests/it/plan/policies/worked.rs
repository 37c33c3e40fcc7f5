//! Worked rollouts: the exact sequence of batches, each worked out by hand from upstream contract
//! B.10. Nodes are numbered from 1 in the order in which they are picked; one that failed is not
//! picked again.

use nodewright::model::{BatchState, Budget, Growth, Strategy};
use nodewright::plan::pace::{Ended, Pacing};

use super::{pacing, strategy};

/// Which nodes fail.
#[derive(Debug, Clone, Copy)]
enum Fails {
    Nobody,
    From(u32),
    Every(u32),
    Only(&'static [u32]),
}

impl Fails {
    fn fails(self, node: u32) -> bool {
        match self {
            Self::Nobody => false,
            Self::From(first) => node >= first,
            Self::Every(step) => node.is_multiple_of(step),
            Self::Only(nodes) => nodes.contains(&node),
        }
    }
}

/// Plays a rollout: the sizes of its batches, `×` for runs of equal ones, and `stop` at the end
/// where nodes are left.
pub fn play(pacing: Pacing, mut fails: impl FnMut(u32) -> bool) -> (Vec<u32>, bool) {
    let mut state = BatchState::default();
    let (mut sizes, mut through, mut now) = (Vec::new(), 0, Ended::default());
    while through < pacing.nodes && !state.should_stop {
        let size = pacing.next_batch(&state).min(pacing.nodes - through);
        if size == 0 {
            break;
        }
        let failed = (through + 1..=through + size).filter(|&node| fails(node)).count();
        let failed = u32::try_from(failed).expect("a few nodes");
        let batch = Ended { complete: size - failed, failed };
        now = Ended { complete: now.complete + batch.complete, failed: now.failed + batch.failed };
        pacing.judge(&mut state, batch, now);
        through += size;
        sizes.push(size);
    }
    (sizes, through < pacing.nodes)
}

fn text((sizes, stopped): &(Vec<u32>, bool)) -> String {
    let mut words: Vec<String> = Vec::new();
    for run in sizes.chunk_by(|one, next| one == next) {
        if run.len() > 5 {
            words.push(format!("{}×{}", run[0], run.len()));
        } else {
            words.extend(run.iter().map(ToString::to_string));
        }
    }
    if *stopped {
        words.push("stop".to_owned());
    }
    words.join(" ")
}

fn fixed(initial: u32) -> Strategy {
    strategy(Growth::Fixed, initial)
}

fn linear(initial: u32, delta: u32) -> Strategy {
    strategy(Growth::Linear(delta), initial)
}

fn exponential(initial: u32, factor: u32) -> Strategy {
    strategy(Growth::Exponential(factor), initial)
}

trait With {
    fn threshold(self, percent: u32) -> Self;
    fn stop(self, batches: u32) -> Self;
    fn safety(self, percent: u32) -> Self;
}

impl With for Strategy {
    fn threshold(mut self, percent: u32) -> Self {
        self.batch_threshold = percent;
        self
    }

    fn stop(mut self, batches: u32) -> Self {
        self.failure_threshold = Some(batches);
        self
    }

    fn safety(mut self, percent: u32) -> Self {
        self.safety_limit = percent;
        self
    }
}

const ALL: Budget = Budget::Percent(100);

fn check(table: &[(Option<Strategy>, u32, Budget, Fails, &str)], stop_after: Option<u32>) {
    for (strategy, nodes, budget, fails, expected) in table {
        let pacing = Pacing { stop_after, ..pacing(*budget, *strategy, *nodes) };
        let played = play(pacing, |node| fails.fails(node));
        let row = format!("{strategy:?} over {nodes} nodes, {budget:?}, fails: {fails:?}");
        assert_eq!(text(&played), *expected, "{row}");
    }
}

#[test]
fn fixed_batches() {
    use Fails::{Every, From, Nobody, Only};
    let (tenth, third) = (Budget::Percent(1), Budget::Percent(30));
    let table = [
        (Some(fixed(1)), 5, ALL, Nobody, "1 1 1 1 1"),
        (Some(fixed(3)), 10, ALL, Nobody, "3 3 3 1"),
        (Some(fixed(10)), 10, ALL, Nobody, "10"),
        // More than there are: capped to what is left.
        (Some(fixed(20)), 10, ALL, Nobody, "10"),
        // The budget caps the batch: 2, and 30 % of 10 is 3.
        (Some(fixed(4)), 10, Budget::Count(2), Nobody, "2 2 2 2 2"),
        (Some(fixed(4)), 10, third, Nobody, "3 3 3 1"),
        (Some(fixed(1)), 1, ALL, Nobody, "1"),
        // 1 % of 3 is 0, and at least one node goes.
        (Some(fixed(5)), 3, tenth, Nobody, "1 1 1"),
        // Progress after the first batch: 2 of 6, 33 % < 50 %.
        (Some(fixed(2).stop(1)), 6, ALL, From(1), "2 stop"),
        // After the second 66 %: beyond the safety limit nothing stops.
        (Some(fixed(2).stop(2)), 6, ALL, From(1), "2 2 2"),
        // After the second exactly 50 %: not below the limit any more.
        (Some(fixed(2).stop(2)), 8, ALL, From(1), "2 2 2 2"),
        // After the second 40 %.
        (Some(fixed(2).stop(2)), 10, ALL, From(1), "2 2 stop"),
        // Two failed batches in a row only at 100 %.
        (Some(fixed(2).stop(2).safety(100)), 10, ALL, From(7), "2 2 2 2 2"),
        // At 10 of 12, 83 % < 100 %.
        (Some(fixed(2).stop(2).safety(100)), 12, ALL, From(7), "2 2 2 2 2 stop"),
        // One of two succeeds, 50 %: enough for a threshold of 50, not for 51.
        (Some(fixed(2).stop(1).threshold(50)), 10, ALL, Every(2), "2 2 2 2 2"),
        (Some(fixed(2).stop(1).threshold(51)), 10, ALL, Every(2), "2 stop"),
        // Three of four: 75 %.
        (Some(fixed(4).stop(1).threshold(75)), 16, ALL, Only(&[1]), "4 4 4 4"),
        // Two of three is 66 %, rounded down.
        (Some(fixed(3).stop(1).threshold(67)), 9, ALL, Only(&[1]), "3 stop"),
        (Some(fixed(3).stop(1).threshold(66)), 9, ALL, Only(&[1]), "3 3 3"),
        // A success in between begins the count anew: failed are batches 1, 3 and 5.
        (Some(fixed(1).stop(2)), 9, ALL, Only(&[1, 3, 5]), "1×9"),
        // 2 % of progress after the first node is beyond a limit of 1 %.
        (Some(fixed(1).stop(1).safety(1)), 50, ALL, From(1), "1×50"),
        // 1 of 200 is 0 %.
        (Some(fixed(1).stop(1).safety(1)), 200, ALL, From(1), "1 stop"),
        (Some(fixed(1)), 0, ALL, Nobody, ""),
    ];
    check(&table, None);
}

#[test]
fn linear_batches() {
    use Fails::{From, Nobody, Only};
    let table = [
        (Some(linear(1, 1)), 10, ALL, Nobody, "1 2 3 4"),
        // 25 % of 20 is 5; the last five are what is left.
        (Some(linear(1, 1)), 20, Budget::Percent(25), Nobody, "1 2 3 4 5 5"),
        (Some(linear(2, 3)), 20, ALL, Nobody, "2 5 8 5"),
        (Some(linear(1, 5)), 20, ALL, Nobody, "1 6 11 2"),
        (Some(linear(5, 1)), 5, ALL, Nobody, "5"),
        // 3, then 4 for ever: growth starts from what the budget let through.
        (Some(linear(3, 1)), 30, Budget::Count(4), Nobody, "3 4×6 3"),
        // All fail, 10 % each: 1 − 1 is still one node; from 50 % on it grows all the same.
        (Some(linear(1, 1)), 10, ALL, From(1), "1 1 1 1 1 2 3"),
        // 8 nodes fail at 90 %: not slowed.
        (Some(linear(4, 2)), 20, ALL, From(11), "4 6 8 2"),
        // 18 of 40 is 45 %: 8 − 2; then 24 of 40 is 60 %: 6 + 2, and what is left.
        (Some(linear(4, 2)), 40, ALL, From(11), "4 6 8 6 8 8"),
        // The second failure comes at 60 %.
        (Some(linear(4, 2).stop(2)), 40, ALL, From(11), "4 6 8 6 8 8"),
        // 18 and 24 of 60: 30 % and 40 %.
        (Some(linear(4, 2).stop(2)), 60, ALL, From(11), "4 6 8 6 stop"),
        // The third: 28 of 60, 46 %.
        (Some(linear(4, 2).stop(3)), 60, ALL, From(11), "4 6 8 6 4 stop"),
        // Only the first fails: 1, and then up again.
        (Some(linear(1, 1)), 12, ALL, Only(&[1]), "1 1 2 3 4 1"),
        // Nodes 4 to 7: 75 % < 80 % at 35 %: 4 − 1.
        (Some(linear(3, 1).threshold(80)), 20, ALL, Only(&[4]), "3 4 3 4 5 1"),
        (Some(linear(3, 1).threshold(75)), 20, ALL, Only(&[4]), "3 4 5 6 2"),
        // 10 of 20 is 50 % at once: neither stopped nor slowed.
        (Some(linear(10, 5).stop(1)), 20, ALL, From(1), "10 10"),
        // 9 of 20 is 45 %.
        (Some(linear(9, 5).stop(1)), 20, ALL, From(1), "9 stop"),
        // 5 − 9 is below zero, so one node.
        (Some(linear(5, 9)), 100, ALL, Only(&[1, 2, 3, 4, 5]), "5 1 10 19 28 37"),
        (Some(linear(1, 1)), 0, ALL, Nobody, ""),
    ];
    check(&table, None);
}

#[test]
fn exponential_batches() {
    use Fails::{Every, From, Nobody, Only};
    let third = exponential(1, 2).threshold(90).stop(3);
    let table = [
        (Some(exponential(1, 2)), 80, ALL, Nobody, "1 2 4 8 16 32 17"),
        (Some(exponential(1, 2)), 1, ALL, Nobody, "1"),
        (Some(exponential(1, 2)), 2, ALL, Nobody, "1 1"),
        (Some(exponential(1, 3)), 40, ALL, Nobody, "1 3 9 27"),
        (Some(exponential(2, 2)), 50, ALL, Nobody, "2 4 8 16 20"),
        // 10 × 10 is all of them; what is left are 89.
        (Some(exponential(1, 10)), 100, ALL, Nobody, "1 10 89"),
        // 10 % of 80 is 8: 7 nodes, nine times 8, and one.
        (Some(exponential(1, 2)), 80, Budget::Percent(10), Nobody, "1 2 4 8×9 1"),
        (Some(exponential(1, 2)), 30, Budget::Count(5), Nobody, "1 2 4 5 5 5 5 3"),
        // 3, 5, 7 of 80 are through when batches 3, 4, 5 have failed.
        (Some(third), 80, ALL, From(4), "1 2 4 2 1 stop"),
        (Some(exponential(4, 2).stop(3)), 64, ALL, From(1), "4 2 1 stop"),
        // 6 nodes, then one at a time to 32 of 64; from there on it doubles.
        (Some(exponential(4, 2)), 64, ALL, From(1), "4 2 1×26 2 4 8 16 2"),
        // The ninth failure comes at 62 %.
        (Some(exponential(1, 2).stop(9)), 16, ALL, From(1), "1×8 2 4 2"),
        // Pairs fail (3, 6, 9), single nodes succeed, so never two failures in a row; at 60 % and
        // 80 % nothing is slowed.
        (Some(third), 20, ALL, Every(3), "1 2 1 2 1 2 1 2 4 4"),
        // Thirteen times 1 and 2, to 39 of 80; node 40 makes it 50 %.
        (
            Some(third),
            80,
            ALL,
            Every(3),
            "1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 4 8 16 10",
        ),
        // One of three is 33 %.
        (Some(exponential(3, 2).stop(1).threshold(34)), 21, ALL, Only(&[1, 2]), "3 stop"),
        (Some(exponential(3, 2).stop(1).threshold(33)), 21, ALL, Only(&[1, 2]), "3 6 12"),
        // 7 / 3 is 2, and 2 / 3 is nothing, so one: integers.
        (Some(exponential(7, 3)), 60, ALL, Only(&[1, 8, 10]), "7 2 1 1 3 9 27 10"),
        (Some(exponential(1, 2)), 0, ALL, Nobody, ""),
    ];
    check(&table, None);
}

#[test]
fn batches_without_a_strategy_have_the_size_of_the_ceiling() {
    use Fails::{From, Nobody};
    let table = [
        (None, 10, Budget::Percent(30), Nobody, "3 3 3 1"),
        (None, 10, Budget::Count(4), Nobody, "4 4 2"),
        (None, 10, ALL, Nobody, "10"),
        (None, 10, Budget::Percent(5), Nobody, "1×10"),
        // Nothing stops it where the floor is off.
        (None, 10, Budget::Count(3), From(1), "3 3 3 1"),
        // Zero, written on purpose, is nobody.
        (None, 10, Budget::Count(0), Nobody, "stop"),
        (None, 0, ALL, Nobody, ""),
    ];
    check(&table, None);
}

/// `--stop-after 2`: where the policy names no `failureThreshold`, whatever the progress.
#[test]
fn the_clusters_floor_stops_what_no_policy_would() {
    use Fails::{From, Only};
    let table = [
        (None, 10, Budget::Count(3), From(1), "3 3 stop"),
        (None, 9, Budget::Count(3), Only(&[1, 9]), "3 3 3"),
        // 80 % are through: the floor knows no safety limit.
        (None, 10, Budget::Count(2), From(5), "2 2 2 2 stop"),
        (Some(linear(2, 1)), 20, ALL, From(1), "2 1 stop"),
        (Some(exponential(1, 2)), 20, ALL, From(1), "1 1 stop"),
        (Some(fixed(5)), 10, ALL, From(1), "5 5"),
        (Some(fixed(5)), 15, ALL, From(1), "5 5 stop"),
        // The policy's own number wins: five failures at 25 %.
        (Some(exponential(1, 2).stop(5)), 20, ALL, From(1), "1 1 1 1 1 stop"),
    ];
    check(&table, Some(2));
}
