//! What `env.valueFrom` refers to: Secrets and ConfigMaps in our namespace, by keyed digest.
//!
//! In: the wanted packages. Out: [`Package::env_digest`], so that a rotated Secret is a change like
//! any other, and what is missing. Only the objects that a package names are read, only in our
//! namespace, at most once a minute.
//! Must never: keep, log or return a value. What is kept is an HMAC whose key is the cluster's UID:
//! the same value has another digest in another cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::EnvVar;
use kube::Client;
use serde::Deserialize;
use sha2::Sha256;

use super::requests::Requests;
use super::settings::EdgeSettings;
use crate::clock::Clock;
use crate::model::{Desired, Package, Reason, Rollout};

/// How old a reading may be: a rotation is noticed within a minute, and no object is read more
/// often than that, however many packages name it.
const READ_EVERY: Duration = Duration::from_mins(1);

/// Which kind of object an environment variable refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Secret,
    ConfigMap,
}

/// An object in our namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: Kind,
    name: String,
}

impl Object {
    fn words(&self, namespace: &str) -> String {
        match self.kind {
            Kind::Secret => format!("Secret {namespace}/{}", self.name),
            Kind::ConfigMap => format!("ConfigMap {namespace}/{}", self.name),
        }
    }

    fn path(&self, namespace: &str) -> String {
        let plural = match self.kind {
            Kind::Secret => "secrets",
            Kind::ConfigMap => "configmaps",
        };
        format!("/api/v1/namespaces/{namespace}/{plural}/{}", self.name)
    }
}

/// One key of an object, as an environment variable asks for it.
struct Reference {
    object: Object,
    key: String,
    optional: bool,
}

/// What is known of an object.
#[derive(Debug, Clone, Default)]
struct Seen {
    tried: Option<Timestamp>,
    /// Digest by key, of the last time it could be read.
    digests: Option<BTreeMap<String, String>>,
    state: Standing,
}

#[derive(Debug, Clone, Default)]
enum Standing {
    #[default]
    There,
    Gone,
    Unreadable(String),
}

/// Only the part of a Secret or ConfigMap that has the values.
#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// Reads what packages refer to. One per process: it remembers digests, and no value.
pub struct References {
    requests: Requests,
    namespace: String,
    clock: Clock,
    cluster_uid: String,
    seen: BTreeMap<Object, Seen>,
}

impl References {
    /// Makes a reader that knows nothing yet.
    pub fn new(client: Client, settings: &EdgeSettings, clock: Clock, cluster_uid: &str) -> Self {
        Self {
            requests: Requests::new(client, clock, settings.request_timeout),
            namespace: settings.namespace.clone(),
            clock,
            cluster_uid: cluster_uid.to_owned(),
            seen: BTreeMap::new(),
        }
    }

    /// Fills in the digests of everything that the packages refer to, and returns for which
    /// rollouts nothing new may begin and why.
    ///
    /// A rollout whose objects cannot be read, and never could since the start, is unreadable like
    /// one whose own object is: to go on without knowing would be a change that nobody made.
    pub async fn resolve(&mut self, desired: &mut Desired) -> BTreeMap<String, Reason> {
        let packages = desired.rollouts.values().flat_map(|rollout| rollout.packages.values());
        let named: BTreeSet<Object> =
            packages.flat_map(references).map(|reference| reference.object).collect();
        self.seen.retain(|object, _| named.contains(object));
        for object in named {
            self.refresh(object).await;
        }
        let mut held = BTreeMap::new();
        let mut unreadable = BTreeMap::new();
        for (name, rollout) in &mut desired.rollouts {
            match self.fill(rollout) {
                Ok(None) => {}
                Ok(Some(reason)) => drop(held.insert(name.clone(), reason)),
                Err(why) => drop(unreadable.insert(name.clone(), why)),
            }
        }
        for (name, why) in unreadable {
            desired.rollouts.remove(&name);
            desired.invalid.insert(name, why);
        }
        held
    }

    async fn refresh(&mut self, object: Object) {
        let now = self.clock.now();
        let mut seen = self.seen.get(&object).cloned().unwrap_or_default();
        let age = seen.tried.map(|tried| now.duration_since(tried).unsigned_abs());
        let is_known = seen.digests.is_some() || matches!(seen.state, Standing::Gone);
        if is_known && age.is_some_and(|age| age < READ_EVERY) {
            return;
        }
        seen.tried = Some(now);
        let what = format!("reading {}", object.words(&self.namespace));
        match self.requests.read::<Content>(what, &object.path(&self.namespace)).await {
            Ok(Some(content)) => {
                let keys = content.data.unwrap_or_default().into_iter();
                let digest = |(key, value): (String, String)| {
                    let digest = self.digest([object.name.as_str(), &key, &value]);
                    (key, digest)
                };
                seen.digests = Some(keys.map(digest).collect());
                seen.state = Standing::There;
            }
            Ok(None) => seen.state = Standing::Gone,
            Err(error) => {
                let why = error.to_string();
                tracing::warn!(error = %why, "what a package refers to cannot be read");
                seen.state = Standing::Unreadable(why);
            }
        }
        self.seen.insert(object, seen);
    }

    fn fill(&self, rollout: &mut Rollout) -> Result<Option<Reason>, String> {
        let mut missing = None;
        for package in rollout.packages.values_mut() {
            let wanted = references(package);
            if wanted.is_empty() {
                continue;
            }
            let mut parts = Vec::new();
            for Reference { object, key, optional } in wanted {
                let seen = self.seen.get(&object).cloned().unwrap_or_default();
                let words = object.words(&self.namespace);
                if let (Standing::Unreadable(why), None) = (&seen.state, &seen.digests) {
                    return Err(format!("package {} reads {words}: {why}", package.name));
                }
                let gone = matches!(seen.state, Standing::Gone);
                let digest = seen.digests.as_ref().and_then(|digests| digests.get(&key));
                if (gone || digest.is_none()) && !optional {
                    let object = if gone { words } else { format!("{words}, key {key}") };
                    let package = package.name.clone();
                    missing = missing.or(Some(Reason::ReferenceMissing { package, object }));
                }
                parts.push(digest.cloned().unwrap_or_default());
            }
            package.env_digest = Some(self.digest(parts.iter().map(String::as_str)));
        }
        Ok(missing)
    }

    /// Returns the keyed digest of texts, each with its length, so that none runs into the next.
    fn digest<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.cluster_uid.as_bytes())
            .expect("HMAC takes a key of any length");
        for text in texts {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        let bytes = mac.finalize().into_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns whether the environment of a package refers to any object.
pub fn refers(package: &Package) -> bool {
    package.env.iter().any(|variable| reference(variable).is_some())
}

/// Returns what the environment of a package refers to, in its order.
fn references(package: &Package) -> Vec<Reference> {
    package.env.iter().filter_map(reference).collect()
}

fn reference(variable: &EnvVar) -> Option<Reference> {
    let source = variable.value_from.as_ref()?;
    if let Some(secret) = &source.secret_key_ref {
        let object = Object { kind: Kind::Secret, name: secret.name.clone() };
        let optional = secret.optional.unwrap_or(false);
        return Some(Reference { object, key: secret.key.clone(), optional });
    }
    let config = source.config_map_key_ref.as_ref()?;
    let object = Object { kind: Kind::ConfigMap, name: config.name.clone() };
    let optional = config.optional.unwrap_or(false);
    Some(Reference { object, key: config.key.clone(), optional })
}
