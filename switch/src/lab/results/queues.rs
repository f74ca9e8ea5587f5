//! Queues: depth over time, peaks, marks, pauses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use super::Window;
use crate::lab::checks::port_name;
use crate::lab::sampler::QueueKey;
use crate::report::{Axis, Column, Layer, Plot, Report, Row, Series, Table, Timeline, Unit, stats};
use crate::tm::{CLASSES, PortStatus, QueueCounters, QueueStatus};

/// Queues in a picture, and rows of a timeline.
const SHOWN_MAX: usize = 8;
const ROWS_MAX: usize = 24;

pub(super) fn fill(report: &mut Report, window: &Window<'_>, bottleneck: Option<QueueKey>) {
    let keys = busiest(window, bottleneck);
    table(report, window, &keys);
    bottleneck_figures(report, window, bottleneck);
    plot(report, window, &keys, bottleneck);
    super::depths::fill(report, window, &keys);
    spectrum(report, window, bottleneck);
    series(report, window, &keys);
    pauses(report, window);
}

/// Switch queues that were not always empty, the bottleneck first, then by their mean.
fn busiest(window: &Window<'_>, bottleneck: Option<QueueKey>) -> Vec<QueueKey> {
    let mut keys: Vec<(f64, QueueKey)> = window
        .lab
        .sampler
        .queues
        .iter()
        .map(|(key, track)| (stats::mean(window.part(&track.bytes)), *key))
        .collect();
    keys.sort_by(|a, b| {
        let is = |key: &QueueKey| Some(*key) == bottleneck;
        is(&b.1).cmp(&is(&a.1)).then(b.0.total_cmp(&a.0)).then(a.1.cmp(&b.1))
    });
    keys.into_iter().map(|(_, key)| key).collect()
}

/// `s1->sink queue 3`.
pub(super) fn name(window: &Window<'_>, (node, port, queue): QueueKey) -> String {
    format!("{} queue {queue}", port_name(&window.lab.scenario().fabric, node, port))
}

/// Counters now, and at the end of the warm-up.
pub(super) fn status(
    window: &Window<'_>,
    key: QueueKey,
) -> Option<(QueueStatus, Option<QueueStatus>)> {
    let (node, port, queue) = key;
    let now = window.port(node, port)?;
    let base = window.lab.sampler.base.get(&(node, port));
    let of = |status: &PortStatus| status.queues[usize::from(queue)];
    Some((of(now), base.map(of)))
}

/// ECN-capable packets that the congestion point decided about, and marks, since the warm-up.
pub(super) fn marks(window: &Window<'_>, key: QueueKey) -> Option<(u64, u64)> {
    let (now, base) = status(window, key)?;
    let (wred, before) = (now.wred?, base.and_then(|base| base.wred).unwrap_or_default());
    Some((wred.eligible - before.eligible, wred.marked - before.marked))
}

/// Packets that a queue dropped.
fn lost(counters: &QueueCounters) -> u64 {
    counters.dropped.packets + counters.refused.packets
}

/// Other queues that dropped packets since the warm-up.
fn dropping(window: &Window<'_>, known: &[QueueKey]) -> Vec<QueueKey> {
    let known: BTreeSet<&QueueKey> = known.iter().collect();
    let nodes = window.lab.scenario().fabric.nodes.iter().enumerate();
    let queues = nodes.flat_map(|(node, description)| {
        let ports = description.ports();
        ports.flat_map(move |port| (0..CLASSES as u8).map(move |queue| (node, port, queue)))
    });
    let drops = |key: &QueueKey| {
        let of = status(window, *key);
        let before = |base: Option<QueueStatus>| base.map_or(0, |base| lost(&base.counters));
        !known.contains(key) && of.is_some_and(|(now, base)| lost(&now.counters) > before(base))
    };
    queues.filter(drops).collect()
}

