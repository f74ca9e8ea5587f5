//! Tables.

use std::rc::Rc;

use super::super::tree::*;
use super::{Failed, Parser, Read};
use crate::ast::Sp;
use crate::diag::codes;
use crate::ir::SourceSpan;

impl Parser<'_> {
    pub(super) fn table(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let name = self.name()?;
        self.expect("{")?;
        let mut table = TableDecl::default();
        while !self.take("}") {
            let annotations = self.annotations()?;
            let start = self.span();
            let is_const = self.take_word("const");
            let property = self.member_name()?;
            if matches!(&*property.value, "key" | "actions") {
                self.nothing_in_front(&annotations, is_const.then_some(start), &property);
            }
            match &*property.value {
                "key" => {
                    if table.key_span.is_some() {
                        let text = "a table has one `key`";
                        self.report.error(codes::TWICE, property.span, text);
                    }
                    self.entries_in_front(&table);
                    table.key_span = Some(property.span);
                    self.keys(&mut table)?;
                }
                "actions" => {
                    self.property_once(table.has_actions, &property);
                    self.entries_in_front(&table);
                    if let Some(default) = &table.default {
                        let text = "`default_action` stands behind `actions`";
                        self.report.error(codes::P4_SYNTAX, default.span, text);
                    }
                    table.has_actions = true;
                    self.actions(&mut table)?;
                }
                "entries" => {
                    self.entries(&mut table, is_const, start)?;
                }
                "default_action" => {
                    self.property_once(table.default.is_some(), &property);
                    self.expect("=")?;
                    table.default = Some(self.expression()?);
                    table.const_default = is_const;
                    self.expect(";")?;
                }
                _ => {
                    let mut known = table.properties.iter().map(|(known, ..)| &known.value);
                    self.property_once(known.any(|known| *known == property.value), &property);
                    self.expect("=")?;
                    let value = self.expression()?;
                    self.expect(";")?;
                    if !annotations.is_empty() {
                        table.property_annotations.push((property.value.clone(), annotations));
                    }
                    table.properties.push((property, value, is_const));
                }
            }
        }
        self.declare(&name, false);
        Ok(self.decl(annotations, name, DeclKind::Table(table)))
    }

    /// Reports entries that stand in front of `key` or `actions`, which is read next.
    fn entries_in_front(&mut self, table: &TableDecl) {
        if let Some(entries) = &table.entries {
            let text = "`entries` stands behind `key` and `actions`";
            self.report.error(codes::P4_SYNTAX, entries.span, text);
        }
    }

    /// `key` and `actions` have no annotations and no `const` in P4's grammar.
    fn nothing_in_front(
        &mut self,
        annotations: &[Annotation],
        is_const: Option<SourceSpan>,
        property: &Ident,
    ) {
        let annotation = annotations.first().map(|one| one.name.span);
        if let Some(span) = annotation.or(is_const) {
            let text = format!("`{}` has no annotations and no `const`", property.value);
            self.report.error(codes::P4_SYNTAX, span, text);
        }
    }

    /// The end of a list in braces, behind which no `;` stands in P4's grammar.
    fn list_end(&mut self) {
        if self.is(";") {
            let text = "no `;` stands behind this list";
            self.report.error(codes::P4_SYNTAX, self.span(), text).help("leave it out");
            self.step();
        }
    }

    fn property_once(&mut self, is_known: bool, property: &Ident) {
        if is_known {
            let text = format!("a table has one `{}`", property.value);
            self.report.error(codes::TWICE, property.span, text);
        }
    }

    fn keys(&mut self, table: &mut TableDecl) -> Read<()> {
        self.expect("=")?;
        self.expect("{")?;
        while !self.take("}") {
            let value = self.expression()?;
            self.expect(":")?;
            let kind = self.name()?;
            let annotations = self.annotations()?;
            self.expect(";")?;
            table.keys.push(Key { value, kind, annotations });
        }
        self.list_end();
        Ok(())
    }

    fn actions(&mut self, table: &mut TableDecl) -> Read<()> {
        self.expect("=")?;
        self.expect("{")?;
        while !self.take("}") {
            let annotations = self.annotations()?;
            let action = self.expression()?;
            self.expect(";")?;
            table.actions.push(ActionRef { annotations, action });
        }
        self.list_end();
        Ok(())
    }

    fn entries(&mut self, table: &mut TableDecl, is_const: bool, start: SourceSpan) -> Read<()> {
        self.expect("=")?;
        self.expect("{")?;
        let mut list = Vec::new();
        while !self.take("}") {
            let is_const = self.take_word("const");
            let priority = if self.is_word("priority") && self.token(1).is("=") {
                self.step();
                self.step();
                let value = if self.take("(") {
                    let value = self.expression()?;
                    self.expect(")")?;
                    value
                } else {
                    self.expression()?
                };
                self.expect(":")?;
                Some(value)
            } else {
                None
            };
            let keys = self.keyset()?;
            self.expect(":")?;
            let action = self.action_call()?;
            let annotations = self.annotations()?;
            let annotated = annotation(&annotations, "priority")
                .and_then(|one| one.args.first())
                .and_then(|arg| match &*arg.value.kind {
                    ExprKind::Number(value, _) => u64::try_from(value).ok(),
                    _ => None,
                });
            self.expect(";")?;
            list.push(Entry { is_const, priority, annotated, keys, action });
        }
        self.list_end();
        if table.entries.is_some() {
            self.report.error(codes::TWICE, start, "a table has one `entries`");
            return Err(Failed);
        }
        table.entries = Some(Entries { is_const, list, span: self.since(start) });
        Ok(())
    }

    /// `name`, `.name` or `name(args)`.
    fn action_call(&mut self) -> Read<Expr> {
        let start = self.span();
        let global = self.take(".");
        let name = self.name()?;
        let span = self.since(start);
        let callee = self.expr(ExprKind::Name(Sp::new(name.value, name.span), global), span);
        if !self.take("(") {
            return Ok(callee);
        }
        let args = self.list(")", Self::argument)?;
        let span = self.since(start);
        Ok(self.expr(ExprKind::Call { callee, types: Vec::new(), args }, span))
    }
}
