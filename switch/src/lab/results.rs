//! From measurements to a report: figures, tables, plots.

mod bins;
mod capacity;
mod collectives;
mod counts;
mod crossing;
mod depths;
mod estimates;
mod figures;
mod flow_paths;
mod flow_plots;
mod flows;
mod headline;
mod ledgers;
mod marking;
mod pauses;
mod progress;
mod queues;
mod sharing;
mod theory;
mod topology;
mod utilisation;

use wireyard_pipeline::diag::counted;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::source::EMBEDDED;

use super::engine::{Lab, Outcome};
use super::sampler::QueueKey;
use super::scenario::Scenario;
use crate::ports::PortNumber;
use crate::report::expect::ExpectError;
use crate::report::unit::digits;
use crate::report::{Report, Unit};
use crate::roce::rp::program::Marks;
use crate::tm::PortStatus;
pub(super) use utilisation::on_the_wire;

/// Descriptions of a run besides its measurements.
#[derive(Clone, Debug)]
pub struct About {
    /// Version of the program.
    pub version: String,
    /// Name of the engine.
    pub engine: String,
}

/// An expectation that is invalid for the report.
#[derive(Clone, Debug)]
pub struct BadExpectation {
    /// Place in the list.
    pub index: usize,
    /// The cause.
    pub error: ExpectError,
    /// The existing figures.
    pub known: Vec<String>,
}

/// Interval means for measurements: (first sample, instants).
pub(super) struct Window<'a> {
    pub(super) lab: &'a Lab,
    pub(super) first: usize,
    pub(super) seconds: f64,
    /// By node and port.
    ports: Vec<Vec<PortStatus>>,
    /// Frames that end points discarded: node, reason, number.
    pub(super) discarded: Vec<(usize, &'static str, u64)>,
}

impl<'a> Window<'a> {
    fn new(lab: &'a mut Lab) -> Window<'a> {
        let (now, until) = (lab.now(), lab.measured_to());
        let nodes = lab.cores.iter_mut().zip(&lab.scenario.fabric.nodes);
        let ports = nodes.map(|(core, node)| {
            let status = |port| {
                let id = core.ports().traffic_port(port)?;
                let view = core.view(now);
                let mut status = view.port(id)?;
                status.pauses.paused = view.paused_time(id, until)?;
                Some(status)
            };
            node.ports().map_while(status).collect()
        });
        let ports = ports.collect();
        let hosts = lab.scenario.fabric.hosts();
        let discarded = hosts.flat_map(|node| {
            let of = super::host::discarded(&mut lab.cores[node]);
            of.into_iter().map(move |(reason, count)| (node, reason, count))
        });
        let discarded = discarded.collect();
        let lab = &*lab;
        let first = if lab.sampler.is_warm() { lab.sampler.first } else { 0 };
        let seconds = until.since(lab.measured_from()).as_ps() as f64 / 1e12;
        Window { lab, first, seconds, ports, discarded }
    }

    /// A port's counters now.
    pub(super) fn port(&self, node: usize, port: PortNumber) -> Option<&PortStatus> {
        self.ports.get(node)?.get(usize::from(port.0).checked_sub(1)?)
    }

    /// The part of a series after the warm-up.
    pub(super) fn part<'v>(&self, values: &'v [f64]) -> &'v [f64] {
        values.get(self.first..).unwrap_or_default()
    }
}

