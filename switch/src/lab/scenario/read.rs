//! A scenario file to its model, with everything that is wrong at its place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, codes};
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::{Node, NodeKind as YamlKind};
use wireyard_pipeline::source::{Loader, read_yaml};
use wireyard_tables::time::{Span, Time};

use super::flow_file::Sheets;
use super::quantity::{bounded, chance, instant, positive_span, quantity, span};
use super::{
    CaptureSpec, CnpPer, Expect, Fault, FaultKind, FlowSpec, HostSetup, SCENARIO, Scenario,
    SwitchSetup, Transport, Tuning, flows, shapes, topology,
};
use crate::config::qos::QosConfig;
use crate::lab::fabric::{Fabric, NodeKind};
use crate::lab::host::rate_control as rate_control_of;
use crate::report::expect::Condition;
use crate::roce::rp::dcqcn::{PARAMS, preset};
use crate::units::{Bytes, Dilation};

/// Samples of a run at most.
const SAMPLES_MAX: u64 = 10_000_000;
/// Most times slower that a scenario may be.
const DILATE_MAX: u64 = 1_000_000;
/// Frames of a capture at most.
const CAPTURE_MAX: u64 = 10_000_000;

/// Reads a scenario.
///
/// # Errors
/// Everything that is wrong, with its places.
pub fn read(path: &Path, loader: &Loader) -> Result<(Scenario, Files), Rejected> {
    let mut files = Files::new();
    let mut found = Diagnostics::new();
    let node = read_yaml(path, loader, &mut files, &mut found);
    let scenario = node.and_then(|node| {
        let folder = path.parent().unwrap_or(Path::new(""));
        let sheets = Sheets::read(&node, folder, loader, &mut files);
        let reader = Reader { path, files: &files, sheets };
        reader.scenario(&mut Decoder::new(&files, &mut found), &node)
    });
    match scenario {
        Some(scenario) if !found.has_errors() => Ok((scenario, files)),
        _ => Err(Rejected { diagnostics: found, files }),
    }
}

struct Reader<'a> {
    path: &'a Path,
    files: &'a Files,
    sheets: Sheets,
}

