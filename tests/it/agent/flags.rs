//! Flags, history, logs: what the host remembers, in upstream's names.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodewright::agent::{self, HostRoot, Step, fingerprint, flag_names, list_of_strings};

use super::host::{COPY_DIR, Host};

const FLAGS: &str = "/var/lib/skyhook/demo/flags/versions/2.0.0";

fn versions() -> Host {
    Host::with_package("versions").with("SEAL_COLOR", "red").with("SEAL_SHAPE", "round wax")
}

/// Returns the first step of a mode of the package on the host.
fn step(host: &Host, index: usize) -> Step {
    let root = HostRoot::new(host.root());
    let config = agent::load_config(&root, COPY_DIR.as_ref()).expect("a valid package");
    config.modes[&agent::Mode::Apply][index].clone()
}

#[test]
fn python_writes_lists_like_this() {
    // Every right side was printed by Python 3.
    for (list, expected) in [
        (vec![], "[]"),
        (vec!["a", "b"], "['a', 'b']"),
        (vec![""], "['']"),
        (vec!["it's"], r#"["it's"]"#),
        (vec!["say \"hi\""], r#"['say "hi"']"#),
        (vec!["it's \"both\""], r#"['it\'s "both"']"#),
        (vec!["back\\slash"], r"['back\\slash']"),
        (vec!["tab\tline\nreturn\r"], r"['tab\tline\nreturn\r']"),
        (vec!["\0\u{1b}\u{7f}"], r"['\x00\x1b\x7f']"),
        (vec!["\u{80}\u{a0}\u{ad}"], r"['\x80\xa0\xad']"),
        (vec!["é", "日本", "🦀"], "['é', '日本', '🦀']"),
        (vec!["\u{2028}\u{3000}\u{feff}"], r"['\u2028\u3000\ufeff']"),
        (vec!["\u{e000}", "\u{10ffff}"], r"['\ue000', '\U0010ffff']"),
        (vec!["e\u{301}", "\u{301}"], "['e\u{301}', '\u{301}']"),
    ] {
        let list: Vec<String> = list.into_iter().map(str::to_owned).collect();
        assert_eq!(list_of_strings(&list), expected);
    }
    assert_eq!(agent::list_of_integers(&[0, 2, -15]), "[0, 2, -15]");
}

#[test]
fn flag_names_are_those_of_both_upstream_agents() {
    let host = versions();
    let mut step = step(&host, 0);
    step.arguments = vec!["a".to_owned(), "b".to_owned()];
    let [first, second] = flag_names(&step);
    assert_eq!(first, "steps/install.sh_WydhJywgJ2InXV9bMF0=");
    let name = first.strip_prefix("steps/install.sh_").expect("the path");
    assert_eq!(STANDARD.decode(name).expect("base64"), b"['a', 'b']_[0]");
    assert_eq!(second, format!("install.sh-{}.flag", fingerprint(&step)));
    // Base64 with a slash means folders, as upstream's first agent has them.
    step.arguments = vec!["???".to_owned()];
    assert_eq!(flag_names(&step)[0], "steps/install.sh_Wyc/Pz8nXV9bMF0=");
}

#[test]
fn the_fingerprint_is_sha256_over_what_go_writes() {
    let mut step = step(&versions(), 0);
    step.path = "a.sh".to_owned();
    step.arguments = vec!["<&>\u{2028}".to_owned()];
    step.env = BTreeMap::from([("K".to_owned(), "v".to_owned())]);
    // echo -n '{"path":"a.sh","arguments":["\u003c\u0026\u003e\u2028"],"returnCodes":[0],
    // "env":{"K":"v"},"onHost":true}' (one line) | sha256sum
    assert_eq!(
        fingerprint(&step),
        "fa940d1cb3577a88c18394c9e5c4510763a7fbe3059b2f55c85301edb7d7d632"
    );
}

#[test]
fn an_auto_step_runs_once_and_its_flag_says_so() {
    let host = versions();
    let ended = host.run("apply").expect(0);
    ended.expect_line("apply steps/install.sh ['a', \"it's\"] [0] Idempotence.Auto True");
    ended.expect_line("SUCEEDED: steps/seal.sh red round wax");
    assert_eq!(host.read("/trace"), "install a it's\nseal red round wax\n");
    assert_eq!((ended.summary.exit_code, ended.summary.steps_run), (Some(2), 2));
    for index in [0, 1] {
        for name in flag_names(&step(&host, index)) {
            let content = host.read(&format!("{FLAGS}/{name}"));
            assert!(content.starts_with("last_run: 20"), "{content}");
            assert!(content.ends_with("\nstep_always_runs: False"), "{content}");
        }
    }
    let again = host.run("apply").expect(0);
    again.expect_text("Skipping steps/install.sh because ");
    assert_eq!((again.summary.steps_run, again.summary.steps_skipped), (0, 2));
    assert_eq!(host.read("/trace"), "install a it's\nseal red round wax\n");
    let host = host.with("OVERLAY_ALWAYS_RUN_STEP", "TRUE");
    let always = host.run("apply").expect(0);
    always.expect_text("but OVERLAY_ALWAYS_RUN_STEP flag is set so running anyway.");
    assert_eq!(always.summary.steps_run, 2);
}

#[test]
fn a_flag_of_either_upstream_agent_counts() {
    for which in [0, 1] {
        let host = versions();
        for index in [0, 1] {
            host.write(&format!("{FLAGS}/{}", flag_names(&step(&host, index))[which]), "old");
        }
        let ended = host.run("apply").expect(0);
        assert_eq!(ended.summary.steps_skipped, 2, "{}", ended.output);
        assert!(!host.exists("/trace"));
    }
}

#[test]
fn arguments_too_long_for_a_file_name_leave_the_second_name_only() {
    let host = Host::with_package("versions").with("SEAL_COLOR", "red").with("SEAL_SHAPE", "wax");
    let long = "x".repeat(400);
    host.edit("config.json", "\"it's\"", &format!("\"{long}\""));
    host.run("apply").expect(0);
    let first_step = step(&host, 0);
    assert!(host.exists(&format!("{FLAGS}/install.sh-{}.flag", fingerprint(&first_step))));
    assert_eq!(host.run("apply").expect(0).summary.steps_skipped, 2);
    // No temporary file is left anywhere.
    assert!(host.list(FLAGS).iter().all(|name| !name.starts_with('.')));
}

#[test]
fn the_true_exit_code_is_compared_and_a_failed_step_gets_no_flag() {
    let host = versions().with("SEAL_EXIT", "1");
    let ended = host.run("apply").expect(1);
    ended.expect_line("FAILED: steps/seal.sh red round wax 1");
    assert_eq!((ended.summary.exit_code, ended.summary.steps_run), (Some(1), 2));
    let host = host.with("SEAL_EXIT", "0");
    let ended = host.run("apply").expect(0);
    assert_eq!((ended.summary.steps_run, ended.summary.steps_skipped), (1, 1));
}

#[test]
fn every_missing_variable_is_reported() {
    let host = Host::with_package("versions");
    let ended = host.run("apply").expect(1);
    for name in ["SEAL_COLOR", "SEAL_SHAPE"] {
        let line = format!("steps/seal.sh: Expected environment variable did not exist: {name}");
        ended.expect_line(&line);
        assert!(ended.summary.tail.contains(&line), "{:?}", ended.summary);
    }
    assert_eq!(ended.summary.step.as_deref(), Some("steps/seal.sh"));
    assert_eq!((ended.summary.exit_code, ended.summary.steps_run), (None, 1));
    assert_eq!(host.read("/trace"), "install a it's\n");
}

#[test]
fn history_carries_an_upgrade_from_version_to_version() {
    let host = versions();
    host.run("upgrade").expect(0).expect_text("no existing history found for versions");
    assert_eq!(host.read("/trace"), "migrate unknown 2.0.0 unknown 2.0.0\n");
    host.edit("config.json", "\"2.0.0\"", "\"1.4.0\"");
    host.run("apply-check").expect(0);
    host.edit("config.json", "\"1.4.0\"", "\"2.0.0\"");
    let ended = host.run("upgrade").expect(0);
    ended.expect_line("upgrade steps/migrate.sh ['1.4.0', '2.0.0'] [0] Idempotence.Disabled True");
    assert!(host.read("/trace").ends_with("migrate 1.4.0 2.0.0 1.4.0 2.0.0\n"));
    host.run("upgrade-check").expect(0);
    let history = host.read("/var/lib/skyhook/demo/history/versions.json");
    let history: serde_json::Value = serde_json::from_str(&history).expect("JSON");
    assert_eq!(history["current-version"], "2.0.0");
    let versions: Vec<&str> = history["history"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["version"].as_str())
        .collect();
    assert_eq!(versions, ["2.0.0", "1.4.0"], "newest first");
}

#[test]
fn a_corrupt_history_is_moved_aside() {
    let host = versions();
    host.write("/var/lib/skyhook/demo/history/versions.json", "{ half");
    host.run("upgrade").expect(0).expect_text("corrupt history file moved to");
    assert_eq!(host.read("/trace"), "migrate  2.0.0  2.0.0\n");
    assert_eq!(host.read("/var/lib/skyhook/demo/history/versions.json.backup"), "{ half");
}

#[test]
fn an_uninstall_forgets_the_steps_of_every_version() {
    let host = versions();
    host.run("apply").expect(0);
    host.write("/var/lib/skyhook/demo/flags/versions/1.4.0/older", "");
    host.run("uninstall").expect(0);
    host.run("uninstall-check").expect(0);
    assert!(!host.exists("/var/lib/skyhook/demo/flags/versions"));
    let history = host.read("/var/lib/skyhook/demo/history/versions.json");
    assert!(history.contains("\"current-version\": \"uninstalled\""), "{history}");
    host.run("apply").expect(0);
    assert_eq!(host.read("/trace"), "install a it's\nseal red round wax\n", "installed anew");
}

#[test]
fn five_logs_per_step_are_kept() {
    let host = Host::with_package("hooks");
    let folder = "/var/log/skyhook/demo/hooks/1.0.0";
    for second in 10..18 {
        host.write(&format!("{folder}/hook.sh-2020-01-02-0304{second}.log"), "old\n");
    }
    // Another step whose name begins the same, and a file that is no log.
    host.write(&format!("{folder}/hook.sh-more-2020-01-02-030405.log"), "other\n");
    host.write(&format!("{folder}/hook.sh-notes.log"), "mine\n");
    host.run("apply").expect(0);
    let names = host.list(folder);
    let old: Vec<&String> = names.iter().filter(|name| name.contains("-2020-")).collect();
    assert_eq!(
        old,
        [
            "hook.sh-2020-01-02-030414.log",
            "hook.sh-2020-01-02-030415.log",
            "hook.sh-2020-01-02-030416.log",
            "hook.sh-2020-01-02-030417.log",
            "hook.sh-more-2020-01-02-030405.log",
        ]
    );
    assert_eq!(names.len(), 7, "{names:?}");
    let new = names.iter().find(|name| !name.contains("2020") && !name.contains("notes"));
    let log = host.read(&format!("{folder}/{}", new.expect("the new log")));
    assert_eq!(log, "no apply.sh in the ConfigMap, nothing to do\n");
    let host = Host::with_package("hooks").with("SKYHOOK_AGENT_WRITE_LOGS", "false");
    host.run("apply").expect(0);
    assert!(!host.exists("/var/log/skyhook"));
}