fn table(report: &mut Report, window: &Window<'_>, keys: &[QueueKey]) {
    let mut table = Table::new(
        "Queues",
        "Bytes waiting, as the traffic manager counts them: without the frame on the wire. Packets are those that left; marking is \
         the marked part of those that the congestion point examined.",
        vec![
            Column::words("queue"),
            Column::numbers("mean", Unit::Bytes),
            Column::numbers("p50", Unit::Bytes),
            Column::numbers("p99", Unit::Bytes),
            Column::numbers("peak", Unit::Bytes),
            Column::numbers("packets", Unit::Count),
            Column::numbers("examined", Unit::Count),
            Column::numbers("marked", Unit::Count),
            Column::numbers("marking", Unit::Share),
            Column::numbers("dropped", Unit::Count),
        ],
    );
    let sampler = &window.lab.sampler;
    if sampler.waiting.keys().any(|key| !sampler.queues.contains_key(key)) {
        let followed = sampler.waiting.keys().filter(|key| sampler.queues.contains_key(key));
        let followed = format!("{} of {}", followed.count(), sampler.waiting.len());
        report.fact("queues followed over time", followed);
    }
    let dropping = dropping(window, keys);
    for &key in keys.iter().chain(&dropping) {
        let Some((now, base)) = status(window, key) else { continue };
        let track = window.lab.sampler.queues.get(&key);
        // One that every sample found empty.
        let depths = track.map_or(&[0.0][..], |track| window.part(&track.bytes));
        let depths = stats::sorted(depths);
        let before = base.map(|base| base.counters).unwrap_or_default();
        let departed = now.counters.departed.packets - before.departed.packets;
        let marks = marks(window, key);
        let share = marks.filter(|(n, _)| *n > 0).map(|(n, m)| m as f64 / n as f64);
        table.rows.push(vec![
            name(window, key).into(),
            stats::mean(&depths).into(),
            stats::percentile(&depths, 50.0).into(),
            stats::percentile(&depths, 99.0).into(),
            now.peak_bytes.into(),
            departed.into(),
            marks.map_or(f64::NAN, |(examined, _)| examined as f64).into(),
            marks.map_or(f64::NAN, |(_, marked)| marked as f64).into(),
            share.unwrap_or(f64::NAN).into(),
            (lost(&now.counters) - lost(&before)).into(),
        ]);
    }
    report.tables.push(table);
}

/// Depths of a queue after the warm-up: zeros if no sample found it in use, empty if it is one of those that were not followed
/// over time.
fn depths_of<'w>(window: &Window<'w>, key: QueueKey) -> Cow<'w, [f64]> {
    let sampler = &window.lab.sampler;
    match sampler.queues.get(&key) {
        Some(track) => Cow::Borrowed(track.bytes.get(window.first..).unwrap_or_default()),
        None if !sampler.waiting.contains_key(&key) => {
            Cow::Owned(vec![0.0; sampler.times.len().saturating_sub(window.first)])
        }
        None => Cow::default(),
    }
}

fn bottleneck_figures(report: &mut Report, window: &Window<'_>, bottleneck: Option<QueueKey>) {
    let Some(key) = bottleneck else { return };
    let depths = &*depths_of(window, key);
    let peak = status(window, key).map_or(0, |(now, _)| now.peak_bytes);
    let (eligible, marked) = marks(window, key).unwrap_or((0, 0));
    let sorted = stats::sorted(depths);
    report.figure("bottleneck.queue_mean", stats::mean(depths), Unit::Bytes);
    report.figure("bottleneck.queue_deviation", stats::deviation(depths), Unit::Bytes);
    report.figure("bottleneck.queue_p50", stats::percentile(&sorted, 50.0), Unit::Bytes);
    report.figure("bottleneck.queue_p99", stats::percentile(&sorted, 99.0), Unit::Bytes);
    report.figure("bottleneck.queue_peak", peak as f64, Unit::Bytes);
    report.figure("bottleneck.packets", eligible as f64, Unit::Count);
    report.figure("bottleneck.marked", marked as f64, Unit::Count);
    let probability = if eligible == 0 { f64::NAN } else { marked as f64 / eligible as f64 };
    report.figure("bottleneck.marking_probability", probability, Unit::Share);
    report.fact("bottleneck", name(window, key));
    if let Some((kmin, kmax, pmax)) = window.lab.sampler.curve(key) {
        let bytes = |value: u64| Unit::Bytes.show(value as f64);
        let curve =
            format!("Kmin {}, Kmax {}, Pmax {}", bytes(kmin), bytes(kmax), Unit::Share.show(pmax));
        report.fact("marking curve", curve);
    }
}

