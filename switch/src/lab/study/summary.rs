//! The report of a study: every point with its intervals, the best with its confidence, conflicting goals, the effect
//! of each key, and failures.

use std::collections::BTreeMap;

use super::records::{Record, Results};
use super::{Direction, Goal};
use crate::report::{
    Axis, Cell, Column, HeatMap, Layer, Plot, Report, Table, Unit, stats, student,
};

/// Most cells of a heat map per side, for readability; the page itself bounds the points of the table.
const CELLS_MAX: usize = 12;
/// Settings beside the best that are shown, however much worse they are; and the most that are as good.
const NEXT_SHOWN: usize = 2;
const GOOD_SHOWN: usize = 30;

/// The report, and every run as CSV.
pub fn report(results: &Results) -> (Report, String) {
    let head = &results.head;
    let mut report =
        Report { title: head.study.clone(), about: head.about.clone(), ..Report::default() };
    let (points, seeds) = (head.points.len(), head.seeds.len());
    let failed: Vec<&Record> = results.runs.values().filter(|run| run.failed.is_some()).collect();
    report
        .fact("study", format!("{points} points, {seeds} seeds, fingerprint {}", head.fingerprint));
    report.figure("study.points", points as f64, Unit::Count);
    report.figure("study.runs", results.runs.len() as f64, Unit::Count);
    report.figure("study.failed", failed.len() as f64, Unit::Count);
    report.figure("study.missing", results.missing() as f64, Unit::Count);
    let all = |words: &str| format!("{} of {} {words}", results.runs.len(), points * seeds);
    report.verdict("every run is done", results.missing() == 0, all("runs"));
    let found = format!("{} of {} runs failed", failed.len(), results.runs.len());
    report.verdict("no run failed", failed.is_empty(), found);
    let study = Measured::new(results);
    best(&mut report, &study);
    sensitivity(&mut report, &study);
    points_table(&mut report, &study);
    pareto(&mut report, &study);
    heat_maps(&mut report, &study);
    failures(&mut report, results, &failed);
    let runs = runs_csv(results);
    (report, runs)
}

/// Values of the figures by point.
struct Measured<'r> {
    results: &'r Results,
    /// Keys without the parts in front that are not needed to tell them apart.
    keys: Vec<&'r str>,
    goal: Option<Goal>,
    pareto: Vec<Goal>,
}

impl Measured<'_> {
    fn new(results: &Results) -> Measured<'_> {
        let goal = results.head.goal.as_deref().and_then(Goal::parse);
        let pareto = results.head.pareto.iter().filter_map(|text| Goal::parse(text)).collect();
        Measured { results, keys: short_keys(&results.head.keys), goal, pareto }
    }

    fn name(&self, point: usize) -> String {
        let pairs = self.keys.iter().zip(&self.results.head.points[point]);
        pairs.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// A figure of a point, by seed, if it was measured.
    fn values(&self, point: usize, figure: &str) -> BTreeMap<u64, f64> {
        let runs = self.results.runs.range((point, 0)..=(point, u64::MAX));
        runs.filter_map(|((_, seed), run)| Some((*seed, *run.figures.get(figure)?))).collect()
    }

    /// The unit of a figure, where a run has it.
    fn unit(&self, figure: &str) -> Unit {
        self.results.unit(figure)
    }

    /// The number of runs of a point that did not fail.
    fn runs(&self, point: usize) -> usize {
        let runs = self.results.runs.range((point, 0)..=(point, u64::MAX));
        runs.filter(|(_, run)| run.failed.is_none()).count()
    }

    /// The values of a figure at a point. None if one of its runs has not measured it: a mean would be of those in which
    /// it went well.
    fn whole(&self, point: usize, figure: &str) -> Vec<f64> {
        let values = self.values(point, figure);
        if values.len() < self.runs(point) { Vec::new() } else { values.into_values().collect() }
    }

    fn mean(&self, point: usize, figure: &str) -> f64 {
        stats::mean(&self.whole(point, figure))
    }

    /// Points at which a goal was measured in every run, best first.
    fn ranked(&self, goal: &Goal) -> Vec<(usize, f64)> {
        let whole = |point: &usize| {
            self.values(*point, &goal.figure).len() == self.results.head.seeds.len()
        };
        let points = (0..self.results.head.points.len()).filter(whole);
        let mut ranked: Vec<(usize, f64)> = points
            .map(|point| (point, self.mean(point, &goal.figure)))
            .filter(|(_, mean)| mean.is_finite())
            .collect();
        ranked.sort_by(|a, b| goal.cost(a.1).total_cmp(&goal.cost(b.1)).then(a.0.cmp(&b.0)));
        ranked
    }
}

