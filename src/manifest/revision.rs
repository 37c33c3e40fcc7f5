//! All files of one revision: layers, overlays, objects, and the units they make.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::breach::Part;
use super::findings::Findings;
use super::layer::{self, Foreign, Identity, Layer, reference};
use super::layout::{self, Layout};
use super::object::{self, Object};
use super::path::Path;
use super::rollout::policy_of;
use super::rules::Rule;
use super::schema::{Schemas, shown};
use super::source::{Problem, SourceFile};
use super::suggest::suggest;
use super::tree::Node;
use super::{RuleBreach, overlay};
use crate::api::crd::Kind;
use crate::api::{DeploymentPolicy, NodeWright};
use crate::model::{Finding, ObjectRef, Severity};

/// An object and where its document starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Document<T> {
    /// The object, without `metadata.namespace` and `status`.
    pub object: T,
    /// File, relative to the root; with an overlay, the base's.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// What a revision says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Accepted resources, by name.
    pub nodewrights: BTreeMap<String, Document<NodeWright>>,
    /// Accepted policies, by name.
    pub policies: BTreeMap<String, Document<DeploymentPolicy>>,
    /// Objects of other kinds, in the order of files and lines.
    pub foreign: Vec<Foreign>,
    /// What is wrong or worth knowing, in the order of files and lines, at most [`FINDINGS_MAX`].
    ///
    /// [`FINDINGS_MAX`]: super::FINDINGS_MAX
    pub findings: Vec<Finding>,
    /// Something could not be read, so nothing may be removed because of this revision.
    pub unreadable: bool,
    /// Objects that are in the revision and refused: their last good state stays in force.
    pub refused: BTreeSet<ObjectRef>,
}

impl Parsed {
    /// Returns whether any finding refuses something.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Returns whether the revision says nothing at all: no object, none refused, all readable.
    ///
    /// A folder that was emptied on purpose and one that lost its content look the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { nodewrights, policies, foreign: _, findings: _, unreadable, refused } = self;
        nodewrights.is_empty() && policies.is_empty() && refused.is_empty() && !unreadable
    }
}

/// Reads the files of one revision for one cluster.
#[must_use]
pub fn read(files: &[SourceFile], problems: &[Problem], layout: &Layout) -> Parsed {
    let schemas = Schemas::get();
    let mut findings = Findings::default();
    let layers = layout::layers(files, problems, layout, schemas, &mut findings);
    let Some(layers) = layers else {
        return Parsed { findings: findings.finish(), unreadable: true, ..Parsed::default() };
    };
    let mut base = layer::read(&layers.base, &mut findings);
    base.lost |= layers.base_lost;
    base.unreadable |= layers.base_lost;
    let overlay = layer::read(&layers.overlay, &mut findings);
    let mut revision = Revision::combine(base, overlay, &mut findings);
    revision.check(schemas, &mut findings);
    revision.units(&mut findings);
    revision.finish(findings)
}

/// An accepted object with its tree, for the place of what is found later.
type Accepted<T> = (T, Rc<Node>);

#[derive(Default)]
struct Revision {
    trees: BTreeMap<Identity, Rc<Node>>,
    refused: BTreeSet<Identity>,
    unreadable: bool,
    foreign: Vec<Foreign>,
    nodewrights: BTreeMap<String, Accepted<NodeWright>>,
    policies: BTreeMap<String, Accepted<DeploymentPolicy>>,
}

impl Revision {
    /// Puts the overlay over the base.
    fn combine(base: Layer, over: Layer, findings: &mut Findings) -> Self {
        let mut revision = Self {
            unreadable: base.unreadable || over.unreadable,
            foreign: base.foreign.into_iter().chain(over.foreign).collect(),
            refused: base.refused.into_iter().chain(over.refused).collect(),
            ..Self::default()
        };
        revision.foreign.sort();
        let mut base_objects = base.objects;
        warn_of_strays(&base_objects, &over.objects, findings);
        for (identity, over_root) in over.objects {
            match base_objects.remove(&identity) {
                Some(base_root) => {
                    let merged = Rc::new(overlay::merge(&base_root, &over_root));
                    revision.trees.insert(identity, merged);
                }
                None if base.lost && !revision.refused.contains(&identity) => {
                    let message = "what it may be an overlay of cannot be read".to_owned();
                    revision.hold(identity, &over_root, message, findings);
                }
                None => {
                    revision.trees.insert(identity, over_root);
                }
            }
        }
        for (identity, base_root) in base_objects {
            if over.lost && !revision.refused.contains(&identity) {
                let message = "what may be an overlay of it cannot be read".to_owned();
                revision.hold(identity, &base_root, message, findings);
            } else {
                revision.trees.insert(identity, base_root);
            }
        }
        let refused = &revision.refused;
        revision.trees.retain(|identity, _| !refused.contains(identity));
        revision
    }

    fn hold(&mut self, identity: Identity, root: &Node, message: String, findings: &mut Findings) {
        let way_out = "correct what cannot be read; the last good state stays in force";
        let object = Some(reference(&identity));
        findings.place(Rule::BaseUnreadable, &root.place, object, message, way_out);
        self.refused.insert(identity);
    }

