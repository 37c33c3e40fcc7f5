//! One pod: from its first status to its last.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::board::{Board, Restarts, Slot};
use super::edge::{Edge, Landed, PodId};
use super::node::{Power, passed};
use super::reports::{Reports, Writer, reports};
use super::runner::{self, Course};
use super::script::{Cue, Outcome, Pull};
use super::{Kubelet, Run, Switch};
use crate::api::keys::{ATTEMPT, NAME};
use crate::sim::keys;

/// First pause of a restart or of a pull that failed; doubles each time, as a kubelet's does.
const BACKOFF_MIN: Duration = Duration::from_secs(10);
/// Longest such pause.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Grace period of a pod whose deletion names none, as the API server defaults it.
const GRACE_PERIOD_DEFAULT_SECONDS: u64 = 30;

/// The task of one pod.
pub(super) struct PodTask {
    kubelet: Kubelet,
    edge: Edge,
    id: PodId,
    node: String,
    pod: Pod,
    latest: watch::Receiver<Pod>,
    power: watch::Receiver<Power>,
    switches: mpsc::Sender<Switch>,
    board: Board,
    reports: Reports,
}

/// How a stretch of a pod's life ended.
enum Stretch {
    /// The pod has its last status, or is gone.
    Over,
    PowerLost,
    Deleting,
    DeadlineExceeded,
}

/// Which list a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Init,
    Main,
}

impl PodTask {
    pub fn new(
        kubelet: Kubelet,
        edge: Edge,
        latest: watch::Receiver<Pod>,
        power: watch::Receiver<Power>,
        switches: mpsc::Sender<Switch>,
    ) -> (Self, Writer) {
        let pod = latest.borrow().clone();
        let id = PodId {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
        };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let board = Board::of(&pod);
        let period = kubelet.options().relist_period;
        let (reports, writer) = reports(edge.clone(), id.clone(), period);
        let task = Self { kubelet, edge, id, node, pod, latest, power, switches, board, reports };
        (task, writer)
    }

    /// Plays the pod until it is gone.
    pub async fn run(self, writer: Writer) {
        tokio::select! {
            biased;
            () = self.play_out() => {}
            () = writer.run() => {}
        }
    }

    async fn play_out(mut self) {
        let phase = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if !matches!(phase, Some("Succeeded" | "Failed")) {
            self.live().await;
        }
        // An API server removes a pod that has ended as soon as it is deleted; the one that was
        // deleted while its last status was on the way is left to its kubelet.
        let deleted = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        let is_asked = self.latest.wait_for(deleted).await.is_ok();
        if is_asked && self.power.wait_for(|power| power.is_on).await.is_ok() {
            // Gone either way.
            let _ = self.edge.remove_pod(&self.id).await;
        }
    }

    /// Plays the pod until it has ended or is gone.
    async fn live(&mut self) {
        loop {
            if self.power.wait_for(|power| power.is_on).await.is_err() {
                return;
            }
            let boot = self.power.borrow().boot;
            let mut power = self.power.clone();
            let mut latest = self.latest.clone();
            let deadline = self.deadline();
            let clock = self.edge.clock;
            let stretch = tokio::select! {
                biased;
                _ = power.wait_for(|power| !power.is_on || power.boot != boot) => {
                    Stretch::PowerLost
                }
                _ = latest.wait_for(|pod| pod.metadata.deletion_timestamp.is_some()) => {
                    Stretch::Deleting
                }
                () = clock.sleep(deadline) => Stretch::DeadlineExceeded,
                () = self.play() => Stretch::Over,
            };
            match stretch {
                Stretch::Over => return,
                Stretch::PowerLost => {
                    if self.come_back().await == Landed::ObjectGone {
                        return;
                    }
                }
                Stretch::DeadlineExceeded => {
                    let message = "Pod was active on the node longer than the specified deadline";
                    self.board.stop(clock.now());
                    self.board.fail("DeadlineExceeded", message);
                }
                Stretch::Deleting => {
                    let mut power = self.power.clone();
                    tokio::select! {
                        biased;
                        // Nobody ends a pod on a node that is down: it stays until that is back.
                        _ = power.wait_for(|power| !power.is_on || power.boot != boot) => {
                            self.board.stop(clock.now());
                        }
                        () = self.terminate() => return,
                    }
                }
            }
        }
    }

