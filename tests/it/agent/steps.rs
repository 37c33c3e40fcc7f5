//! Steps: environment, overlay, exit codes, checks, output, the wish to stop.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use super::host::{COPY_DIR, Host};

#[test]
fn a_hook_runs_chrooted_with_the_executors_environment() {
    let host = Host::with_package("hooks").with("GREETING", "hello");
    host.write(
        &format!("{COPY_DIR}/configmaps/apply.sh"),
        "echo \"$GREETING from $SKYHOOK_RESOURCE_ID\" > /etc/proof\n",
    );
    fs::create_dir(host.path("/etc")).expect("etc");
    let ended = host.run("apply").expect(0);
    ended.expect_line("apply hook.sh ['apply'] [0] Idempotence.Disabled True");
    ended.expect_line("SUCEEDED: hook.sh apply");
    assert_eq!(host.read("/etc/proof"), "hello from demo-0f1e2d3c-1_my-package_9.9.9\n");
    assert_eq!(ended.summary.step.as_deref(), Some("hook.sh"));
    assert_eq!((ended.summary.exit_code, ended.summary.steps_run), (Some(0), 1));
    host.run("apply-check").expect(0);
    host.run("uninstall").expect(0).expect_line("no uninstall.sh in the ConfigMap, nothing to do");
}

#[test]
fn a_failing_step_ends_the_mode_and_says_what_failed() {
    let host = Host::with_package("hooks");
    host.write(&format!("{COPY_DIR}/configmaps/config.sh"), "echo disk is full >&2\nexit 3\n");
    let ended = host.run("config").expect(1);
    ended.expect_line("FAILED: hook.sh config 3");
    assert_eq!((ended.summary.exit_code, ended.summary.signal), (Some(3), None));
    assert_eq!(ended.summary.tail, "disk is full");
    assert_eq!(ended.summary.mode, "config");
}

#[test]
fn a_step_ended_by_a_signal_failed() {
    let host = Host::with_package("hooks");
    host.write(&format!("{COPY_DIR}/configmaps/config.sh"), "kill -9 $$\n");
    let ended = host.run("config").expect(1);
    ended.expect_line("FAILED: hook.sh config -9");
    assert_eq!((ended.summary.exit_code, ended.summary.signal), (None, Some(9)));
}

#[test]
fn output_without_a_last_newline_does_not_swallow_the_verdict() {
    let host = Host::with_package("hooks");
    host.write(&format!("{COPY_DIR}/configmaps/apply.sh"), "printf 'no newline'\n");
    let ended = host.run("apply").expect(0);
    ended.expect_line("no newline");
    ended.expect_line("SUCEEDED: hook.sh apply");
}

#[test]
fn a_script_without_interpreter_says_so() {
    let host = Host::with_package("hooks");
    host.write(&format!("{COPY_DIR}/skyhook_dir/hook.sh"), "#!/bin/bash-of-another-host\n");
    let ended = host.run("apply").expect(1);
    assert_eq!(ended.summary.exit_code, Some(127));
    assert!(ended.summary.tail.contains("the interpreter in its first line"), "{ended:?}");
}

#[test]
fn step_environment_and_overlay_follow_the_contract() {
    let host = Host::with_package("overlay").with("COLOR", "pod").with("PACKAGE_ENV", "yes");
    // A link to an absolute path means the host's: nothing may end up outside the root.
    fs::create_dir_all(host.path("/real/etc")).expect("the folder");
    std::os::unix::fs::symlink("/real/etc", host.path("/etc")).expect("the link");
    let ended = host.run("config").expect(0);
    ended.expect_line("color=step package=yes order=7");
    ended.expect_line(&format!(
        "step_root={COPY_DIR}/skyhook_dir skyhook_dir={COPY_DIR} cwd={COPY_DIR}"
    ));
    ended.expect_line("motd=laid over");
    ended.expect_line("config inside.sh [] [0] Idempotence.Disabled False");
    assert_eq!(host.read("/real/etc/overlay.d/motd"), "laid over\n");
    assert!(host.exists(&format!("{COPY_DIR}/ran-in-container")));
    assert_eq!(ended.summary.steps_run, 2);
}

