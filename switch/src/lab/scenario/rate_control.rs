//! `rate_control` and `parameters` of a scenario: a preset, `fixed`, the name of a program, or the path of one.
//!
//! Files of programs are read before the scenario: their errors are shown as in every other file.

use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostics, Files, codes};
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::{Node, NodeKind};
use wireyard_pipeline::source::{Loader, PROGRAM_BYTES_MAX};

use super::RateSetup;
use crate::library;
use crate::roce::rp::dcqcn::{CHOICES, PARAMS, ParamInfo, Setting, preset};
use crate::roce::rp::program::Program;

/// Why there is no program: the operating system's error, or `None` if its errors are already reported.
type NoProgram = Option<String>;

/// The programs that a scenario names by their path: the path as written, and the program or why there is none.
#[derive(Default)]
pub(super) struct Controls(Vec<(String, Result<Arc<Program>, NoProgram>)>);

impl Controls {
    /// Reads every file that is a `rate_control`, wherever it is written.
    pub(super) fn read(
        scenario: &Node,
        folder: &Path,
        loader: &Loader,
        files: &mut Files,
        found: &mut Diagnostics,
    ) -> Controls {
        let mut controls = Controls::default();
        let mut names = Vec::new();
        written(scenario, &mut names);
        for name in names {
            if is_path(name) && controls.0.iter().all(|(known, _)| known != name) {
                let read = program(&folder.join(name), loader, files, found);
                controls.0.push((name.to_owned(), read));
            }
        }
        controls
    }

    /// The rate control that is named here.
    pub(super) fn named(&self, decoder: &mut Decoder<'_>, node: &Node) -> Option<RateSetup> {
        let name = decoder.word(node)?;
        let plain =
            |program| RateSetup { name: name.value.clone(), program, parameters: Vec::new() };
        if is_path(&name.value) {
            let read = self.0.iter().find(|(known, _)| *known == name.value);
            let Some((_, read)) = read else {
                let message = format!("`{}` was not read", name.value);
                return decoder.refuse(codes::FILE_NOT_READ, name.span, message);
            };
            return match read {
                Ok(program) => Some(plain(Some(Arc::clone(program)))),
                Err(problem) => {
                    if let Some(problem) = problem {
                        let of = &mut decoder.diagnostics;
                        of.error(codes::FILE_NOT_READ, name.span, problem.clone());
                    }
                    None
                }
            };
        }
        let presets = || preset::names().chain(["fixed"]);
        if presets().any(|preset| preset == name.value) {
            return Some(plain(None));
        }
        if let Some(text) = library::rate_control(&name.value) {
            // Those inside the binary are valid: a test reads them.
            return Program::parse(&name.value, text).ok().map(|of| plain(Some(Arc::new(of))));
        }
        let programs = library::rate_controls();
        let programs = programs.into_iter().filter(|name| *name != "dcqcn");
        let names: Vec<&str> = presets().chain(programs).collect();
        decoder
            .diagnostics
            .error(
                codes::UNKNOWN_CHOICE,
                name.span,
                format!("there is no rate control `{}`", name.value),
            )
            .note(format!("there are {}, or the path of a YAML file", names.join(", ")))
            .did_you_mean(&name.value, names.iter().copied());
        None
    }
}

/// A file, and not a name.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml")
}

/// The value of every `rate_control`.
fn written<'n>(node: &'n Node, names: &mut Vec<&'n str>) {
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| written(item, names)),
        NodeKind::Map(map) => {
            for (key, value) in &map.pairs {
                match value.text().filter(|_| key.scalar.text == "rate_control") {
                    Some(name) => names.push(name.text),
                    None => written(value, names),
                }
            }
        }
        NodeKind::Null | NodeKind::Scalar(_) | NodeKind::Invalid => {}
    }
}

fn program(
    path: &Path,
    loader: &Loader,
    files: &mut Files,
    found: &mut Diagnostics,
) -> Result<Arc<Program>, NoProgram> {
    let name = shown(path).into_owned();
    let text =
        loader.read(path, PROGRAM_BYTES_MAX).map_err(|error| Some(format!("{name}: {error}")))?;
    let text =
        String::from_utf8(text).map_err(|_| Some(format!("{name}: it is no text in UTF-8")))?;
    let program = Program::parse_into(&name, &text, files, found);
    program.map(Arc::new).ok_or(None)
}

