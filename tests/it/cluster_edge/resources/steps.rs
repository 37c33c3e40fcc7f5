//! The pure half: one row per situation.

use std::collections::BTreeSet;

use nodewright::api::keys::CONFIG_DIGEST;
use nodewright::cluster::resources::{Adoption, Live, Pruning, Step, Wanted, listed_before, steps};
use nodewright::cluster::source_state::ManagedObject;
use serde_json::json;

use super::{live, live_of, managed, nodewright, nodewright_spec, policy, policy_spec, wanted};

/// Writes steps as short lines, for comparison.
fn lines(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| {
        let object = step.object();
        match step {
            Step::Create(_) => format!("create {object}"),
            Step::Replace { .. } => format!("replace {object}"),
            Step::Wait { since, .. } => format!("wait {object} since {since}"),
            Step::Refuse { owner, .. } => format!("refuse {object}: {} {}", owner.tool, owner.mark),
            Step::Delete { uid, version, .. } => format!("delete {object} {uid} {version}"),
            Step::Keep { named_by, .. } => format!("keep {object} for {named_by}"),
        }
    };
    steps.iter().map(line).collect()
}

fn check(wanted: &Wanted, live: &Live, managed: &BTreeSet<ManagedObject>, expected: &[&str]) {
    assert_eq!(lines(&steps(wanted, live, managed)), expected);
}

fn a() -> ManagedObject {
    ManagedObject::nodewright("a")
}

fn careful() -> ManagedObject {
    ManagedObject::policy("careful")
}

#[test]
fn policies_come_first_then_resources_by_priority_then_deletions() {
    let objects = vec![
        nodewright("late", &nodewright_spec("1.0.0", 900, None)),
        nodewright("b", &nodewright_spec("1.0.0", 10, None)),
        nodewright("a", &nodewright_spec("1.0.0", 10, Some("careful"))),
        policy("careful", 1),
    ];
    let old = ManagedObject::nodewright("old");
    let old_policy = ManagedObject::policy("old");
    let live = live_of([
        live(&old, &nodewright_spec("1.0.0", 1, None), json!({})),
        live(&old_policy, &policy_spec(1), json!({})),
    ]);

    check(
        &wanted(objects),
        &live,
        &managed([old, old_policy]),
        &[
            "create DeploymentPolicy/careful",
            "create NodeWright/a",
            "create NodeWright/b",
            "create NodeWright/late",
            "delete NodeWright/old uid-old 7",
            "delete DeploymentPolicy/old uid-old 7",
        ],
    );
}

#[test]
fn what_is_as_it_should_be_gets_no_step() {
    let spec = nodewright_spec("1.0.0", 200, None);
    let mut defaulted = spec.clone();
    defaulted["serial"] = false.into();
    defaulted["sequencing"] = "node".into();
    defaulted["additionalTolerations"] = json!(null);
    for spec_there in [&spec, &defaulted] {
        let live = live_of([live(&a(), spec_there, json!({}))]);
        check(&wanted(vec![nodewright("a", &spec)]), &live, &managed([a()]), &[]);
    }
}

#[test]
fn a_spec_that_differs_or_cannot_be_read_or_another_digest_is_replaced() {
    let spec = nodewright_spec("1.0.0", 200, None);
    let edited = nodewright_spec("1.1.0", 200, None);
    let rows = [
        live(&a(), &edited, json!({})),
        live(&a(), &json!({"packages": 5}), json!({})),
        live(&a(), &spec, json!({"annotations": {CONFIG_DIGEST: "d0"}})),
        live(&a(), &spec, json!({"annotations": null})),
    ];
    for row in rows {
        let wanted = wanted(vec![nodewright("a", &spec)]);
        check(&wanted, &live_of([row]), &managed([a()]), &["replace NodeWright/a"]);
    }
}

#[test]
fn what_is_being_deleted_and_back_in_git_waits_and_what_is_gone_from_git_needs_nothing() {
    let spec = nodewright_spec("1.0.0", 200, None);
    let going = json!({"deletionTimestamp": "2026-03-01T08:00:00Z"});
    let live = live_of([live(&a(), &spec, going)]);
    let expected = ["wait NodeWright/a since 2026-03-01T08:00:00Z"];
    check(&wanted(vec![nodewright("a", &spec)]), &live, &managed([a()]), &expected);
    check(&wanted(Vec::new()), &live, &managed([a()]), &[]);
}

