//! What `env.valueFrom` refers to, for `explain`: read as the daemon reads it, where we may.
//!
//! In: what is wanted and the snapshots. Out: the same with digests, and what is missing. Whoever
//! asks often has no right to read Secrets: then they count as unchanged, and the answer says so.
//! Must never: keep, print or log a value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use crate::clock::Clock;
use crate::cluster::EdgeSettings;
use crate::cluster::secrets::{References, refers};
use crate::model::{Desired, Observed, Package, Reason, Rollout};
use crate::report::explain::NotKnown;

/// What an answer without the values may be wrong about.
const SO: &str = "what its packages read counts as unchanged: a rotation is not told";

/// Fills in digests, as the daemon does; what cannot be read counts as unchanged.
pub(super) async fn resolve(
    client: &Client,
    namespace: &str,
    clock: Clock,
    (desired, observed): (&mut Desired, &Observed),
    not_known: &mut Vec<NotKnown>,
) -> BTreeMap<String, Reason> {
    let mut packages = desired.rollouts.values().flat_map(|rollout| rollout.packages.values());
    if !packages.any(refers) {
        return BTreeMap::new();
    }
    let before = desired.clone();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    // Digests are keyed by the cluster's identity.
    let cluster_uid = match namespaces.get("kube-system").await {
        Ok(found) => found.metadata.uid.unwrap_or_default(),
        Err(error) => {
            for rollout in desired.rollouts.values_mut() {
                take_as_unchanged(rollout, observed);
            }
            not_known.push(NotKnown {
                what: "Namespace kube-system".to_owned(),
                why: error.to_string(),
                so: "Secrets and ConfigMaps that packages read count as unchanged",
                way_out: "ask for the right to get the namespace kube-system".to_owned(),
            });
            return BTreeMap::new();
        }
    };
    let settings = EdgeSettings::new(namespace, "");
    let mut references = References::new(client.clone(), &settings, clock, &cluster_uid);
    let missing = references.resolve(desired).await;
    for (name, mut rollout) in before.rollouts {
        if desired.rollouts.contains_key(&name) {
            continue;
        }
        let why = desired.invalid.remove(&name).unwrap_or_default();
        take_as_unchanged(&mut rollout, observed);
        not_known.push(NotKnown {
            what: format!("what {name} reads"),
            why,
            so: SO,
            way_out: format!(
                "ask for the right to get secrets and configmaps in namespace {namespace}; the \
                 daemon has its own"
            ),
        });
        desired.rollouts.insert(name, rollout);
    }
    missing
}

/// Fills in the digests that the newest installation of each package had, where one is known.
fn take_as_unchanged(rollout: &mut Rollout, observed: &Observed) {
    let name = &rollout.name;
    for package in rollout.packages.values_mut().filter(|package| refers(package)) {
        let same = observed.snapshots.iter().filter(|(_, snapshot)| {
            let other = Package { env_digest: None, ..snapshot.package.clone() };
            snapshot.rollout == *name && other == *package
        });
        let in_use = |snapshot: &str| {
            let of = |entry: &crate::model::Entry| entry.snapshot.as_deref() == Some(snapshot);
            let nodes = observed.nodes.values();
            nodes.filter(|node| node.entries(name).values().any(of)).count()
        };
        let found = same.max_by_key(|(snapshot, _)| in_use(snapshot));
        package.env_digest = found.and_then(|(_, snapshot)| snapshot.package.env_digest.clone());
    }
}
