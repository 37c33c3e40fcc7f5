//! A stop of everything is said to be in force when it is, and only then.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::keys::STOP;
use nodewright::clock::Clock;
use nodewright::cluster::lease::LEASE_NAME;
use nodewright::cluster::source_state::SOURCE_NAME;
use nodewright::cluster::stop::{InForce, go, stop_all};
use nodewright::sim::Cluster;
use serde_json::json;

const NAMESPACE: &str = "nodewright";
const NOTE: &str = "a drill at noon";
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    clock: Clock,
    cluster: Cluster,
}

impl World {
    fn new() -> Self {
        let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
        let clock = Clock::starting_at(start, 1);
        Self { clock, cluster: Cluster::new(clock) }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.client("daemon"), NAMESPACE)
    }

    async fn leads(&self, holder: &str) {
        let lease = serde_json::from_value(json!({
            "metadata": {"name": LEASE_NAME}, "spec": {"holderIdentity": holder},
        }));
        let lease = lease.expect("a Lease");
        self.leases().create(&PostParams::default(), &lease).await.expect("created");
    }

    async fn stop(&self) -> InForce {
        let client = self.cluster.client("person");
        let stopped = stop_all(&client, NAMESPACE, self.clock, NOTE, PATIENCE).await;
        stopped.expect("the API server answers")
    }

    /// The stop as it is written.
    async fn written(&self) -> Option<String> {
        let config_maps: Api<ConfigMap> = Api::namespaced(self.cluster.client("test"), NAMESPACE);
        let found = config_maps.get_opt(SOURCE_NAME).await.expect("the API server answers");
        found.and_then(|it| it.annotations().get(STOP).cloned())
    }
}

/// A person who names the wrong namespace must not believe that anything is stopped.
#[tokio::test(start_paused = true)]
async fn where_no_daemon_ever_was_nothing_is_written_and_nothing_is_stopped() {
    let world = World::new();
    assert_eq!(world.stop().await, InForce::NoDaemon);
    assert_eq!(world.written().await, None);
    let lifted = go(&world.cluster.client("person"), NAMESPACE, world.clock).await;
    assert_eq!(lifted.expect("the API server answers"), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_up_has_no_leader() {
    let world = World::new();
    world.leads("").await;
    let began = world.clock.now();
    assert_eq!(world.stop().await, InForce::NobodyLeads);
    assert_eq!(world.clock.now(), began, "there is nothing to wait for");
    assert_eq!(world.written().await.as_deref(), Some(NOTE), "who starts finds it");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_has_no_leader_once_its_time_is_over() {
    let world = World::new();
    world.leads("gone").await;
    let began = world.clock.now();
    assert_eq!(world.stop().await, InForce::NobodyLeads);
    let waited = world.clock.now().duration_since(began).unsigned_abs();
    assert!((Duration::from_secs(15)..Duration::from_secs(17)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_says_nothing_may_still_disturb_nodes() {
    let world = World::new();
    world.leads("busy").await;
    let renews = async {
        loop {
            world.clock.sleep(Duration::from_secs(3)).await;
            let renewal = json!({"spec": {"renewTime": format!("{:.6}", world.clock.now())}});
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&renewal));
            world.leases().patch(LEASE_NAME, &parameters, &patch).await.expect("renewed");
        }
    };
    let in_force = tokio::select! {
        in_force = world.stop() => in_force,
        () = renews => unreachable!("it renews for ever"),
    };
    assert_eq!(in_force, InForce::NotYet);
    assert_eq!(world.written().await.as_deref(), Some(NOTE), "it obeys as soon as it reads it");
}
