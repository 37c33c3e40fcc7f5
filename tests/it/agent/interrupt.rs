//! Interrupts: commands, markers per resource id, exactly one reboot.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::host::{COPY_DIR, Ended, Host, RESOURCE_ID};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

fn markers() -> String {
    format!("/var/lib/skyhook/demo/interrupts/flags/{RESOURCE_ID}")
}

/// Runs the interrupt with a copy directory that does not exist, as after an edit of the resource.
fn interrupt(host: &Host, json: &str) -> Ended {
    let root = host.root().to_string_lossy().into_owned();
    host.agent(&["interrupt", &root, COPY_DIR, &STANDARD.encode(json)])
}

/// A host whose commands write down that they ran.
fn host() -> Host {
    let host = Host::new();
    for command in ["/usr/bin/systemctl", "/usr/sbin/service"] {
        host.script(command, "echo \"${0##*/} $*\" >> /trace\n[ \"$2\" != broken ]\n");
    }
    host
}

#[test]
fn services_are_restarted_once_each_per_resource_id() {
    let host = host();
    let payload = r#"{"type":"service_restart","services":["containerd","kubelet"]}"#;
    let ended = interrupt(&host, payload).expect(0);
    ended.expect_line("systemctl restart kubelet");
    let trace =
        "systemctl daemon-reload\nsystemctl restart containerd\nsystemctl restart kubelet\n";
    assert_eq!(host.read("/trace"), trace);
    let names = ["service_restart_0", "service_restart_1", "service_restart_2"];
    assert_eq!(host.list(&markers()), names.map(|name| format!("{name}.complete")));
    let again = interrupt(&host, payload).expect(0);
    again.expect_line(&format!(
        "Skipping interrupt service_restart_2 because it was already run for {RESOURCE_ID}"
    ));
    assert_eq!((again.summary.steps_run, again.summary.steps_skipped), (0, 3));
    assert_eq!(host.read("/trace"), trace);
    // Another generation is another interrupt.
    let host = host.with("SKYHOOK_RESOURCE_ID", "demo-0f1e2d3c-2_my-package_9.9.9");
    interrupt(&host, payload).expect(0);
    assert_eq!(host.read("/trace"), trace.repeat(2));
}

#[test]
fn a_failing_command_leaves_no_marker_and_the_next_attempt_goes_on_there() {
    let host = host();
    let payload = r#"{"type":"service_restart","services":["broken"]}"#;
    for _attempt in 0..2 {
        let ended = interrupt(&host, payload).expect(1);
        ended.expect_line("INTERRUPT FAILED: ['systemctl', 'restart', 'broken'] return_code: 1");
        assert_eq!(ended.summary.step.as_deref(), Some("systemctl restart broken"));
        assert_eq!(ended.summary.exit_code, Some(1));
    }
    assert_eq!(host.list(&markers()), ["service_restart_0.complete"]);
    assert_eq!(
        host.read("/trace"),
        "systemctl daemon-reload\nsystemctl restart broken\nsystemctl restart broken\n"
    );
}

#[test]
fn the_other_types_do_what_the_contract_says() {
    let host = host();
    interrupt(&host, r#"{"type":"restart_all_services"}"#).expect(0);
    assert_eq!(host.read("/trace"), "service procps force-reload\n");
    interrupt(&host, r#"{"type":"no_op","services":null}"#).expect(0);
    assert!(host.exists(&format!("{}/no_op.complete", markers())));
    interrupt(&host, r#"{"type":"script_interrupt"}"#).expect(0);
    let log = host.list("/var/log/skyhook/demo/my-package/9.9.9/interrupts");
    assert_eq!(log.len(), 1);
    assert!(log[0].starts_with("restart_all_services_0-"), "{log:?}");
}

#[test]
fn a_reboot_is_complete_when_the_boot_id_changed_and_never_asked_for_again() {
    let host = host();
    host.write(BOOT_ID, "first\n");
    // A shutdown ends the agent with everything else: here the reboot command does that by itself.
    host.script("/sbin/reboot", "echo reboot >> /trace\nkill -TERM $PPID\n");
    let payload = r#"{"type":"node_restart"}"#;
    let ended = interrupt(&host, payload).expect(1);
    assert_eq!(ended.summary.exit_code, Some(0), "issued, which the daemon tells from this");
    let pending = format!("{}/node_restart_0.pending", markers());
    assert_eq!(host.read(&pending), "boot-id:first\n");
    // The same boot: the reboot did not happen, it is asked for again.
    interrupt(&host, payload).expect(1);
    assert_eq!(host.read("/trace"), "reboot\nreboot\n");
    host.write(BOOT_ID, "second\n");
    for _attempt in 0..2 {
        let ended = interrupt(&host, payload).expect(0);
        assert_eq!(ended.summary.steps_skipped, 1);
    }
    assert_eq!(host.list(&markers()), ["node_restart_0.complete"]);
    assert_eq!(host.read("/trace"), "reboot\nreboot\n");
}

#[test]
fn a_reboot_that_the_shutdown_itself_ended_is_success() {
    let host = host();
    host.write(BOOT_ID, "first\n");
    host.script("/sbin/reboot", "kill -TERM $$\n");
    let ended = interrupt(&host, r#"{"type":"node_restart"}"#).expect(0);
    assert_eq!(ended.summary.signal, Some(15));
    assert!(host.exists(&format!("{}/node_restart_0.pending", markers())));
}

#[test]
fn a_host_that_cannot_reboot_says_so_at_once() {
    let host = host();
    host.write(BOOT_ID, "first\n");
    let ended = interrupt(&host, r#"{"type":"node_restart"}"#).expect(1);
    assert_eq!(ended.summary.exit_code, Some(127));
    assert!(ended.summary.tail.contains("cannot start reboot"), "{:?}", ended.summary);
    // Without a boot id nothing could ever prove the reboot, so none is asked for.
    let host = self::host();
    host.script("/sbin/reboot", "echo reboot >> /trace\n");
    let ended = interrupt(&host, r#"{"type":"node_restart"}"#).expect(1);
    ended.expect_text("cannot read the boot id from");
    assert!(!host.exists("/trace"));
}

#[test]
fn a_payload_that_is_none_is_refused() {
    let host = host();
    for (payload, text) in [
        ("!", "not base64"),
        (&*STANDARD.encode("{}"), "missing field `type`"),
        (&*STANDARD.encode(r#"{"type":"format_disk"}"#), "unknown variant `format_disk`"),
        (
            &*STANDARD.encode(r#"{"type":"service_restart","services":["--root=/x"]}"#),
            "naming a service \"--root=/x\"",
        ),
    ] {
        let root = host.root().to_string_lossy().into_owned();
        host.agent(&["interrupt", &root, COPY_DIR, payload]).expect(1).expect_text(text);
    }
    let host = host.with("SKYHOOK_RESOURCE_ID", "");
    interrupt(&host, r#"{"type":"no_op"}"#).expect(1).expect_text("SKYHOOK_RESOURCE_ID is \"\"");
}
