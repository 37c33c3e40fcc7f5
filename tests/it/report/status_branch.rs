//! The status branch: its page, its files, its commit message, its urgency.

use nodewright::model::{
    DEFAULT_COMPARTMENT, Finding, Reason, Severity, StatusWord, Urgency, Verdict,
};
use nodewright::report::status_branch::{
    SUBJECT_MAX_CHARS, commit_subject, files, trailers, urgency,
};
use nodewright::report::{FleetState, HeldRevision, SourceError, SourceMode};

use super::world::{World, package, refused, revision, three_pools, time};

fn file(state: &FleetState, path: &str) -> String {
    let mut files = files(state);
    let bytes = files.remove(path).unwrap_or_else(|| panic!("no {path} in {:?}", files.keys()));
    String::from_utf8(bytes).expect("text")
}

fn json(state: &FleetState, path: &str) -> serde_json::Value {
    serde_json::from_str(&file(state, path)).expect("JSON")
}

#[test]
fn page_of_three_pools_says_what_needs_a_person() {
    insta::assert_snapshot!(file(&three_pools().state(), "README.md"), @r#"
    # prod-a · rolling out · 2 things need a person

    Applied `main@eeeeeee`. State as of this commit; live: `kubectl get nodewrights`

    | pool | package | done | down | state |
    |---|---|--:|--:|---|
    | gb200 | check-only 0.3.0 (beside the workloads) | 3/3 | 0 | complete 2026-11-24T06:40:00Z |
    | | kernel-tuning 1.4.2 (beside the workloads) | 3/3 | | |
    | general | containerd-cfg 2.1.1 (restarts services) | 1/5 | 2 | **stopped**, batch 3 |
    | h100-train | kernel-tuning 1.5.0 (reboot) | 2/7 | 1 | batch 2 of 4 |

    ## Batches to come

    - **h100-train**: 4 open, then 8, 3
      - 1 of 20 nodes failed: it stops after 2 failed batches in a row, so far 0; 1 of 4 failed in batch 2, which counts as failed (90 %)

    ## Needs a person (2)

    - **storage**, `clusters/prod-a/storage.yaml:7:14`: version 1.10 is read as the number 1.1 (NW0107)
      - way out: quote it: version: "1.10"
    - **general**, cpu-011, cpu-019: config of containerd-cfg|2.1.1 failed 4 times: config-check exit 1: unknown key \`SystemdCgroups\` (Failed, since 2026-11-24T10:15:00Z)
      - way out: fix the package or its configuration and commit: a changed package is tried again; for the same one: nodewright retry node/NAME
      - stopped after 2 failed batches in a row, the last was batch 3 (failed: cpu-011, cpu-019); way out: fix the package or its configuration and commit: a changed package is tried again; to go on with the same one: nodewright retry node/cpu-011, then nodewright deployment-policy reset general

    ## Waits by itself (4 nodes)

    - **h100-train**, 2 × protected pods; for example gpu-004: protected: pod ml/llama-70b-1 must finish, runs since 2026-11-24T07:01:00Z (JobSet llama-70b)
    - **h100-train**, 1 × rebooting; gpu-005: reboot issued at 2026-11-24T09:12:00Z, waiting for the node to come back
    - **h100-train**, 1 × batch not come; gpu-006: waits for a batch after batch 2

    ## Held on purpose (1 node)

    - **h100-train**, 1 × ignored; gpu-007: ignored by label
    "#);
}

#[test]
fn page_of_a_quiet_fleet_is_short() {
    let mut world = World::new();
    world.rollout("gpu-node-tuning", &[package("nvidia-tuned", "0.9.0", None)]);
    world.nodes("gpu-node-tuning", &["a", "b"], &Verdict::done());
    world.status("gpu-node-tuning").word = StatusWord::Complete;
    insta::assert_snapshot!(file(&world.state(), "README.md"), @r#"
    # prod-a · complete · nothing needs a person

    Applied `main@eeeeeee`. State as of this commit; live: `kubectl get nodewrights`

    | pool | package | done | down | state |
    |---|---|--:|--:|---|
    | gpu-node-tuning | nvidia-tuned 0.9.0 (beside the workloads) | 2/2 | 0 | complete |
    "#);
}

#[test]
fn page_names_what_holds_the_source() {
    let mut world = World::new();
    world.source.revision_seen = Some(revision('f'));
    world.source.held = Some(HeldRevision {
        revision: revision('f'),
        why: "it does not descend from the accepted revision".to_owned(),
        way_out: "nodewright accept ffffffffff".to_owned(),
    });
    world.source.error = Some(SourceError {
        what: "fetch from git.example timed out".to_owned(),
        since: time("10:42"),
        way_out: "see whether the server answers".to_owned(),
    });
    let warning = Finding { severity: Severity::Warning, ..refused("a.yaml", 3) };
    world.source.findings.push(warning);
    insta::assert_snapshot!(file(&world.state(), "README.md"), @r#"
    # prod-a · no rollouts · 2 things need a person

    Applied `main@eeeeeee`, `main@fffffff` seen and not applied. State as of this commit; live: `kubectl get nodewrights`

    There are no rollouts.

    ## Needs a person (2)

    - fetch from git.example timed out (SourceError, since 2026-11-24T10:42:00Z)
      - way out: see whether the server answers
    - `main@fffffff`: it does not descend from the accepted revision (SourceHeld)
      - way out: nodewright accept ffffffffff

    ## Worth knowing (1)

    - `a.yaml:3:14`: version 1.10 is read as the number 1.1 (NW0107); quote it: version: "1.10"
    "#);
}

#[test]
fn page_has_a_word_for_every_state() {
    let mut world = World::new();
    let tuned = || [package("tuned", "0.9.0", None)];
    world.rollout("a-empty", &tuned());
    world.status("a-empty").word = StatusWord::Complete;
    world.rollout("b-paused", &tuned()).nodes("b-paused", &["b"], &Verdict::wait(Reason::Paused));
    world.status("b-paused").word = StatusWord::Paused;
    let taint = Reason::TaintNotTolerated { taint: "dedicated=ml:NoSchedule".to_owned() };
    world.rollout("c-blocked", &tuned()).nodes("c-blocked", &["c"], &Verdict::blocked(taint));
    world.status("c-blocked").word = StatusWord::Blocked;
    world.rollout("d-waits", &tuned());
    let before = Reason::Predecessor { rollout: "b-paused".to_owned() };
    world.nodes("d-waits", &["d"], &Verdict::wait(before));
    world.status("d-waits").word = StatusWord::Waiting;
    world.input.desired.invalid.insert("e-unreadable".to_owned(), "no packages".to_owned());
    insta::assert_snapshot!(file(&world.state(), "README.md"), @r#"
    # prod-a · blocked · 2 things need a person

    Applied `main@eeeeeee`. State as of this commit; live: `kubectl get nodewrights`

    | pool | package | done | down | state |
    |---|---|--:|--:|---|
    | a-empty | tuned 0.9.0 (beside the workloads) | 0/0 | 0 | no nodes matched |
    | b-paused | tuned 0.9.0 (beside the workloads) | 0/1 | 0 | paused |
    | c-blocked | tuned 0.9.0 (beside the workloads) | 0/1 | 0 | **blocked** |
    | d-waits | tuned 0.9.0 (beside the workloads) | 0/1 | 0 | waiting |
    | e-unreadable | – | 0/0 | 0 | **blocked** |

    ## Needs a person (2)

    - **e-unreadable**: the resource cannot be read: no packages (InvalidResource)
      - way out: correct the resource where it comes from; what runs on nodes is left as it is
    - **c-blocked**, c: taint dedicated=ml:NoSchedule is not tolerated: add it to additionalTolerations or remove it (TaintNotTolerated)
      - way out: add the taint to additionalTolerations or remove it

    ## Waits by itself (1 node)

    - **d-waits**, 1 × earlier rollout not done; d: waits for b-paused to complete here

    ## Held on purpose (1 node)

    - **b-paused**, 1 × paused; b: paused by annotation
    "#);
}

#[test]
fn a_stop_that_no_node_explains_is_named_itself() {
    let mut world = three_pools();
    let stopped = Verdict::blocked(Reason::Stopped {
        compartment: DEFAULT_COMPARTMENT.to_owned(),
        batch: 3,
        failures: 2,
        cause: None,
    });
    world.nodes("general", &["cpu-011", "cpu-019"], &stopped);
    let words: Vec<String> = world.state().needs_person.into_iter().map(|need| need.word).collect();
    assert_eq!(words, ["NW0107", "Stopped"]);
}

#[test]
fn page_without_git_says_where_the_wanted_state_is_from() {
    let mut world = World::new();
    world.source.mode = SourceMode::Cluster;
    world.source.revision_seen = None;
    world.source.revision_applied = None;
    let page = file(&world.state(), "README.md");
    assert!(page.contains("Wanted state from the resources in the cluster."), "{page}");
}

#[test]
fn text_of_others_cannot_shape_the_page() {
    let mut world = three_pools();
    world.source.findings[0].message =
        "<img src=x> [click](http://evil) `x`\n# prod-a · complete\u{202e}\u{7}".to_owned();
    world.source.findings[0].file = "a`b\n.yaml".to_owned();
    let page = file(&world.state(), "README.md");
    assert!(page.contains("&lt;img src=x> \\[click\\](http://evil) \\`x\\` # prod-a"), "{page}");
    assert!(page.contains("`a'b .yaml:7:14`"), "{page}");
    assert_eq!(page.lines().filter(|line| line.starts_with("# ")).count(), 1, "{page}");
    assert!(!page.contains(['\u{202e}', '\u{7}']), "{page}");
}

#[test]
fn messages_are_cut_and_no_config_value_is_on_the_branch() {
    let mut world = three_pools();
    world.source.findings[0].message = "é".repeat(400);
    let files = files(&world.state());
    let status = String::from_utf8(files["status.json"].clone()).expect("text");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let message = status["findings"][0]["message"].as_str().expect("a message");
    assert!(message.len() <= 256 && message.ends_with("é…"), "{message}");
    for (path, bytes) in files {
        let text = String::from_utf8(bytes).expect("text");
        assert!(!text.contains("top-secret-value"), "{path}");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{path}");
    }
}

#[test]
fn equal_state_gives_equal_bytes_whatever_the_time() {
    let world = three_pools();
    let mut later = world.clone();
    later.input.now = time("23:59");
    later.source.epoch += 1;
    later.source.findings.reverse();
    assert_eq!(files(&world.state()), files(&later.state()));
    assert_eq!(urgency(Some(&world.state()), &later.state()), None);
}

#[test]
fn status_document_is_sorted_and_names_its_schema() {
    let state = three_pools().state();
    let text = file(&state, "status.json");
    let keys: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  \""))
        .filter_map(|line| line.trim().split(':').next())
        .collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(keys, sorted);
    let status = json(&state, "status.json");
    assert_eq!(status["schema"], "nodewright.dev/status/v1");
    assert_eq!(status["clusterUID"], "6f0c");
    assert_eq!(status["phase"], "Progressing");
    assert_eq!(status["rollouts"]["h100-train"]["nodesDown"], 1);
    assert_eq!(status["rollouts"]["general"]["nodesErroring"], 2);
    let stop = &status["rollouts"]["general"]["compartments"]["__default__"]["stopped"];
    assert_eq!(stop["batch"], 3, "the batch is the one that the planner names");
    assert!(status.get("epoch").is_none(), "a new leader is no new state");
}

