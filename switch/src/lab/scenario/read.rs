//! From a scenario file to its model, with all errors at their places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, codes};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::{Node, NodeKind as YamlKind};
use wireyard_pipeline::source::{Loader, read_yaml};
use wireyard_tables::time::{Span, Time};

use super::quantity::{bounded, positive_span, span};
use super::rate_control::Controls;
use super::reading::Context;
use super::sheets::Sheets;
use super::{
    CaptureSpec, Expect, HostSetup, SCENARIO, Scenario, SwitchSetup, collectives, faults, flows,
    host_keys, hosts, loads, shapes, topology,
};
use crate::config::qos::QosConfig;
use crate::file_kind::{self, FileKind};
use crate::lab::fabric::{Fabric, LinkSetup};
use crate::lab::study::change;
use crate::lab::workload::{self, Source};
use crate::library::{self, LIBRARIES};
use crate::report::expect::Condition;
use crate::units::{Bytes, Dilation};

/// Samples of a run at most.
const SAMPLES_MAX: u64 = 10_000_000;
/// Largest dilation of a scenario.
const DILATE_MAX: u64 = 1_000_000;
/// Frames of a capture at most.
const CAPTURE_MAX: u64 = 10_000_000;
/// Most bytes of all captures, which are in memory until the run has ended.
const CAPTURES_BYTES_MAX: u64 = 2 << 30;

/// Reads a scenario.
///
/// # Errors
/// All errors, with their places.
pub fn read(path: &Path, loader: &Loader) -> Result<(Scenario, Files), Rejected> {
    read_changed(path, loader, Files::new(), &[])
}

/// The same with other values of some keys, which are in one of `files`.
///
/// # Errors
/// All errors, with their places.
pub fn read_changed(
    path: &Path,
    loader: &Loader,
    mut files: Files,
    changes: &[(Vec<Sp<String>>, Node)],
) -> Result<(Scenario, Files), Rejected> {
    let mut found = Diagnostics::new();
    let node = read_yaml(path, loader, &mut files, &mut found);
    let node = node.and_then(|mut node| {
        for (key, value) in changes {
            let span = key.first().map_or(value.span, |part| part.span);
            let span =
                SourceSpan { end: key.last().map_or(span.end, |part| part.span.end), ..span };
            if let Err(why) = change::set(&mut node, key, value.clone()) {
                let key: Vec<&str> = key.iter().map(|part| part.value.as_str()).collect();
                let message = format!("there is no key `{}` in the scenario: {why}", key.join("."));
                found.error(codes::UNKNOWN_KEY, span, message);
                return None;
            }
        }
        Some(node)
    });
    let scenario = node.and_then(|node| {
        let folder = path.parent().unwrap_or(Path::new(""));
        let sheets = Sheets::read(&node, folder, loader, &mut files);
        let controls = Controls::read(&node, folder, loader, &mut files, &mut found);
        let reader = Reader { path, files: &files, sheets, controls };
        reader.scenario(&mut Decoder::new(&files, &mut found), &node)
    });
    match scenario {
        Some(scenario) if !found.has_errors() => Ok((scenario, files)),
        _ => {
            let errors = Rejected { diagnostics: found, files };
            Err(file_kind::or_kind(path, loader, FileKind::Scenario, errors))
        }
    }
}