/// The last parts of each key, as few as no other key ends with.
fn short_keys(keys: &[String]) -> Vec<&str> {
    let short = |(place, key): (usize, &String)| {
        let dots = key.rmatch_indices('.').map(|(at, _)| at + 1);
        let of_others = |end: &str| {
            let others = keys.iter().enumerate().filter(|(other, _)| *other != place);
            others.filter_map(|(_, key)| key.strip_suffix(end)).any(ends_a_part)
        };
        let from = dots.chain([0]).find(|from| !of_others(&key[*from..]));
        &keys[place][from.unwrap_or(0)..]
    };
    keys.iter().enumerate().map(short).collect()
}

/// True of what is in front of the last parts of a key.
fn ends_a_part(front: &str) -> bool {
    front.is_empty() || front.ends_with('.')
}

/// What the table of the best settings says of itself, with one seed and with several.
const UNTESTED: &str = "Best first, and the next two. One seed: whether they differ by more than chance is not tested.";
const TESTED: &str = "Best first: those that do not differ significantly from the best (p from 5 % on, or equal in every run), and the next two in \
     any case. Of fewer than five runs that all differ by the same, p is not known: such a setting is not among them. The difference to the best, over runs with the same seeds, with its 95 % interval; p is the probability of such a difference \
     where there is none. It is not corrected for having chosen the best of many: run it again with other seeds to be sure.";

/// The best setting, and those that do not differ significantly from it.
fn best(report: &mut Report, study: &Measured<'_>) {
    let Some(goal) = &study.goal else { return };
    let ranked = study.ranked(goal);
    let Some(&(winner, mean)) = ranked.first() else { return };
    let of = |point: usize| study.values(point, &goal.figure).into_values().collect::<Vec<_>>();
    let (first, unit) = (of(winner), study.unit(&goal.figure));
    let is_one_seed = first.len() < 2;
    let note = if is_one_seed { UNTESTED } else { TESTED };
    let mut table = Table::new(
        format!("Best settings: {}", goal.text()),
        note,
        vec![
            Column::words("setting"),
            Column::numbers("mean", unit),
            Column::numbers("+-", unit),
            Column::numbers("worse by", Unit::Share),
            Column::numbers("interval", Unit::Share),
            Column::numbers("p", Unit::Plain),
        ],
    );
    let mut left = 0;
    for (place, &(point, value)) in ranked.iter().enumerate() {
        let values = of(point);
        let is_one = is_one_seed || point == winner;
        let difference = student::paired(&first, &values);
        let sign = if goal.direction == Direction::Min { 1.0 } else { -1.0 };
        let nan = f64::NAN;
        // A few differences that are all the same have no p: a setting is as good without any only.
        let differs = match difference.p.is_nan() {
            true => is_one_seed || difference.mean != 0.0,
            false => difference.p < 0.05,
        };
        if place > NEXT_SHOWN && differs {
            continue;
        }
        if table.rows.len() >= GOOD_SHOWN {
            left += 1;
            continue;
        }
        table.rows.push(vec![
            study.name(point).into(),
            value.into(),
            student::half_width(&values).into(),
            (sign * (value - mean) / mean.abs()).into(),
            if is_one { nan } else { difference.half_width / mean.abs() }.into(),
            if is_one { nan } else { difference.p }.into(),
        ]);
    }
    if left > 0 {
        table.note += &format!(" {left} more do not differ significantly from the best.");
    }
    let half = student::half_width(&first);
    let interval = if half.is_finite() {
        format!(" +- {}", unit.show_mean(half))
    } else {
        ", one seed: no interval".to_owned()
    };
    report.fact(
        "best",
        format!("{}: {} {}{interval}", study.name(winner), goal.figure, unit.show_mean(mean)),
    );
    report.figure("study.best", mean, unit);
    report.figure("study.best_point", winner as f64 + 1.0, Unit::Count);
    report.tables.push(table);
}