/// The report of a lab as it is now.
pub fn report(lab: &mut Lab, outcome: &Outcome, about: &About) -> Report {
    lab.last = lab.statuses();
    lab.gate_reports = lab.gates_seen();
    let window = Window::new(lab);
    let lab = window.lab;
    let scenario = lab.scenario();
    let mut report = Report {
        title: scenario.name.clone(),
        about: scenario.about.clone(),
        drawn: flows::drawn(scenario),
        ..Report::default()
    };
    facts(&mut report, lab, about);
    progress::fill(&mut report, &window);
    report.sample_times.clone_from(&lab.sampler.times);
    let bottleneck = bottleneck(&window);
    topology::fill(&mut report, &window, bottleneck);
    let crossing = crossing::Crossing::new(&window, bottleneck);
    flows::fill(&mut report, &window, (bottleneck, &crossing));
    collectives::fill(&mut report, &window);
    theory::fill(&mut report, &window, (bottleneck, &crossing));
    queues::fill(&mut report, &window, bottleneck);
    pauses::fill(&mut report, &window);
    utilisation::fill(&mut report, &window);
    marking::fill(&mut report, &window, bottleneck);
    figures::fill(&mut report, &window);
    counts::fill(&mut report, &window);
    ledgers::fill(&mut report, &window);
    let estimates = estimates::Estimates::new(scenario);
    let have_ends = scenario.flows.iter().any(|flow| flow.size.is_some());
    headline::fill(&mut report, (crossing.is_of_all(), have_ends), &estimates.kinds);
    match outcome {
        Outcome::Failed(violation) => {
            let found = format!("at {}: {}", violation.at, violation.what);
            let is_meant = scenario.fails.as_deref() == Some(violation.check);
            let words = if is_meant { "breaks, as it should" } else { "breaks" };
            report.verdict(format!("check {} {words}", violation.check), is_meant, found);
        }
        Outcome::Interrupted => {
            report.verdict(
                "run",
                false,
                format!("stopped at {:.3} ms", lab.now().as_ps() as f64 / 1e9),
            );
        }
        Outcome::Complete | Outcome::Drained if scenario.fails.is_some() => {
            let check = scenario.fails.as_deref().unwrap_or_default();
            report.verdict(format!("check {check} breaks"), false, "it does not");
        }
        Outcome::Complete | Outcome::Drained => {
            let found = format!(
                "{} times: conservation, lossless, pauses, rates, order, marking, liveness",
                lab.checks.made
            );
            report.verdict("checks", true, found);
        }
    }
    report
}

