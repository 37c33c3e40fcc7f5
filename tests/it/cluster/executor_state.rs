//! What an executor did is read from its container statuses.

use nodewright::cluster::executor::build;
use nodewright::cluster::executor_state::read;
use nodewright::cluster::slim_pod::SlimPod;
use nodewright::model::{Executor, ExecutorPhase, Failure, Group, Stage, Work};
use serde_json::{Value, json};

use super::{eight, executor_spec, install, interrupt, pull, settings, to_value, verify, visit};

/// Builds an executor pod as we do, and gives it a status.
fn pod(work: Work, status: Value) -> Value {
    let mut pod = to_value(&build(&executor_spec(work), &settings(), eight()));
    pod["metadata"]["uid"] = json!("pod-uid");
    pod["metadata"]["creationTimestamp"] = json!("2026-03-01T08:00:00Z");
    pod["status"] = status;
    pod
}

fn executor(work: Work, status: Value) -> Executor {
    let slim: SlimPod = serde_json::from_value(pod(work, status)).expect("a pod");
    read(&slim).expect("one of ours")
}

fn ended(name: &str, exit_code: i32, message: &str) -> Value {
    json!({"name": name, "state": {"terminated": {
        "exitCode": exit_code, "reason": if exit_code == 0 { "Completed" } else { "Error" },
        "message": message, "finishedAt": "2026-03-01T08:05:00Z",
    }}})
}

fn running(name: &str) -> Value {
    json!({"name": name, "state": {"running": {"startedAt": "2026-03-01T08:01:00Z"}}})
}

fn waiting(name: &str, reason: &str) -> Value {
    json!({"name": name, "state": {"waiting": {"reason": reason, "message": "more"}}})
}

fn status(phase: &str, init: &[Value]) -> Value {
    json!({
        "phase": phase, "initContainerStatuses": init,
        "containerStatuses": [waiting("done", "PodInitializing")],
    })
}

fn failure(executor: &Executor) -> &Failure {
    executor.failure.as_ref().expect("it failed")
}

#[test]
fn who_and_what_it_is_comes_from_labels_and_the_annotation() {
    let seen = executor(install(), json!({"phase": "Pending"}));
    assert_eq!((&seen.visit, seen.group, seen.attempt), (&visit(), Group::Install, 2));
    assert_eq!(seen.package.to_string(), "kernel-tuning|1.4.0");
    assert_eq!(seen.snapshot, super::package().snapshot_name("gpu"));
    assert_eq!(seen.phase, ExecutorPhase::Pending);
    assert_eq!((seen.completed.len(), seen.running, &seen.waiting), (0, None, &None));
}

#[test]
fn a_pod_that_does_not_say_whom_it_worked_for_is_not_believed() {
    for label in ["name", "visit", "group", "attempt", "node-uid"] {
        let mut pod = pod(install(), json!({"phase": "Succeeded"}));
        let key = format!("nodewright.nvidia.com/{label}");
        pod["metadata"]["labels"].as_object_mut().unwrap().remove(&key);
        let slim: SlimPod = serde_json::from_value(pod).unwrap();
        assert!(read(&slim).is_none(), "without {key}");
    }
}

#[test]
fn init_containers_that_run_are_a_running_executor() {
    let prefix = "kernel-tuning";
    let init = [
        ended(&format!("{prefix}-init"), 0, ""),
        ended(&format!("{prefix}-apply"), 0, ""),
        running(&format!("{prefix}-applycheck")),
        waiting(&format!("{prefix}-config"), "PodInitializing"),
        waiting(&format!("{prefix}-configcheck"), "PodInitializing"),
    ];
    let seen = executor(install(), status("Pending", &init));
    assert_eq!(seen.phase, ExecutorPhase::Running);
    assert_eq!(seen.running, Some(Stage::Apply));
    assert!(seen.completed.is_empty(), "a stage is complete with its check only");
    assert_eq!((seen.waiting, seen.finished), (None, None));
}

#[test]
fn a_finished_pod_has_completed_its_stages() {
    let names = ["init", "apply", "applycheck", "config", "configcheck"];
    let init = names.map(|name| ended(&format!("kernel-tuning-{name}"), 0, ""));
    let seen = executor(install(), status("Succeeded", &init));
    assert_eq!(seen.phase, ExecutorPhase::Succeeded);
    assert_eq!(seen.completed, [Stage::Apply, Stage::Config]);
    assert_eq!(seen.finished, Some("2026-03-01T08:05:00Z".parse().unwrap()));
    assert_eq!(seen.failure, None);

    let seen = executor(interrupt(), status("Succeeded", &[ended("interrupt", 0, "")]));
    assert_eq!((seen.group, seen.completed), (Group::Interrupt, vec![Stage::Interrupt]));

    let names = ["init", "post-interrupt", "post-interruptcheck"];
    let init = names.map(|name| ended(&format!("kernel-tuning-{name}"), 0, ""));
    let seen = executor(verify(), status("Succeeded", &init));
    assert_eq!((seen.group, seen.completed), (Group::Verify, vec![Stage::PostInterrupt]));
}

