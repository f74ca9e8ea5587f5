//! What the source calls the headers that storage has: the fields of the packet's structs by their paths in these, variables by their
//! names.

use super::super::types::Type;
use super::Lower;
use super::env::Val;
use crate::ast::PathPart;
use crate::ir::SourceSpan;

impl Lower<'_> {
    /// Storage for the headers of the packet, or for the metadata beside them.
    pub(super) fn packet_storage(&mut self, ty: &Type, span: SourceSpan) -> Val {
        let value = self.storage(ty, "", span);
        self.note_called(&value, "", false);
        value
    }

    /// Storage for a variable of the source.
    pub(super) fn variable(&mut self, ty: &Type, name: &str, span: SourceSpan) -> Val {
        let value = self.storage(ty, name, span);
        self.note_called(&value, name, true);
        value
    }

    /// Notes the headers in a value by what the source calls the value.
    fn note_called(&mut self, value: &Val, called: &str, is_variable: bool) {
        let known = match value {
            Val::Struct(parts) | Val::Union(parts) => {
                for (name, part) in parts.iter() {
                    let is_number = name.starts_with(|c: char| c.is_ascii_digit());
                    let inner = match called {
                        _ if is_number => format!("{called}[{name}]"),
                        "" => name.to_string(),
                        _ => format!("{called}.{name}"),
                    };
                    self.note_called(part, &inner, is_variable);
                }
                return;
            }
            Val::Stack(stack) if !stack.elements.is_empty() => {
                for (at, element) in stack.elements.iter().enumerate() {
                    self.note_called(element, &format!("{called}[{at}]"), is_variable);
                }
                return;
            }
            Val::Stack(stack) => stack.name.clone(),
            Val::Header(header) => match header.path.parts.first() {
                Some(PathPart::Name(name)) => name.value.clone(),
                _ => return,
            },
            _ => return,
        };
        let origin = self.origin();
        let names = if is_variable { &mut origin.variables } else { &mut origin.headers };
        names.insert(known, called.to_owned());
    }
}
