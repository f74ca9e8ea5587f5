//! The code of a program as text, with the lines of the program that it came from.
//!
//! The generator passes Cranelift the source span of each instruction as an index into a list of spans. Cranelift
//! prints these indices in its own form, and has ranges of machine code for them; here both become comments. Machine
//! code is disassembled from its bytes.

use super::runtime::HELPERS;
use crate::ir::{Program, SourceSpan};
use cranelift_codegen::ir::{ExternalName, Function, SourceLoc};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget};
use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};

/// The spans by number; number 0 is none.
#[derive(Debug, Default)]
pub(super) struct Spans {
    spans: Vec<SourceSpan>,
}

impl Spans {
    /// The number of a span.
    pub(super) fn number(&mut self, span: Option<SourceSpan>) -> SourceLoc {
        let Some(span) = span else { return SourceLoc::default() };
        if self.spans.last() != Some(&span) {
            self.spans.push(span);
        }
        SourceLoc::new(self.spans.len() as u32)
    }

    /// `; file:line: text` of a number.
    fn comment(&self, program: &Program, number: SourceLoc) -> Option<String> {
        let span = self.spans.get((number.bits() as usize).checked_sub(1)?)?;
        let file = program.files.get(span.file)?;
        let before = file.text.get(..span.start as usize)?;
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        let text = file.text.lines().nth(line).unwrap_or_default().trim();
        Some(format!("; {}:{}: {text}\n", file.name, line + 1))
    }
}

/// Cranelift's form of a function.
pub(super) fn clif(program: &Program, spans: &Spans, function: &Function) -> String {
    let mut text = String::new();
    let mut shown = SourceLoc::default();
    for line in function.display().to_string().lines() {
        let Some(rest) = line.strip_prefix('@') else {
            text.push_str(&unindented(line));
            continue;
        };
        let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = u32::from_str_radix(number, 16).map_or(shown, SourceLoc::new);
        if number != shown {
            shown = number;
            text.extend(spans.comment(program, number));
        }
        text.push_str(&unindented(&format!("    {rest}")));
    }
    text
}

/// A line without the column that Cranelift keeps free for numbers.
fn unindented(line: &str) -> String {
    let body = line.trim_start();
    match line.len() - body.len() {
        0 => format!("{body}\n"),
        _ if body.starts_with("block") => format!("{body}\n"),
        _ => format!("    {body}\n"),
    }
}

/// The machine code of a function, a line for each instruction with its offset. For processors without a disassembler
/// here it is Cranelift's own listing, without lines of the program.
pub(super) fn asm(
    program: &Program,
    spans: &Spans,
    function: &Function,
    code: &CompiledCode,
) -> String {
    if !cfg!(target_arch = "x86_64") {
        return code.vcode.clone().unwrap_or_default();
    }
    let bytes = code.buffer.data();
    let mut ranges = code.buffer.get_srclocs_sorted().iter().peekable();
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut formatter = NasmFormatter::new();
    formatter.options_mut().set_branch_leading_zeros(false);
    let (mut text, mut shown) = (String::new(), SourceLoc::default());
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let (at, end) = (instruction.ip() as u32, instruction.next_ip() as u32);
        while ranges.next_if(|range| range.end <= at).is_some() {}
        let number = ranges.peek().filter(|range| range.start <= at).map(|range| range.loc);
        if let Some(number) = number.filter(|number| *number != shown) {
            shown = number;
            text.extend(spans.comment(program, number));
        }
        let mut line = format!("    {at:05x}  ");
        formatter.format(&instruction, &mut line);
        let relocated = code.buffer.relocs().iter().find(|reloc| (at..end).contains(&reloc.offset));
        let name = relocated.and_then(|reloc| helper(function, &reloc.target));
        let name = name.map_or_else(String::new, |name| format!("  ; {name}"));
        text.push_str(&line);
        text.push_str(&name);
        text.push('\n');
    }
    text
}

/// The helper that a relocation refers to: the helpers are the first functions of the module, followed by their rarely
/// called forms.
fn helper(function: &Function, target: &FinalizedRelocTarget) -> Option<&'static str> {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = target else { return None };
    let name = function.params.user_named_funcs().get(*name)?;
    let index = name.index as usize;
    let known = HELPERS.get(index).or_else(|| HELPERS.get(index.checked_sub(HELPERS.len())?));
    known.map(|(name, ..)| *name)
}
