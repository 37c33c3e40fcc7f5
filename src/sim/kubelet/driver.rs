//! The driver: one watch of nodes, one of pods, and a task for each that is ours.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::edge::Edge;
use super::node::{NodeTask, Power};
use super::pod::PodTask;
use super::{Kubelet, Switch};

/// Switches a node may have waiting; more are pointless and dropped.
const SWITCHES_WAITING_MAX: usize = 8;

struct Driver {
    kubelet: Kubelet,
    edge: Edge,
    nodes: BTreeMap<String, NodeSeat>,
    /// By UID, so that a new pod of the same name is another pod.
    pods: BTreeMap<String, PodSeat>,
    tasks: JoinSet<()>,
}

struct NodeSeat {
    power: watch::Receiver<Power>,
    switches: mpsc::Sender<Switch>,
    task: AbortHandle,
    is_listed: bool,
}

struct PodSeat {
    latest: watch::Sender<Pod>,
    task: Option<AbortHandle>,
    is_listed: bool,
}

/// Plays until dropped; all its tasks end with it.
pub(super) async fn drive(kubelet: Kubelet, edge: Edge) {
    let mut nodes = watch_nodes(&kubelet, &edge);
    let mut pods = watch_pods(&edge);
    let mut driver = Driver {
        kubelet,
        edge,
        nodes: BTreeMap::new(),
        pods: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    loop {
        tokio::select! {
            biased;
            Some(event) = nodes.next() => match event {
                Ok(event) => driver.node_event(event),
                Err(error) => tracing::warn!(%error, "watch of nodes failed and starts again"),
            },
            Some(event) = pods.next() => match event {
                Ok(event) => driver.pod_event(event),
                Err(error) => tracing::warn!(%error, "watch of pods failed and starts again"),
            },
            Some(done) = driver.tasks.join_next() => {
                if let Err(error) = done && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
            },
        }
    }
}

type Events<T> = std::pin::Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<T>>> + Send>>;

fn watch_nodes(kubelet: &Kubelet, edge: &Edge) -> Events<Node> {
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&kubelet.options().nodes);
    watcher(Api::all(edge.client.clone()), config).default_backoff().boxed()
}

fn watch_pods(edge: &Edge) -> Events<Pod> {
    let config = watcher::Config::default().fields("spec.nodeName!=");
    watcher(Api::all(edge.client.clone()), config).default_backoff().boxed()
}

impl Driver {
    fn node_event(&mut self, event: watcher::Event<Node>) {
        match event {
            watcher::Event::Init => {
                self.nodes.values_mut().for_each(|seat| seat.is_listed = false);
            }
            watcher::Event::Apply(node) | watcher::Event::InitApply(node) => self.add_node(&node),
            watcher::Event::Delete(node) => self.remove_node(&node.name_any()),
            watcher::Event::InitDone => {
                let gone: Vec<String> = self
                    .nodes
                    .iter()
                    .filter(|(_, seat)| !seat.is_listed)
                    .map(|(name, _)| name.clone())
                    .collect();
                gone.iter().for_each(|name| self.remove_node(name));
            }
        }
    }

    fn pod_event(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => {
                self.pods.values_mut().for_each(|seat| seat.is_listed = false);
            }
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => self.add_pod(pod),
            watcher::Event::Delete(pod) => self.remove_pod(&pod.uid().unwrap_or_default()),
            watcher::Event::InitDone => {
                let gone: Vec<String> = self
                    .pods
                    .iter()
                    .filter(|(_, seat)| !seat.is_listed)
                    .map(|(uid, _)| uid.clone())
                    .collect();
                gone.iter().for_each(|uid| self.remove_pod(uid));
            }
        }
    }

    fn add_node(&mut self, node: &Node) {
        let name = node.name_any();
        if let Some(seat) = self.nodes.get_mut(&name) {
            seat.is_listed = true;
            return;
        }
        let (switches, orders) = mpsc::channel(SWITCHES_WAITING_MAX);
        let (power_sender, power) = watch::channel(Power { is_on: true, boot: 0 });
        self.kubelet.knobs().switches.insert(name.clone(), switches.clone());
        let task =
            NodeTask::new(self.kubelet.clone(), self.edge.clone(), node, orders, power_sender);
        let task = self.tasks.spawn(task.run());
        self.nodes.insert(name.clone(), NodeSeat { power, switches, task, is_listed: true });
        let waiting: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, seat)| node_of(&seat.latest.borrow()) == name)
            .map(|(uid, _)| uid.clone())
            .collect();
        waiting.iter().for_each(|uid| self.play(uid));
    }

    fn remove_node(&mut self, name: &str) {
        if let Some(seat) = self.nodes.remove(name) {
            seat.task.abort();
        }
        self.kubelet.knobs().switches.remove(name);
        for seat in self.pods.values_mut() {
            if node_of(&seat.latest.borrow()) == name
                && let Some(task) = seat.task.take()
            {
                task.abort();
            }
        }
    }

    fn add_pod(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(seat) = self.pods.get_mut(&uid) {
            seat.is_listed = true;
            seat.latest.send_replace(pod);
            return;
        }
        let seat = PodSeat { latest: watch::Sender::new(pod), task: None, is_listed: true };
        self.pods.insert(uid.clone(), seat);
        self.play(&uid);
    }

    fn remove_pod(&mut self, uid: &str) {
        if let Some(task) = self.pods.remove(uid).and_then(|seat| seat.task) {
            task.abort();
        }
    }

    /// Starts the task of a pod, if its node is ours and listens.
    fn play(&mut self, uid: &str) {
        let Some(seat) = self.pods.get_mut(uid) else { return };
        let node = node_of(&seat.latest.borrow());
        let is_deaf = self.kubelet.knobs().script.deaf.contains(&node);
        let Some(of_node) = self.nodes.get(&node).filter(|_| !is_deaf) else {
            return;
        };
        if seat.task.is_some() {
            return;
        }
        let (task, writer) = PodTask::new(
            self.kubelet.clone(),
            self.edge.clone(),
            seat.latest.subscribe(),
            of_node.power.clone(),
            of_node.switches.clone(),
        );
        seat.task = Some(self.tasks.spawn(task.run(writer)));
    }
}

fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}
