//! Random statements.

use super::make::Maker;
use super::tree::{Callable, Kind, Sort, Statement};
use super::value::{Op, Type};

impl Maker<'_> {
    /// So many statements at most, nested so deep at most.
    pub(super) fn statements(&mut self, count: usize, depth: usize) -> Vec<Statement> {
        let outer = self.scope.len();
        let made =
            (0..1 + self.random.below(count)).filter_map(|_| self.statement(depth)).collect();
        self.scope.truncate(outer);
        made
    }

    fn statement(&mut self, depth: usize) -> Option<Statement> {
        let nested = depth > 0;
        Some(match self.random.below(16) {
            0 => {
                let ty = self.any_type();
                let value = self.expr(ty, 3);
                let variable = self.local(ty);
                self.scope.push((variable.clone(), true));
                Statement::Declare(variable, value)
            }
            1 => {
                let bits = self.random.pick(&[8, 16, 33, 60]);
                let to = self.variable(Type::Bit(bits), true)?;
                let low = self.random.below(bits as usize) as u32;
                let high = low + self.random.below((bits - low) as usize) as u32;
                Statement::Part(to, high, low, self.expr(Type::Bit(high - low + 1), 2))
            }
            2 => self.with()?,
            3 if !self.second.is_empty() => {
                let index = self.expr(Type::Bit(2), 2);
                Statement::Element(index, self.expr(Type::Bit(8), 2))
            }
            4 if !self.second.is_empty() => {
                let types: Vec<Type> = self.second.iter().map(|field| field.ty).collect();
                Statement::Fill(types.into_iter().map(|ty| self.expr(ty, 2)).collect())
            }
            5..=7 if nested => {
                let condition = self.expr(Type::Bool, 3);
                let then = self.branch(depth - 1);
                Statement::If(condition, then, self.branch(depth - 1))
            }
            8 if nested => self.switch(depth - 1),
            9 if nested => self.turns(depth - 1),
            10 | 11 => self.call()?,
            12 | 13 if nested && !self.tables.is_empty() && !self.is_in_loop => {
                let table = self.tables.pop()?;
                let hit = self.branch(depth - 1);
                Statement::Apply(table, hit, self.branch(depth - 1))
            }
            _ => {
                let ty = self.any_type();
                let to = self.variable(ty, true)?;
                Statement::Assign(to, self.expr(ty, 3))
            }
        })
    }

    fn with(&mut self) -> Option<Statement> {
        let ty = self.random.pick(&[Type::Bit(8), Type::Bit(16), Type::Bit(60), Type::Int(8)]);
        let to = self.variable(ty, true)?;
        let ops = [
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::AddSaturating,
            Op::SubSaturating,
            Op::Left,
            Op::Right,
        ];
        let op = self.random.pick(&ops);
        let is_shift = matches!(op, Op::Left | Op::Right);
        Some(Statement::With(to, op, self.expr(if is_shift { Type::Bit(4) } else { ty }, 2)))
    }

    /// Statements behind which the block may be left.
    fn branch(&mut self, depth: usize) -> Vec<Statement> {
        let mut made = self.statements(2, depth);
        let ends: &[Statement] = match (self.is_in_loop, self.sort) {
            (true, _) => &[Statement::Break, Statement::Continue, Statement::Return],
            (false, Some(Sort::Function)) => &[Statement::Return],
            (false, _) => &[Statement::Return, Statement::Exit],
        };
        if self.random.chance(if self.is_in_loop { 40 } else { 12 }) {
            made.push(self.random.pick(ends));
        }
        made
    }

    fn switch(&mut self, depth: usize) -> Statement {
        let ty = self.random.pick(&[Type::Bit(8), Type::Bit(4), Type::Int(8)]);
        let value = self.expr(ty, 2);
        let mut used = Vec::new();
        let mut cases = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let mut labels = Vec::new();
            for _ in 0..1 + self.random.below(2) {
                if let Kind::Constant(label) = self.constant(ty).kind
                    && !used.contains(&label)
                {
                    used.push(label);
                    labels.push(label);
                }
            }
            if !labels.is_empty() {
                cases.push((labels, self.branch(depth)));
            }
        }
        Statement::Switch(value, cases, self.branch(depth))
    }

    fn turns(&mut self, depth: usize) -> Statement {
        let ty = Type::Bit(8);
        let variable = self.local(ty);
        let is_list = self.random.chance(30);
        let values = (0..2).map(|_| self.expr(ty, 2)).collect();
        let (before, outer) = (self.weight, self.is_in_loop);
        self.is_in_loop = true;
        self.scope.push((variable.clone(), false));
        let body = self.branch(depth);
        self.scope.pop();
        self.is_in_loop = outer;
        self.weight += 3 * (self.weight - before);
        if is_list {
            return Statement::Each(variable, values, body);
        }
        let from = self.random.below(200) as u128;
        let to = from + self.random.below(4) as u128;
        Statement::For(variable, from, to, body, self.random.chance(50))
    }

    fn call(&mut self) -> Option<Statement> {
        let is_callable = |callable: &Callable| match (callable.sort, self.sort) {
            (Sort::Function, _) => callable.result.is_none(),
            (_, Some(Sort::Function)) => false,
            (Sort::Control, sort) => sort == Some(Sort::Control) && !self.is_in_loop,
            (Sort::Action, _) => true,
        };
        let found: Vec<usize> =
            (0..self.callables.len()).filter(|at| is_callable(&self.callables[*at])).collect();
        if found.is_empty() {
            return None;
        }
        let number = self.random.pick(&found);
        let arguments = self.arguments(number, 2)?;
        Some(Statement::Call(number, arguments))
    }
}
