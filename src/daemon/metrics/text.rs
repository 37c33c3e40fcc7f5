//! Families of series, written in the order in which they are given.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Label names with their values.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Writes a family of gauges under its name and help; nothing where there is no series.
pub(super) fn gauges<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    family: (&'static str, &'static str),
    series: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
) -> fmt::Result {
    let series = series.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
    metrics(encoder, family, MetricType::Gauge, series)
}

/// Writes a family of counters; their series end in `_total`, the family does not.
pub(super) fn counters<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    family: (&'static str, &'static str),
    series: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
) -> fmt::Result {
    let series = series.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
    metrics(encoder, family, MetricType::Counter, series)
}

fn metrics<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&'static str, &'static str),
    kind: MetricType,
    series: impl Iterator<Item = (Labels<'a, N>, impl EncodeMetric)>,
) -> fmt::Result {
    let mut series = series.peekable();
    if series.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in series {
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
