//! Warnings of header fields that a program changes while the checksum of the header stays.
//!
//! A header whose type has a field `checksum` has a wrong one on the wire once another of its fields was assigned,
//! unless a checksum is declared that updates it. There is no warning where the program assigns or reads the field
//! itself, nor for a header that the program makes, whose checksum begins as zero. Checksums and CRCs that cover each
//! other have a warning as well: the one that is written first is wrong after the other.

use std::collections::BTreeMap;

use super::cx::Cx;
use crate::ast::{Ast, ChecksumDecl};
use crate::diag::codes;
use crate::ids::*;
use crate::ir::sums::{SumId, write_order};
use crate::ir::verify::op_target;
use crate::ir::{Body, ExprKind, LValue, Op, SourceSpan, Update};

/// The name of a checksum field.
const CHECKSUM: &str = "checksum";

impl Cx<'_> {
    /// Warns of assignments that no checksum follows, once for each header.
    pub(crate) fn check_sums(&mut self) {
        let mut changed: BTreeMap<InstanceId, (FieldId, SourceSpan)> = BTreeMap::new();
        let mut kept: Vec<(InstanceId, FieldId)> = Vec::new();
        let mut made: Vec<InstanceId> = Vec::new();
        kept.extend(self.ir.exprs.iter().filter_map(|expr| match expr.kind {
            ExprKind::Field(instance, field) => Some((instance, field)),
            _ => None,
        }));
        let followed = self.ir.checksums.iter().filter(|sum| sum.update != Update::Never);
        kept.extend(followed.map(|sum| sum.field));
        let actions = self.ir.actions.iter().map(|action| &action.body);
        for body in [&self.ir.ingress, &self.ir.egress].into_iter().chain(actions) {
            let ops = body.blocks.iter().flat_map(|block| &block.ops);
            made.extend(ops.filter_map(|op| match op.op {
                Op::SetValid(instance) | Op::CopyHeader { to: instance, .. } => Some(instance),
                _ => None,
            }));
            for (instance, field, span) in assigned(body) {
                if Some(field) == self.checksum_of(instance) {
                    kept.push((instance, field));
                } else if let Some(span) = span {
                    changed.entry(instance).or_insert((field, span));
                }
            }
        }
        for (instance, (field, span)) in changed {
            let Some(sum) = self.checksum_of(instance) else { continue };
            if kept.contains(&(instance, sum)) || made.contains(&instance) {
                continue;
            }
            let Some(known) = self.ir.instances.get(instance) else { continue };
            let fields = self.ir.headers.get(known.header).map(|header| &header.fields);
            let field = fields.and_then(|fields| fields.get(field)).map_or("", |f| f.name.as_str());
            let name = &known.name;
            let text = format!("`{name}.{field}` changes, and no checksum follows");
            let help = self.in_words_of(
                format!(
                    "declare it: checksums: [ {{ field: {name}.checksum, over: {name}, when: {name}.valid }} ]"
                ),
                "`update_checksum` of v1model, or `InternetChecksum` of PSA, computes it".to_owned(),
            );
            self.report
                .warning(codes::STALE_CHECKSUM, span, text)
                .note(format!("receivers find `{name}.checksum` wrong and drop the packet"))
                .help(help);
        }
    }

    /// Warns of checksums and CRCs that cover each other.
    pub(crate) fn check_order_of_sums(&mut self) {
        let (_, circle) = write_order(&self.ir);
        let found: Vec<_> = circle.into_iter().filter_map(|id| self.declared_sum(id)).collect();
        let Some((_, span)) = found.first() else { return };
        let names: Vec<String> = found.iter().map(|(name, _)| format!("`{name}`")).collect();
        let text = format!("{} cover each other", names.join(" and "));
        self.report
            .warning(codes::STALE_CHECKSUM, *span, text)
            .note("they are written in this order, and each changes the input of one before it")
            .help("mask the field of one of them: `{ header: { mask: [field] } }`");
    }

    /// The name of a checksum or CRC, and where it is declared.
    fn declared_sum(&self, id: SumId) -> Option<(String, SourceSpan)> {
        match id {
            SumId::Checksum(id) => {
                let name = &self.ir.checksums.get(id)?.name;
                let named = |decl: &&ChecksumDecl| match &decl.field.value {
                    Ast::Path(path) => path.plain().as_ref() == Some(name),
                    _ => false,
                };
                let mut decls = self.units.iter().flat_map(|unit| &unit.checksums);
                decls.find(named).map(|decl| (name.clone(), decl.field.span))
            }
            SumId::Crc(id) => {
                let name = &self.ir.crcs.get(id)?.name;
                let item = self.scope.crcs.get(name.as_str())?;
                Some((name.clone(), item.name.span))
            }
        }
    }

    fn checksum_of(&self, instance: InstanceId) -> Option<FieldId> {
        let header = self.ir.headers.get(self.ir.instances.get(instance)?.header)?;
        let found = header.fields.entries().find(|(_, field)| field.name == CHECKSUM);
        found.map(|(id, _)| id)
    }
}

fn assigned(body: &Body) -> impl Iterator<Item = (InstanceId, FieldId, Option<SourceSpan>)> + '_ {
    let ops = body.blocks.iter().flat_map(|block| &block.ops);
    ops.filter_map(|op| match op_target(&op.op)? {
        LValue::Field(instance, field)
        | LValue::FieldSlice { instance, field, .. }
        | LValue::Element { instance, field, .. } => Some((*instance, *field, op.span)),
        _ => None,
    })
}
