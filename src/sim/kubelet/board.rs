//! The board: what a kubelet knows of one pod, and how it reads as the pod's status.
//!
//! In go the steps of containers, out comes `status` as a kubelet writes it: whole, every time. The
//! phase is never set, it follows from the containers, but for the few ends that no container
//! tells.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use serde_json::{Value, json};

/// Exit code of a container that a reboot killed: the runtime does not know how it ended.
const EXIT_CODE_UNKNOWN: i32 = 255;
/// Exit code of a container that was told to end: 128 + SIGTERM.
const EXIT_CODE_TERMINATED: i32 = 143;

/// One pod.
#[derive(Debug, Clone)]
pub(super) struct Board {
    pub init: Vec<Slot>,
    pub main: Vec<Slot>,
    restarts: Restarts,
    /// Set once the pod has ended in a way its containers do not show.
    verdict: Option<Verdict>,
    address: String,
    started: Option<Timestamp>,
    transitions: BTreeMap<&'static str, (bool, Timestamp)>,
}

/// One container.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub name: String,
    pub image: String,
    pub state: State,
    restarts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Waiting { reason: &'static str, message: String },
    Running { since: Timestamp },
    Terminated(End),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub exit_code: i32,
    pub message: String,
    pub since: Timestamp,
    pub finished: Timestamp,
}

/// The pod's restart policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restarts {
    Never,
    OnFailure,
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    reason: &'static str,
    message: &'static str,
}

impl Board {
    /// Takes over a pod, and what an earlier kubelet process reported of it.
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let restarts = match spec.restart_policy.as_deref() {
            Some("Never") => Restarts::Never,
            Some("OnFailure") => Restarts::OnFailure,
            _ => Restarts::Always,
        };
        let known = status.init_container_statuses.unwrap_or_default();
        let init = spec.init_containers.unwrap_or_default();
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        Self {
            init: init.iter().map(|one| Slot::of(one, &known)).collect(),
            main: spec
                .containers
                .iter()
                .map(|one| Slot::of(one, &status.container_statuses.clone().unwrap_or_default()))
                .collect(),
            restarts,
            verdict: None,
            address: address_of(uid),
            started: status.start_time.map(|time| time.0),
            transitions: BTreeMap::new(),
        }
    }

    /// Returns the pod's restart policy.
    pub fn restarts(&self) -> Restarts {
        self.restarts
    }

    /// Notes that the kubelet has acknowledged the pod.
    pub fn acknowledge(&mut self, now: Timestamp) {
        self.started.get_or_insert(now);
    }

    /// Returns whether any container has ever started.
    pub fn has_run(&self) -> bool {
        self.slots().any(|slot| !matches!(slot.state, State::Waiting { .. }) || slot.restarts > 0)
    }

    /// Returns whether a container is running.
    pub fn is_running(&self) -> bool {
        self.slots().any(|slot| matches!(slot.state, State::Running { .. }))
    }

    /// Ends every running container as a stop by the kubelet does.
    pub fn stop(&mut self, now: Timestamp) {
        self.end_running(EXIT_CODE_TERMINATED, "", now);
    }

    /// Ends every running container as a reboot does; pods that restart begin anew.
    pub fn lose_power(&mut self, now: Timestamp) {
        let had_run = self.has_run();
        self.end_running(EXIT_CODE_UNKNOWN, "", now);
        match self.restarts {
            // A kubelet makes no second sandbox for a pod that never restarts.
            Restarts::Never if had_run => self.fail("", ""),
            Restarts::Never => {}
            Restarts::OnFailure | Restarts::Always => {
                for slot in self.init.iter_mut().chain(&mut self.main) {
                    slot.restart("ContainerCreating", String::new());
                }
            }
        }
    }

    /// Ends the pod as failed for a reason of its own, such as its deadline.
    pub fn fail(&mut self, reason: &'static str, message: &'static str) {
        self.verdict = Some(Verdict { reason, message });
    }

    /// Returns the phase.
    pub fn phase(&self) -> &'static str {
        let failed = |slot: &Slot| slot.end().is_some_and(|end| end.exit_code != 0);
        let never = self.restarts == Restarts::Never;
        if self.verdict.is_some() || (never && self.init.iter().any(failed)) {
            return "Failed";
        }
        if !self.main.is_empty() && self.main.iter().all(|slot| slot.end().is_some()) {
            return if self.main.iter().any(failed) { "Failed" } else { "Succeeded" };
        }
        let runs = self.main.iter().any(|slot| !matches!(slot.state, State::Waiting { .. }));
        if runs { "Running" } else { "Pending" }
    }

    /// Returns the whole status; fields that do not apply are null, so that a merge removes them.
    pub fn status(&mut self, now: Timestamp) -> Value {
        let phase = self.phase();
        let has_ended = matches!(phase, "Failed" | "Succeeded");
        let initialized = self.init.iter().all(|slot| slot.end().is_some_and(|e| e.exit_code == 0));
        let ready =
            self.main.iter().all(|slot| matches!(slot.state, State::Running { .. })) && !has_ended;
        let conditions: Vec<Value> = [
            ("PodScheduled", true),
            ("Initialized", initialized),
            ("ContainersReady", ready),
            ("Ready", ready),
        ]
        .into_iter()
        .map(|(name, holds)| self.condition(name, holds, phase, now))
        .collect();
        let list = |slots: &[Slot]| match slots {
            [] => Value::Null,
            slots => slots.iter().map(Slot::status).collect(),
        };
        let verdict = |text: fn(&Verdict) -> &'static str| {
            self.verdict.as_ref().map(text).filter(|text| !text.is_empty())
        };
        json!({
            "phase": phase, "conditions": conditions,
            "reason": verdict(|verdict| verdict.reason),
            "message": verdict(|verdict| verdict.message),
            "startTime": self.started.map(seconds),
            "podIP": self.address, "podIPs": [{"ip": self.address}],
            "initContainerStatuses": list(&self.init), "containerStatuses": list(&self.main),
        })
    }

    fn condition(
        &mut self,
        name: &'static str,
        holds: bool,
        phase: &'static str,
        now: Timestamp,
    ) -> Value {
        let (held, since) = self.transitions.entry(name).or_insert((holds, now));
        if *held != holds {
            (*held, *since) = (holds, now);
        }
        let reason = match (name, phase) {
            _ if holds => None,
            (_, "Succeeded") => Some("PodCompleted"),
            (_, "Failed") => Some("PodFailed"),
            ("Initialized", _) => Some("ContainersNotInitialized"),
            _ => Some("ContainersNotReady"),
        };
        json!({
            "type": name, "status": if holds { "True" } else { "False" }, "reason": reason,
            "lastProbeTime": null, "lastTransitionTime": seconds(*since),
        })
    }

    fn end_running(&mut self, exit_code: i32, message: &str, now: Timestamp) {
        for slot in self.init.iter_mut().chain(&mut self.main) {
            if let State::Running { since } = slot.state {
                let message = message.to_owned();
                slot.state = State::Terminated(End { exit_code, message, since, finished: now });
            }
        }
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.init.iter().chain(&self.main)
    }
}