    /// Runs the containers that have not run yet.
    async fn play(&mut self) {
        self.board.acknowledge(self.edge.clock.now());
        if matches!(self.board.phase(), "Failed" | "Succeeded") {
            // A write that landed twice does no harm; one that was cut off must be made up for.
            let _ = self.report().await;
            return;
        }
        let init = containers(&self.pod, Row::Init);
        for (index, container) in init.iter().enumerate() {
            if self.board.init[index].end().is_some_and(|end| end.exit_code == 0) {
                continue;
            }
            if !self.run_init(index, container).await {
                return;
            }
        }
        self.run_main().await;
    }

    /// Runs one init container to success; returns whether the pod goes on.
    async fn run_init(&mut self, index: usize, container: &Container) -> bool {
        let mut pause = BACKOFF_MIN;
        loop {
            if self.pull(Row::Init, index).await == Landed::ObjectGone {
                return false;
            }
            let (course, attempt) = self.course(container).await;
            self.board.init[index].start(self.edge.clock.now());
            if self.report_by_and_by().await == Landed::ObjectGone {
                return false;
            }
            let outcome = course.end(self.edge.clock).await;
            if outcome.exit_code == 0 && restarts_node(container) {
                // The reboot kills this very container; what follows happens after it.
                if self.switches.send(Switch::Reboot).await.is_ok() {
                    std::future::pending::<()>().await;
                }
                return false;
            }
            let exit_code = outcome.exit_code;
            self.finish(Row::Init, index, outcome, attempt);
            if exit_code == 0 {
                return self.report_by_and_by().await == Landed::Yes;
            }
            if self.report().await == Landed::ObjectGone {
                return false;
            }
            if self.board.restarts() == Restarts::Never {
                return false;
            }
            let message = format!("back-off {}s restarting failed container", pause.as_secs());
            self.board.init[index].restart("CrashLoopBackOff", message);
            if self.report().await == Landed::ObjectGone {
                return false;
            }
            self.edge.clock.sleep(pause).await;
            pause = (pause * 2).min(BACKOFF_MAX);
        }
    }

    /// Starts all main containers and runs them to their end, if they have one.
    async fn run_main(&mut self) {
        let main = containers(&self.pod, Row::Main);
        for index in 0..main.len() {
            if self.pull(Row::Main, index).await == Landed::ObjectGone {
                return;
            }
        }
        let now = self.edge.clock.now();
        for slot in self.board.main.iter_mut().filter(|slot| slot.end().is_none()) {
            slot.start(now);
        }
        let is_executor = self.pod.labels().contains_key(NAME);
        let landed = if is_executor { self.report_by_and_by().await } else { self.report().await };
        if landed == Landed::ObjectGone {
            return;
        }
        if is_executor {
            for (index, container) in main.iter().enumerate() {
                let (course, attempt) = self.course(container).await;
                let outcome = course.end(self.edge.clock).await;
                self.finish(Row::Main, index, outcome, attempt);
            }
        } else {
            let life = self.live_out().await;
            for index in 0..main.len() {
                let outcome = Outcome { run_time: life, exit_code: 0, message: String::new() };
                self.finish(Row::Main, index, outcome, 1);
            }
        }
        // The last word: nothing follows, whether the pod is still there or not.
        let _ = self.report().await;
    }