#[test]
fn a_missing_expected_file_stops_every_mode_but_the_uninstalls() {
    let host = Host::with_package("overlay");
    fs::remove_file(host.path(&format!("{COPY_DIR}/configmaps/color"))).expect("the key");
    let ended = host.run("config").expect(1);
    ended.expect_text("expected_config_files of overlay: color not found in");
    assert!(ended.summary.tail.contains("add the keys to the package's configMap"));
    assert_eq!(ended.summary.step, None);
    host.run("uninstall").expect(0);
}

#[test]
fn every_check_runs_and_the_first_failure_is_reported() {
    let host = Host::with_package("overlay");
    host.run("config-check").expect(0);
    let all_checked = "/var/lib/skyhook/demo/flags/config-check_ALL_CHECKED";
    assert!(host.exists(all_checked));
    host.write(&format!("{COPY_DIR}/configmaps/bad"), "2\n");
    let ended = host.run("config-check").expect(1);
    ended.expect_line("check 3");
    ended.expect_line("FAILED: where_check.sh 2 3");
    assert_eq!(
        host.read("/var/lib/skyhook/demo/flags/check_results"),
        "where_check.sh False\nwhere_check.sh True\nwhere_check.sh False"
    );
    assert!(!host.exists(all_checked), "an earlier success must not outlive a failure");
    assert_eq!((ended.summary.exit_code, ended.summary.steps_run), (Some(3), 3));
    assert_eq!(ended.summary.tail, "check 2");
}

#[test]
fn sigterm_lets_the_running_step_finish_and_starts_no_other() {
    let host = Host::with_package("versions").with("SEAL_COLOR", "red").with("SEAL_SHAPE", "wax");
    let gate = host.path("/gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    host.script(
        &format!("{COPY_DIR}/skyhook_dir/steps/install.sh"),
        "echo waiting\nread -r word < /gate\necho \"$word\" >> /trace\n",
    );
    let root = host.root().to_string_lossy().into_owned();
    let mut agent = host
        .command(&["apply", &root, COPY_DIR])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let mut lines = BufReader::new(agent.stdout.take().expect("piped"));
    wait_for(&mut lines, "waiting");
    let kill = Command::new("kill").args(["-TERM", &agent.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    wait_for(&mut lines, "SIGTERM received, the running step may finish, no other is started");
    fs::OpenOptions::new()
        .write(true)
        .open(&gate)
        .and_then(|mut gate| gate.write_all(b"finished\n"))
        .expect("the gate opens");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("the rest");
    let code = agent.wait().expect("the agent ends").code().expect("an exit code");
    let ended = host.ended(code, rest).expect(1);
    ended.expect_text("SUCEEDED: steps/install.sh a it's");
    assert_eq!(host.read("/trace"), "finished\n", "seal.sh must not have run");
    assert_eq!(ended.summary.steps_run, 1);
    assert!(ended.summary.tail.contains("SIGTERM"), "{:?}", ended.summary);
    // What finished is on the host, so the next attempt starts with the next step.
    let next = host.run("apply").expect(0);
    assert_eq!((next.summary.steps_skipped, next.summary.steps_run), (1, 1));
}

#[test]
fn a_process_left_in_the_background_does_not_hold_the_step() {
    let host = Host::with_package("hooks");
    let gate = host.path("/gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    // A shell connects what it puts into the background to this file.
    host.write("/dev/null", "");
    host.write(
        &format!("{COPY_DIR}/configmaps/apply.sh"),
        "(read -r word < /gate) &\necho started\n",
    );
    let ended = host.run("apply").expect(0);
    ended.expect_text("WARNING: ");
    ended.expect_text("left a process behind that keeps its output open");
    ended.expect_line("SUCEEDED: hook.sh apply");
    // Let it end, so that no test leaves a process.
    fs::write(gate, "go\n").expect("the gate opens");
}

fn wait_for(lines: &mut impl BufRead, wanted: &str) {
    let mut line = String::new();
    while line.trim_end() != wanted {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("a line"), 0, "ended before {wanted:?}");
    }
}
