//! What servers say about a push, and how long we wait.

use std::time::Duration;

use nodewright::git::{ATTEMPTS_MAX, PushVerdict, classify, pause_before};

#[test]
fn servers_words_have_the_meaning_that_operators_know() {
    use PushVerdict::{Conflict, Permanent, Retry};
    let cases = [
        ("non-fast-forward", Conflict),
        ("fetch first", Conflict),
        ("cannot lock ref 'refs/heads/x': is at 1 but expected 2", Conflict),
        ("incorrect old value provided", Conflict),
        ("failed to update ref", Retry),
        ("unpacker error", Retry),
        ("GitLab: API rate limit exceeded", Retry),
        ("Internal Server Error", Retry),
        ("pre-receive hook declined", Permanent),
        ("pre-receive hook declined: timeout of the linter", Permanent),
        ("protected branch hook declined", Permanent),
        ("GH006: Protected branch update failed: cannot lock ref", Permanent),
        ("deny updating a hidden ref", Permanent),
        ("commits must have verified signatures", Permanent),
        ("words that no server has ever said", Permanent),
    ];
    for (message, wanted) in cases {
        assert_eq!(classify(message), wanted, "{message}");
    }
}

#[test]
fn pauses_grow_by_half_are_capped_and_end() {
    let pauses: Vec<Option<Duration>> =
        (1..=ATTEMPTS_MAX + 1).map(|attempt| pause_before(attempt, 1.0)).collect();
    assert_eq!(pauses[0], Some(Duration::ZERO));
    assert_eq!(pauses[1], Some(Duration::from_millis(200)));
    assert_eq!(pauses[2], Some(Duration::from_millis(300)));
    assert_eq!(pauses[3], Some(Duration::from_millis(450)));
    assert_eq!(pauses.last(), Some(&None));
    let whole: Duration = pauses.iter().flatten().sum();
    assert!(whole < Duration::from_secs(60), "{whole:?}");
    assert_eq!(pause_before(5, 0.0), Some(Duration::ZERO), "full jitter begins at nothing");
}