impl Reader<'_> {
    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn scenario(&self, decoder: &mut Decoder<'_>, node: &Node) -> Option<Scenario> {
        let fields = decoder.map(node, &SCENARIO)?;
        let name = fields.get("lab").and_then(|node| decoder.name(node));
        let about = fields.get("about").and_then(|node| decoder.word(node));
        let seed = match fields.get("seed") {
            Some(node) => decoder.count(node).map(|seed| seed.value),
            None => Some(1),
        };
        let duration =
            fields.get("duration").and_then(|node| positive_span(decoder, node, "a run"));
        let warm_up = self.warm_up(decoder, &fields, duration);
        let sample = match fields.get("sample") {
            Some(node) => sample(decoder, node, duration),
            None => Some(Span::from_us(10)),
        };
        let spectrum_window = match fields.get("spectrum_window") {
            Some(node) => bounded(decoder, node, "spectrum_window", (8, 1 << 16)),
            None => Some(2048),
        };
        let link = match fields.get("link") {
            Some(node) => topology::link(decoder, node, &topology::plain_link()),
            None => Some(topology::plain_link()),
        };
        let fabric = match (fields.get("topology"), link) {
            (Some(node), Some(link)) => topology::read(decoder, node, link),
            _ => None,
        };
        let mut switch = self.switch(decoder, fields.get("switch"));
        let mut host = host(self, decoder, fields.get("host"));
        let links = fields.place("link").or(fields.place("topology"));
        if let (Some(switch), Some(host)) = (&mut switch, &mut host) {
            switch.qos_span = switch.qos_span.or(links);
            host.qos_span = host.qos_span.or(links);
            host.rate_span = host.rate_span.or(links);
        }
        let fails = match fields.get("fails") {
            Some(node) => Some(decoder.choice(node, shapes::CHECKS)?.value),
            None => None,
        };
        let expect = fields.get("expect").map(|node| expectations(decoder, node));
        let fabric = fabric?;
        let context = flows::Context {
            fabric: &fabric,
            seed: seed.unwrap_or(1),
            end: duration.map_or(Time::MAX, |duration| Time::ZERO + duration),
            sheets: &self.sheets,
            files: self.files,
        };
        let flows = fields.get("flows").map(|node| flows::read(decoder, node, &context));
        let faults = match fields.get("faults") {
            Some(node) => faults(decoder, node, &fabric, context.end),
            None => Vec::new(),
        };
        if let Some(host) = &host {
            frames_fit(decoder, &fields, host, &fabric);
            let flows = flows.as_ref().map_or(&[][..], |(flows, _)| flows);
            rates_fit(decoder, host, flows, &fabric);
        }
        if let (Some(host), Some(switch)) = (&host, &switch) {
            program_fits(decoder, &fields, host, switch);
        }
        let (flows, draws) = flows.unzip();
        let captures = match fields.get("captures") {
            Some(node) => captures(decoder, node, &fabric),
            None => Vec::new(),
        };
        let scenario = Scenario {
            name: name?.value,
            about: about.map(|about| about.value).unwrap_or_default(),
            path: self.path.to_owned(),
            seed: seed?,
            duration: duration?,
            warm_up: warm_up?,
            sample: sample?,
            spectrum_window: spectrum_window? as usize,
            fabric,
            switch: switch?,
            host: host?,
            flows: flows?,
            draws: draws?,
            faults,
            fails,
            expect: expect.unwrap_or_default(),
            captures,
        };
        match fields.get("dilate") {
            Some(node) => dilated(decoder, node, &scenario),
            None => Some(scenario),
        }
    }

    fn warm_up(
        &self,
        decoder: &mut Decoder<'_>,
        fields: &Fields<'_>,
        duration: Option<Span>,
    ) -> Option<Span> {
        let Some(node) = fields.get("warm_up") else { return Some(Span::ZERO) };
        let found = span(decoder, node)?;
        if duration.is_some_and(|duration| found >= duration) {
            let message = "nothing is left after `warm_up`: it is not shorter than `duration`";
            decoder.diagnostics.error(codes::SCENARIO, node.span, message);
            return None;
        }
        Some(found)
    }

    /// A program that the scenario names.
    fn program(&self, decoder: &mut Decoder<'_>, node: &Node) -> Option<PathBuf> {
        let program: PathBuf = self.folder().join(decoder.word(node)?.value);
        if !program.exists() {
            let message = format!("there is no program {}", program.display());
            decoder
                .diagnostics
                .error(codes::FILE_NOT_READ, node.span, message)
                .note("the path is relative to the scenario");
            return None;
        }
        Some(program)
    }

    fn switch(&self, decoder: &mut Decoder<'_>, node: Option<&Node>) -> Option<SwitchSetup> {
        let mut setup =
            SwitchSetup { program: None, qos: QosConfig::default(), qos_span: None, span: None };
        let Some(node) = node else { return Some(setup) };
        let fields = decoder.map(node, &shapes::SWITCH)?;
        if let Some(node) = fields.get("program") {
            setup.program = Some(self.program(decoder, node)?);
            setup.span = Some(node.span);
        }
        if let Some(node) = fields.get("qos") {
            setup.qos = crate::config::read_qos(node, decoder.diagnostics)?;
            setup.qos_span = fields.place("qos");
        }
        Some(setup)
    }
}

/// The time between samples: not so short that samples are most of the work, nor longer than the run.
fn sample(decoder: &mut Decoder<'_>, node: &Node, duration: Option<Span>) -> Option<Span> {
    let found = positive_span(decoder, node, "the time between samples")?;
    let samples = duration.map_or(1, |duration| duration.as_ps() / found.as_ps());
    let message = match samples {
        0 => "not one sample is taken: `sample` is longer than `duration`".to_owned(),
        1..=SAMPLES_MAX => return Some(found),
        _ => format!("{samples} samples in `duration`: at most {SAMPLES_MAX}"),
    };
    decoder.diagnostics.error(codes::SCENARIO, node.span, message);
    None
}