/// The whole run; its burst alone, if that is short; and the time after the warm-up alone, because the queue from the
/// first window of all flows is many times the later ones.
fn plot(report: &mut Report, window: &Window<'_>, keys: &[QueueKey], bottleneck: Option<QueueKey>) {
    let what = "Bytes that wait in the fullest queues of switches";
    let count = window.lab.sampler.times.len();
    let mut draw = |id: &str, title: &str, caption: String, samples: Range<usize>| {
        let words = (id, title, caption.as_str());
        depths(report, window, keys, (samples, bottleneck), words);
    };
    draw("queues", "Queue depth", format!("{what}."), 0..count);
    if let Some(burst) = bottleneck.and_then(|key| burst(window, key)) {
        let caption = format!(
            "{what}: the time in which the bottleneck holds more than a twentieth of its peak."
        );
        draw("queues_burst", "Queue depth in the burst", caption, burst);
    }
    if (1..count).contains(&window.first) {
        let caption = format!("{what}: the figures below are of this time.");
        draw("queues_after_warm_up", "Queue depth after the warm-up", caption, window.first..count);
    }
}

/// The samples in which the bottleneck is in use, with a margin, if they are less than a fifth of the run.
fn burst(window: &Window<'_>, key: QueueKey) -> Option<Range<usize>> {
    const FEWEST: usize = 8;
    let bytes = &window.lab.sampler.queues.get(&key)?.bytes;
    let floor = stats::largest(bytes) / 20.0;
    let first = bytes.iter().position(|depth| *depth > floor)?;
    let last = bytes.iter().rposition(|depth| *depth > floor)?;
    let margin = ((last - first) / 10).max(FEWEST);
    let samples = first.saturating_sub(margin)..(last + margin + 1).min(bytes.len());
    (samples.len() * 5 < bytes.len()).then_some(samples)
}

fn depths(
    report: &mut Report,
    window: &Window<'_>,
    keys: &[QueueKey],
    (samples, bottleneck): (Range<usize>, Option<QueueKey>),
    (id, title, caption): (&str, &str, &str),
) {
    let times = &window.lab.sampler.times;
    let begin = if samples.start == 0 { 0.0 } else { times[samples.start] };
    let end = samples.end.checked_sub(1).and_then(|last| times.get(last)).copied();
    let fabric = &window.lab.scenario().fabric;
    let of_switch =
        |key: &&QueueKey| fabric.nodes[key.0].kind == crate::lab::fabric::NodeKind::Switch;
    let mut deepest: f64 = 0.0;
    let mut layers = Vec::new();
    for key in keys.iter().filter(of_switch).take(SHOWN_MAX) {
        let bytes = &window.lab.sampler.queues[key].bytes;
        let points = times.iter().copied().zip(bytes.iter().copied());
        let points: Vec<_> = points.skip(samples.start).take(samples.len()).collect();
        deepest = points.iter().map(|point| point.1).fold(deepest, f64::max);
        layers.push(Layer::Line { name: name(window, *key), points });
    }
    // Thresholds near the queue's depths; farther ones would flatten the curve.
    let curve = bottleneck.and_then(|key| window.lab.sampler.curve(key));
    let thresholds = curve.map(|(kmin, kmax, _)| [("Kmin", kmin), ("Kmax", kmax)]);
    for (name, bytes) in thresholds.into_iter().flatten() {
        if let Some(end) = end.filter(|_| (bytes as f64) < 1.5 * deepest) {
            let points = vec![(begin, bytes as f64), (end, bytes as f64)];
            layers.push(Layer::Reference { name: name.to_owned(), points });
        }
    }
    report.plots.push(Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: Axis { from: Some(begin), ..Axis::new("time", Unit::Seconds) },
        y: Axis::from_zero("depth", Unit::Bytes),
        layers,
    });
}