#[test]
fn a_container_that_cannot_start_says_why() {
    let init = [
        waiting("kernel-tuning-init", "ErrImagePull"),
        waiting("kernel-tuning-apply", "PodInitializing"),
    ];
    let seen = executor(install(), status("Pending", &init));
    let waiting = seen.waiting.expect("it waits");
    assert_eq!((waiting.reason.as_str(), waiting.message.as_str()), ("ErrImagePull", "more"));
    assert_eq!(seen.phase, ExecutorPhase::Pending);
}

#[test]
fn a_failed_step_is_what_the_agent_says() {
    let summary = json!({
        "v": 1, "mode": "config-check", "step": "sysctl_check.sh", "exit_code": 3,
        "tail": "vm.swappiness is 60",
    });
    let init = [
        ended("kernel-tuning-init", 0, ""),
        ended("kernel-tuning-apply", 0, ""),
        ended("kernel-tuning-applycheck", 0, ""),
        ended("kernel-tuning-config", 0, ""),
        ended("kernel-tuning-configcheck", 1, &summary.to_string()),
    ];
    let seen = executor(install(), status("Failed", &init));
    assert_eq!(seen.completed, [Stage::Apply], "the next attempt begins at config");
    assert_eq!(
        failure(&seen),
        &Failure {
            stage: Some(Stage::Config),
            in_check: true,
            step: Some("sysctl_check.sh".to_owned()),
            exit_code: Some(3),
            message: "vm.swappiness is 60".to_owned(),
            disrupted: false,
        }
    );
}

#[test]
fn a_failure_without_a_summary_still_says_something() {
    let table = [
        ("kernel-tuning-apply", "plain words", Some(Stage::Apply), "plain words"),
        ("kernel-tuning-apply", "", Some(Stage::Apply), "Error, exit code 7, no output"),
        ("kernel-tuning-init", "", None, "copying the package failed: Error, exit code 7"),
        ("kernel-tuning-apply", "{\"v\":1", Some(Stage::Apply), "{\"v\":1"),
    ];
    for (container, message, stage, words) in table {
        let seen = executor(install(), status("Failed", &[ended(container, 7, message)]));
        let failure = failure(&seen);
        assert_eq!((failure.stage, failure.exit_code), (stage, Some(7)), "{container}");
        assert_eq!(failure.message, words);
    }
    let long = "x".repeat(5_000);
    let seen = executor(install(), status("Failed", &[ended("kernel-tuning-apply", 1, &long)]));
    assert!(failure(&seen).message.len() <= 1024);
}

