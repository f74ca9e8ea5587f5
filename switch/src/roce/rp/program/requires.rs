//! `requires`: conditions between parameters, and between them and the link, for each link of a program.

use wireyard_pipeline::ast::AstExpr;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;

use super::check::{Compiler, Scope};
use super::code::{KNOWN, LINE, Op, PACKET, Reg};
use super::machine;
use super::parameter::{Parameter, ParameterError, Unit};

/// A condition as it is written.
#[derive(Debug)]
pub(super) struct Declared {
    condition: AstExpr,
    text: String,
}

/// A condition that parameters must fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    text: String,
    /// Its code, and the register with the result.
    code: u32,
    result: Reg,
}

/// Reads one requirement.
pub(super) fn declared(decoder: &mut Decoder<'_>, node: &Node) -> Option<Declared> {
    let condition = decoder.expression(node)?;
    let text = decoder.scalar(node, "a condition")?.text.to_owned();
    Some(Declared { condition, text })
}

/// The code of all of them.
pub(super) fn compile(
    compiler: &mut Compiler<'_, '_>,
    declared: &[Declared],
) -> Option<Vec<Requirement>> {
    let mut found = Vec::new();
    for of in declared {
        compiler.scope = Scope { fixed: true, ..Scope::default() };
        let code = compiler.here();
        let result = compiler.truth(&of.condition)?.at;
        compiler.push(Op::End);
        found.push(Requirement { text: of.text.clone(), code, result });
    }
    Some(found)
}

impl Requirement {
    /// Checks it for these values of parameters.
    ///
    /// # Errors
    /// The violation, with the values of its parameters.
    pub(super) fn check(
        &self,
        frame: &mut [i128],
        code: &[Op],
        parameters: &[Parameter],
    ) -> Result<(), ParameterError> {
        machine::run_plain(frame, code, self.code);
        if frame[usize::from(self.result)] != 0 {
            return Ok(());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let words: Vec<&str> = self.text.split(|c| !is_name(c)).collect();
        let ours =
            parameters.iter().map(|of| (of.name.as_str(), of.show(frame[usize::from(of.reg)])));
        let link = [(LINE, Unit::Rate), (PACKET, Unit::Bytes)].map(|(reg, unit)| {
            (KNOWN[usize::from(reg)].name, unit.show(frame[usize::from(reg)], 0))
        });
        let named = ours.chain(link).filter(|(name, _)| words.contains(name));
        let values: Vec<String> = named.map(|(name, value)| format!("{name} is {value}")).collect();
        let requires = self.text.clone();
        Err(ParameterError::Requirement { requires, values: values.join(", ") })
    }
}
