//! The checker: from the syntax tree of a program and its libraries to the checked IR.
//!
//! # Contract
//!
//! [`compile`] refuses a program unless all of this holds; every violation is reported, with its
//! place, in one run.
//!
//! Names: each is declared once (E0101), is not a keyword of the language (E0102), exists (E0100) and is of the
//! required kind (E0103); fields, cells and members exist (E0104).
//!
//! Values: constants and types do not define themselves (E0105); what must be constant is (E0106), within 128 bits
//! (E0107); every number has a width (E0108), operands and targets agree (E0109), it fits (E0110); conditions are one
//! bit (E0111); slices (E0112), widths (E0113) and constant indices (E0115) are in range; signed comparison has two
//! signed sides (E0114); nesting and the work for a packet are bounded (E0116).
//!
//! Code: effects stand alone (E0117); calls have the arguments they need (E0118); only places are assigned (E0119);
//! statements are in permitted places (E0120); nothing calls itself (E0125); intrinsic metadata is read and written
//! where it is defined (E0140). Code that is never reached is a warning (W0100).
//!
//! Headers: fields lie inside, whole, without overlap (E0121), the size is possible (E0122).
//!
//! Parser: there is a `start` (E0126); every loop has a state that moves the cursor (E0127); patterns can
//! match (E0128), cases differ (E0129). States never reached (W0101), cases covered by an earlier one (W0105) and
//! headers extracted over themselves (W0104) are warnings.
//!
//! Tables: at most one lpm key (E0130); actions are listed (E0131); entries fit their keys (E0132),
//! their number (E0133) and the rule of priorities (E0134); selectors are complete (E0135).
//!
//! Packets: every header that may be valid is emitted, a trailer, or discarded (E0136). A field that
//! holds a checksum or CRC is as wide as it (E0137), what it covers is whole bytes (E0138), CRC
//! parameters make a CRC (E0139). A header that nothing makes valid (W0102), or that cannot be valid
//! where it is used (W0103), is a warning: it reads as zero.
//!
//! Resources: header instances, states, tables, actions, arrays and metadata stay within their limits (E0123), carried
//! metadata fits the descriptor (E0124), tables, registers, counters and meters take no more memory than is allowed
//! (E0142). Declarations of the program's own file that nothing uses (W0106) and metadata read in egress that is always
//! zero there (W0107) are warnings, and so is egress that may copy its own copies (W0108), and a field that changes
//! while the checksum of its header stays (W0109).
//!
//! Not checked: that a header is valid on every path to a read (reading an invalid one gives 0); that
//! several cases together leave nothing to a later one; that a range of `random` is not empty when it
//! is computed; that an index computed for each packet is in range.
//!
//! # Shape
//!
//! One context (`cx::Cx`) is carried through fixed steps: names, what is used, declarations, parser, deparser,
//! checksums, tables, code, then checks on the finished IR. An error in an expression is reported once, and its value
//! causes no further error.

mod access;
mod checksum_input;
mod cx;
mod declare;
mod deparser;
mod depend;
mod entries;
mod expr;
mod flow;
mod graph;
mod header;
mod ids;
mod int;
mod loops;
mod mapping;
mod marks;
mod matches;
mod meter;
mod names;
mod parser;
mod rates;
mod reads;
mod registry;
mod scope;
mod state;
mod stmt;
mod sums;
mod table;
mod uses;
mod validity_ops;
mod work;

pub(crate) use entries::resolve_chunks;
pub use entries::{Purpose, resolve_entries};
pub use registry::ExternRegistry;

use crate::ast::Unit;
use crate::diag::{Diagnostics, codes};
use crate::ir::{BuiltinReason, Program};
use crate::source::Parsed;
use crate::state::size::STATE_BYTES_MAX;
use cx::Cx;
use scope::Scope;
use uses::Uses;

/// A program that was accepted.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The checked program.
    pub program: Program,
    /// Warnings.
    pub warnings: Diagnostics,
}