    /// Waits until a workload ends by itself; for ever while no annotation says when that is. The
    /// annotation may come later: it is how a test or a person lets a running pod finish.
    async fn live_out(&self) -> Duration {
        let (clock, mut latest) = (self.edge.clock, self.latest.clone());
        let began = clock.now();
        loop {
            let life = seconds_of(&latest.borrow_and_update(), keys::FINISHES_AFTER_SECONDS);
            let lived = passed(began, clock.now());
            let left = match life {
                Some(life) if life <= lived => return lived,
                Some(life) => life.saturating_sub(lived),
                None => Duration::MAX,
            };
            tokio::select! {
                () = clock.sleep(left) => {}
                changed = latest.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
            }
        }
    }

    /// Pulls a container's image, for as long as it takes.
    async fn pull(&mut self, row: Row, index: usize) -> Landed {
        let image = self.slot(row, index).image.clone();
        let mut pause = BACKOFF_MIN;
        loop {
            let pull = self.kubelet.knobs().script.pull(&image);
            let key = (self.node.clone(), image.clone());
            match pull {
                Pull::Takes(time) => {
                    let is_new = !self.kubelet.knobs().pulled.contains(&key);
                    if is_new {
                        self.edge.clock.sleep(time).await;
                        self.kubelet.knobs().pulled.insert(key);
                    }
                    return Landed::Yes;
                }
                Pull::Missing | Pull::NoBuild | Pull::Unreachable => {
                    self.edge.clock.sleep(pull.patience()).await;
                    let why = pull.complaint(&image).unwrap_or_default();
                    self.slot(row, index).wait("ErrImagePull", why);
                    if self.report().await == Landed::ObjectGone {
                        return Landed::ObjectGone;
                    }
                    self.edge.clock.sleep(BACKOFF_MIN).await;
                    let why = format!("Back-off pulling image {image:?}");
                    self.slot(row, index).wait("ImagePullBackOff", why);
                    if self.report().await == Landed::ObjectGone {
                        return Landed::ObjectGone;
                    }
                    self.edge.clock.sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    /// Reports what a reboot left of the pod, once the node is back.
    async fn come_back(&mut self) -> Landed {
        if self.power.wait_for(|power| power.is_on).await.is_err() {
            return Landed::ObjectGone;
        }
        self.board.lose_power(self.edge.clock.now());
        self.report().await
    }

    /// Ends the pod within its grace period and removes it.
    async fn terminate(&mut self) {
        let clock = self.edge.clock;
        let asked = clock.now();
        while self.board.is_running() {
            let grace = self.latest.borrow_and_update().metadata.deletion_grace_period_seconds;
            let grace = grace.and_then(|grace| u64::try_from(grace).ok());
            let grace = Duration::from_secs(grace.unwrap_or(GRACE_PERIOD_DEFAULT_SECONDS));
            let own = seconds_of(&self.pod, keys::TERMINATES_AFTER_SECONDS).unwrap_or(grace);
            let left = grace.min(own).saturating_sub(passed(asked, clock.now()));
            if left.is_zero() {
                self.board.stop(clock.now());
                break;
            }
            tokio::select! {
                () = clock.sleep(left) => {}
                changed = self.latest.changed() => if changed.is_err() { return },
            }
        }
        if self.report().await == Landed::Yes {
            // Gone either way.
            let _ = self.edge.remove_pod(&self.id).await;
        }
    }

    fn finish(&mut self, row: Row, index: usize, outcome: Outcome, attempt: u32) {
        let now = self.edge.clock.now();
        let Outcome { run_time: _, exit_code, message } = outcome;
        let slot = self.slot(row, index);
        slot.finish(exit_code, message, now);
        let started = slot.end().map_or(now, |end| end.since);
        let run = Run {
            container: slot.name.clone(),
            image: slot.image.clone(),
            node: self.node.clone(),
            namespace: self.id.namespace.clone(),
            pod: self.id.name.clone(),
            pod_uid: self.id.uid.clone(),
            attempt,
            exit_code,
            started,
            finished: now,
        };
        self.kubelet.knobs().runs.push(run);
    }

    async fn report(&mut self) -> Landed {
        let status = self.board.status(self.edge.clock.now());
        self.reports.write(status).await
    }

    /// Reports what will soon be different again; waits for it only where everything is shown.
    async fn report_by_and_by(&mut self) -> Landed {
        if self.kubelet.options().relist_period.is_zero() {
            return self.report().await;
        }
        let status = self.board.status(self.edge.clock.now());
        self.reports.note(status)
    }

    /// Returns what a container about to run does, and which attempt it is.
    async fn course(&self, container: &Container) -> (Course, u32) {
        let (outcome, attempt) = self.outcome(container);
        let is_executor = self.pod.labels().contains_key(NAME);
        let course = match &self.kubelet.options().runner {
            Some(runner) if is_executor => {
                let start = runner::prepare(&self.edge, &self.node, &self.pod, container).await;
                Course::Real(runner.clone(), start)
            }
            Some(_) | None => Course::Scripted(outcome),
        };
        (course, attempt)
    }

    /// Returns how the script ends a container about to run, and which attempt it is: the
    /// pod's label says, else the runs on this node are counted.
    fn outcome(&self, container: &Container) -> (Outcome, u32) {
        let knobs = self.kubelet.knobs();
        let labelled = self.pod.labels().get(ATTEMPT).and_then(|text| text.parse().ok());
        let counted = || {
            let same = |run: &&Run| run.node == self.node && run.container == container.name;
            u32::try_from(knobs.runs.iter().filter(same).count()).unwrap_or(u32::MAX) + 1
        };
        let attempt = labelled.unwrap_or_else(counted);
        let args = container.args.as_deref().unwrap_or_default();
        let is_agent = self.pod.labels().contains_key(NAME) && container.command.is_none();
        let cue = Cue {
            node: &self.node,
            container: &container.name,
            mode: args.first().map(String::as_str).filter(|_| is_agent),
            attempt,
        };
        (knobs.script.outcome(&cue), attempt)
    }

    /// Returns how long the pod may still be active.
    fn deadline(&self) -> Duration {
        if matches!(self.board.phase(), "Failed" | "Succeeded") {
            return Duration::MAX;
        }
        let spec = self.pod.spec.as_ref();
        let limit = spec.and_then(|spec| spec.active_deadline_seconds);
        let limit = limit.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let since: Option<Timestamp> =
            self.latest.borrow().status.as_ref().and_then(|s| s.start_time.as_ref()).map(|t| t.0);
        let now = self.edge.clock.now();
        let active = since.map_or(Duration::ZERO, |since| passed(since, now));
        limit.map_or(Duration::MAX, |limit| limit.saturating_sub(active))
    }

    fn slot(&mut self, row: Row, index: usize) -> &mut Slot {
        match row {
            Row::Init => &mut self.board.init[index],
            Row::Main => &mut self.board.main[index],
        }
    }
}

fn seconds_of(pod: &Pod, key: &str) -> Option<Duration> {
    let text = pod.annotations().get(key)?;
    text.parse().ok().map(Duration::from_secs)
}

fn containers(pod: &Pod, row: Row) -> Vec<Container> {
    let spec = pod.spec.clone().unwrap_or_default();
    match row {
        Row::Init => spec.init_containers.unwrap_or_default(),
        Row::Main => spec.containers,
    }
}

/// Returns whether this is the agent's interrupt container with the order to reboot (contract D.3:
/// arguments `interrupt ROOT COPYDIR DATA`, the data being base64 of JSON).
fn restarts_node(container: &Container) -> bool {
    let args = container.args.as_deref().unwrap_or_default();
    let order = match args {
        [mode, _, _, order] if mode == "interrupt" => order,
        _ => return false,
    };
    let order = STANDARD.decode(order).ok();
    let order = order.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    order.is_some_and(|order| order["type"] == "node_restart")
}
