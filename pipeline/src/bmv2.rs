//! The third source language: the JSON that p4c generates of a program for bmv2's `simple_switch`.
//!
//! Controllers push it unchanged, so it must run unchanged. It is P4 in which blocks are flat and statements are a
//! graph: this module writes it as P4 of v1model again, each piece with its place in the JSON, and [`crate::p4`]
//! compiles that like a source. So there is one meaning of v1model here and not two, and what P4 cannot express is an
//! error at its place in the JSON.
//!
//! The format is that of `docs/JSON_format.md` in bmv2's repository, version 2; what p4c writes beyond it
//! (`source_info` and the like) is ignored.

mod action;
mod code;
mod control;
mod describe;
mod expr;
mod externs;
mod flow;
mod json;
mod model;
mod names;
mod operand;
mod parser;
mod read;
mod table;
mod value_sets;

use std::collections::HashMap;

use crate::ast::Unit;
use crate::diag::{Diagnostics, codes};
use crate::ids::FileId;
use crate::ir::SourceSpan;
use crate::p4::Sources;
use crate::p4info::Info;

use action::Action;
use code::Code;
use expr::Translator;
use externs::Objects;
use json::{Json, Value};
use model::Model;
use read::Reader;

/// Widest parameter of an action, and cell of a register.
const PARAM_BITS_MAX: u32 = 2048;
/// Most levels of branches in a pipeline, or of jumps in an action. P4 is read to 200 levels, of which a branch takes two.
const LEVELS_MAX: usize = 100;
/// Errors that P4 has itself.
const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// True for bytes that are the JSON of a program for bmv2: an object with the keys that each of them has. Pieces of its
/// source are in any encoding.
pub fn is_bmv2(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let has = |key: &str| text.contains(key);
    text.starts_with('{')
        && (has("\"header_types\"") || has("\"__meta__\""))
        && has("\"parsers\"")
        && has("\"pipelines\"")
}

/// A text with its place among the files, and the name for the program.
#[derive(Clone, Copy, Debug)]
pub struct Named<'t> {
    /// The file.
    pub file: FileId,
    /// Its text.
    pub text: &'t str,
    /// The name of the program.
    pub name: &'t str,
}

/// The project's syntax tree of a program. Its P4Info is `described`, if one came with it; otherwise the one that p4c
/// would derive from the names. `None`: the errors are in `report`.
pub fn program(
    named: Named<'_>,
    described: Option<&Info>,
    sources: &mut dyn Sources,
    report: &mut Diagnostics,
) -> Option<Unit> {
    let before = report.counts().0;
    let json = json::parse(named.file, named.text, report)?;
    let code = Import::new(&json, described, report).program();
    if report.counts().0 > before {
        return None;
    }
    let checked = crate::p4::check_pieces("v1model.p4", &code.pieces, sources, report)?;
    let mut unit = crate::p4::lower(&checked, named.name, report)?;
    if let Some(described) = described {
        let origin = unit.origin.get_or_insert_default();
        if let Err(why) = describe::fits(described, &origin.info) {
            report
                .error(codes::BMV2_JSON, json.span, why)
                .note("the P4Info that comes with a program is the one that p4c makes with it");
            return None;
        }
        origin.info = described.clone();
    }
    Some(unit)
}

/// The JSON that was read, and the P4 text so far.
struct Import<'j, 'r> {
    json: &'j Json,
    /// The program's own P4Info, if one was given.
    described: Option<&'j Info>,
    reader: Reader<'r>,
    model: Model,
    actions: Vec<Action<'j>>,
    /// Parameters of the action that is translated: name and bits.
    params: Vec<(String, u32)>,
    objects: Objects,
    value_sets: HashMap<String, value_sets::ValueSet>,
    /// Structs of digests, by the number of their list.
    digests: HashMap<u32, String>,
    types: Code,
    /// Objects with state.
    top: Code,
    /// Variables so far.
    locals: usize,
}

impl<'j, 'r> Import<'j, 'r> {
    fn new(json: &'j Json, described: Option<&'j Info>, report: &'r mut Diagnostics) -> Self {
        let mut reader = Reader { report };
        if !matches!(json.value, Value::Object(_)) {
            reader.error(json.span, "a program for bmv2 is an object");
        }
        version(json, &mut reader);
        let model = Model::read(json, &mut reader);
        Import {
            json,
            described,
            reader,
            model,
            actions: Vec::new(),
            params: Vec::new(),
            objects: Objects::default(),
            value_sets: HashMap::new(),
            digests: HashMap::new(),
            types: Code::default(),
            top: Code::default(),
            locals: 0,
        }
    }

    fn translator(&mut self) -> Translator<'_, 'r> {
        Translator { model: &mut self.model, reader: &mut self.reader, params: &self.params }
    }