#[test]
fn a_pod_lost_to_its_surroundings_costs_no_attempt() {
    let table = [
        ("Evicted", true),
        ("NodeLost", true),
        ("Preempting", true),
        ("OutOfcpu", true),
        ("OutOfpods", true),
        ("DeadlineExceeded", false),
    ];
    for (reason, disrupted) in table {
        let lost = json!({
            "phase": "Failed", "reason": reason, "message": "words of the kubelet",
            "conditions": [{"type": "Ready", "status": "False",
                            "lastTransitionTime": "2026-03-01T08:02:00Z"}],
        });
        let seen = executor(install(), lost);
        let failure = failure(&seen);
        assert_eq!(failure.disrupted, disrupted, "{reason}");
        assert_eq!(failure.message, format!("{reason}: words of the kubelet"));
        assert_eq!(seen.finished, Some("2026-03-01T08:02:00Z".parse().unwrap()), "{reason}");
    }
    let mut targeted = status("Failed", &[ended("kernel-tuning-apply", 137, "")]);
    targeted["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
    assert!(failure(&executor(install(), targeted)).disrupted);
}

#[test]
fn a_reboot_that_was_issued_is_no_failed_step() {
    let table = [
        // Accepted: the agent waits, and ends badly so that nobody takes it for done.
        (json!({"v": 1, "step": "reboot", "exit_code": 0, "signal": null, "tail": ""}), None),
        // The machine went down under it.
        (json!({"v": 1, "step": "reboot", "exit_code": null, "signal": 15, "tail": ""}), None),
        // Refused.
        (
            json!({"v": 1, "step": "reboot", "exit_code": 1, "signal": null, "tail": "no"}),
            Some("reboot"),
        ),
        // The agent did not get as far.
        (
            json!({"v": 1, "step": null, "exit_code": null, "signal": null, "tail": "bad payload"}),
            Some("interrupt"),
        ),
        // Nothing is known.
        (json!(""), None),
    ];
    for (summary, step) in table {
        let message = summary.as_str().map_or_else(|| summary.to_string(), str::to_owned);
        let seen = executor(interrupt(), status("Failed", &[ended("interrupt", 1, &message)]));
        assert_eq!(failure(&seen).step.as_deref(), step, "{summary}");
        assert_eq!(failure(&seen).stage, Some(Stage::Interrupt));
    }
}

#[test]
fn a_step_ended_by_a_signal_says_so() {
    let summary = json!({"v": 1, "step": "a.sh", "exit_code": null, "signal": 9, "tail": "last"});
    let init = [ended("kernel-tuning-apply", 1, &summary.to_string())];
    let seen = executor(install(), status("Failed", &init));
    assert_eq!(failure(&seen).step.as_deref(), Some("a.sh"));
    assert_eq!(failure(&seen).message, "ended by signal 9: last");
}

#[test]
fn packages_with_names_like_stages_are_told_apart() {
    let mut package = super::package();
    package.name = "config".to_owned();
    let work = Work::Install { package, stages: vec![Stage::Apply] };
    let init = [
        ended("config-init", 0, ""),
        ended("config-apply", 0, ""),
        ended("config-applycheck", 0, ""),
    ];
    assert_eq!(executor(work, status("Succeeded", &init)).completed, [Stage::Apply]);
}

/// A pull pod whose containers stand like this.
fn pulled(phase: &str, package: Value, agent: Value) -> Executor {
    executor(pull(), json!({"phase": phase, "containerStatuses": [package, agent]}))
}

#[test]
fn a_pull_has_succeeded_once_both_images_were_started() {
    let (package, agent) = ("pull-package", "pull-agent");
    // An agent that knows no --version, a shell that is not there: the images are.
    let seen = pulled("Failed", ended(package, 128, ""), ended(agent, 2, "usage"));
    assert_eq!((seen.group, seen.phase), (Group::Pull, ExecutorPhase::Succeeded));
    assert!(seen.finished.is_some(), "its age counts");
    let seen = pulled("Pending", waiting(package, "ContainerCreating"), ended(agent, 0, ""));
    assert_eq!(seen.phase, ExecutorPhase::Running);
    assert!(seen.waiting.is_some_and(|waiting| waiting.is_being_created()));
    let seen = executor(pull(), json!({"phase": "Failed", "reason": "OutOfpods"}));
    assert_eq!(seen.phase, ExecutorPhase::Failed);
    assert!(failure(&seen).disrupted && !seen.begun);
}

#[test]
fn t19_the_image_that_cannot_be_pulled_is_the_one_that_is_named() {
    for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CrashLoopBackOff"] {
        let mut agent = waiting("pull-agent", reason);
        agent["image"] = json!("registry.example/agent:7");
        let seen = pulled("Pending", waiting("pull-package", "ContainerCreating"), agent);
        let waiting = seen.waiting.expect("it waits");
        assert_eq!((waiting.reason.as_str(), waiting.message.as_str()), (reason, "more"));
        assert_eq!(waiting.image, "registry.example/agent:7");
    }
}

#[test]
fn a_container_waits_since_the_one_before_it_ended() {
    let prefix = "kernel-tuning";
    let init = [
        ended(&format!("{prefix}-init"), 0, ""),
        waiting(&format!("{prefix}-apply"), "ErrImagePull"),
        waiting(&format!("{prefix}-applycheck"), "PodInitializing"),
    ];
    let seen = executor(install(), status("Pending", &init));
    let since = seen.waiting.expect("it waits").since;
    assert_eq!(since.to_string(), "2026-03-01T08:05:00Z");
    assert!(seen.begun);
}

#[test]
fn the_daemons_clock_says_when_a_pod_was_asked_for_whatever_the_servers_says() {
    let mut pod = pod(install(), json!({"phase": "Pending"}));
    pod["metadata"]["creationTimestamp"] = json!("2026-03-01T07:50:00Z");
    let read_pod = |pod: &Value| {
        let slim: SlimPod = serde_json::from_value(pod.clone()).expect("a pod");
        read(&slim).expect("one of ours").created
    };
    assert_eq!(read_pod(&pod), eight());
    // One of an earlier version says nothing.
    let key = "nodewright.nvidia.com/package";
    let mark = pod["metadata"]["annotations"][key].as_str().expect("a mark");
    let mut mark: Value = serde_json::from_str(mark).expect("JSON");
    mark.as_object_mut().expect("a map").remove("asked");
    pod["metadata"]["annotations"][key] = json!(mark.to_string());
    assert_eq!(read_pod(&pod).to_string(), "2026-03-01T07:50:00Z");
}
