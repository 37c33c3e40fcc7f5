//! Documents under the group's former name are read as what they are now.

use nodewright::manifest::Parsed;

use super::{codes, names, parsed, refused, resource};

const POLICY: &str = "
apiVersion: skyhook.nvidia.com/v1alpha1
kind: DeploymentPolicy
metadata: {name: slow}
spec: {default: {budget: {count: 1}}}
";

/// The same resource as upstream before v0.18 would have it written.
fn former(name: &str, version: &str) -> String {
    resource(name, version)
        .replace("nodewright.nvidia.com/v1alpha1", "skyhook.nvidia.com/v1alpha1")
        .replace("kind: NodeWright", "kind: Skyhook")
}

#[test]
fn both_kinds_are_converted_with_a_warning_each() {
    let files = [("a.yaml", former("a", "1.0.0")), ("policy.yaml", POLICY.to_owned())];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let read = parsed(&files);
    assert_eq!(codes(&read), ["NW0125 a.yaml:1:1", "NW0125 policy.yaml:2:1"]);
    assert!(refused(&read).is_empty() && !read.has_errors(), "{:?}", read.findings);
    let now = parsed(&[("a.yaml", &resource("a", "1.0.0"))]);
    let spec = |of: &Parsed| of.nodewrights["a"].object.spec.clone();
    assert_eq!(spec(&read), spec(&now), "the same body, the same rollout");
    assert_eq!(read.policies.keys().collect::<Vec<_>>(), ["slow"]);
}

#[test]
fn one_name_under_both_groups_is_one_object_written_twice() {
    let read = parsed(&[("a.yaml", &resource("a", "1.0.0")), ("b.yaml", &former("a", "1.1.0"))]);
    assert_eq!(names(&read), [""; 0]);
    assert_eq!(codes(&read), ["NW0127 a.yaml:1:1", "NW0125 b.yaml:1:1", "NW0127 b.yaml:1:1"]);
}

#[test]
fn keys_of_ours_are_known_by_their_present_names() {
    let paused = former("a", "1.0.0").replace(
        "  name: a\n",
        "  name: a\n  annotations:\n    skyhook.nvidia.com/pause: \"true\"\n    theirs: kept\n",
    );
    let read = parsed(&[("a.yaml", &paused)]);
    let annotations = read.nodewrights["a"].object.metadata.annotations.clone().expect("some");
    assert_eq!(annotations["nodewright.nvidia.com/pause"], "true");
    assert_eq!(annotations["theirs"], "kept");
    assert_eq!(annotations.len(), 2);
}

#[test]
fn the_same_rules_hold_under_the_former_name() {
    let tagged = former("a", "1.0.0").replace("image: ", "image: registry:5000/x:1.0 # ");
    let read = parsed(&[("a.yaml", &tagged)]);
    assert_eq!(names(&read), [""; 0]);
    assert!(refused(&read).contains(&"NodeWright a".to_owned()), "{:?}", read.findings);
}

/// A broken document holds its object back: it must not be taken for one that is gone.
#[test]
fn a_document_that_cannot_be_read_still_names_its_object() {
    let broken = format!("{}    bad: [\n", former("a", "1.0.0"));
    let read = parsed(&[("a.yaml", &broken)]);
    assert!(refused(&read).contains(&"NodeWright a".to_owned()), "{:?}", read.findings);
    let listed = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: skyhook.nvidia.com/v1alpha1\n  \
                  kind: Skyhook\n  metadata: {name: a}\n";
    assert_eq!(codes(&parsed(&[("a.yaml", listed)])), ["NW0124 a.yaml:4:3"], "a List is not read");
}