#[test]
fn node_file_holds_settled_facts() {
    let state = three_pools().state();
    insta::assert_snapshot!(file(&state, "nodes/cpu-011.json"), @r#"
    {
      "node": "cpu-011",
      "rollouts": {
        "general": {
          "packages": [
            {
              "name": "containerd-cfg",
              "since": "2026-11-24T10:15:00Z",
              "snapshot": "nw-d688a86104eaa6b5",
              "stage": "config",
              "state": "erroring",
              "version": "2.1.1"
            }
          ],
          "visit": {
            "batch": 2,
            "compartment": "__default__",
            "interrupt": null,
            "message": "config-check exit 1: unknown key",
            "outcome": "erroring",
            "phase": "released",
            "picked": "2026-11-24T10:00:00Z",
            "reason": "Failed",
            "target": "cce9314af631b90b",
            "visit": 7
          }
        }
      },
      "schema": "nodewright.dev/node/v1"
    }
    "#);
    assert!(!files(&state).contains_key("nodes/gpu-006.json"), "nothing was done there");
}

#[test]
fn node_files_fan_out_above_a_thousand() {
    let mut world = three_pools();
    let names: Vec<String> = (0..1001).map(|index| format!("n{index:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.nodes("gb200", &names, &Verdict::done());
    for name in &names {
        let (stage, state) = (nodewright::model::Stage::Config, nodewright::model::State::Complete);
        world.visit("gb200", name, stage, state);
    }
    let files = files(&world.state());
    let digits = nodewright::model::short_hash("n0000");
    assert!(files.contains_key(&format!("nodes/{}/n0000.json", &digits[..2])));
    assert!(!files.contains_key("nodes/n0000.json"));
}

#[test]
fn subject_names_the_greatest_change() {
    let before = {
        let mut world = three_pools();
        world.source.findings.clear();
        world
    };
    let mut world = before.clone();
    world.nodes("h100-train", &["gpu-005"], &Verdict::done());
    let subject = |world: &World| commit_subject(Some(&before.state()), &world.state());
    insta::assert_snapshot!(subject(&world), @"status(prod-a): h100-train kernel-tuning 1.5.0 · batch 2 · 3/7 done");
    world.source.revision_applied = Some(revision('a'));
    insta::assert_snapshot!(subject(&world), @"status(prod-a): applied main@aaaaaaa");
    world.source.findings.push(refused("clusters/prod-a/storage.yaml", 7));
    insta::assert_snapshot!(subject(&world), @"status(prod-a): refused NodeWright storage · storage.yaml:7:14");
    world.compartment("h100-train").batch_state.should_stop = true;
    insta::assert_snapshot!(subject(&world), @"status(prod-a): h100-train · stopped in batch 1 · 3/7 done");
    insta::assert_snapshot!(commit_subject(None, &world.state()), @"status(prod-a): 3 rollouts · 7/15 done · 2 stopped · 2 erroring");
}

#[test]
fn subject_of_a_finished_rollout_names_its_package() {
    let before = three_pools();
    let mut world = before.clone();
    let all = ["gpu-003", "gpu-004", "gpu-005", "gpu-006", "gpu-007"];
    world.nodes("h100-train", &all, &Verdict::done());
    world.status("h100-train").word = StatusWord::Complete;
    let subject = commit_subject(Some(&before.state()), &world.state());
    insta::assert_snapshot!(subject, @"status(prod-a): h100-train kernel-tuning 1.5.0 · complete · 7/7 done");
    assert_eq!(urgency(Some(&before.state()), &world.state()), Some(Urgency::Urgent));
}

#[test]
fn subject_is_never_longer_than_72_characters() {
    let mut world = three_pools();
    world.source.cluster = "a-cluster-with-a-name-that-does-not-end-for-a-long-time".to_owned();
    let long = "a-rollout-with-a-name-of-fifty-characters-exactly-";
    let before = world.state();
    world.rollout(long, &[package("a-package-with-a-long-name", "1.22.333-rc.4444", None)]);
    let subject = commit_subject(Some(&before), &world.state());
    assert!(subject.chars().count() <= SUBJECT_MAX_CHARS, "{subject}");
    assert!(subject.starts_with("status(a-cluster-with"), "{subject}");
    assert!(subject.ends_with('…'), "{subject}");
}

#[test]
fn trailers_name_cluster_source_config_phase_and_epoch() {
    let state = three_pools().state();
    let trailers = trailers(&state);
    let names: Vec<&str> = trailers.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "Nodewright-Cluster",
        "Nodewright-Cluster-UID",
        "Nodewright-Source",
        "Nodewright-Config",
        "Nodewright-Phase",
        "Nodewright-Epoch",
    ];
    assert_eq!(names, expected);
    assert_eq!(trailers[2].1, revision('e'));
    assert_eq!(trailers[3].1, format!("sha256:{}", state.config_digest));
    assert_eq!(trailers[3].1.len(), "sha256:".len() + 64);
    assert_eq!(trailers[5].1, "42");
}

#[test]
fn config_digest_follows_what_is_wanted_and_nothing_else() {
    let world = three_pools();
    let digest = world.state().config_digest;
    let mut moved = world.clone();
    moved.nodes("h100-train", &["gpu-005"], &Verdict::done());
    assert_eq!(moved.state().config_digest, digest);
    let mut slower = world.clone();
    let rollout = slower.input.desired.rollouts.get_mut("gb200").expect("added above");
    rollout.drain.timeout = Some(std::time::Duration::from_secs(60));
    assert_ne!(slower.state().config_digest, digest);
}

#[test]
fn urgent_is_what_people_wait_for() {
    let before = three_pools();
    let urgent = |change: &dyn Fn(&mut World)| {
        let mut world = before.clone();
        change(&mut world);
        urgency(Some(&before.state()), &world.state())
    };
    assert_eq!(urgency(None, &before.state()), Some(Urgency::Urgent), "the first commit");
    let node_done = |world: &mut World| {
        world.nodes("h100-train", &["gpu-005"], &Verdict::done());
    };
    assert_eq!(urgent(&node_done), Some(Urgency::Routine));
    let seen = |world: &mut World| world.source.revision_seen = Some(revision('f'));
    assert_eq!(urgent(&seen), Some(Urgency::Routine));
    let applied = |world: &mut World| world.source.revision_applied = Some(revision('f'));
    assert_eq!(urgent(&applied), Some(Urgency::Urgent));
    let fixed = |world: &mut World| world.source.findings.clear();
    assert_eq!(urgent(&fixed), Some(Urgency::Urgent));
    let began = |world: &mut World| {
        world.status("gb200").memory.timings.started = Some(time("11:59"));
    };
    assert_eq!(urgent(&began), Some(Urgency::Urgent));
    let gone = |world: &mut World| {
        world.input.desired.rollouts.remove("gb200");
    };
    assert_eq!(urgent(&gone), Some(Urgency::Urgent));
    let unreadable = |world: &mut World| {
        world.input.desired.invalid.insert("gb200".to_owned(), "spec.packages: none".to_owned());
    };
    assert_eq!(urgent(&unreadable), Some(Urgency::Urgent));
}

#[test]
fn what_was_forgotten_is_listed_and_not_counted_as_installed() {
    let mut world = three_pools();
    let nodes = world.input.observed.nodes.values_mut();
    let mut installed =
        nodes.filter(|node| node.rollouts.values().any(|it| !it.entries.is_empty()));
    let node = installed.next().expect("a node with packages");
    let name = node.name.clone();
    let mut states = node.rollouts.iter_mut().filter(|(_, state)| !state.entries.is_empty());
    let (rollout, state) = states.next().expect("its rollout");
    let rollout = rollout.clone();
    state.left = std::mem::take(&mut state.entries);
    for entry in state.left.values_mut() {
        entry.left = Some(time("12:00"));
    }
    let ours = world.state().left_behind;
    assert!(!ours.is_empty() && ours.iter().all(|left| left.rollout == rollout), "{ours:?}");
    let page = file(&world.state(), "README.md");
    let why = format!("**{rollout}** let the node go when somebody asked (nodewright forget)");
    assert!(page.contains(&why), "{page}");
    let story = nodewright::report::explain::node(&world.input, &world.plan, None, &name);
    let story = story.expect("it is there").to_string();
    let (_, left) = story.split_once("let the node go when somebody asked").expect("it is told");
    assert!(left.contains(", let go "), "{story}");
}

#[test]
fn what_stays_on_hosts_without_anybody_looking_after_it_is_listed() {
    let mut world = three_pools();
    assert!(!file(&world.state(), "README.md").contains("Left on hosts"));
    world.input.observed.resources.remove("general");
    world.input.desired.rollouts.remove("general");
    world.plan.verdicts.remove("general");
    let state = world.state();
    let page = file(&state, "README.md");
    let (_, section) = page.split_once("## Left on hosts").expect("the section");
    let left = &state.left_behind[0];
    let line = format!("- {} {} on {} node", left.package, left.version, left.nodes.total);
    assert!(section.contains(&line), "{section} has no {line}");
    let why = "**general** is gone: what it installed stays; a NodeWright of that name takes it up";
    assert!(section.contains(why), "{section}");
    assert!(state.left_behind.iter().all(|left| left.rollout == "general"));
    assert!(file(&state, "status.json").contains("\"leftBehind\""));
}