/// Checks and lowers a program (the first unit) with the libraries it includes.
///
/// # Errors
/// All errors and warnings.
pub fn compile(parsed: &Parsed, externs: &ExternRegistry) -> Result<Compiled, Diagnostics> {
    compile_within(parsed, externs, STATE_BYTES_MAX)
}

/// The same with a given bound on the memory of its tables, registers, counters and meters, in bytes.
///
/// # Errors
/// As [`compile`].
pub fn compile_within(
    parsed: &Parsed,
    externs: &ExternRegistry,
    max_state: u64,
) -> Result<Compiled, Diagnostics> {
    let units: Vec<&Unit> = parsed.units.iter().collect();
    let units = units.as_slice();
    let mut report = parsed.warnings.clone();
    let scope = Scope::collect(units, &mut report);
    if scope.is_full {
        return Err(report);
    }
    for external in externs.signatures().iter() {
        if let Some((_, Some(span))) = scope.symbols.get(external.name.as_str()) {
            let text = format!("`{}` is a function of the device", external.name);
            report.error(codes::RESERVED, *span, text).help("choose another name");
        }
    }
    let uses = Uses::of(units, &scope);
    let reasons = BuiltinReason::ALL.iter().map(|reason| reason.name().to_string()).collect();
    let name = units.first().and_then(|unit| unit.name.as_ref()).map(|name| name.value.clone());
    let ir = Program {
        name: name.unwrap_or_default(),
        files: parsed.files.clone(),
        reasons,
        link_types: externs.link_types().to_vec(),
        ..Program::default()
    };
    let mut cx = Cx::new(units, scope, uses, ir, externs);
    cx.report = report;
    cx.embedded = parsed.embedded;
    cx.lower();
    cx.check_state(max_state);
    let Cx { report, ir, .. } = cx;
    if report.has_errors() {
        return Err(report);
    }
    Ok(Compiled { program: ir, warnings: report })
}

impl Cx<'_> {
    /// The steps, in order: each needs what those before it declared.
    fn lower(&mut self) {
        self.take_origin();
        self.declare();
        self.lower_parser();
        // An unresolved name or a wrong case leaves states and headers out.
        self.incomplete |= self.report.has_errors();
        self.check_parser();
        self.lower_deparser();
        self.lower_checksums();
        self.lower_crcs();
        self.lower_qos();
        self.declare_digests();
        self.declare_actions();
        self.declare_tables();
        self.pinned_ids();
        self.lower_mappings();
        self.action_bodies();
        self.lower_controls();
        self.report_unreached();
        if !self.report.has_errors() {
            self.check_recursion();
        }
        if !self.report.has_errors() {
            self.check_work();
        }
        if !self.report.has_errors() {
            self.check_access();
            self.check_reads();
            self.check_unused();
            self.check_loops();
            self.check_sums();
            self.check_order_of_sums();
        }
        if !self.report.has_errors() {
            marks::note(&mut self.ir);
        }
        self.keep_constants();
    }

    /// Ingress and egress.
    fn lower_controls(&mut self) {
        let Some(&root) = self.units.first() else { return };
        if let Some(body) = &root.ingress {
            self.ir.ingress = self.control_body(&body.value);
        }
        if let Some(body) = &root.egress {
            self.ir.egress = self.control_body(&body.value);
        }
        // A block that is never called is lowered for its errors, and left out.
        for index in 0..self.scope.controls.len() {
            let Some(item) = self.scope.controls.get(index).copied() else { continue };
            if item.unit == 0 && !self.called_controls.contains(&index) {
                let (exprs, reasons) = (self.ir.exprs.len(), self.ir.reasons.len());
                self.controls.push(index);
                self.lowers_alone = true;
                self.control_alone(item.decl);
                self.lowers_alone = false;
                self.controls.pop();
                self.ir.exprs.truncate(exprs);
                self.ir.reasons.truncate(reasons);
            }
        }
    }
}

#[cfg(test)]
mod tests;
