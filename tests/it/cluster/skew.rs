//! The API server's clock is another than ours: deadlines count from when we saw a thing.

use jiff::{SignedDuration, Timestamp};
use nodewright::clock::Clock;
use nodewright::cluster::slim_pod::SlimPod;
use nodewright::cluster::store::Store;
use serde_json::{Value, json};

use super::settings;

const SKEW: SignedDuration = SignedDuration::from_mins(10);

fn stored(store: &Store, pod: &Value) {
    let slim: SlimPod = serde_json::from_value(pod.clone()).expect("a pod");
    store.put(slim);
}

/// A pod that is going, as a server says it whose clock shows `server`.
fn going(server: Timestamp, version: u32, grace: i64) -> Value {
    json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u1",
            "resourceVersion": version.to_string(), "creationTimestamp": server,
            "deletionTimestamp": server + SignedDuration::from_secs(grace),
            "deletionGracePeriodSeconds": grace,
        },
        "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Running"},
    })
}

fn deletes_at(store: &Store) -> Option<Timestamp> {
    store.view().observed.pods["gpu-1"]["shop/web-0"].deletes_at
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_is_over_by_our_clock_whatever_the_server_says() {
    let clock = Clock::real();
    let seconds = SignedDuration::from_secs;
    for skew in [SKEW, -SKEW] {
        let store = Store::new(&settings(), clock);
        let seen = clock.now();
        stored(&store, &going(seen + skew, 1, 60));
        assert_eq!(deletes_at(&store), Some(seen + seconds(60)));
        clock.sleep(std::time::Duration::from_secs(20)).await;
        let mut again = going(seen + skew, 2, 60);
        again["metadata"]["labels"] = json!({"app": "web"});
        stored(&store, &again);
        assert_eq!(deletes_at(&store), Some(seen + seconds(60)), "it counts from the first look");
        stored(&store, &going(seen + skew, 3, 0));
        assert_eq!(deletes_at(&store), Some(clock.now()), "a shorter grace counts at once");
        let mut other = going(seen + skew, 4, 60);
        other["metadata"]["uid"] = json!("u2");
        stored(&store, &other);
        assert_eq!(deletes_at(&store), Some(clock.now() + seconds(60)), "another pod");
    }
}

#[tokio::test(start_paused = true)]
async fn upstreams_work_is_given_its_time_by_our_clock() {
    let clock = Clock::real();
    for skew in [SKEW, -SKEW] {
        let store = Store::new(&settings(), clock);
        let seen = clock.now();
        let package = json!({
            "name": "motd", "version": "1.0.0", "skyhook": "tuning", "stage": "apply",
            "image": "registry.example/motd",
        });
        let mut pod = json!({
            "metadata": {
                "name": "tuning-motd", "namespace": "nodewright", "uid": "u1",
                "resourceVersion": "1", "creationTimestamp": seen + skew,
                "labels": {
                    "nodewright.nvidia.com/name": "tuning",
                    "nodewright.nvidia.com/package": "motd-1.0.0",
                },
                "annotations": {"nodewright.nvidia.com/package": package.to_string()},
            },
            "spec": {"nodeName": "gpu-1"},
            "status": {"phase": "Pending"},
        });
        stored(&store, &pod);
        clock.sleep(std::time::Duration::from_secs(20)).await;
        pod["metadata"]["resourceVersion"] = json!("2");
        pod["status"]["message"] = json!("waiting");
        stored(&store, &pod);
        let upstream = store.view().observed.upstream;
        let [work] = upstream.values().collect::<Vec<_>>()[..] else { panic!("{upstream:?}") };
        assert_eq!((work.created, work.seen), (seen + skew, seen));
    }
}