impl RateSetup {
    /// Reads `parameters`, those that the rate control has: they are added to those that are known, and win.
    pub(super) fn read_parameters(&mut self, decoder: &mut Decoder<'_>, node: &Node) {
        let written = match &self.program {
            Some(program) => of_program(decoder, node, program),
            None => of_preset(decoder, node, self),
        };
        self.parameters.retain(|(known, _)| written.iter().all(|(name, _)| name != known));
        self.parameters.extend(written);
    }
}

/// Parameters of a program: as written, after they were checked.
fn of_program(decoder: &mut Decoder<'_>, node: &Node, program: &Program) -> Vec<(String, Setting)> {
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "parameters by name").unwrap_or_default() {
        let name = &key.scalar.text;
        let known = || program.parameters().iter().map(|parameter| parameter.name.as_str());
        let Some(parameter) = program.parameters().iter().find(|known| known.name == *name) else {
            let has: Vec<&str> = known().collect();
            decoder
                .diagnostics
                .error(codes::UNKNOWN_KEY, key.span, format!("there is no parameter `{name}`"))
                .note(format!("`{}` has {}", program.name(), has.join(", ")))
                .did_you_mean(name, known());
            continue;
        };
        let Some(text) = decoder.word(value) else { continue };
        match parameter.parse(&text.value) {
            Ok(_) => found.push((name.clone(), Setting::Word(text.value))),
            Err(problem) => {
                decoder.diagnostics.error(codes::SCENARIO, text.span, problem.to_string());
            }
        }
    }
    found
}

/// Parameters of a preset, by name: those that it uses.
fn of_preset(decoder: &mut Decoder<'_>, node: &Node, of: &RateSetup) -> Vec<(String, Setting)> {
    let control = &of.name;
    // Its law does not depend on the rate.
    let preset = preset::by_name(control, 1e9).ok();
    let pairs = decoder.pairs(node, "parameters by name").unwrap_or_default();
    let known = of.parameters.iter().find(|(name, _)| name == "law").map(|(_, law)| law.clone());
    let written = pairs.iter().find(|(key, _)| key.scalar.text == "law");
    let written = written.and_then(|(_, value)| Some(Setting::Word(decoder.word(value)?.value)));
    let written = written.or(known).and_then(|law| {
        let mut params = preset.clone()?.rp;
        params.apply("law", &law).ok()?;
        Some(params.law)
    });
    let law = written.or(preset.map(|preset| preset.rp.law));
    let numbers = PARAMS.iter().filter(|p| law.is_some_and(|law| p.is_of(law))).map(|p| p.name);
    let words = CHOICES.iter().filter(|c| law.is_some_and(|law| c.is_of(law))).map(|c| c.name);
    let used: Vec<&str> = numbers.chain(words).collect();
    let has = match law {
        Some(_) => format!("`{control}` has {}", used.join(", ")),
        None => "hosts send at the rate of their link: make `rate` of the link lower".to_owned(),
    };
    let known = || PARAMS.iter().map(|p| p.name).chain(CHOICES.iter().map(|c| c.name));
    let mut found = Vec::new();
    for (key, value) in pairs {
        let name = key.scalar.text.clone();
        if known().all(|known| known != name) {
            decoder
                .diagnostics
                .error(codes::UNKNOWN_KEY, key.span, format!("there is no parameter `{name}`"))
                .note(has.clone())
                .did_you_mean(&name, known());
            continue;
        }
        if !used.contains(&name.as_str()) {
            let message = format!("`{control}` does not use `{name}`");
            decoder.diagnostics.error(codes::SCENARIO, key.span, message).note(has.clone());
            continue;
        }
        let setting = match PARAMS.iter().find(|param| param.name == name) {
            Some(param) => number(decoder, value, param),
            None => word(decoder, value, &name),
        };
        found.extend(setting.map(|setting| (name, setting)));
    }
    found
}

fn number(decoder: &mut Decoder<'_>, node: &Node, param: &ParamInfo) -> Option<Setting> {
    let number = decoder.real(node)?;
    let (low, high) = param.range;
    if number.value < low || number.value > high {
        let message = format!("{}: {} is not from {low} to {high}", param.name, number.value);
        return decoder.refuse(codes::SCENARIO, number.span, message);
    }
    Some(Setting::Number(number.value))
}

fn word(decoder: &mut Decoder<'_>, node: &Node, name: &str) -> Option<Setting> {
    let info = CHOICES.iter().find(|info| info.name == name)?;
    decoder.choice(node, info.values).map(|word| Setting::Word(word.value))
}