/// The scenario in slow motion.
fn dilated(decoder: &mut Decoder<'_>, node: &Node, scenario: &Scenario) -> Option<Scenario> {
    let factor = bounded(decoder, node, "dilate", (1, DILATE_MAX))?;
    match scenario.dilated(Dilation::new(factor as u32)?) {
        Ok(slow) => Some(slow),
        Err(problem) => {
            decoder.diagnostics.error(codes::SCENARIO, node.span, problem);
            None
        }
    }
}

fn host(reader: &Reader<'_>, decoder: &mut Decoder<'_>, node: Option<&Node>) -> Option<HostSetup> {
    let mut setup = HostSetup {
        transport: Transport::default(),
        program: None,
        qos: None,
        rate_control: "dcqcn".to_owned(),
        parameters: Vec::new(),
        cnp_interval: None,
        cnp_per: CnpPer::default(),
        path_mtu: Bytes::new(1024),
        data_dscp: 26,
        cnp_dscp: 48,
        data_pcp: 3,
        ecn: true,
        ack_every: 64,
        ack_timeout: 14,
        rate_span: None,
        qos_span: None,
        dilation: Dilation::ONE,
    };
    let Some(node) = node else { return Some(setup) };
    let fields = decoder.map(node, &shapes::HOST)?;
    if let Some(node) = fields.get("program") {
        setup.program = Some(reader.program(decoder, node)?);
    }
    if let Some(node) = fields.get("ack_timeout") {
        setup.ack_timeout = bounded(decoder, node, "an ACK timeout", (0, 31))? as u8;
    }
    if let Some(node) = fields.get("ack_every") {
        setup.ack_every =
            bounded(decoder, node, "packets for an acknowledgement", (1, 1 << 20))? as u32;
    }
    if let Some(node) = fields.get("transport") {
        let name = decoder.choice(node, Transport::NAMES)?;
        setup.transport = Transport::by_name(&name.value)?;
    }
    if let Some(node) = fields.get("qos") {
        setup.qos = Some(crate::config::read_qos(node, decoder.diagnostics)?);
        setup.qos_span = fields.place("qos");
    }
    if let Some(node) = fields.get("rate_control") {
        setup.rate_control = rate_control(decoder, node)?;
    }
    if let Some(node) = fields.get("parameters") {
        setup.parameters = parameters(decoder, node, &setup.rate_control);
    }
    setup.rate_span = fields.place("parameters").or(fields.place("rate_control"));
    if let Some(node) = fields.get("cnp_interval") {
        setup.cnp_interval = Some(span(decoder, node)?);
    }
    if let Some(node) = fields.get("cnp_per") {
        setup.cnp_per = match decoder.choice(node, shapes::CNP_PER)?.value.as_str() {
            "flow" => CnpPer::Flow,
            "pair" => CnpPer::Pair,
            _ => CnpPer::Port,
        };
    }
    if let Some(node) = fields.get("path_mtu") {
        setup.path_mtu = path_mtu(decoder, node)?;
    }
    if let Some(node) = fields.get("data_dscp") {
        setup.data_dscp = bounded(decoder, node, "a DSCP", (0, 63))? as u8;
    }
    if let Some(node) = fields.get("cnp_dscp") {
        setup.cnp_dscp = bounded(decoder, node, "a DSCP", (0, 63))? as u8;
    }
    if let Some(node) = fields.get("data_pcp") {
        setup.data_pcp = bounded(decoder, node, "a VLAN priority", (0, 7))? as u8;
    }
    if let Some(node) = fields.get("ecn") {
        setup.ecn = decoder.flag(node)?;
    }
    Some(setup)
}

