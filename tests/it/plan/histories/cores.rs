//! Seeds on all cores at once: each is a world of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `play` for every seed, on as many threads as there are cores.
pub fn on_all_cores(seeds: Range<u64>, play: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    play(seed);
                }
            });
        }
    });
}

/// Returns what the lowest seed that fails says.
pub fn first_failure(
    seeds: Range<u64>,
    play: impl Fn(u64) -> Option<String> + Sync,
) -> Option<String> {
    let failed = std::sync::Mutex::new(std::collections::BTreeMap::new());
    on_all_cores(seeds, |seed| {
        if let Some(why) = play(seed) {
            failed.lock().expect("no thread panics while it holds this").insert(seed, why);
        }
    });
    let failed = failed.into_inner().expect("no thread panics while it holds this");
    failed.into_values().next()
}
