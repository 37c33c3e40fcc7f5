//! Our daemon in the world: it plans on what its caches say, and its requests may be lost.
//!
//! What is played here is what design §4 allows to happen: caches that lag behind others but know
//! the answers to our own writes (rule 9), a request that is carried out while its answer is lost,
//! a death between any two requests, and a process that freezes in the middle of its requests. A
//! daemon that is frozen for longer than its lease sends nothing more (rule 10), so what was in its
//! hands can only arrive before another one plans.

use std::collections::BTreeSet;

use super::World;
use crate::model::{Action, Desired, Group, Observed, Plan};
use crate::plan::{Breach, audit, plan_with};

/// What becomes of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done, if its precondition holds.
    Done,
    /// The API server refuses it for a reason of its own.
    Refused,
    /// It is done, if its precondition holds, and the answer never comes.
    Lost,
    /// The daemon dies before it, and everything after it in this tick.
    Crash,
    /// The daemon freezes before it, with this and everything after it in its hands.
    Freeze,
}

/// What one tick came to.
#[derive(Debug)]
pub struct Tick {
    /// What was decided.
    pub plan: Plan,
    /// What the audit says of it.
    pub breaches: Vec<Breach>,
    /// How many actions changed something.
    pub done: usize,
    /// What the judge had against actions that changed something.
    pub objections: Vec<String>,
}

impl World {
    /// Decides as the next tick would, at this very moment, and does nothing.
    pub fn plan(&mut self) -> Plan {
        plan_with(&self.input, &mut self.names)
    }

    /// Plans, audits, and executes with the given fate for each action. Returns the plan, what the
    /// audit says of it, and how many actions changed something.
    pub fn tick(&mut self, mut fate: impl FnMut(&Action) -> Fate) -> (Plan, Vec<Breach>, usize) {
        let tick = self.tick_watched(|_, action| fate(action), |_, _| None);
        (tick.plan, tick.breaches, tick.done)
    }

    /// Does the same under the eyes of `judge`, which sees the world right before each action that
    /// is sent, and may object.
    pub fn tick_watched(
        &mut self,
        mut fate: impl FnMut(&Self, &Action) -> Fate,
        judge: impl FnMut(&Self, &Action) -> Option<String>,
    ) -> Tick {
        self.frozen.clear();
        self.frozen_view = None;
        if let Some(behind) = &mut self.behind {
            std::mem::swap(&mut self.input.desired, &mut behind.0);
            std::mem::swap(&mut self.input.observed, &mut behind.1);
        }
        let plan = plan_with(&self.input, &mut self.names);
        let breaches = audit(&self.input, &plan);
        if let Some(behind) = &mut self.behind {
            std::mem::swap(&mut self.input.desired, &mut behind.0);
            std::mem::swap(&mut self.input.observed, &mut behind.1);
        }
        let mut ended = None;
        let sent = self.send(
            &plan.actions,
            |world, action| {
                let fate = fate(world, action);
                if matches!(fate, Fate::Crash | Fate::Freeze) {
                    ended = Some(fate);
                }
                fate
            },
            judge,
        );
        match ended {
            Some(Fate::Freeze) => {
                self.frozen = plan.actions[sent.count..].to_vec();
                self.frozen_view = self.behind.clone().or_else(|| Some(self.view()));
            }
            // Whoever comes next lists everything anew.
            Some(_) => self.behind = None,
            None => {}
        }
        self.note_peaks();
        Tick { plan, breaches, done: sent.changed, objections: sent.objections }
    }

    /// The daemon's caches stop following what others do.
    pub fn fall_behind(&mut self) {
        if self.behind.is_none() {
            self.behind = Some(self.view());
        }
    }

    /// The daemon's caches are these: another one's, or its own of some time ago.
    pub fn see(&mut self, desired: Desired, observed: Observed) {
        self.behind = Some(Box::new((desired, observed)));
    }

    fn view(&self) -> Box<(Desired, Observed)> {
        Box::new((self.input.desired.clone(), self.input.observed.clone()))
    }

    /// They are as the world is again.
    pub fn catch_up(&mut self) {
        self.behind = None;
    }

    /// Returns whether the daemon may know less than there is.
    pub fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Returns what the daemon's caches say of what is wanted: what it decides by.
    pub fn known_desired(&self) -> &Desired {
        self.behind.as_ref().map_or(&self.input.desired, |behind| &behind.0)
    }