/// Every link must take a full packet of the hosts, or none would ever arrive.
fn frames_fit(decoder: &mut Decoder<'_>, fields: &Fields<'_>, host: &HostSetup, fabric: &Fabric) {
    let frame = host.frame();
    let Some(link) = (0..fabric.links.len()).find(|&n| fabric.links[n].setup.mtu < frame) else {
        return;
    };
    let span = fields.place("link").or(fields.place("topology")).unwrap_or(fields.span);
    let (name, mtu) = (fabric.link_name(link), fabric.links[link].setup.mtu);
    let message = format!(
        "link `{name}` takes frames of {mtu}, and a full packet of the hosts has {frame}: none would arrive"
    );
    decoder
        .diagnostics
        .error(codes::SCENARIO, span, message)
        .help("make `mtu` of the link larger, or `path_mtu` of the hosts smaller");
}

/// The program inside the binary forwards no InfiniBand.
fn program_fits(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    host: &HostSetup,
    switch: &SwitchSetup,
) {
    if host.is_infiniband() && switch.program.is_none() {
        let span = fields.place("switch").or(fields.place("host")).unwrap_or(fields.span);
        let message =
            "switches without `program` run `rocev2_lossless`, which forwards no InfiniBand";
        decoder
            .diagnostics
            .error(codes::SCENARIO, span, message)
            .help("name one with a table `lft`: `switch: { program: ../ib_switch }`");
    }
}

/// The rate control must be one on the link of every host that sends.
fn rates_fit(decoder: &mut Decoder<'_>, host: &HostSetup, flows: &[FlowSpec], fabric: &Fabric) {
    let mut known = BTreeSet::new();
    for flow in flows {
        let Some(&link) = fabric.nodes[flow.from].links.first() else { continue };
        let rate = fabric.links[link].setup.rate;
        if !known.insert(rate.get()) {
            continue;
        }
        if let Err(problem) = rate_control_of(host, rate) {
            let name = &fabric.nodes[flow.from].name;
            let message = format!("`{name}` on its link of {rate}: {problem}");
            let span = host.rate_span.unwrap_or(flow.span);
            decoder.diagnostics.error(codes::SCENARIO, span, message);
        }
    }
}

/// The sizes of IBTA 9.7.2.
fn path_mtu(decoder: &mut Decoder<'_>, node: &Node) -> Option<Bytes> {
    let found = quantity::<Bytes>(decoder, node)?.value;
    if ![256, 512, 1024, 2048, 4096].contains(&found.get()) {
        let message = format!("a path MTU of {found}");
        decoder
            .diagnostics
            .error(codes::SCENARIO, node.span, message)
            .note("InfiniBand knows 256 B, 512 B, 1024 B, 2048 B and 4096 B of payload");
        return None;
    }
    Some(found)
}

fn rate_control(decoder: &mut Decoder<'_>, node: &Node) -> Option<String> {
    let name = decoder.word(node)?;
    let known = || preset::NAMES.iter().copied().chain(["fixed"]);
    if known().all(|preset| preset != name.value) {
        let names: Vec<&str> = known().collect();
        decoder
            .diagnostics
            .error(
                codes::UNKNOWN_CHOICE,
                name.span,
                format!("there is no rate control `{}`", name.value),
            )
            .note(format!("there are {}", names.join(", ")))
            .did_you_mean(&name.value, known());
        return None;
    }
    Some(name.value)
}

/// Numbers of a rate control, by name: those that it uses.
fn parameters(decoder: &mut Decoder<'_>, node: &Node, control: &str) -> Vec<(String, f64)> {
    // Which law it has does not depend on the rate.
    let law = preset::by_name(control, 1e9).ok().map(|preset| preset.rp.law);
    let used: Vec<&str> = PARAMS
        .iter()
        .filter(|param| law.is_some_and(|law| param.is_of(law)))
        .map(|p| p.name)
        .collect();
    let has = match law {
        Some(_) => format!("`{control}` has {}", used.join(", ")),
        None => "hosts send at the rate of their link: make `rate` of the link lower".to_owned(),
    };
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "parameters by name").unwrap_or_default() {
        let name = key.scalar.text.clone();
        let Some(known) = PARAMS.iter().find(|param| param.name == name) else {
            decoder
                .diagnostics
                .error(codes::UNKNOWN_KEY, key.span, format!("there is no parameter `{name}`"))
                .note(has.clone())
                .did_you_mean(&name, PARAMS.iter().map(|param| param.name));
            continue;
        };
        if !used.contains(&known.name) {
            let message = format!("`{control}` does not use `{name}`");
            decoder.diagnostics.error(codes::SCENARIO, key.span, message).note(has.clone());
            continue;
        }
        let Some(number) = decoder.real(value) else { continue };
        let (low, high) = known.range;
        if number.value < low || number.value > high {
            let message = format!("{name}: {} is not from {low} to {high}", number.value);
            decoder.diagnostics.error(codes::SCENARIO, number.span, message);
            continue;
        }
        found.push((name, number.value));
    }
    found
}