    fn check(&mut self, schemas: &Schemas, findings: &mut Findings) {
        for (identity, root) in std::mem::take(&mut self.trees) {
            match object::check(&identity, &root, schemas, findings) {
                Some(Object::NodeWright(object)) => {
                    self.nodewrights.insert(identity.1, (*object, root));
                }
                Some(Object::Policy(object)) => {
                    self.policies.insert(identity.1, (*object, root));
                }
                None => {
                    self.trees.insert(identity.clone(), root);
                    self.refused.insert(identity);
                }
            }
        }
    }

    /// Refuses resources without their policy, and holds policies of refused resources alone.
    fn units(&mut self, findings: &mut Findings) {
        let mut refused: Vec<String> = Vec::new();
        for (name, (object, root)) in &self.nodewrights {
            let Some(policy) = policy_of(object) else { continue };
            if self.policies.contains_key(policy) {
                continue;
            }
            let breach = self.without_policy(policy);
            let place = breach.path.place(root, breach.part);
            let identity = (Kind::NodeWright, name.clone());
            findings.breach(&breach, &place, Some(reference(&identity)));
            refused.push(name.clone());
        }
        for name in refused {
            if let Some((_, root)) = self.nodewrights.remove(&name) {
                self.trees.insert((Kind::NodeWright, name.clone()), root);
            }
            self.refused.insert((Kind::NodeWright, name));
        }
        self.hold_policies(findings);
    }

    fn without_policy(&self, policy: &str) -> RuleBreach {
        let is_refused = self.refused.contains(&(Kind::DeploymentPolicy, policy.to_owned()));
        let (rule, message, way_out) = if is_refused {
            let message = format!("the DeploymentPolicy {} is refused", shown(policy));
            (Rule::PolicyRefused, message, "correct the policy".to_owned())
        } else {
            let message = format!("there is no DeploymentPolicy {} here", shown(policy));
            let names: Vec<&str> = self.policies.keys().map(String::as_str).collect();
            let way_out = match suggest(policy, &names) {
                Some(meant) => format!("write {meant} if that is what you mean"),
                None => "add it to the same revision; one that is only in the cluster does not \
                         count"
                    .to_owned(),
            };
            (Rule::PolicyMissing, message, way_out)
        };
        let path = Path::of(&["spec", "deploymentPolicy"]);
        RuleBreach { rule, path, part: Part::Value, message, way_out }
    }

    /// A policy that only refused resources name waits with them.
    fn hold_policies(&mut self, findings: &mut Findings) {
        let used: BTreeSet<&str> =
            self.nodewrights.values().filter_map(|(object, _)| policy_of(object)).collect();
        let mut held: BTreeMap<String, String> = BTreeMap::new();
        for ((kind, name), root) in &self.trees {
            let policy = root.get("spec").and_then(|spec| spec.get("deploymentPolicy"));
            let policy = policy.and_then(|node| node.text());
            if let (Kind::NodeWright, Some(policy)) = (kind, policy)
                && !used.contains(policy)
                && self.policies.contains_key(policy)
            {
                held.insert(policy.to_owned(), name.clone());
            }
        }
        for (policy, name) in held {
            let Some((_, root)) = self.policies.remove(&policy) else { continue };
            let identity = (Kind::DeploymentPolicy, policy);
            let message = format!("the policy is held back, as NodeWright {name} is refused");
            let way_out = "correct the resource; the two are applied together";
            let object = Some(reference(&identity));
            findings.place(Rule::PolicyHeld, &root.place, object, message, way_out);
            self.refused.insert(identity);
        }
    }

    fn finish(self, findings: Findings) -> Parsed {
        let Self { trees: _, refused, unreadable, foreign, nodewrights, policies } = self;
        Parsed {
            nodewrights: documents(nodewrights),
            policies: documents(policies),
            foreign,
            findings: findings.finish(),
            unreadable,
            refused: refused.iter().map(reference).collect(),
        }
    }
}

/// Warns of what looks like an overlay and has no base: its name may be a slip.
fn warn_of_strays(
    base: &BTreeMap<Identity, Rc<Node>>,
    over: &BTreeMap<Identity, Rc<Node>>,
    findings: &mut Findings,
) {
    let names: Vec<&str> = base.keys().map(|(_, name)| name.as_str()).collect();
    for (identity, root) in over {
        let packages = root.get("spec").and_then(|spec| spec.get("packages"));
        let is_whole = identity.0 != Kind::NodeWright || packages.is_some();
        if is_whole || base.contains_key(identity) || base.is_empty() {
            continue;
        }
        let place = Path::of(&["metadata", "name"]).place(root, Part::Value);
        let message = format!("no base has a NodeWright {}, and it has no packages", identity.1);
        let way_out = match suggest(&identity.1, &names) {
            Some(meant) => format!("write {meant} if that is what you mean, or add packages"),
            None => format!("write one of {}, or add packages", names.join(", ")),
        };
        let object = Some(reference(identity));
        findings.place(Rule::OverlayWithoutBase, &place, object, message, &way_out);
    }
}

fn documents<T>(accepted: BTreeMap<String, Accepted<T>>) -> BTreeMap<String, Document<T>> {
    let document = |(object, root): Accepted<T>| {
        let place = &root.place;
        let (file, line, column) = (place.file.to_string(), place.line, place.column);
        Document { object, file, line, column }
    };
    accepted.into_iter().map(|(name, accepted)| (name, document(accepted))).collect()
}