/// How much of the variance between points each key alone explains.
fn sensitivity(report: &mut Report, study: &Measured<'_>) {
    let head = &study.results.head;
    let Some(goal) = study.goal.as_ref().filter(|_| head.is_grid && head.keys.len() > 1) else {
        return;
    };
    let ranked = study.ranked(goal);
    let all: Vec<f64> = ranked.iter().map(|(_, mean)| *mean).collect();
    let deviation = stats::deviation(&all);
    // Below that the differences are those of rounding.
    if all.len() < 4 || deviation <= 1e-12 * stats::mean(&all).abs() {
        return;
    }
    // Points without the figure leave keys that are not independent of each other: their shares would not be of the one key.
    if all.len() < head.points.len() {
        return;
    }
    let variance = deviation.powi(2);
    let mut table = Table::new(
        "What matters",
        format!(
            "Share of the variance of {} between settings that a key explains by itself (first-order effect, Sobol' 1993).",
            goal.figure
        ),
        vec![Column::words("key"), Column::numbers("explains", Unit::Share)],
    );
    let overall = stats::mean(&all);
    for (axis, key) in head.keys.iter().enumerate() {
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (point, mean) in &ranked {
            groups.entry(&head.points[*point][axis]).or_default().push(*mean);
        }
        let between: f64 = groups
            .values()
            .map(|group| group.len() as f64 * (stats::mean(group) - overall).powi(2))
            .sum::<f64>();
        table.rows.push(vec![key.clone().into(), (between / all.len() as f64 / variance).into()]);
    }
    report.tables.push(table);
}

fn points_table(report: &mut Report, study: &Measured<'_>) {
    let head = &study.results.head;
    let mut columns = vec![Column::numbers("point", Unit::Count)];
    columns.extend(study.keys.iter().map(|key| Column::words(key)));
    columns.push(Column::numbers("runs", Unit::Count));
    for figure in &head.figures {
        let unit = study.unit(figure);
        columns.push(Column::numbers(figure, unit));
        columns.push(Column::numbers("+-", unit));
    }
    let mut table =
        Table::new("Points", "Means over the seeds, with their 95 % intervals.", columns);
    let mut is_left_out = false;
    for (point, labels) in head.points.iter().enumerate() {
        let mut row: Vec<Cell> = vec![(point as u64 + 1).into()];
        row.extend(labels.iter().map(|label| Cell::from(label.clone())));
        row.push((study.runs(point) as u64).into());
        for figure in &head.figures {
            let values = study.whole(point, figure);
            is_left_out |= values.is_empty() && study.runs(point) > 0;
            row.push(stats::mean(&values).into());
            row.push(student::half_width(&values).into());
        }
        table.rows.push(row);
    }
    if is_left_out {
        table.note +=
            " Empty where one of the runs has no such figure, as of flows that did not finish.";
    }
    report.tables.push(table);
}

/// Points that no other beats: none costs less in one way, and no more in the other.
fn unbeaten<T: Copy>(points: &[T], costs: impl Fn(T) -> (f64, f64)) -> Vec<T> {
    // -0 and 0 are the same.
    let costs = |point: T| (costs(point).0 + 0.0, costs(point).1 + 0.0);
    let mut order: Vec<((f64, f64), T)> = points.iter().map(|one| (costs(*one), *one)).collect();
    order.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut found, mut least) = (Vec::new(), f64::INFINITY);
    for same in order.chunk_by(|(a, _), (b, _)| a.0 == b.0) {
        let lowest = same[0].0.1;
        if lowest < least {
            found.extend(same.iter().filter(|(cost, _)| cost.1 == lowest).map(|(_, point)| *point));
            least = lowest;
        }
    }
    found
}

