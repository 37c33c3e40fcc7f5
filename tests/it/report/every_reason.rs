//! What `explain` says for every reason, on a node and of its resource: read these as whoever is
//! woken by them would.

use nodewright::model::{InterruptKind, Reason, Stage, State, Verdict};
use nodewright::report::{Concern, concern, explain};

use super::reasons::every_reason;
use super::world::{World, package, pod_ref, time};

/// The kind of verdict that the planner gives with a reason.
fn verdict(reason: &Reason) -> Verdict {
    match concern(&Verdict::wait(reason.clone())) {
        Concern::Settled => Verdict::done(),
        Concern::Works => Verdict::act(reason.clone()),
        Concern::Waits => Verdict::wait(reason.clone()),
        Concern::OnPurpose | Concern::NeedsPerson => Verdict::blocked(reason.clone()),
    }
}

/// A node in the middle of an upgrade, with this reason.
fn world(reason: &Reason) -> World {
    let mut world = World::new();
    world.rollout("tuning", &[package("kernel", "1.5.0", Some(InterruptKind::Reboot))]);
    world.nodes("tuning", &["gpu-1"], &verdict(reason));
    world.batch("tuning", 2, 1);
    let record = world.visit("tuning", "gpu-1", Stage::Apply, State::Complete);
    record.message = Some("config in pod nw-1: exit code 3".to_owned());
    world.input.now = time("10:06");
    world
}

#[test]
fn a_node_is_explained_for_every_reason() {
    let stories: Vec<String> = every_reason()
        .iter()
        .map(|reason| {
            let world = world(reason);
            let story = explain::node(&world.input, &world.plan, None, "gpu-1");
            let story = story.expect("the node is there").to_string();
            // What the node has on it and how far its visit is does not depend on the reason.
            let lines = story.lines().skip(2).filter(|line| {
                !["wanted", "on it", "visit", "said"].iter().any(|it| line[2..].starts_with(it))
            });
            format!("{}\n{}\n", reason.word(), lines.collect::<Vec<_>>().join("\n"))
        })
        .collect();
    insta::assert_snapshot!(stories.join("\n"));
}

#[test]
fn a_resource_is_explained_for_every_reason() {
    let stories: Vec<String> = every_reason()
        .iter()
        .map(|reason| {
            let world = world(reason);
            let story = explain::resource(&world.input, &world.plan, None, "tuning");
            let story = story.expect("it is there").to_string();
            let lines = story.lines().skip_while(|line| !line.is_empty()).skip(1);
            format!("{}\n{}\n", reason.word(), lines.collect::<Vec<_>>().join("\n"))
        })
        .collect();
    insta::assert_snapshot!(stories.join("\n"));
}

#[test]
fn every_reason_names_its_facts_and_a_way_out() {
    for reason in every_reason() {
        let facts = serde_json::to_value(&reason).expect("JSON");
        let world = world(&reason);
        let node = explain::node(&world.input, &world.plan, None, "gpu-1").expect("there");
        let resource = explain::resource(&world.input, &world.plan, None, "tuning");
        let sorts = resource.expect("there").sorts;
        let [sort] = sorts.as_slice() else { panic!("one node has one reason") };
        let [chapter] = node.rollouts.as_slice() else { panic!("one rollout selects it") };
        assert_eq!(chapter.why, sort.why, "one reason, one sentence");
        let names = ["budget", "rollout", "policy", "object", "image", "taint", "by", "mark", "on"];
        for name in names.into_iter().chain(["why", "package", "manager", "revision"]) {
            let Some(text) = facts[name].as_str() else { continue };
            // The image says which package it is of.
            let is_said =
                chapter.why.contains(text) || (name == "package" && facts["image"].is_string());
            assert!(is_said, "{name} {text}: {}", chapter.why);
        }
        for pod in ["pod", "first"].iter().filter_map(|name| facts[*name].as_object()) {
            let pod = format!("{}/{}", pod["namespace"].as_str().expect("text"), pod["name"]);
            assert!(chapter.why.contains(&pod.replace('"', "")), "{pod}: {}", chapter.why);
        }
        assert!(!chapter.way_out.contains("node/NAME"), "{}", chapter.way_out);
    }
}

#[test]
fn pods_and_times_of_retry_are_named() {
    let until = time("10:09");
    let package = "kernel|1.5.0".to_owned().try_into().expect("name and version");
    let reason = Reason::BackingOff { package, stage: Stage::Config, attempt: 2, until };
    let world = world(&reason);
    let story = explain::node(&world.input, &world.plan, None, "gpu-1").expect("there");
    let text = story.to_string();
    assert!(text.contains("  retry    2026-11-24T10:09:00Z, in 3 min\n"), "{text}");
    assert!(text.contains("  said     config in pod nw-1: exit code 3\n"), "{text}");
    assert_eq!(story.rollouts[0].retry, Some(until));
    let first = pod_ref("llama-0");
    let protected = Reason::ProtectedPod { pods: 3, first, owner: None, since: time("08:00") };
    let world = world_text(&protected);
    assert!(world.contains("pod ml/llama-0 and 2 more must finish"), "{world}");
}

fn world_text(reason: &Reason) -> String {
    let world = world(reason);
    let story = explain::node(&world.input, &world.plan, None, "gpu-1");
    story.expect("there").to_string()
}