/// Frequency and amplitude of the queue's oscillation: a peak is an oscillation, a flat line is noise.
fn spectrum(report: &mut Report, window: &Window<'_>, bottleneck: Option<QueueKey>) {
    let depths = bottleneck.map_or(Cow::default(), |key| depths_of(window, key));
    let depths = &*depths;
    let scenario = window.lab.scenario();
    let stride = window.lab.sampler.stride;
    let step = stride as f64 * scenario.sample.as_ps() as f64 / 1e12;
    let powers = stats::spectrum(depths, step, scenario.spectrum_window);
    let peak = stats::peak(&powers);
    let share = near(&powers, peak);
    // A sine of amplitude A has the variance A^2 / 2.
    let swing = (2.0 * share).sqrt() * stats::deviation(depths);
    report.figure("bottleneck.spectrum_peak", peak, Unit::Hertz);
    report.figure("bottleneck.spectrum_peak_share", share, Unit::Share);
    report.figure("bottleneck.spectrum_swing", swing, Unit::Bytes);
    let empty = depths.iter().filter(|depth| **depth == 0.0).count() as f64;
    report.figure("bottleneck.empty", empty / depths.len() as f64, Unit::Share);
    if powers.is_empty() {
        return;
    }
    let top = powers.iter().map(|(_, power)| *power).fold(0.0, f64::max);
    let shown = shown(&powers, peak);
    let mut layers =
        vec![Layer::Line { name: "bottleneck".to_owned(), points: powers[..shown].to_vec() }];
    let theory = report.find("theory.oscillation").map_or(f64::NAN, |figure| figure.value);
    if theory.is_finite() {
        let points = vec![(theory, 0.0), (theory, top)];
        layers.push(Layer::Reference { name: "fluid model".to_owned(), points });
    }
    report.plots.push(Plot {
        id: "spectrum".to_owned(),
        title: "Spectrum of the bottleneck queue".to_owned(),
        caption: "Share of the queue's variance at each frequency, and the frequency at which the fluid model's loop swings. Random \
                  marks keep a stable loop swinging there too: how far it swings shows whether the swings grow."
            .to_owned(),
        x: Axis::from_zero("frequency", Unit::Hertz),
        y: Axis::from_zero("share of variance", Unit::Share),
        layers,
    });
}

/// As many points of a spectrum as a picture needs: up to eight times the peak's frequency.
fn shown(powers: &[(f64, f64)], peak: f64) -> usize {
    let wanted = powers.iter().take_while(|(frequency, _)| *frequency <= 8.0 * peak).count();
    wanted.max(16).min(powers.len())
}

/// Share of the variance within a third of the peak's frequency, over which the window spreads it; NaN without a peak.
fn near(powers: &[(f64, f64)], frequency: f64) -> f64 {
    if !frequency.is_finite() {
        return f64::NAN;
    }
    let close = |f: f64| (f / frequency - 1.0).abs() <= 1.0 / 3.0;
    powers.iter().filter(|(f, _)| close(*f)).map(|(_, power)| power).sum()
}

fn series(report: &mut Report, window: &Window<'_>, keys: &[QueueKey]) {
    for &key in keys.iter().take(32) {
        let track = &window.lab.sampler.queues[&key];
        let base = name(window, key);
        let is_marking = window.lab.sampler.curve(key).is_some();
        let add = |report: &mut Report, what: &str, unit, values: &[f64]| {
            report.series.push(Series {
                name: format!("{base} {what}"),
                unit,
                values: values.to_vec(),
            });
        };
        add(report, "depth", Unit::Bytes, &track.bytes);
        if is_marking {
            add(report, "marked", Unit::Count, &track.marked);
        }
    }
    for (&(node, port, priority), track) in window.lab.sampler.pauses.iter().take(32) {
        let port = port_name(&window.lab.scenario().fabric, node, port);
        report.series.push(Series {
            name: format!("{port} priority {priority} paused"),
            unit: Unit::Seconds,
            values: track.paused.clone(),
        });
    }
}