fn expectations(decoder: &mut Decoder<'_>, node: &Node) -> Vec<Expect> {
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "figures").unwrap_or_default() {
        let Some(text) = decoder.word(value) else { continue };
        match Condition::parse(&text.value) {
            Ok(condition) => {
                found.push(Expect { figure: key.scalar.text.clone(), condition, span: key.span });
            }
            Err(problem) => {
                decoder.diagnostics.error(codes::SCENARIO, text.span, problem);
            }
        }
    }
    found
}

fn faults(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric, end: Time) -> Vec<Fault> {
    let mut found = decoder.each(node, "a fault", |decoder, item| {
        let fault = fault(decoder, item, fabric)?;
        if fault.at >= end {
            let (at, end) = (fault.at.since(Time::ZERO), end.since(Time::ZERO));
            let message = format!("a fault would begin at {at}, and the run ends at {end}");
            decoder.diagnostics.error(codes::SCENARIO, item.span, message);
            return None;
        }
        Some(fault)
    });
    found.sort_by_key(|fault| fault.at);
    found.into_iter().fold(Vec::new(), together)
}

/// A fault that begins while the same one lasts makes it longer: it is over when both are. Thresholds may overlap as they are.
fn together(mut faults: Vec<Fault>, fault: Fault) -> Vec<Fault> {
    let lasts = |known: &&mut Fault| {
        fault.kind.stops_packets()
            && known.kind == fault.kind
            && known.until.is_none_or(|until| until >= fault.at)
    };
    match faults.iter_mut().find(lasts) {
        Some(known) => {
            known.until = known.until.zip(fault.until).map(|(one, other)| one.max(other));
        }
        None => faults.push(fault),
    }
    faults
}

fn fault(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<Fault> {
    let fields = decoder.map(node, &shapes::FAULT)?;
    let at = Time::ZERO + instant(decoder, fields.get("at")?)?;
    let until = match fields.get("until") {
        Some(node) => {
            let until = Time::ZERO + instant(decoder, node)?;
            if until <= at {
                let message = "`until` is not after `at`";
                decoder.diagnostics.error(codes::SCENARIO, node.span, message);
                return None;
            }
            Some(until)
        }
        None => None,
    };
    let kinds = ["link_down", "pause_storm", "slow_receiver", "ecn_off", "thresholds"];
    let mut written = kinds.into_iter().filter(|kind| fields.get(kind).is_some());
    let (Some(kind), other) = (written.next(), written.next()) else {
        let message = format!("a fault of what kind? write one of `{}`", kinds.join("`, `"));
        decoder.diagnostics.error(codes::MISSING_KEY, fields.span, message);
        return None;
    };
    if let Some(other) = other {
        decoder.exclude(&fields, kind, other);
        return None;
    }
    let node = fields.get(kind)?;
    let host = |decoder: &mut Decoder<'_>| {
        let name = decoder.word(node)?;
        flows::host(decoder, &name, fabric)
    };
    let kind = match kind {
        "link_down" => FaultKind::LinkDown { link: link_named(decoder, node, fabric)? },
        "pause_storm" => {
            let priority = match fields.get("priority") {
                Some(node) => bounded(decoder, node, "a priority", (0, 7))? as u8,
                None => 3,
            };
            FaultKind::PauseStorm { host: host(decoder)?, priority }
        }
        "slow_receiver" => FaultKind::SlowReceiver { host: host(decoder)? },
        "thresholds" => FaultKind::Thresholds(tuning(decoder, node, fabric)?),
        _ => {
            decoder.flag(node)?;
            FaultKind::EcnOff
        }
    };
    Some(Fault { at, until, kind, span: fields.span })
}

