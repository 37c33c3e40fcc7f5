//! What holds of every pace, whoever fails.

use nodewright::model::{self, BatchState, Budget, Growth};
use nodewright::plan::pace::{Assumption, Ended, Pacing};
use proptest::prelude::*;

use super::worked::play;
use super::{pacing, strategy};

fn growths() -> impl Strategy<Value = Growth> {
    prop_oneof![
        Just(Growth::Fixed),
        (1..5_u32).prop_map(Growth::Linear),
        (2..5_u32).prop_map(Growth::Exponential),
    ]
}

fn budgets() -> impl Strategy<Value = Budget> {
    prop_oneof![(1..=100_u32).prop_map(Budget::Percent), (1..40_u32).prop_map(Budget::Count)]
}

prop_compose! {
    fn strategies()(
        growth in growths(),
        initial in 1..12_u32,
        batch_threshold in 1..=100_u32,
        failure_threshold in proptest::option::of(1..5_u32),
        safety_limit in 1..=100_u32,
    ) -> model::Strategy {
        let plain = strategy(growth, initial);
        model::Strategy { batch_threshold, failure_threshold, safety_limit, ..plain }
    }
}

prop_compose! {
    fn pacings()(
        nodes in 0..300_u32,
        budget in budgets(),
        strategy in proptest::option::of(strategies()),
        stop_after in proptest::option::of(1..4_u32),
    ) -> Pacing {
        Pacing { stop_after, ..pacing(budget, strategy, nodes) }
    }
}

proptest! {
    #[test]
    fn batches_cover_every_node_once_and_keep_to_the_ceiling(
        pacing in pacings(),
        fates in proptest::collection::vec(any::<bool>(), 300),
    ) {
        let (sizes, stopped) = play(pacing, |node| fates[node as usize - 1]);
        let through: u32 = sizes.iter().sum();
        prop_assert!(sizes.iter().all(|&size| size >= 1 && size <= pacing.ceiling()));
        prop_assert_eq!(stopped, through < pacing.nodes);
        prop_assert!(through <= pacing.nodes);
        if pacing.stop_after.is_none()
            && pacing.pace.strategy.is_none_or(|strategy| strategy.failure_threshold.is_none())
        {
            prop_assert!(!stopped, "nothing could stop it");
        }
    }

    #[test]
    fn a_batch_follows_from_the_last_by_the_formula(
        pacing in pacings(),
        last in 1..300_u32,
        failed in any::<bool>(),
        complete in 0..300_u32,
    ) {
        let Some(strategy) = pacing.pace.strategy else { return Ok(()) };
        let state = BatchState {
            last_batch_size: last,
            last_batch_failed: failed,
            completed_nodes: complete.min(pacing.nodes),
            ..BatchState::default()
        };
        let slow = failed && pacing.progress(&state) < strategy.safety_limit;
        let wanted = match (strategy.growth, slow) {
            (Growth::Fixed, _) => strategy.initial_batch,
            (Growth::Linear(delta), true) => last.checked_sub(delta).unwrap_or(1).max(1),
            (Growth::Linear(delta), false) => last + delta,
            (Growth::Exponential(factor), true) => (last / factor).max(1),
            (Growth::Exponential(factor), false) => (last * factor).min(pacing.nodes).max(1),
        };
        prop_assert_eq!(pacing.next_batch(&state), wanted.min(pacing.ceiling()));
    }

    #[test]
    fn a_forecast_comes_true_when_its_assumption_holds(pacing in pacings()) {
        for (assumed, fails) in [(Assumption::Success, false), (Assumption::Failure, true)] {
            let forecast = pacing.forecast(&BatchState::default(), pacing.nodes, assumed);
            let (sizes, stopped) = play(pacing, |_| fails);
            prop_assert_eq!((&forecast.batches, forecast.stops), (&sizes, stopped));
        }
    }

    #[test]
    fn a_batch_of_which_nobody_ended_changes_nothing(
        pacing in pacings(),
        complete in 0..300_u32,
    ) {
        let before = BatchState { completed_nodes: complete, ..BatchState::default() };
        let mut after = before.clone();
        pacing.judge(&mut after, Ended::default(), Ended { complete, failed: 0 });
        prop_assert_eq!(before, after);
    }
}
