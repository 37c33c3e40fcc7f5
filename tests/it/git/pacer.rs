//! When status commits go out, as tables of events.

use jiff::{SignedDuration, Timestamp};
use nodewright::git::{Pacer, Urgency};

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// Runs a pacer over notes at given seconds until second 600; returns when it flushed.
fn flushes(notes: &[(i64, Urgency)], status_branches: u32) -> Vec<i64> {
    let mut pacer = Pacer::new(at(0));
    let mut flushed = Vec::new();
    for second in 0..600 {
        let now = at(second);
        for (_, urgency) in notes.iter().filter(|(noted, _)| *noted == second) {
            pacer.note(*urgency, now);
        }
        if pacer.due(status_branches).is_some_and(|due| due <= now) {
            pacer.begin(now);
            flushed.push(second);
        }
    }
    flushed
}

#[test]
fn idle_writes_nothing() {
    assert_eq!(flushes(&[], 1), Vec::<i64>::new());
}

#[test]
fn routine_changes_wait_for_quiet() {
    use Urgency::Routine;
    assert_eq!(flushes(&[(10, Routine)], 1), [15]);
    assert_eq!(flushes(&[(10, Routine), (13, Routine), (17, Routine)], 1), [22]);
}

#[test]
fn routine_changes_without_quiet_go_out_after_a_minute_and_every_minute_then() {
    let busy: Vec<_> = (0..200).map(|second| (second, Urgency::Routine)).collect();
    assert_eq!(flushes(&busy, 1), [60, 121, 182, 212]);
}

#[test]
fn routine_flushes_keep_their_distance_and_more_of_it_in_a_crowded_repository() {
    use Urgency::Routine;
    let notes = [(0, Routine), (10, Routine), (100, Routine)];
    assert_eq!(flushes(&notes, 1), [5, 35, 105]);
    assert_eq!(flushes(&notes, 6), [5, 65, 125]);
}

#[test]
fn urgent_changes_go_out_within_a_second_until_the_burst_is_used_up() {
    use Urgency::Urgent;
    assert_eq!(flushes(&[(10, Urgent)], 1), [11]);
    let storm: Vec<_> = (10..100).step_by(2).map(|second| (second, Urgent)).collect();
    let flushed = flushes(&storm, 1);
    assert_eq!(flushed[..3], [11, 13, 15]);
    assert!(flushed.len() <= 7, "{flushed:?}");
    let gaps: Vec<_> = flushed[3..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 28), "{flushed:?}");
}

#[test]
fn an_urgent_change_takes_the_routine_ones_with_it() {
    use Urgency::{Routine, Urgent};
    assert_eq!(flushes(&[(10, Routine), (11, Urgent)], 1), [12]);
}

#[test]
fn a_failed_flush_is_pending_again() {
    let mut pacer = Pacer::new(at(0));
    pacer.note(Urgency::Urgent, at(0));
    assert_eq!(pacer.due(1), Some(at(1)));
    pacer.begin(at(1));
    assert_eq!(pacer.due(1), None);
    pacer.failed(at(3));
    assert_eq!(pacer.due(1), Some(at(31)), "the gap after the flush that failed");
}