/// Points of which none is better in both goals.
fn pareto(report: &mut Report, study: &Measured<'_>) {
    let [one, other] = study.pareto.as_slice() else { return };
    let whole = study.ranked(one);
    let second: BTreeMap<usize, f64> = study.ranked(other).into_iter().collect();
    let all: Vec<(usize, f64, f64)> = whole
        .into_iter()
        .filter_map(|(point, mean)| Some((point, mean, *second.get(&point)?)))
        .collect();
    let mut front = unbeaten(&all, |(_, x, y)| (one.cost(x), other.cost(y)));
    if front.is_empty() {
        return;
    }
    front.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    let mut table = Table::new(
        "Pareto front",
        "Settings of which no other is better in both.",
        vec![
            Column::words("setting"),
            Column::numbers(&one.figure, study.unit(&one.figure)),
            Column::numbers(&other.figure, study.unit(&other.figure)),
        ],
    );
    for (point, x, y) in &front {
        table.rows.push(vec![study.name(*point).into(), (*x).into(), (*y).into()]);
    }
    report.figure("study.pareto", front.len() as f64, Unit::Count);
    report.tables.push(table);
    let dots =
        |points: &[(usize, f64, f64)]| points.iter().map(|(_, x, y)| (*x, *y, *y, *y)).collect();
    let line = front.iter().map(|(_, x, y)| (*x, *y)).collect();
    report.plots.push(Plot {
        id: "pareto".to_owned(),
        title: "Pareto front".to_owned(),
        caption: format!(
            "Each dot is a setting ({}, {}); the line joins those that no other beats in both.",
            one.text(),
            other.text()
        ),
        x: Axis::new(&one.figure, study.unit(&one.figure)),
        y: Axis::new(&other.figure, study.unit(&other.figure)),
        layers: vec![
            Layer::Reference { name: "front".to_owned(), points: line },
            Layer::Measured { name: "settings".to_owned(), points: dots(&all) },
        ],
    });
}

/// A map over the two keys with the most values that fit, of each figure.
fn heat_maps(report: &mut Report, study: &Measured<'_>) {
    let head = &study.results.head;
    if !head.is_grid || head.keys.len() < 2 {
        return;
    }
    let values = |axis: usize| {
        let mut seen: Vec<&str> = Vec::new();
        for point in &head.points {
            if !seen.contains(&point[axis].as_str()) {
                seen.push(&point[axis]);
            }
            if seen.len() > CELLS_MAX {
                break;
            }
        }
        seen
    };
    let mut axes: Vec<(usize, Vec<&str>)> = (0..head.keys.len())
        .map(|axis| (axis, values(axis)))
        .filter(|(_, values)| (2..=CELLS_MAX).contains(&values.len()))
        .collect();
    axes.sort_by_key(|(axis, values)| (std::cmp::Reverse(values.len()), *axis));
    axes.truncate(2);
    axes.sort_by_key(|(axis, _)| *axis);
    let [(x, across), (y, down)] = axes.as_slice() else { return };
    let (x, y) = (*x, *y);
    let rest = if head.keys.len() > 2 { ", in the mean over all others" } else { "" };
    for figure in &head.figures {
        let cell = |row: &&str, column: &&str| {
            // Points of which no run is there yet, or each failed, are not in the mean.
            let here = (0..head.points.len()).filter(|point| {
                let values = &head.points[*point];
                values[x] == **column && values[y] == **row && study.runs(*point) > 0
            });
            stats::mean(&here.map(|point| study.mean(point, figure)).collect::<Vec<_>>())
        };
        let cells = down
            .iter()
            .map(|row| across.iter().map(|column| cell(row, column)).collect())
            .collect();
        report.heat_maps.push(HeatMap {
            id: format!("heat-{}", figure.replace('.', "-")),
            title: figure.clone(),
            caption: format!(
                "Mean of {figure} over {} and {}{rest}; the darker, the larger.",
                study.keys[x], study.keys[y]
            ),
            x: (study.keys[x].to_owned(), across.iter().map(|text| (*text).to_owned()).collect()),
            y: (study.keys[y].to_owned(), down.iter().map(|text| (*text).to_owned()).collect()),
            unit: study.unit(figure),
            cells,
        });
    }
}

