//! One node: its heartbeats, its power, its reboots.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::board::seconds;
use super::edge::{Edge, Landed};
use super::{Kubelet, Switch};
use crate::sim::keys;

/// After so long without a heartbeat the node lifecycle controller calls a node unknown; the
/// embedded cluster has none, so the kubelet of a dead node says it itself.
const GRACE_PERIOD: Duration = Duration::from_secs(40);

/// Whether a node runs, and for the how-manieth time: pods die with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Power {
    pub is_on: bool,
    pub boot: u32,
}

/// The task of one node.
pub(super) struct NodeTask {
    kubelet: Kubelet,
    edge: Edge,
    name: String,
    machine: String,
    boot_id: String,
    reboots: u32,
    ready_since: Timestamp,
    switches: mpsc::Receiver<Switch>,
    power: watch::Sender<Power>,
}

/// Why a node goes down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Down {
    Rebooting,
    Dead,
}

impl NodeTask {
    /// Takes over a node as the API server has it.
    pub fn new(
        kubelet: Kubelet,
        edge: Edge,
        node: &Node,
        switches: mpsc::Receiver<Switch>,
        power: watch::Sender<Power>,
    ) -> Self {
        let name = node.metadata.name.clone().unwrap_or_default();
        let reported = node.status.as_ref().and_then(|status| status.node_info.clone());
        let (machine, boot) = reported.map(|info| (info.machine_id, info.boot_id)).unzip();
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let reboots = node.metadata.annotations.as_ref().and_then(|all| all.get(keys::REBOOTS));
        let reboots = reboots.and_then(|text| text.parse().ok()).unwrap_or(0);
        let machine =
            filled(machine).unwrap_or_else(|| identity(&name, "machine").replace('-', ""));
        let boot_id =
            filled(boot).unwrap_or_else(|| identity(&machine, &format!("boot-{reboots}")));
        let ready_since = edge.clock.now();
        Self { kubelet, edge, name, machine, boot_id, reboots, ready_since, switches, power }
    }

    /// Plays the node until it is deleted.
    pub async fn run(mut self) {
        if self.report_ready().await == Landed::ObjectGone {
            return;
        }
        let lease_period = self.kubelet.options().lease_period;
        let mut pause = lease_period.mul_f64(phase(&self.machine));
        let mut reported = self.edge.clock.now();
        loop {
            self.edge.renew_lease(&self.name).await;
            tokio::select! {
                switch = self.switches.recv() => match switch {
                    None => return,
                    Some(Switch::PowerOn) => {}
                    Some(Switch::Reboot) => {
                        if self.go_down(Down::Rebooting).await == Landed::ObjectGone {
                            return;
                        }
                        reported = self.edge.clock.now();
                    }
                    Some(Switch::PowerOff) => {
                        if self.go_down(Down::Dead).await == Landed::ObjectGone {
                            return;
                        }
                        reported = self.edge.clock.now();
                    }
                },
                () = self.edge.clock.sleep(pause) => {}
            }
            pause = lease_period;
            let status_period = self.kubelet.options().status_period;
            if passed(reported, self.edge.clock.now()) >= status_period {
                if self.report_ready().await == Landed::ObjectGone {
                    return;
                }
                reported = self.edge.clock.now();
            }
        }
    }

    /// Goes down and comes back: everything on the node dies at once, and it reports a new boot ID
    /// together with being ready.
    async fn go_down(&mut self, down: Down) -> Landed {
        tracing::info!(node = self.name, "node goes down");
        self.power.send_modify(|power| power.is_on = false);
        if down == Down::Rebooting {
            // A kubelet that is shut down in order says so; one that dies cannot.
            let message = "node is shutting down";
            if self.report("False", "KubeletNotReady", message).await == Landed::ObjectGone {
                return Landed::ObjectGone;
            }
        }
        if self.stay_away(down).await == Landed::ObjectGone {
            return Landed::ObjectGone;
        }
        self.reboots += 1;
        self.boot_id = identity(&self.machine, &format!("boot-{}", self.reboots));
        self.kubelet.knobs().reboots.insert(self.name.clone(), self.reboots);
        let count = self.reboots.to_string();
        if self.edge.annotate_node(&self.name, keys::REBOOTS, &count).await == Landed::ObjectGone {
            return Landed::ObjectGone;
        }
        self.ready_since = self.edge.clock.now();
        let landed = self.report_ready().await;
        self.power.send_modify(|power| *power = Power { is_on: true, boot: power.boot + 1 });
        tracing::info!(node = self.name, "node is back");
        landed
    }

    /// Waits until the node comes back: by itself after its reboot time, or when powered on.
    async fn stay_away(&mut self, down: Down) -> Landed {
        let clock = self.edge.clock;
        let left = clock.now();
        let returns_after = {
            let script = &self.kubelet.knobs().script;
            let returns = down == Down::Rebooting && !script.never_returning.contains(&self.name);
            let own = script.reboot_times.get(&self.name).copied();
            returns.then(|| own.unwrap_or(self.kubelet.options().reboot_time))
        };
        let mut is_known_dead = false;
        loop {
            let away = passed(left, clock.now());
            if returns_after.is_some_and(|after| away >= after) {
                return Landed::Yes;
            }
            if away >= GRACE_PERIOD && !is_known_dead {
                is_known_dead = true;
                let message = "Kubelet stopped posting node status.";
                if self.report("Unknown", "NodeStatusUnknown", message).await == Landed::ObjectGone
                {
                    return Landed::ObjectGone;
                }
            }
            let until_grace = (!is_known_dead).then(|| GRACE_PERIOD.saturating_sub(away));
            let until_return = returns_after.map(|after| after.saturating_sub(away));
            let pause = until_grace.into_iter().chain(until_return).min();
            tokio::select! {
                switch = self.switches.recv() => match switch {
                    Some(Switch::PowerOn) | None => return Landed::Yes,
                    Some(Switch::Reboot | Switch::PowerOff) => {}
                },
                () = clock.sleep(pause.unwrap_or(Duration::MAX)) => {}
            }
        }
    }

    async fn report_ready(&self) -> Landed {
        self.report("True", "KubeletReady", "kubelet is posting ready status").await
    }

    async fn report(&self, ready: &str, reason: &str, message: &str) -> Landed {
        let now = seconds(self.edge.clock.now());
        let since = if ready == "True" { seconds(self.ready_since) } else { now.clone() };
        let mut status = json!({"conditions": [{
            "type": "Ready", "status": ready, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": since,
        }]});
        if ready == "True" {
            status["nodeInfo"] = self.node_info();
        }
        self.edge.write_node_status(&self.name, &status).await
    }

    fn node_info(&self) -> Value {
        json!({
            "machineID": self.machine, "systemUUID": self.machine, "bootID": self.boot_id,
            "kernelVersion": "6.8.0-sim", "osImage": "Simulated Linux", "operatingSystem": "linux",
            "architecture": "amd64", "containerRuntimeVersion": "sim://1",
            "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
        })
    }
}

/// Returns an ID that looks like a UUID and is the same whenever the words are.
pub(in crate::sim) fn identity(what: &str, which: &str) -> String {
    let seed = what.bytes().chain(which.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let bits = fastrand::Rng::with_seed(seed).u128(..);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns when in its period a node renews its lease, from 0 to 1: nodes that were made together
/// do not do so together.
fn phase(machine: &str) -> f64 {
    let seed = machine
        .bytes()
        .fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    fastrand::Rng::with_seed(seed).f64()
}

/// Returns the time from one moment to a later one.
pub(super) fn passed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from).max(SignedDuration::ZERO)).unwrap_or_default()
}
