//! The graph of packages: nothing missing, exact versions, no circle (upstream contract A.3, B.4).

use std::collections::{BTreeMap, BTreeSet};

use super::breach::Breaches;
use super::path::Path;
use super::rules::Rule;
use super::schema::shown;
use super::suggest::suggest;
use crate::api::Package;

/// Checks the dependencies of a resource's packages; `path` leads to `packages`.
pub(super) fn check(packages: &BTreeMap<String, Package>, path: &Path, breaches: &mut Breaches) {
    for (name, package) in packages {
        for (wanted, version) in &package.depends_on {
            let path = path.key(name).key("dependsOn").key(wanted);
            check_one(packages, wanted, version, &path, breaches);
        }
    }
    for circle in circles(packages) {
        let path = path.key(&circle[0]).key("dependsOn").key(circle.get(1).unwrap_or(&circle[0]));
        let way = circle.iter().chain([&circle[0]]).map(String::as_str).collect::<Vec<_>>();
        let message = format!("the packages depend on each other in a circle: {}", way.join(" → "));
        breaches.key(Rule::DependencyCycle, &path, message, "remove one of these dependencies");
    }
}

fn check_one(
    packages: &BTreeMap<String, Package>,
    wanted: &str,
    version: &str,
    path: &Path,
    breaches: &mut Breaches,
) {
    let Some(there) = packages.get(wanted) else {
        let names: Vec<&str> = packages.keys().map(String::as_str).collect();
        let message = format!("there is no package {} in this resource", shown(wanted));
        let way_out = match suggest(wanted, &names) {
            Some(meant) => format!("write {meant} if that is what you mean, or add the package"),
            None => "add the package, or remove the dependency".to_owned(),
        };
        return breaches.key(Rule::DependencyMissing, path, message, &way_out);
    };
    if there.version != version {
        let (is, wants) = (shown(&there.version), shown(version));
        let message = format!("{wanted} is here in version {is}, not {wants}");
        let way_out = format!("write exactly the version of the package: {is}");
        breaches.value(Rule::DependencyVersion, path, message, &way_out);
    }
}

/// Returns the circles, each from its first name on; a package is in one of them at most.
fn circles(packages: &BTreeMap<String, Package>) -> Vec<Vec<String>> {
    let mut left: BTreeSet<&str> = packages.keys().map(String::as_str).collect();
    let mut circles = Vec::new();
    let waits_for = |left: &BTreeSet<&str>, name: &str| {
        packages[name].depends_on.keys().map(String::as_str).find(|other| left.contains(other))
    };
    loop {
        loop {
            let ready: Vec<&str> =
                left.iter().copied().filter(|name| waits_for(&left, name).is_none()).collect();
            if ready.is_empty() {
                break;
            }
            for name in ready {
                left.remove(name);
            }
        }
        // Everything left waits for something left, so following leads into a circle.
        let Some(mut name) = left.first().copied() else { return circles };
        let mut way: Vec<&str> = Vec::new();
        while !way.contains(&name) {
            way.push(name);
            let Some(next) = waits_for(&left, name) else { break };
            name = next;
        }
        let start = way.iter().position(|other| *other == name).unwrap_or(0);
        let mut circle = way.split_off(start);
        for name in &circle {
            left.remove(name);
        }
        let first =
            circle.iter().enumerate().min_by_key(|(_, name)| **name).map_or(0, |(at, _)| at);
        circle.rotate_left(first);
        circles.push(circle.into_iter().map(str::to_owned).collect());
    }
}