/// Pauses by port, received ones over time, and their sums.
fn pauses(report: &mut Report, window: &Window<'_>) {
    let mut table = Table::new(
        "Pauses",
        "Pauses that a port received from its peer and sent to it since the warm-up; refreshed XOFFs are counted. Time paused \
         ends with the last flow.",
        vec![
            Column::words("port"),
            Column::numbers("XOFF received", Unit::Count),
            Column::numbers("XON received", Unit::Count),
            Column::numbers("time paused", Unit::Seconds),
            Column::numbers("XOFF sent", Unit::Count),
            Column::numbers("XON sent", Unit::Count),
        ],
    );
    let fabric = &window.lab.scenario().fabric;
    let (mut all, mut paused_seconds) = ([0u64; 4], 0.0);
    for (node, description) in fabric.nodes.iter().enumerate() {
        for port in description.ports() {
            let Some(now) = window.port(node, port) else { continue };
            let base = window.lab.sampler.base.get(&(node, port)).map(|base| base.pauses);
            let base = base.unwrap_or_default();
            let sum = |now: &[u64; 8], base: &[u64; 8]| {
                now.iter().sum::<u64>() - base.iter().sum::<u64>()
            };
            let counts = [
                sum(&now.pauses.rx_xoff, &base.rx_xoff),
                sum(&now.pauses.rx_xon, &base.rx_xon),
                sum(&now.pauses.tx_xoff, &base.tx_xoff),
                sum(&now.pauses.tx_xon, &base.tx_xon),
            ];
            let spent = now.pauses.paused.iter().zip(&base.paused);
            let spent = spent.map(|(now, base)| now.as_ps().saturating_sub(base.as_ps()));
            let spent = spent.sum::<u64>();
            let spent = spent as f64 / 1e12;
            (0..4).for_each(|n| all[n] += counts[n]);
            paused_seconds += spent;
            if counts.iter().any(|count| *count > 0) || spent > 0.0 {
                let [rx_off, rx_on, tx_off, tx_on] = counts;
                table.rows.push(vec![
                    port_name(fabric, node, port).into(),
                    rx_off.into(),
                    rx_on.into(),
                    spent.into(),
                    tx_off.into(),
                    tx_on.into(),
                ]);
            }
        }
    }
    report.figure("pauses.xoff_sent", all[2] as f64, Unit::Count);
    report.figure("pauses.xon_sent", all[3] as f64, Unit::Count);
    report.figure("pauses.time", paused_seconds, Unit::Seconds);
    if !table.rows.is_empty() {
        report.tables.push(table);
    }
    // Of the whole run: pauses often occur at the begin of flows, before the warm-up is over.
    if !window.lab.sampler.pauses.is_empty() {
        timeline(report, window);
    }
}

fn spent_in(values: &[f64]) -> f64 {
    values.last().unwrap_or(&0.0) - values.first().unwrap_or(&0.0)
}

fn timeline(report: &mut Report, window: &Window<'_>) {
    let fabric = &window.lab.scenario().fabric;
    let times = &window.lab.sampler.times;
    let mut tracks: Vec<_> = window.lab.sampler.pauses.iter().collect();
    tracks
        .sort_by(|a, b| spent_in(&b.1.paused).total_cmp(&spent_in(&a.1.paused)).then(a.0.cmp(b.0)));
    let row =
        |(&(node, port, priority), track): (&QueueKey, &crate::lab::sampler::PauseTrack)| Row {
            name: format!("{} p{priority}", port_name(fabric, node, port)),
            spans: merged(times, &track.paused),
        };
    let rows: Vec<Row> = tracks.into_iter().take(ROWS_MAX).map(row).collect();
    let end = times.last().copied().unwrap_or(0.0);
    report.timelines.push(Timeline {
        id: "pauses".to_owned(),
        title: "Pauses".to_owned(),
        caption: "When a port was kept from sending a priority; the height says for how much of the time.".to_owned(),
        range: (0.0, end),
        rows,
    });
}

/// At most 240 spans, each with the share of it that was paused.
fn merged(times: &[f64], paused: &[f64]) -> Vec<(f64, f64, f64)> {
    let step = times.len().div_ceil(240).max(1);
    let mut spans = Vec::new();
    let mut start = 0;
    while start + 1 < times.len().min(paused.len()) {
        let end = (start + step).min(times.len().min(paused.len()) - 1);
        let share = (paused[end] - paused[start]) / (times[end] - times[start]);
        if share > 0.0 {
            spans.push((times[start], times[end], share));
        }
        start = end;
    }
    spans
}
