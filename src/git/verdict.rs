//! What a server's words about a push mean, and how long to wait before the next try.
//!
//! Pure tables. Servers say why they refuse a reference only as text; what we do not know counts
//! as permanent, because repeating a refused push only fills somebody's audit log.

use std::time::Duration;

/// How often one flush tries to push.
pub const ATTEMPTS_MAX: u32 = 10;

/// The pause before the second try; it grows by half each time.
const PAUSE_FIRST: Duration = Duration::from_millis(200);

/// The longest pause between two tries of one flush.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Says what a refused reference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushVerdict {
    /// The branch moved: read it again, build on the new tip, push at once.
    Conflict,
    /// The server is busy or broken at the moment: the same push may work soon.
    Retry,
    /// The same push will be refused until somebody changes a rule or a secret.
    Permanent,
}

/// Texts of git, libgit2, JGit and the forges that mean "somebody else was faster".
const CONFLICTS: [&str; 9] = [
    "non-fast-forward",
    "non-fastforward",
    "fetch first",
    "cannot lock ref",
    "failed to lock",
    "incorrect old value",
    "stale info",
    "reference already exists",
    "old target",
];

/// Texts that mean "ask again soon".
const RETRIES: [&str; 9] = [
    "failed to update ref",
    "timed out",
    "timeout",
    "rate limit",
    "too many requests",
    "try again",
    "temporarily",
    "internal server error",
    "unpacker error",
];

/// Texts that stay permanent though they contain one of the above.
const PERMANENTS: [&str; 6] = [
    "hook declined",
    "protected branch",
    "protected ref",
    "denied",
    "not allowed",
    "deny updating",
];

/// Returns what the server's words about one reference mean.
pub fn classify(message: &str) -> PushVerdict {
    let message = message.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if says(&PERMANENTS) {
        PushVerdict::Permanent
    } else if says(&CONFLICTS) {
        PushVerdict::Conflict
    } else if says(&RETRIES) {
        PushVerdict::Retry
    } else {
        PushVerdict::Permanent
    }
}

/// Returns the pause before try number `attempt` (the first is 1), or `None` when it was the last.
///
/// 200 ms × 1.5ⁿ, at most 10 s, with full jitter: `share` is a random number from 0 to 1, so that
/// writers that collided once do not collide again.
pub fn pause_before(attempt: u32, share: f64) -> Option<Duration> {
    if attempt > ATTEMPTS_MAX {
        return None;
    }
    let grown = (2..attempt).fold(PAUSE_FIRST, |pause, _| pause.saturating_mul(3) / 2);
    let longest = if attempt < 2 { Duration::ZERO } else { grown.min(PAUSE_MAX) };
    Some(longest.mul_f64(share.clamp(0.0, 1.0)))
}