/// A path as a word of a shell.
fn word(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { super::cluster::quoted(path) }
}

fn failures(report: &mut Report, results: &Results, failed: &[&Record]) {
    if failed.is_empty() {
        return;
    }
    let mut table = Table::new(
        "Runs that failed",
        "Each with the command that runs it alone.",
        ["setting", "seed", "why", "command"].map(Column::words).to_vec(),
    );
    let study = Measured::new(results);
    for run in failed {
        let why = run.failed.as_deref().unwrap_or_default();
        let command = format!(
            "wireyard lab sweep {} --only {}:{}",
            word(&results.head.path),
            run.point + 1,
            run.seed
        );
        let first = why.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        table.rows.push(vec![
            study.name(run.point).into(),
            run.seed.to_string().into(),
            first.to_owned().into(),
            command.into(),
        ]);
    }
    report.tables.push(table);
}

/// Every run, a line each.
fn runs_csv(results: &Results) -> String {
    let head = &results.head;
    let mut columns = vec![Column::numbers("point", Unit::Count), Column::words("seed")];
    columns.extend(head.keys.iter().map(|key| Column::words(key)));
    columns.push(Column::words("passed"));
    columns.extend(head.figures.iter().map(|figure| Column::numbers(figure, results.unit(figure))));
    let mut table = Table::new("Runs", "", columns);
    for ((point, seed), run) in &results.runs {
        let mut row: Vec<Cell> = vec![(*point as u64 + 1).into(), seed.to_string().into()];
        row.extend(head.points[*point].iter().map(|label| Cell::from(label.clone())));
        let word = match (&run.failed, run.passed) {
            (Some(_), _) => "failed",
            (None, true) => "yes",
            (None, false) => "no",
        };
        row.push(word.into());
        row.extend(
            head.figures
                .iter()
                .map(|figure| Cell::from(run.figures.get(figure).copied().unwrap_or(f64::NAN))),
        );
        table.rows.push(row);
    }
    crate::report::csv::table(&table)
}

#[cfg(test)]
mod tests {
    use super::super::records::Head;
    use super::*;

    /// Results of all combinations of keys with so many values, with a figure `f` by point and seed.
    fn results(keys: &[(&str, usize)], value: impl Fn(usize, u64) -> f64) -> Results {
        let mut points: Vec<Vec<String>> = vec![Vec::new()];
        for (_, count) in keys {
            let with = |point: &Vec<String>, n: usize| [&point[..], &[n.to_string()]].concat();
            points = points
                .iter()
                .flat_map(|p| (0..*count).map(|n| with(p, n)).collect::<Vec<_>>())
                .collect();
        }
        let (seeds, mut runs) = ((1..=5).collect::<Vec<u64>>(), BTreeMap::new());
        for (point, seed) in (0..points.len()).flat_map(|n| (1..=5).map(move |seed| (n, seed))) {
            let figures = BTreeMap::from([("f".to_owned(), value(point, seed))]);
            let (failed, units) = (None, BTreeMap::new());
            let run = Record { point, seed, failed, passed: true, figures, units };
            runs.insert((point, seed), run);
        }
        let head = Head {
            study: "s".to_owned(),
            about: String::new(),
            fingerprint: String::new(),
            build: String::new(),
            path: "s.yaml".to_owned(),
            keys: keys.iter().map(|(key, _)| (*key).to_owned()).collect(),
            points,
            is_grid: true,
            seeds,
            figures: vec!["f".to_owned()],
            goal: Some("min f".to_owned()),
            pareto: Vec::new(),
        };
        Results { head, runs, builds: std::collections::BTreeSet::new() }
    }

    #[test]
    fn a_map_is_of_the_keys_that_fit() {
        let (report, _) =
            report(&results(&[("a", 13), ("b", 2), ("c", 4), ("d", 3)], |n, _| n as f64));
        let axes: Vec<(&str, &str)> =
            report.heat_maps.iter().map(|map| (map.x.0.as_str(), map.y.0.as_str())).collect();
        assert_eq!(axes, [("c", "d")]);
    }