impl Slot {
    fn of(container: &Container, known: &[ContainerStatus]) -> Self {
        let status = known.iter().find(|status| status.name == container.name);
        let mut slot = Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            state: State::Waiting { reason: "PodInitializing", message: String::new() },
            restarts: status.map_or(0, |one| u32::try_from(one.restart_count).unwrap_or(0)),
        };
        let state = status.and_then(|status| status.state.as_ref());
        if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
            let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
                time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
            };
            slot.state = State::Terminated(End {
                exit_code: ended.exit_code,
                message: ended.message.clone().unwrap_or_default(),
                since: time(&ended.started_at),
                finished: time(&ended.finished_at),
            });
        }
        slot
    }

    /// Returns how the container ended, if it did.
    pub fn end(&self) -> Option<&End> {
        match &self.state {
            State::Terminated(end) => Some(end),
            State::Waiting { .. } | State::Running { .. } => None,
        }
    }

    /// Starts the container.
    pub fn start(&mut self, now: Timestamp) {
        self.state = State::Running { since: now };
    }

    /// Ends the container.
    pub fn finish(&mut self, exit_code: i32, message: String, now: Timestamp) {
        let since = match &self.state {
            State::Running { since } => *since,
            State::Waiting { .. } | State::Terminated(_) => now,
        };
        self.state = State::Terminated(End { exit_code, message, since, finished: now });
    }

    /// Lets the container wait.
    pub fn wait(&mut self, reason: &'static str, message: String) {
        self.state = State::Waiting { reason, message };
    }

    /// Lets the container wait for its next start; one that had run counts as restarted.
    pub fn restart(&mut self, reason: &'static str, message: String) {
        if !matches!(self.state, State::Waiting { .. }) {
            self.restarts += 1;
        }
        self.wait(reason, message);
    }

    fn status(&self) -> Value {
        let state = match &self.state {
            State::Waiting { reason, message } => {
                json!({"waiting": {"reason": reason, "message": text(message)}})
            }
            State::Running { since } => json!({"running": {"startedAt": seconds(*since)}}),
            State::Terminated(End { exit_code, message, since, finished }) => {
                let reason = match *exit_code {
                    0 => "Completed",
                    EXIT_CODE_UNKNOWN => "Unknown",
                    _ => "Error",
                };
                json!({"terminated": {
                    "exitCode": exit_code, "reason": reason, "message": text(message),
                    "startedAt": seconds(*since), "finishedAt": seconds(*finished),
                }})
            }
        };
        let is_ready = match &self.state {
            State::Running { .. } => true,
            State::Terminated(end) => end.exit_code == 0,
            State::Waiting { .. } => false,
        };
        json!({
            "name": self.name, "image": self.image, "imageID": "", "state": state,
            "ready": is_ready, "restartCount": self.restarts,
            "started": matches!(self.state, State::Running { .. }),
        })
    }
}

/// Returns a time as the API writes it, to the second.
pub(super) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn text(message: &str) -> Option<&str> {
    Some(message).filter(|message| !message.is_empty())
}

/// Returns an address that is the pod's own, as far as anyone looks.
fn address_of(uid: &str) -> String {
    let sum = uid.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("10.{}.{}.{}", 64 + (sum >> 16) % 64, (sum >> 8) % 256, 1 + sum % 254)
}
