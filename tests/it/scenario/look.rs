//! Takes out of a text what differs from run to run and says nothing: times, commits, and the names
//! of executor pods, which hold both.

use std::sync::LazyLock;

use regex::Regex;

static PATTERNS: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    let pattern = |text: &str| Regex::new(text).expect("a valid pattern");
    [
        (pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
        (pattern(r"\b[0-9a-z.-]+-\d{10}-[0-9a-f-]*-[0-9a-f]{8}\b"), "<pod>"),
        (pattern(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b"), "<commit>"),
        (pattern(r"\b\d{4}-\d\d-\d\d \d\d:\d\d( UTC)?"), "<time>"),
    ]
});

/// Returns the lines of a text, without those that are empty.
pub fn redacted(text: &str) -> Vec<String> {
    let text = PATTERNS.iter().fold(text.to_owned(), |text, (pattern, word)| {
        pattern.replace_all(&text, *word).into_owned()
    });
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn times_commits_and_pods_go_and_the_rest_stays() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let pod = "a-install-gpu-1-1772352000-31512c-a9f5ddf1";
    let text = format!(
        "since 2026-03-01T08:00:00.123Z main@sha1:{commit}\n\nin pod {pod}: x\n kernel|1.0.0  \n"
    );
    assert_eq!(
        redacted(&text),
        ["since <time> main@sha1:<commit>", "in pod <pod>: x", " kernel|1.0.0"]
    );
}