/// Adds a verdict for each expectation.
///
/// # Errors
/// Expectations that are invalid for this report.
pub fn judge(report: &mut Report, lab: &Lab) -> Result<(), Vec<BadExpectation>> {
    let mut wrong = Vec::new();
    for (index, expect) in lab.scenario().expect.iter().enumerate() {
        match expect.condition.judge(&expect.figure, report) {
            Ok((passed, found)) => report.verdict(expect.figure.clone(), passed, found),
            Err(error) => wrong.push(BadExpectation {
                index,
                error,
                known: report.figures.iter().map(|figure| figure.name.clone()).collect(),
            }),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Judges a run whose expectations were checked before it. Flows that are drawn differ with the seed: a figure of one
/// that is not there fails this run alone.
pub fn judge_run(report: &mut Report, lab: &Lab) {
    let Err(wrong) = judge(report, lab) else { return };
    for bad in wrong {
        let figure = lab.scenario().expect[bad.index].figure.clone();
        report.verdict(figure, false, bad.error.to_string());
    }
}

fn facts(report: &mut Report, lab: &Lab, about: &About) {
    let scenario = lab.scenario();
    let fabric = &scenario.fabric;
    let path = shown(&scenario.path).into_owned();
    let (name, place) = match scenario.path.strip_prefix(EMBEDDED) {
        Ok(inside) => {
            let name = inside.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let place = format!("{name}, inside wireyard");
            (name, place)
        }
        Err(_) => (path.clone(), path),
    };
    report.fact("scenario", place);
    report.fact("command", format!("wireyard lab {name} --seed {}", lab.seed));
    report.fact("seed", lab.seed.to_string());
    report.fact("build", about.version.clone());
    report.fact("engine", about.engine.clone());
    let (hosts, switches) = (fabric.hosts().count(), fabric.switches().count());
    report.fact(
        "topology",
        [(hosts, "host"), (switches, "switch"), (fabric.links.len(), "link")]
            .map(|(count, thing)| counted(count, thing))
            .join(", "),
    );
    let seconds =
        |span: wireyard_tables::time::Span| Unit::Seconds.show(span.as_ps() as f64 / 1e12);
    let step = scenario.sample.as_ps().saturating_mul(lab.sampler.stride);
    let step = wireyard_tables::time::Span::from_ps(step);
    let from = match lab.sampler.began {
        Some(began) => format!("from {} on", Unit::Seconds.show(super::sampler::seconds(began))),
        None => {
            format!("of all of it: it ended before its warm-up of {}", seconds(scenario.warm_up))
        }
    };
    report.fact(
        "time",
        format!(
            "{} of {}, figures {from}, a sample every {}",
            Unit::Seconds.show(super::sampler::seconds(lab.measured_to())),
            seconds(scenario.duration),
            seconds(step)
        ),
    );
    let parameters: Vec<String> =
        scenario.host.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let control = match parameters.is_empty() {
        true => scenario.host.rate_control.clone(),
        false => format!("{} with {}", scenario.host.rate_control, parameters.join(", ")),
    };
    report.fact("rate control", control);
    parameters_in_force(report, lab);
    mixed(report, scenario);
}

/// Every number of the reaction point on the first host's link, configured or default: results cannot be compared
/// without them.
fn parameters_in_force(report: &mut Report, lab: &Lab) {
    let scenario = lab.scenario();
    let fabric = &scenario.fabric;
    let link = fabric.hosts().find_map(|host| fabric.nodes[host].links.first());
    let Some(rate) = link.map(|link| fabric.links[*link].setup.rate) else { return };
    let interval = super::host::cnp_interval(&scenario.host, rate);
    if let Some(program) = &scenario.host.rate_program {
        let Ok(of) = super::host::rate_program(&scenario.host, program, rate) else { return };
        let values: Vec<String> =
            of.values().map(|(parameter, value)| format!("{} {value}", parameter.name)).collect();
        report.fact("reaction point", values.join(", "));
        let marks = match program.notification().marks {
            Marks::Cnp => {
                let interval = Unit::Seconds.show(interval.as_ps() as f64 / 1e12);
                format!("a CNP of a flow every {interval} at most")
            }
            Marks::Ack => "marks come back as BECN of acknowledgements".to_owned(),
            Marks::Nowhere => "marks do not come back".to_owned(),
        };
        let packets = scenario.host.acks_every();
        report.fact(
            "notification point",
            format!("{marks}, an acknowledgement for {packets} packets"),
        );
        return;
    }
    let Ok((_, Some(parameters))) = super::host::rate_control(&scenario.host, rate) else { return };
    let values = parameters.values().map(|(name, value)| format!("{name} {}", digits(value, 6)));
    let values: Vec<String> = values.collect();
    let interval = Unit::Seconds.show(interval.as_ps() as f64 / 1e12);
    report.fact("reaction point", values.join(", "));
    report.fact("notification point", format!("a CNP of a flow every {interval} at most"));
}

/// The number of hosts and flows with settings of their own.
fn mixed(report: &mut Report, scenario: &Scenario) {
    if scenario.is_mixed() {
        let flows = scenario.flows.iter().filter(|flow| flow.own.is_some()).count();
        let mixed = format!("{} hosts and {flows} flows", scenario.hosts.len());
        report.fact("settings of their own", mixed);
    }
}

/// A mean below the shortest frame: an acknowledgement now and then waits in a queue that is no bottleneck.
const NOTHING_BYTES: f64 = 64.0;

/// The queue under test: the one that the topology names, of the class of data; otherwise the fullest.
fn bottleneck(window: &Window<'_>) -> Option<QueueKey> {
    let lab = window.lab;
    let fabric = &lab.scenario().fabric;
    let waiting = |key: &QueueKey| match lab.sampler.mean_bytes(*key) {
        mean if mean < NOTHING_BYTES => 0.0,
        mean => mean,
    };
    let of_port = fabric.bottleneck.and_then(|(switch, neighbour)| {
        let link = fabric.between(switch, neighbour)?;
        Some((switch, fabric.port(switch, link)))
    });
    let keys: Vec<QueueKey> = match of_port {
        Some((node, port)) => (0..8).map(|queue| (node, port, queue)).collect(),
        None => fabric
            .switches()
            .flat_map(|node| {
                let ports = fabric.nodes[node].ports();
                ports.flat_map(move |port| (0..8).map(move |queue| (node, port, queue)))
            })
            .collect(),
    };
    let peak = |&(node, port, queue): &QueueKey| {
        let status = window.port(node, port);
        status.map_or(0, |status| status.queues[usize::from(queue)].peak_bytes)
    };
    // If nothing waits in any, of those with a congestion point the one with the highest peak.
    keys.into_iter().max_by(|a, b| {
        let marks = |key: &QueueKey| u8::from(lab.sampler.curve(*key).is_some());
        // Of equals the first: compared the other way round.
        (waiting(a), marks(a), peak(a))
            .partial_cmp(&(waiting(b), marks(b), peak(b)))
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(b.cmp(a))
    })
}