pub(super) struct Reader<'a> {
    path: &'a Path,
    files: &'a Files,
    sheets: Sheets,
    pub(super) controls: Controls,
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
        let sample = match fields.get("sample") {
            Some(node) => sample(decoder, node, duration),
            None => Some(Span::from_us(10)),
        };
        let warm_up = self.warm_up(decoder, &fields, duration, sample);
        let spectrum_window = match fields.get("spectrum_window") {
            Some(node) => bounded(decoder, node, "spectrum_window", (8, 1 << 16)),
            None => Some(2048),
        };
        let link = match fields.get("link") {
            Some(node) => topology::link(decoder, node, &LinkSetup::PLAIN),
            None => Some(LinkSetup::PLAIN),
        };
        let fabric = match (fields.get("topology"), link) {
            (Some(node), Some(link)) => {
                topology::read(decoder, node, link, (&self.sheets, self.files))
            }
            _ => None,
        };
        let mut switch = self.switch(decoder, fields.get("switch"));
        let mut host = hosts::read(self, decoder, fields.get("host"));
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
        let context = Context {
            fabric: &fabric,
            end: duration.map_or(Time::MAX, |duration| Time::ZERO + duration),
            sheets: &self.sheets,
            files: self.files,
            controls: &self.controls,
        };
        let sources = sources(decoder, &fields, &context)?;
        let faults = match fields.get("faults") {
            Some(node) => faults::read(decoder, node, &fabric, context.end),
            None => Vec::new(),
        };
        let own = match (fields.get("hosts"), &host) {
            (Some(node), Some(host)) => {
                hosts::read_own(self, decoder, node, (host, fields.get("host")), &fabric)
            }
            _ => BTreeMap::new(),
        };
        if let (Some(host), Some(switch)) = (&host, &switch) {
            program_fits(decoder, &fields, host, switch);
        }
        let captures = match fields.get("captures") {
            Some(node) => captures(decoder, node, &fabric),
            None => Vec::new(),
        };
        let work = workload::expand(&sources, &fabric, seed.unwrap_or(1));
        flows::check(decoder, &work.flows, &context);
        let scenario = Scenario {
            name: name?.value,
            about: about.map(|about| about.value).unwrap_or_default(),
            path: self.path.to_owned(),
            seed: seed?,
            max_state: None,
            duration: duration?,
            warm_up: warm_up?,
            sample: sample?,
            spectrum_window: spectrum_window? as usize,
            fabric,
            switch: switch?,
            host: host?,
            hosts: own,
            flows: work.flows,
            gates: work.gates,
            sources,
            parts: work.parts,
            faults,
            fails,
            expect: expect.unwrap_or_default(),
            captures,
        };
        hosts::frames_fit(decoder, &fields, &scenario);
        hosts::rates_fit(decoder, &scenario);
        hosts::telemetry_fits(decoder, &scenario);
        hosts::sprays_fit(decoder, &scenario);
        host_keys::check(decoder, &fields, &scenario);
        loads::fit(decoder, &scenario);
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
        sample: Option<Span>,
    ) -> Option<Span> {
        let Some(node) = fields.get("warm_up") else { return Some(Span::ZERO) };
        let found = span(decoder, node)?;
        if duration.is_some_and(|duration| found >= duration) {
            let message = "nothing is left after `warm_up`: it is not shorter than `duration`";
            return decoder.refuse(codes::SCENARIO, node.span, message);
        }
        // Depths of queues are known at samples only.
        let (duration, sample) = (duration?.as_ps(), sample?.as_ps());
        if found.as_ps().div_ceil(sample).saturating_mul(sample) > duration {
            let message =
                "no sample is taken between `warm_up` and the end: nothing would be measured";
            let error = decoder.diagnostics.error(codes::SCENARIO, node.span, message);
            error.help("make `sample` shorter");
            return None;
        }
        Some(found)
    }

    /// A program that the scenario names: a file, or one inside the binary.
    pub(super) fn program(&self, decoder: &mut Decoder<'_>, node: &Node) -> Option<PathBuf> {
        let word = decoder.word(node)?.value;
        let program: PathBuf = self.folder().join(&word);
        let loader = Loader::new(Vec::new(), LIBRARIES);
        if loader.is_file(&program) || loader.is_folder(&program) {
            return Some(program);
        }
        let inside = library::programs();
        if inside.contains(&word.as_str()) {
            return Some(library::program_path(Path::new(&word)));
        }
        let message = format!("there is no program {}", shown(&program));
        let note = "the path is relative to the scenario; programs inside the binary are known by their names";
        decoder
            .diagnostics
            .error(codes::FILE_NOT_READ, node.span, message)
            .note(note)
            .did_you_mean(&word, inside);
        None
    }

    fn switch(&self, decoder: &mut Decoder<'_>, node: Option<&Node>) -> Option<SwitchSetup> {
        let mut setup = SwitchSetup {
            program: None,
            defines: Vec::new(),
            qos: QosConfig::default(),
            qos_span: None,
            span: None,
        };
        let Some(node) = node else { return Some(setup) };
        let fields = decoder.map(node, &shapes::SWITCH)?;
        if let Some(node) = fields.get("program") {
            setup.program = Some(self.program(decoder, node)?);
            setup.span = Some(node.span);
        }
        if let Some(node) = fields.get("defines") {
            setup.defines = crate::config::read_defines(decoder, node);
        }
        if let Some(node) = fields.get("qos") {
            setup.qos = crate::config::read_qos(node, decoder.diagnostics)?;
            setup.qos_span = fields.place("qos");
        }
        Some(setup)
    }
}