/// Thresholds of a fault.
fn tuning(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<Tuning> {
    let fields = decoder.map(node, &shapes::TUNING)?;
    let mut found = Tuning::default();
    if let Some(node) = fields.get("switch") {
        let switch = topology::node_named(decoder, node, fabric)?;
        if fabric.nodes[switch].kind != NodeKind::Switch {
            let message =
                format!("`{}` is a host: it has no thresholds", fabric.nodes[switch].name);
            decoder.diagnostics.error(codes::WRONG_KIND, node.span, message);
            return None;
        }
        found.switch = Some(switch);
    }
    if let Some(node) = fields.get("neighbour") {
        let neighbour = topology::node_named(decoder, node, fabric)?;
        let Some(switch) = found.switch else {
            decoder.needs(&fields, "neighbour", "switch");
            return None;
        };
        let Some(link) = fabric.between(switch, neighbour) else {
            let [a, b] = [switch, neighbour].map(|node| &fabric.nodes[node].name);
            let message = format!("there is no link between `{a}` and `{b}`");
            decoder.diagnostics.error(codes::UNKNOWN, node.span, message);
            return None;
        };
        found.port = Some(fabric.port(switch, link));
    }
    if let Some(node) = fields.get("queue") {
        found.queue = Some(bounded(decoder, node, "a queue", (0, 7))? as u8);
    }
    let level = |decoder: &mut Decoder<'_>, name: &str| match fields.get(name) {
        Some(node) => quantity::<Bytes>(decoder, node).map(|found| Some(found.value)),
        None => Some(None),
    };
    found.kmin = level(decoder, "kmin")?;
    found.kmax = level(decoder, "kmax")?;
    found.xoff_at = level(decoder, "xoff_at")?;
    if let Some(node) = fields.get("pmax") {
        found.pmax = Some(chance(decoder, node)?);
    }
    let changes = [found.kmin, found.kmax, found.xoff_at].iter().any(Option::is_some);
    if !changes && found.pmax.is_none() {
        let message = "which thresholds? write `kmin`, `kmax`, `pmax` or `xoff_at`";
        decoder.diagnostics.error(codes::MISSING_KEY, fields.span, message);
        return None;
    }
    if let (Some(kmin), Some(kmax)) = (found.kmin, found.kmax)
        && kmin > kmax
    {
        let message = format!("kmin {kmin} is above kmax {kmax}");
        decoder.diagnostics.error(codes::SCENARIO, fields.span, message);
        return None;
    }
    Some(found)
}

/// A link by the names of its ends: `h1-s1`.
fn link_named(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<usize> {
    let name = decoder.word(node)?;
    let found = (0..fabric.links.len()).find(|&link| names_of(fabric, link).contains(&name.value));
    if found.is_none() {
        let names: Vec<String> = (0..fabric.links.len()).map(|n| fabric.link_name(n)).collect();
        decoder
            .diagnostics
            .error(codes::UNKNOWN, name.span, format!("there is no link `{}`", name.value))
            .note("a link is named by its ends, as in `h1-s1`")
            .did_you_mean(&name.value, names.iter().map(String::as_str));
    }
    found
}

fn names_of(fabric: &Fabric, link: usize) -> [String; 2] {
    let [a, b] = fabric.links[link].ends.map(|node| fabric.nodes[node].name.as_str());
    [format!("{a}-{b}"), format!("{b}-{a}")]
}

fn captures(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Vec<CaptureSpec> {
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "links").unwrap_or_default() {
        let name = Node { kind: YamlKind::Scalar(key.scalar.clone()), span: key.span, alias: None };
        let link = link_named(decoder, &name, fabric);
        let frames = bounded(decoder, value, "frames", (1, CAPTURE_MAX));
        if let (Some(link), Some(frames)) = (link, frames) {
            found.push(CaptureSpec { link, frames });
        }
    }
    found
}