#[test]
fn marks_of_other_tools_are_refused_unless_adoption_is_allowed() {
    let spec = nodewright_spec("1.1.0", 200, None);
    let rows = [
        (
            json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}),
            "Helm app.kubernetes.io/managed-by=Helm",
        ),
        (
            json!({"annotations": {"meta.helm.sh/release-name": "x"}}),
            "Helm meta.helm.sh/release-name",
        ),
        (
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}),
            "Argo CD argocd.argoproj.io/tracking-id",
        ),
        (
            json!({"labels": {"argocd.argoproj.io/instance": "x"}}),
            "Argo CD argocd.argoproj.io/instance",
        ),
        (
            json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}),
            "Flux kustomize.toolkit.fluxcd.io/name",
        ),
        (
            json!({"labels": {
                "app.kubernetes.io/managed-by": "Helm", "helm.toolkit.fluxcd.io/name": "x",
            }}),
            "Flux helm.toolkit.fluxcd.io/name",
        ),
    ];
    for (marks, owner) in rows {
        let live = live_of([live(&a(), &nodewright_spec("1.0.0", 200, None), marks)]);
        let mut wanted = wanted(vec![nodewright("a", &spec)]);
        let line = format!("refuse NodeWright/a: {owner}");
        check(&wanted, &live, &managed([]), &[&line]);

        let steps = steps(&wanted, &live, &managed([a()]));
        assert!(!listed_before(&wanted, &managed([a()]), &steps).contains(&a()));
        wanted.adoption = Adoption::Allowed;
        check(&wanted, &live, &managed([]), &["replace NodeWright/a"]);
    }
    let by_hand = json!({"labels": {"app.kubernetes.io/managed-by": "kubectl"}});
    let live = live_of([live(&a(), &nodewright_spec("1.0.0", 200, None), by_hand)]);
    check(&wanted(vec![nodewright("a", &spec)]), &live, &managed([]), &["replace NodeWright/a"]);
}

#[test]
fn an_owner_is_explained_with_the_way_out() {
    let marks = json!({"annotations": {"argocd.argoproj.io/tracking-id": "x"}});
    let live = live_of([live(&a(), &nodewright_spec("1.0.0", 200, None), marks)]);
    let wanted = wanted(vec![nodewright("a", &nodewright_spec("1.1.0", 200, None))]);
    let steps = steps(&wanted, &live, &managed([]));
    let [Step::Refuse { object, owner }] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(
        owner.explain(object),
        "NodeWright/a is left as it is: Argo CD owns it (argocd.argoproj.io/tracking-id). Remove \
         it there without deleting the object, or from this repository; or let NodeWright take \
         it over with --adopt"
    );
}

#[test]
fn only_what_the_list_names_is_deleted_and_nothing_while_pruning_is_held() {
    let spec = nodewright_spec("1.0.0", 200, None);
    let b = ManagedObject::nodewright("b");
    let live = live_of([live(&a(), &spec, json!({})), live(&b, &spec, json!({}))]);
    let mut wanted = wanted(Vec::new());
    check(&wanted, &live, &managed([a()]), &["delete NodeWright/a uid-a 7"]);
    check(&wanted, &live, &managed([ManagedObject::nodewright("long-gone")]), &[]);
    wanted.pruning = Pruning::Held;
    check(&wanted, &live, &managed([a()]), &[]);
}

#[test]
fn an_object_handed_to_another_tool_is_not_deleted() {
    let marks = json!({"annotations": {"argocd.argoproj.io/tracking-id": "x"}});
    let live = live_of([live(&a(), &nodewright_spec("1.0.0", 200, None), marks)]);
    let expected = ["refuse NodeWright/a: Argo CD argocd.argoproj.io/tracking-id"];
    check(&wanted(Vec::new()), &live, &managed([a()]), &expected);
}

#[test]
fn a_refused_unit_is_neither_written_nor_deleted() {
    let live = live_of([live(&a(), &nodewright_spec("1.0.0", 200, None), json!({}))]);
    for objects in [Vec::new(), vec![nodewright("a", &nodewright_spec("2.0.0", 200, None))]] {
        let mut wanted = wanted(objects);
        wanted.refused = managed([a()]);
        check(&wanted, &live, &managed([a()]), &[]);
    }
}

#[test]
fn a_policy_stays_as_long_as_an_object_names_it() {
    let named = nodewright_spec("1.0.0", 200, Some("careful"));
    let free = nodewright_spec("1.0.0", 200, None);
    let policy_there = live(&careful(), &policy_spec(1), json!({}));
    let going = json!({"deletionTimestamp": "2026-03-01T08:00:00Z"});
    let keep = "keep DeploymentPolicy/careful for NodeWright/a";
    let delete = "delete DeploymentPolicy/careful uid-careful 7";
    let rows: [(_, _, _, &[&str]); 4] = [
        // A resource nobody manages, one that is going, one that goes now, one that lets go now.
        (json!({}), Vec::new(), managed([careful()]), &[keep]),
        (going, Vec::new(), managed([careful(), a()]), &[keep]),
        (json!({}), Vec::new(), managed([careful(), a()]), &["delete NodeWright/a uid-a 7", keep]),
        (
            json!({}),
            vec![nodewright("a", &free)],
            managed([careful(), a()]),
            &["replace NodeWright/a", delete],
        ),
    ];
    for (metadata, objects, managed, expected) in rows {
        let live = live_of([policy_there.clone(), live(&a(), &named, metadata)]);
        check(&wanted(objects), &live, &managed, expected);
    }
}
