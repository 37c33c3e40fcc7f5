//! Go's durations: what is read, what is refused, and that printing can be read back.

use std::time::Duration;

use nodewright::api::GoDuration;
use nodewright::api::annotations::{
    MESSAGE_MAX_BYTES, NODE_STATE_MAX_BYTES, RECORD_MAX_BYTES, bounded_message, check_node_state,
    check_record, cut,
};
use nodewright::api::duration::{DURATION_PATTERN, DURATION_TEXT_MAX_BYTES, DurationError};
use proptest::prelude::*;

/// Text, nanoseconds, and the text that Go prints for them.
const READ: &[(&str, u64, &str)] = &[
    ("0", 0, "0s"),
    ("-0s", 0, "0s"),
    ("0s", 0, "0s"),
    ("1h", 3_600_000_000_000, "1h0m0s"),
    ("30s", 30_000_000_000, "30s"),
    ("+30s", 30_000_000_000, "30s"),
    ("90s", 90_000_000_000, "1m30s"),
    ("1h30m", 5_400_000_000_000, "1h30m0s"),
    ("30m1h", 5_400_000_000_000, "1h30m0s"),
    ("1.5h", 5_400_000_000_000, "1h30m0s"),
    ("1.s", 1_000_000_000, "1s"),
    (".5s", 500_000_000, "500ms"),
    ("1.5s", 1_500_000_000, "1.5s"),
    ("1m0.000000001s", 60_000_000_001, "1m0.000000001s"),
    ("100ms", 100_000_000, "100ms"),
    ("1.25ms", 1_250_000, "1.25ms"),
    ("7us", 7_000, "7µs"),
    ("7µs", 7_000, "7µs"),
    ("7μs", 7_000, "7µs"),
    ("3ns", 3, "3ns"),
    ("0.5ns", 0, "0s"),
    ("2562047h47m16.854775807s", i64::MAX as u64, "2562047h47m16.854775807s"),
];

#[test]
fn go_durations_are_read_and_printed_as_go_does() {
    for (text, nanoseconds, printed) in READ {
        let duration: GoDuration = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(duration.get(), Duration::from_nanos(*nanoseconds), "{text}");
        assert_eq!(duration.to_string(), *printed, "{text}");
    }
}

#[test]
fn what_go_refuses_is_refused_with_what_is_wrong() {
    let kind = |text: &str| match text.parse::<GoDuration>() {
        Ok(duration) => panic!("{text:?} was read as {duration}"),
        Err(DurationError::Empty) => "empty",
        Err(DurationError::Negative { .. }) => "negative",
        Err(DurationError::Unit { .. }) => "unit",
        Err(DurationError::Number { .. }) => "number",
        Err(DurationError::TooLong { .. }) => "too long",
    };
    let long = "1s".repeat(DURATION_TEXT_MAX_BYTES);
    let many_digits = "9".repeat(60) + "h";
    for (text, expected) in [
        ("", "empty"),
        ("+", "empty"),
        ("-1s", "negative"),
        ("-1h30m", "negative"),
        ("--1s", "number"),
        ("30", "unit"),
        ("1d", "unit"),
        ("1h30", "unit"),
        ("1mb", "unit"),
        ("1 h", "unit"),
        ("1.5.5s", "unit"),
        ("h", "number"),
        (".s", "number"),
        ("s1", "number"),
        ("2562048h", "too long"),
        ("2562047h47m16.854775808s", "too long"),
        (long.as_str(), "too long"),
        (many_digits.as_str(), "too long"),
    ] {
        assert_eq!(kind(text), expected, "{text:?}");
    }
}

#[test]
fn the_pattern_of_the_crd_takes_what_the_type_reads() {
    let pattern = regex::Regex::new(DURATION_PATTERN).unwrap();
    for (text, ..) in READ.iter().filter(|(text, ..)| !text.starts_with('-')) {
        assert!(pattern.is_match(text), "{text}");
    }
    for text in ["", "30", "1d", "-1s", "h", "1 h", ".s"] {
        assert!(!pattern.is_match(text), "{text:?}");
    }
}

#[test]
fn seconds_are_rounded_as_each_field_wants() {
    let duration: GoDuration = "1.2s".parse().unwrap();
    assert_eq!(duration.seconds_rounded_up(), 2);
    assert_eq!(duration.seconds_cut_off(), 1);
    let whole: GoDuration = "2s".parse().unwrap();
    assert_eq!((whole.seconds_rounded_up(), whole.seconds_cut_off()), (2, 2));
}

proptest! {
    #[test]
    fn every_duration_that_is_printed_is_read_back(nanoseconds in 0..=i64::MAX as u64) {
        let duration = GoDuration::new(Duration::from_nanos(nanoseconds)).unwrap();
        prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[+-]?[0-9.hmsnuµ ]{0,20}") {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
        }
    }

    #[test]
    fn a_message_is_cut_between_characters(text in "[aé€🦀]{0,600}") {
        let bounded = bounded_message(&text);
        prop_assert!(bounded.len() <= MESSAGE_MAX_BYTES);
        if text.len() <= MESSAGE_MAX_BYTES {
            prop_assert_eq!(bounded, text);
        } else {
            let kept = bounded.strip_suffix('…').unwrap();
            prop_assert!(text.starts_with(kept));
            prop_assert!(kept.len() + 3 + 4 > MESSAGE_MAX_BYTES);
        }
    }
}

#[test]
fn what_does_not_fit_into_an_annotation_is_refused_with_both_sizes() {
    check_record(&"a".repeat(RECORD_MAX_BYTES)).unwrap();
    check_node_state(&"a".repeat(NODE_STATE_MAX_BYTES)).unwrap();
    let error = check_record(&"a".repeat(RECORD_MAX_BYTES + 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the record of the visit would take 3073 bytes; \
         at most 3072 are written to one annotation"
    );
    assert!(check_node_state(&"a".repeat(NODE_STATE_MAX_BYTES + 1)).is_err());
    assert_eq!(cut("aé", 2), "a");
    assert_eq!(cut("aé", 9), "aé");
}