    #[test]
    fn settings_as_good_as_the_best_are_shown() {
        let best = |value: fn(usize, u64) -> f64| {
            let (report, _) = report(&results(&[("a", 40)], value));
            let of = |table: &&Table| table.title.starts_with("Best settings");
            let table = report.tables.iter().find(of).unwrap();
            (table.rows.len(), table.note.contains("10 more do not differ"))
        };
        assert_eq!(best(|_, seed| seed as f64), (30, true));
        // Each worse by the same with every seed, one by nothing.
        assert_eq!(best(|n, seed| (n as u64 / 2 * 10 + seed) as f64), (3, false));
        // Ten apart, with differences of at most 2.
        assert_eq!(best(|n, seed| (n as u64 * 10 + n as u64 * seed % 3) as f64), (3, false));
    }

    #[test]
    fn the_front_has_the_points_that_no_other_beats() {
        // Small whole numbers: many are the same in one cost or both.
        let points: Vec<(f64, f64)> =
            (0..200u32).map(|n| (f64::from(n * 7919 % 13), f64::from(n * 104_729 % 11))).collect();
        let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
        let is_best = |one: &&(f64, f64)| !points.iter().any(|rival| beats(*rival, **one));
        let mut expected: Vec<(f64, f64)> = points.iter().filter(is_best).copied().collect();
        let mut found = unbeaten(&points, |point| point);
        let by_number = |a: &(f64, f64), b: &(f64, f64)| a.partial_cmp(b).unwrap();
        expected.sort_by(by_number);
        found.sort_by(by_number);
        assert_eq!(found, expected);
        assert_eq!(unbeaten(&[(0.0, 5.0), (-0.0, 3.0)], |point| point), [(-0.0, 3.0)]);
        let steps = [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0), (2.0, 2.0), (3.0, 2.0)];
        assert_eq!(unbeaten(&steps, |point| point).len(), 4);
    }

    #[test]
    fn without_seeds_to_compare_nothing_is_called_as_good() {
        let mut one = results(&[("a", 40)], |n, _| n as f64);
        one.head.seeds.truncate(1);
        one.runs.retain(|(_, seed), _| *seed == 1);
        let mut two = results(&[("a", 40)], |n, seed| n as f64 + seed as f64);
        two.head.seeds.truncate(2);
        two.runs.retain(|(_, seed), _| *seed <= 2);
        for (of, said) in [(one, "One seed"), (two, "Best first: those")] {
            let (report, _) = report(&of);
            let best = |table: &&Table| table.title.starts_with("Best settings");
            let table = report.tables.iter().find(best).unwrap();
            assert_eq!((table.rows.len(), table.note.starts_with("Best first")), (3, true));
            assert!(table.note.contains(said), "{}", table.note);
        }
    }

    #[test]
    fn a_mean_is_of_all_runs_or_not_there() {
        let mut some = results(&[("a", 2), ("b", 2)], |n, seed| (n as u64 + seed) as f64);
        some.runs.get_mut(&(0, 3)).unwrap().figures.clear();
        // A run that failed is none of those that are counted.
        let failed = some.runs.get_mut(&(1, 3)).unwrap();
        failed.figures.clear();
        failed.failed = Some("no memory".to_owned());
        let (report, _) = report(&some);
        let points = report.tables.iter().find(|table| table.title == "Points").unwrap();
        let is_empty = |row: usize| points.shown(row, 4) == "-";
        assert!(is_empty(0) && !is_empty(1), "{:?}", points.rows);
        assert!(points.note.contains("Empty where one of the runs"));
        let map = &report.heat_maps[0].cells;
        assert_eq!(map.iter().flatten().filter(|cell| cell.is_nan()).count(), 1, "{map:?}");
    }

    #[test]
    fn keys_with_the_same_end_are_told_apart() {
        let keys = ["flows.0.size", "flows.1.size", "link.delay", "size", "a.ink.delay"];
        let keys = keys.map(str::to_owned);
        assert_eq!(short_keys(&keys), ["0.size", "1.size", "link.delay", "size", "ink.delay"]);
    }
}
