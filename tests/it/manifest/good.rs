//! Good manifests, and the repository that people copy, give no finding at all.

use std::fs;

use nodewright::manifest::{Layout, Parsed, SourceFile, read, read_folder, rollout};
use nodewright::model::{Budget, Finding};

use super::repository;

fn assert_clean(findings: &[Finding], what: &str) {
    assert!(findings.is_empty(), "{what} has findings: {findings:#?}");
}

fn good(name: &str) -> Parsed {
    let bytes = fs::read(repository("tests/manifests/good").join(name)).expect("it is there");
    read(&[SourceFile { path: name.to_owned(), bytes }], &[], &Layout::default())
}

#[test]
fn each_is_accepted_without_a_finding() {
    let mut count = 0;
    for entry in fs::read_dir(repository("tests/manifests/good")).expect("the folder is there") {
        let name = entry.expect("it can be listed").file_name().to_string_lossy().into_owned();
        let parsed = good(&name);
        assert_clean(&parsed.findings, &name);
        assert!(!parsed.nodewrights.is_empty(), "{name} has a resource");
        for document in parsed.nodewrights.values() {
            rollout(&document.object).expect("what the file accepts is valid in the cluster");
        }
        count += 1;
    }
    assert!(count >= 4, "only {count} good manifests were found");
}

#[test]
fn the_smallest_useful_manifest_means_what_it_says() {
    let parsed = good("gpu-node-tuning.yaml");
    let rollout = rollout(&parsed.nodewrights["gpu-node-tuning"].object).expect("it is valid");
    assert_eq!(rollout.budget, Some(Budget::Percent(33)));
    assert_eq!(rollout.priority, 200);
    let labels = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    assert!(rollout.selects(&labels("nodepool", "gpu")));
    assert!(!rollout.selects(&labels("nodepool", "cpu")));
    assert!(rollout.protects(&labels("workload", "long-running-training")));
    assert!(!rollout.protects(&labels("workload", "web")));
    let package = &rollout.packages["nvidia-tuned"];
    assert_eq!(package.image_reference(), "ghcr.io/nvidia/nodewright-packages/nvidia-tuned:0.9.0");
    assert_eq!(package.interrupt, None);
}

#[test]
fn every_field_reaches_the_model() {
    let parsed = good("every-field.yaml");
    let document = &parsed.nodewrights["every-field"];
    assert_eq!((document.line, document.column), (4, 1));
    assert_eq!(document.object.metadata.namespace, None, "the kinds have no namespace");
    let rollout = rollout(&document.object).expect("it is valid");
    assert_eq!(rollout.policy.as_deref(), Some("careful"));
    assert_eq!(rollout.drain.timeout.map(|it| it.as_secs()), Some(5400));
    assert_eq!(rollout.drain.grace_period.map(|it| it.as_secs()), Some(2), "rounded up");
    let package = &rollout.packages["kernel-tuning"];
    assert_eq!(package.depends_on["drivers"], "1.10");
    assert_eq!(package.stage_timeout.map(|it| it.as_secs()), Some(0));
    assert_eq!(package.config_map["sysctl.conf"], "vm.swappiness=10\n");
    let resources = package.resources.as_ref().expect("all four are given");
    assert_eq!(
        (resources.cpu_limit.as_str(), resources.memory_limit.as_str()),
        ("1", "2000000000")
    );
    assert!(parsed.policies.contains_key("careful"));
}

#[test]
fn the_repository_to_copy_has_no_findings() {
    let (files, problems) = read_folder(&repository("examples-repo"));
    assert_eq!(problems, []);
    let layout = Layout { cluster: Some("demo".to_owned()), path: String::new() };
    let parsed = read(&files, &problems, &layout);
    assert_clean(&parsed.findings, "examples-repo");
    assert!(!parsed.unreadable);
    assert_eq!(super::names(&parsed), ["general", "h200-train"]);
    let train = &parsed.nodewrights["h200-train"].object;
    let rollout = rollout(train).expect("it is valid");
    assert!(rollout.protected.is_some(), "training pods are protected");
    assert!(rollout.budget.is_some(), "the pool has a budget");
}