    /// The whole program as P4.
    fn program(mut self) -> Code {
        let (ingress, egress) = (self.control_name("ingress"), self.control_name("egress"));
        self.actions();
        self.objects();
        let mut blocks = Code::default();
        self.parser(&mut blocks);
        self.checksums("verify", "VerifyImpl", &mut blocks);
        self.pipeline("ingress", &ingress, &mut blocks);
        self.pipeline("egress", &egress, &mut blocks);
        self.checksums("update", "ComputeImpl", &mut blocks);
        self.deparser(&mut blocks);
        let span = self.json.span;
        let controls = format!("VerifyImpl(), {ingress}(), {egress}(), ComputeImpl()");
        blocks.put(&format!("V1Switch(ParserImpl(), {controls}, DeparserImpl()) main;"), span);
        let mut code = Code::default();
        for name in self.model.errors.values().filter(|name| !CORE_ERRORS.contains(&name.as_str()))
        {
            code.put(&format!("error {{ {} }}", names::word(name)), span);
        }
        self.model.declare(self.described, &mut self.reader, span, &mut code);
        code.append(self.types);
        self.model.structs(&mut code, span);
        code.append(self.top);
        code.append(blocks);
        if let Some((span, why)) = code.refused.take() {
            self.reader.report.error(codes::LIMIT, span, why);
        }
        code
    }

    /// The control that verifies, or computes, checksums.
    fn checksums(&mut self, way: &str, ident: &str, code: &mut Code) {
        let span = self.json.span;
        code.put(
            &format!("control {ident}(inout Headers hdr, inout Metadata meta) {{ apply {{"),
            span,
        );
        for one in self.reader.list(self.json, "checksums") {
            // Without the key both are done.
            if one.get(way).is_some() && !one.is(way) {
                continue;
            }
            let Some(target) = self.reader.need(one, "target") else { continue };
            let Some(calculation) = self.reader.need(one, "calculation") else { continue };
            let target = match self.model.field(target, &mut self.reader) {
                Some(model::Place::Data { text, .. }) => text,
                Some(_) => {
                    self.reader.error(target.span, "a checksum is a number");
                    continue;
                }
                None => continue,
            };
            let Some((algorithm, inputs, payload)) = self.calculation(calculation) else {
                continue;
            };
            let mut translator = self.translator();
            let condition = match one.get("if_cond") {
                None => Some("true".to_owned()),
                Some(json) => {
                    let value = translator.read(json);
                    value.and_then(|value| translator.truth(value, json.span))
                }
            };
            let Some(condition) = condition else { continue };
            let payload = if payload { "_with_payload" } else { "" };
            let text = format!(
                "{way}_checksum{payload}({condition}, {inputs}, {target}, HashAlgorithm.{algorithm});"
            );
            code.put(&text, one.place("calculation"));
        }
        code.put("} }", span);
    }

    fn deparser(&mut self, code: &mut Code) {
        let deparsers = self.reader.list(self.json, "deparsers");
        let span = deparsers.first().map_or(self.json.span, |one| one.place("name"));
        code.put("control DeparserImpl(packet_out packet, in Headers hdr) { apply {", span);
        if let Some(deparser) = deparsers.first() {
            if let Some(first) = self.reader.list(deparser, "primitives").first() {
                self.reader
                    .unsupported::<()>(first.span, "primitives in a deparser are not supported");
            }
            let mut paths: Vec<(String, SourceSpan)> = Vec::new();
            for header in self.reader.list(deparser, "order") {
                let Some(name) = self.reader.text(header) else { continue };
                let Some(instance) = self.model.instance(name, header.span, &mut self.reader)
                else {
                    continue;
                };
                if instance.path.is_empty() {
                    let text = format!("`{}` is metadata, which does not leave", instance.name);
                    self.reader.error(header.span, text);
                    continue;
                }
                paths.push((instance.path.clone(), header.span));
            }
            let mut rest = paths.as_slice();
            while let Some((path, place)) = rest.first() {
                let (path, taken) = self.whole_stack(path, rest);
                code.put(&format!("packet.emit({path});"), *place);
                rest = rest.get(taken.max(1)..).unwrap_or_default();
            }
        }
        code.put("} }", span);
    }

    /// The stack whose elements follow each other from here on, and their number; otherwise the operand here.
    fn whole_stack<'p>(&self, first: &'p str, rest: &[(String, SourceSpan)]) -> (&'p str, usize) {
        let Some(stack) = first.strip_suffix("[0]") else { return (first, 1) };
        let element = |at: usize| format!("{stack}[{at}]");
        let all = self.model.instances.values().map(|one| &one.path);
        let size = all.filter(|path| {
            path.strip_prefix(stack).is_some_and(|end| end.starts_with('[') && end.ends_with(']'))
        });
        let size = size.count();
        let is_whole =
            (0..size).all(|at| rest.get(at).is_some_and(|(path, _)| *path == element(at)));
        if is_whole { (stack, size) } else { (first, 1) }
    }
}

/// Refuses another version of the format, or another target.
fn version(json: &Json, reader: &mut Reader<'_>) {
    let version = json.get("__meta__").and_then(|meta| meta.get("version"));
    if let Some(version) = version
        && let Some(major) = reader.items(version).first()
        && reader.count(major).is_some_and(|major| major != 2)
    {
        reader.error(version.span, "another version of the format: this is read in version 2");
    }
    for one in reader.list(json, "headers") {
        if one.text_of("name").is_some_and(|name| name.starts_with("psa_ingress_")) {
            let text = "this is for `psa_switch`: only the JSON for `simple_switch` is read";
            reader.unsupported::<()>(one.place("name"), text);
            return;
        }
    }
}
