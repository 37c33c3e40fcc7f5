//! The daemon's own series.

use std::time::Duration;

use nodewright::daemon::metrics::{Leadership, Metrics, SourceHold};
use nodewright::model::{Finding, Severity};
use nodewright::plan::{Invariant, plan};

use super::{noon, package, rollout, series, world};

fn finding(severity: Severity) -> Finding {
    Finding {
        file: "clusters/dev/tuning.yaml".to_owned(),
        line: Some(3),
        column: None,
        severity,
        code: "NW0107".to_owned(),
        object: None,
        path: None,
        message: "unknown field".to_owned(),
        way_out: "remove it".to_owned(),
    }
}

#[test]
fn a_leader_shows_source_pushes_actions_and_ticks() {
    let metrics = Metrics::new();
    metrics.set_leadership(Leadership::Leader);
    metrics.show_source();
    metrics.source_succeeded(noon());
    metrics.set_source_hold(SourceHold::Held);
    metrics.set_findings(&[Severity::Error, Severity::Note, Severity::Error].map(finding));
    metrics.status_push_succeeded(noon());
    metrics.count_action("PatchNode", "done");
    metrics.count_action("PatchNode", "conflict");
    metrics.count_action("PatchNode", "done");
    metrics.count_breach(Invariant::OneReboot);
    metrics.observe_tick(Duration::from_millis(20));
    metrics.observe_tick(Duration::from_secs(3));
    assert_eq!(metrics.encode(), include_str!("daemon.txt"));
}

#[test]
fn what_never_succeeded_is_shown_as_time_zero_where_it_is_expected() {
    let metrics = Metrics::new();
    metrics.set_leadership(Leadership::Leader);
    assert!(!metrics.encode().contains("last_success"));
    metrics.show_source();
    metrics.show_status_pushes();
    let text = metrics.encode();
    for family in ["source", "status_push"] {
        let name = format!("nodewright_{family}_last_success_timestamp_seconds");
        assert_eq!(series(&text, &name), vec![format!("{name} 0")]);
    }
    metrics.source_succeeded(noon());
    metrics.show_source();
    let name = "nodewright_source_last_success_timestamp_seconds";
    assert_eq!(series(&metrics.encode(), name), vec![format!("{name} 1796040000")]);
}

#[test]
fn findings_are_those_of_the_newest_revision() {
    let metrics = Metrics::new();
    metrics.set_leadership(Leadership::Leader);
    metrics.set_findings(&[finding(Severity::Error)]);
    metrics.set_findings(&[finding(Severity::Warning)]);
    let family = "nodewright_source_findings";
    assert_eq!(
        series(&metrics.encode(), family),
        ["note\"} 0", "warning\"} 1", "error\"} 0"]
            .map(|rest| format!("{family}{{severity=\"{rest}"))
    );
}

#[test]
fn a_standby_shows_neither_fleet_nor_source() {
    let world = world(2, rollout("tuning", package("kernel", "1.2.0")));
    let metrics = Metrics::new();
    metrics.set_leadership(Leadership::Leader);
    metrics.source_succeeded(noon());
    metrics.status_push_succeeded(noon());
    metrics.observe(&world.input, &plan(&world.input));
    assert!(metrics.encode().contains("tuning"));

    metrics.set_leadership(Leadership::Standby);
    let text = metrics.encode();
    assert!(!text.contains("tuning") && !text.contains("last_success"), "{text}");
    assert_eq!(series(&text, "nodewright_leader"), vec!["nodewright_leader 0"]);

    // Leading again, the old fleet is not shown before the first tick; the source still is.
    metrics.set_leadership(Leadership::Leader);
    let text = metrics.encode();
    assert!(!text.contains("tuning") && text.contains("source_last_success"), "{text}");
}
