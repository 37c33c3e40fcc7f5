//! Everybody else in the world: people, controllers, the cloud, the pods of others.

use super::World;
use super::act::entries_text;
use crate::model::{Entry, FORGOTTEN, Node, NodeRollout, Outcome, Phase, Resource};

impl World {
    /// Changes a node as anybody may, and its resourceVersion with it.
    pub fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let version = self.next_version();
        if let Some(node) = self.input.observed.nodes.get_mut(name) {
            change(node);
            node.resource_version = version;
        }
    }

    /// Changes a resource as anybody may, and its resourceVersion with it.
    pub fn change_resource(&mut self, name: &str, change: impl FnOnce(&mut Resource)) {
        let version = self.next_version();
        if let Some(resource) = self.input.observed.resources.get_mut(name) {
            change(resource);
            resource.resource_version = version;
        }
    }

    /// Somebody else cordons a node. Where we hold it, that is the cordon we asked for.
    pub fn cordon(&mut self, name: &str, manager: &str) {
        let Some(node) = self.input.observed.nodes.get(name) else { return };
        if node.unschedulable {
            return;
        }
        if node.cordons.is_empty() {
            self.foreign.insert(name.to_owned());
        }
        self.change_node(name, |node| {
            node.unschedulable = true;
            node.unschedulable_manager = Some(manager.to_owned());
        });
    }

    /// A person lets a node go, as `nodewright forget` writes it: what its entries say is left, an
    /// open or failed visit and the hold of one before are closed.
    pub fn forget(&mut self, name: &str, rollout: &str) {
        let now = self.input.now;
        self.change_node(name, |node| {
            let marked = node.is_cordoned_by(rollout);
            let Some(state) = node.rollouts.get(rollout) else { return };
            let mut state = NodeRollout::clone(state);
            let gone = std::mem::take(&mut state.entries).into_iter();
            state.left.extend(gone.map(|(id, entry)| (id, Entry { left: Some(now), ..entry })));
            state.entries_text = entries_text(&state.entries, &state.left);
            if let Some(record) = &mut state.record {
                if marked || matches!(record.outcome, None | Some(Outcome::Erroring)) {
                    record.outcome = Some(Outcome::Released);
                    record.phase = Phase::Released;
                    record.reason = Some(FORGOTTEN.to_owned());
                    record.interrupts_due.clear();
                }
                state.record_text = serde_json::to_string(record).ok();
            }
            state.status = None;
            state.drain_start = None;
            node.rollouts.insert(rollout.to_owned(), state.into());
        });
    }

    /// Somebody else lifts the cordon of a node, whoever set it.
    pub fn uncordon(&mut self, name: &str, manager: &str) {
        self.foreign.remove(name);
        self.change_node(name, |node| {
            if node.unschedulable {
                node.unschedulable_manager = Some(manager.to_owned());
            }
            node.unschedulable = false;
        });
    }

    /// The Ready condition of a node changes; one that is down stays so until it comes back.
    pub fn set_ready(&mut self, name: &str, ready: bool) {
        let now = self.input.now;
        if self.lost.contains(name) {
            return;
        }
        self.change_node(name, |node| {
            if node.ready != ready {
                node.ready_since = Some(now);
            }
            node.ready = ready;
        });
    }

    /// A node leaves the cluster, and all of its pods with it.
    pub fn remove_node(&mut self, name: &str) {
        self.input.observed.nodes.remove(name);
        self.input.observed.pods.remove(name);
        self.input.observed.executors.retain(|_, executor| executor.visit.node != name);
        self.foreign.remove(name);
        self.lost.remove(name);
    }

    /// Another machine takes the name of one that left; the pods of the first are gone.
    pub fn replace_node(&mut self, name: &str) {
        let Some(node) = self.input.observed.nodes.get(name) else { return };
        let labels = node.labels.clone();
        let labels: Vec<(&str, &str)> =
            labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        self.remove_node(name);
        self.add_node(name, &labels);
        let other = self.next_version();
        self.change_node(name, |node| {
            node.uid = format!("{}-{other}", node.uid);
            node.machine_id = format!("{}-{other}", node.machine_id);
            node.boot_id = format!("{}-{other}", node.boot_id);
        });
    }

    /// Another machine boots as this node: the Node object stays, and nothing we did is on it.
    pub fn replace_host(&mut self, name: &str) {
        let other = self.next_version();
        self.change_node(name, |node| node.machine_id = format!("machine-{name}-{other}"));
        self.reboot(name);
    }

    /// Somebody deletes a resource: it stays while our finalizer is on it.
    pub fn delete_rollout(&mut self, name: &str) {
        let version = self.next_version();
        let Some(resource) = self.input.observed.resources.get_mut(name) else { return };
        resource.resource_version = version;
        resource.deleting = true;
        resource.generation += 1;
        if !resource.finalizer {
            self.input.observed.resources.remove(name);
            self.input.desired.rollouts.remove(name);
        }
    }
}