    /// Returns what they say of what is there.
    pub fn known(&self) -> &Observed {
        self.behind.as_ref().map_or(&self.input.observed, |behind| &behind.1)
    }

    /// A frozen daemon goes on where it was, whatever happened meanwhile.
    pub fn thaw(&mut self, judge: impl FnMut(&Self, &Action) -> Option<String>) -> Vec<String> {
        let actions = std::mem::take(&mut self.frozen);
        let Some(view) = self.frozen_view.take() else { return Vec::new() };
        // What is in its hands was decided by what it knew when it froze.
        let caches = self.behind.replace(view);
        let sent = self.send(&actions, |_, _| Fate::Done, judge);
        self.behind = caches;
        for action in &actions {
            self.answer(action);
        }
        self.note_peaks();
        sent.objections
    }

    fn send(
        &mut self,
        actions: &[Action],
        mut fate: impl FnMut(&Self, &Action) -> Fate,
        mut judge: impl FnMut(&Self, &Action) -> Option<String>,
    ) -> Sent {
        let mut sent = Sent { changed: 0, count: 0, objections: Vec::new() };
        let mut broken = BTreeSet::new();
        for action in actions {
            let fate = fate(self, action);
            if matches!(fate, Fate::Crash | Fate::Freeze) {
                return sent;
            }
            sent.count += 1;
            if !broken.is_empty() && broken.contains(&action.lane()) {
                continue;
            }
            let mut applied = false;
            if fate != Fate::Refused {
                let objection = judge(self, action);
                applied = self.execute(action);
                sent.objections.extend(objection.filter(|_| applied));
            }
            sent.changed += usize::from(applied);
            self.answer(action);
            if (!applied || fate == Fate::Lost) && !matches!(action, Action::Evict(_)) {
                broken.insert(action.lane());
            }
        }
        sent
    }

    /// The answer to a write goes into the caches; after a conflict or a lost answer the object is
    /// read again.
    fn answer(&mut self, action: &Action) {
        let Some(behind) = &mut self.behind else { return };
        let (truth, seen) = (&self.input.observed, &mut behind.1);
        match action {
            Action::CreateSnapshot(_) | Action::DeleteSnapshot(_) => {
                seen.snapshots.clone_from(&truth.snapshots);
                seen.rejections.clone_from(&truth.rejections);
            }
            Action::WriteStatus(write) => seen.copy_resource(truth, &write.rollout),
            Action::SetFinalizer(write) => seen.copy_resource(truth, &write.rollout),
            Action::PatchNode(patch) => seen.copy_node(truth, &patch.node),
            Action::PatchTaints(patch) => seen.copy_node(truth, &patch.node),
            Action::CleanNode(cleaning) => seen.copy_node(truth, &cleaning.node),
            Action::Evict(eviction) => {
                let refusal = truth.refusals.get(&eviction.pod.uid);
                if let Some(refusal) = refusal {
                    seen.refusals.insert(eviction.pod.uid.clone(), refusal.clone());
                }
                let pods = truth.pods.get(&eviction.node).cloned().unwrap_or_default();
                seen.pods.insert(eviction.node.clone(), pods);
            }
            Action::CreateExecutor(spec) => {
                seen.executors.clone_from(&truth.executors);
                seen.rejections.clone_from(&truth.rejections);
                // It is read before its interrupt.
                if spec.work.group() == Group::Interrupt {
                    seen.copy_node(truth, &spec.visit.node);
                }
            }
            Action::DeleteExecutors { .. } | Action::DeleteExecutor { .. } => {
                seen.executors.clone_from(&truth.executors);
                seen.rejections.clone_from(&truth.rejections);
            }
            Action::DeleteUpstreamWork { .. } => seen.upstream.clone_from(&truth.upstream),
            Action::WriteNodeMetadata(_) => {}
        }
    }
}

/// How far a list of actions came.
struct Sent {
    changed: usize,
    count: usize,
    objections: Vec<String>,
}

impl crate::model::Observed {
    fn copy_node(&mut self, truth: &Self, name: &str) {
        match truth.nodes.get(name) {
            Some(node) => self.nodes.insert(name.to_owned(), node.clone()),
            None => self.nodes.remove(name),
        };
    }

    fn copy_resource(&mut self, truth: &Self, name: &str) {
        match truth.resources.get(name) {
            Some(resource) => self.resources.insert(name.to_owned(), resource.clone()),
            None => self.resources.remove(name),
        };
    }
}
