//! The termination message: small, valid, and true about what happened.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use nodewright::agent::{Invocation, SUMMARY_MAX_BYTES, Stop, Summary};

use super::host::{COPY_DIR, Host, RESOURCE_ID};

#[test]
fn the_shape_is_what_the_daemon_reads() {
    let summary = Summary {
        v: 1,
        mode: "apply".to_owned(),
        step: Some("sysctl.sh".to_owned()),
        exit_code: Some(3),
        signal: None,
        tail: "last lines".to_owned(),
        elapsed_ms: 1200,
        steps_run: 2,
        steps_skipped: 1,
    };
    assert_eq!(
        summary.to_message(),
        "{\"v\":1,\"mode\":\"apply\",\"step\":\"sysctl.sh\",\"exit_code\":3,\"signal\":null,\
         \"tail\":\"last lines\",\"elapsed_ms\":1200,\"steps_run\":2,\"steps_skipped\":1}"
    );
}

#[test]
fn whatever_the_tail_holds_the_message_stays_small_and_keeps_its_end() {
    for unit in ["x", "\u{1}", "\"", "é", "🦀", "\n"] {
        let tail = format!("{}THE END", unit.repeat(5000));
        let summary = Summary {
            v: 1,
            mode: "m".repeat(3000),
            step: Some("é".repeat(3000)),
            tail,
            ..Summary::default()
        };
        let message = summary.to_message();
        assert!(message.len() <= SUMMARY_MAX_BYTES, "{} bytes of {unit:?}", message.len());
        let read: Summary = serde_json::from_str(&message).expect("valid JSON");
        assert!(read.tail.ends_with("THE END"), "{unit:?}: {:?}", read.tail);
        assert!(read.tail.len() > 200, "{unit:?} keeps only {} bytes", read.tail.len());
    }
}

#[test]
fn output_of_any_length_leaves_its_last_lines() {
    let host = Host::with_package("hooks");
    host.write(
        &format!("{COPY_DIR}/configmaps/apply.sh"),
        "i=0\nwhile [ $i -lt 20000 ]; do echo \"line $i of a long story\"; i=$((i+1)); done\n\
         exit 9\n",
    );
    let ended = host.run("apply").expect(1);
    assert!(ended.summary.tail.ends_with("line 19999 of a long story"), "{:?}", ended.summary);
    assert!(ended.summary.tail.len() < SUMMARY_MAX_BYTES);
    ended.expect_line("line 0 of a long story");
    ended.expect_line("line 19999 of a long story");
}

#[test]
fn the_library_asks_only_its_invocation() {
    let host = Host::new();
    let root = host.root().to_string_lossy().into_owned();
    let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
    let asked = Cell::new(0);
    let invocation = Invocation {
        args: ["interrupt", &root, COPY_DIR, &STANDARD.encode(r#"{"type":"no_op"}"#)]
            .map(str::to_owned)
            .to_vec(),
        env: BTreeMap::from([
            ("SKYHOOK_RESOURCE_ID".to_owned(), RESOURCE_ID.to_owned()),
            ("SKYHOOK_ROOT_DIR".to_owned(), "/state".to_owned()),
            ("COPY_RESOLV".to_owned(), "false".to_owned()),
        ]),
        executable: "/never/started".into(),
        termination_log: host.termination_log(),
        now: Box::new(move || {
            asked.set(asked.get() + 1);
            start + SignedDuration::from_secs(asked.get())
        }),
        stop: Stop::default(),
        reboot_wait: Duration::ZERO,
    };
    let mut output = Vec::new();
    let code = nodewright::agent::run(&invocation, &mut output);
    let ended = host.ended(i32::from(code), String::from_utf8(output).expect("Unicode"));
    let ended = ended.expect(0);
    // Start, marker, end: one second each.
    assert_eq!(ended.summary.elapsed_ms, 2000);
    let marker = format!("/state/interrupts/flags/{RESOURCE_ID}/no_op.complete");
    assert_eq!(host.read(&marker), "2026-01-02T03:04:07Z");
}

#[test]
fn outside_a_pod_no_file_is_made() {
    let host = Host::with_package("hooks");
    std::fs::remove_file(host.termination_log()).expect("the kubelet's file");
    let root = host.root().to_string_lossy().into_owned();
    let status = host.command(&["apply", &root, COPY_DIR]).output().expect("the agent").status;
    assert!(status.success());
    assert!(!host.termination_log().exists());
}
