//! Arguments, banner, modes with and without steps.

use super::host::{COPY_DIR, Host};

#[test]
fn the_banner_is_what_upstreams_tests_match() {
    let host = Host::with_package("hooks");
    let ended = host.run("apply").expect(0);
    let shown = ended.output.replace(&*host.root().to_string_lossy(), "ROOT");
    insta::assert_snapshot!(shown, @r#"
    --------------------
    --CLI CONFIGURATION-
    mode: apply
    root_mount: ROOT
    copy_dir: /var/lib/skyhook/demo/package-copy
    interrupt_data: None
    always_run_step: False
    --ENV CONFIGURATION-
    COPY_RESOLV: False
    OVERLAY_ALWAYS_RUN_STEP: False
    SKYHOOK_RESOURCE_ID: demo-0f1e2d3c-1_my-package_9.9.9
    SKYHOOK_DATA_DIR: /nowhere
    SKYHOOK_ROOT_DIR: /var/lib/skyhook/demo
    SKYHOOK_LOG_DIR: /var/log/skyhook/demo
    SKYHOOK_AGENT_BUFFER_LIMIT: 8192
    SKYHOOK_AGENT_WRITE_LOGS: True
    Directory CONFIGURATION
    flag_dir: /var/lib/skyhook/demo/flags/my-package/9.9.9
    log_dir: /var/log/skyhook/demo/my-package/9.9.9
    history_file: /var/lib/skyhook/demo/history/my-package.json
    --------------------
    WARNING: apply: hook.sh has no check script hook_check.sh
    WARNING: config: hook.sh has no check script hook_check.sh
    WARNING: post-interrupt: hook.sh has no check script hook_check.sh
    WARNING: uninstall: hook.sh has no check script hook_check.sh
    apply hook.sh ['apply'] [0] Idempotence.Disabled True
    no apply.sh in the ConfigMap, nothing to do
    SUCEEDED: hook.sh apply
    "#);
}

#[test]
fn an_unknown_mode_is_a_warning_so_that_a_newer_daemon_can_use_an_older_agent() {
    let ended = Host::with_package("hooks").run("certify").expect(0);
    ended.expect_text("WARNING: This version of the Agent doesn't support the certify mode");
    assert_eq!(ended.summary.mode, "certify");
    assert_eq!((ended.summary.step, ended.summary.steps_run), (None, 0));
}

#[test]
fn wrong_usage_exits_2_and_says_what_is_expected() {
    let host = Host::with_package("hooks");
    let root = host.root().to_string_lossy().into_owned();
    for (args, text) in [
        (vec!["apply"], "expected 2 to 4 arguments, got 1"),
        (vec!["apply", &root, "relative"], "COPYDIR \"relative\" must be absolute"),
        (vec!["apply", &root, "/a/../b"], "must be absolute, without .."),
        (vec!["apply", &root, COPY_DIR, "payload"], "apply takes no interrupt payload"),
        (vec!["interrupt", &root, COPY_DIR, ""], "interrupt needs a payload"),
    ] {
        let ended = host.agent(&args).expect(2);
        ended.expect_text(text);
        ended.expect_text("usage: nodewright agent MODE [ROOT] COPYDIR [INTERRUPT]");
    }
    host.agent(&["--version"]).expect(0).expect_line(env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_forms_without_a_root_mean_slash_root() {
    // Nothing of the kind is in this machine's `/root`, so both fail after the banner.
    for args in [&["apply", "/no-such-package"][..], &["interrupt", "/no-such-package", "!"]] {
        let ended = Host::new().agent(args).expect(1);
        ended.expect_line("root_mount: /root");
        ended.expect_line("copy_dir: /no-such-package");
        ended.expect_line(&format!("interrupt_data: {}", args.get(2).unwrap_or(&"None")));
    }
}

#[test]
fn a_mode_without_steps_succeeds_and_a_check_without_steps_is_still_history() {
    let host = Host::with_package("overlay");
    let ended = host.run("apply").expect(0);
    ended.expect_line("WARNING: There are no apply steps defined. This will be ran as a no-op.");
    assert!(host.exists("/var/lib/skyhook/demo/flags/START"));
    host.run("apply-check").expect(0);
    let history = host.read("/var/lib/skyhook/demo/history/overlay.json");
    assert!(history.contains("\"current-version\": \"0.1.0-rc.1\""), "{history}");
    assert!(!host.exists("/var/lib/skyhook/demo/flags/apply-check_ALL_CHECKED"));
}

#[test]
fn a_malformed_resource_id_is_refused_and_a_missing_one_only_costs_the_folders() {
    let host = Host::with_package("hooks").with("SKYHOOK_RESOURCE_ID", "no-underscores");
    host.run("apply").expect(1).expect_text("expected RESOURCE-UID-GENERATION_PACKAGE_VERSION");
    let host = Host::with_package("hooks").with("SKYHOOK_RESOURCE_ID", "");
    let ended = host.run("apply").expect(0);
    assert!(!ended.output.contains("flag_dir"), "{}", ended.output);
}

#[test]
fn a_root_that_is_not_mounted_is_refused_and_not_made() {
    let host = Host::with_package("hooks");
    let root = host.path("/not-mounted").to_string_lossy().into_owned();
    let ended = host.agent(&["apply", &root, COPY_DIR]).expect(1);
    ended.expect_text("where the host's root should be");
    assert!(!host.exists("/not-mounted"));
}

#[test]
fn an_author_can_run_a_package_on_the_machine_itself() {
    let host = Host::with_package("hooks");
    let copy_dir = host.path(COPY_DIR).to_string_lossy().into_owned();
    host.write(&format!("{COPY_DIR}/configmaps/apply.sh"), "echo \"at $PWD\"\n");
    let (state, logs) = (host.path("/state"), host.path("/logs"));
    let host = host
        .with("SKYHOOK_ROOT_DIR", &state.to_string_lossy())
        .with("SKYHOOK_LOG_DIR", &logs.to_string_lossy());
    let ended = host.agent(&["apply", "/", &copy_dir]).expect(0);
    ended.expect_line(&format!("at {copy_dir}"));
    assert!(host.exists("/state/flags/START"));
}

#[test]
fn a_mode_without_its_package_says_which_container_to_look_at() {
    let ended = Host::new().run("apply").expect(1);
    ended
        .expect_text("there is no package: neither /var/lib/skyhook/demo/package-copy on the host");
    ended.expect_text("the first init container copies the package, look at its log");
}

#[test]
fn a_package_in_the_container_is_copied_when_no_init_container_did() {
    let host = Host::new();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/packages/hooks");
    let host = host.with("SKYHOOK_DATA_DIR", package);
    host.run("apply").expect(0).expect_line("SUCEEDED: hook.sh apply");
    assert!(host.exists(&format!("{COPY_DIR}/config.json")));
}