/// The traffic: `flows`, `collectives` or both.
fn sources(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
) -> Option<Vec<Source>> {
    let mut sources = Vec::new();
    if let Some(node) = fields.get("flows") {
        sources = flows::read(decoder, node, context);
    }
    if let Some(node) = fields.get("collectives") {
        sources.extend(collectives::read(decoder, node, context));
        if sources.is_empty() && !decoder.diagnostics.has_errors() {
            let message = "no collective: nothing would be sent";
            decoder.diagnostics.error(codes::SCENARIO, node.span, message);
        }
    }
    if fields.get("flows").is_none() && fields.get("collectives").is_none() {
        let message = "a scenario needs `flows` or `collectives`: nothing would be sent";
        return decoder.refuse(codes::MISSING_KEY, fields.span, message);
    }
    Some(sources)
}

/// The time between samples: neither so short that sampling dominates the work, nor longer than the run.
fn sample(decoder: &mut Decoder<'_>, node: &Node, duration: Option<Span>) -> Option<Span> {
    let found = positive_span(decoder, node, "the time between samples")?;
    let samples = duration.map_or(1, |duration| duration.as_ps() / found.as_ps());
    let message = match samples {
        0 => "not one sample is taken: `sample` is longer than `duration`".to_owned(),
        1..=SAMPLES_MAX => return Some(found),
        _ => format!("{samples} samples in `duration`: at most {SAMPLES_MAX}"),
    };
    decoder.refuse(codes::SCENARIO, node.span, message)
}

/// The scenario in slow motion.
fn dilated(decoder: &mut Decoder<'_>, node: &Node, scenario: &Scenario) -> Option<Scenario> {
    let factor = bounded(decoder, node, "dilate", (1, DILATE_MAX))?;
    match scenario.dilated(Dilation::new(factor as u32)?) {
        Ok(slow) => {
            // Bounds of parameters are those of the program, whatever the factor is.
            if !decoder.diagnostics.has_errors()
                && let Some(problem) = hosts::rate_problems(&slow).first()
            {
                let message = format!("{factor} times slower, {}", problem.message);
                let error = decoder.diagnostics.error(codes::SCENARIO, node.span, message);
                error.label(problem.span, "the rate control is from here");
                error.help("take a smaller factor: parameters are slowed down, too, and their bounds are not");
            }
            Some(slow)
        }
        Err(problem) => decoder.refuse(codes::SCENARIO, node.span, problem.to_string()),
    }
}

/// Refuses InfiniBand without a program: the one inside the binary does not forward it.
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
        let error = decoder.diagnostics.error(codes::SCENARIO, span, message);
        error.help("name one with a table `lft`: `switch: { program: ib_switch }`");
    }
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
                decoder.diagnostics.error(codes::SCENARIO, text.span, problem.to_string());
            }
        }
    }
    found
}

fn captures(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Vec<CaptureSpec> {
    let (mut found, mut bytes) = (Vec::<CaptureSpec>::new(), 0u64);
    for (key, value) in decoder.pairs(node, "links").unwrap_or_default() {
        let name = Node { kind: YamlKind::Scalar(key.scalar.clone()), span: key.span, alias: None };
        let link = topology::link_named(decoder, &name, fabric);
        let frames = bounded(decoder, value, "frames", (1, CAPTURE_MAX));
        if found.iter().any(|known| Some(known.link) == link) {
            let message = format!("a second capture of this link: `{}`", key.scalar.text);
            let error = decoder.diagnostics.error(codes::TWICE, key.span, message);
            error.help("one capture has the frames of both directions: leave one of them out");
            continue;
        }
        if let (Some(link), Some(frames)) = (link, frames) {
            found.push(CaptureSpec { link, frames });
            bytes += frames * fabric.links[link].setup.mtu.get();
        }
    }
    if bytes > CAPTURES_BYTES_MAX {
        let message = format!(
            "captures of up to {}, which are in memory until the run has ended: at most {}",
            Bytes::new(bytes),
            Bytes::new(CAPTURES_BYTES_MAX)
        );
        decoder.diagnostics.error(codes::LIMIT, node.span, message).help("keep fewer frames");
    }
    found
}
