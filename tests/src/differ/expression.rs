//! Random expressions, as text.

use super::generate::{Gen, Place, Scope};

impl Gen {
    /// An expression of this width.
    pub(super) fn expr(&mut self, scope: &Scope, bits: u32, depth: u32) -> String {
        if depth == 0 || self.random.chance(20) {
            return self.leaf(scope, bits);
        }
        let less = depth - 1;
        match self.random.below(if bits == 1 { 13 } else { 9 }) {
            0 | 1 => {
                let ops = ["+", "-", "*", "%", "|+|", "|-|", "&", "|", "^"];
                let op = self.random.pick(&ops);
                let a = self.expr(scope, bits, less);
                let b = match op {
                    "%" => self.divisor(scope, bits),
                    _ => self.expr(scope, bits, less),
                };
                format!("({a} {op} {b})")
            }
            2 => {
                let width = self.random.width();
                let (a, b) = (self.expr(scope, bits, less), self.expr(scope, width, less));
                let op = self.random.pick(&["<<", ">>"]);
                format!("({a} {op} {b})")
            }
            3 if bits > 1 => {
                let a = self.expr(scope, bits, less);
                let op = self.random.pick(&["~", "-"]);
                format!("({op}{a})")
            }
            4 => {
                let (c, a) = (self.expr(scope, 1, less), self.expr(scope, bits, less));
                let b = self.expr(scope, bits, less);
                format!("({c} ? {a} : {b})")
            }
            5 if bits > 1 => {
                let low = 1 + self.random.below(bits as usize - 1) as u32;
                let (a, b) = (self.expr(scope, bits - low, less), self.expr(scope, low, less));
                format!("({a} ++ {b})")
            }
            6 => {
                let low = self.random.below((129 - bits) as usize) as u32;
                let width = low + bits + self.random.below((129 - bits - low) as usize) as u32;
                let value = self.expr(scope, width, less);
                format!("({value})[{}:{low}]", low + bits - 1)
            }
            7 => {
                let algorithms = ["crc16", "crc32", "csum16", "toeplitz", "identity", "xor16"];
                let algorithm = self.random.pick(&algorithms);
                let operands = self.operands(scope, less);
                let own = match algorithm {
                    "crc32" | "toeplitz" => 32,
                    "identity" => 64,
                    _ => 16,
                };
                cast(format!("hash({algorithm}, {operands})"), own, bits)
            }
            8 => {
                let width = self.random.width();
                let value = self.expr(scope, width, less);
                cast(value, width, bits)
            }
            9 => {
                let width = 2 + self.random.below(127) as u32;
                let (a, b) = (self.expr(scope, width, less), self.expr(scope, width, less));
                let op = self.random.pick(&["<", "<=", ">", ">="]);
                format!("(signed({a}) {op} signed({b}))")
            }
            10 => {
                let width = self.random.width();
                let (a, b) = (self.expr(scope, width, less), self.expr(scope, width, less));
                let op = self.random.pick(&["==", "!=", "<", "<=", ">", ">="]);
                format!("({a} {op} {b})")
            }
            11 if self.random.chance(35) => {
                let Some((a, b)) = self.two_of_bytes(scope) else { return self.leaf(scope, bits) };
                format!("({a} {} {b})", self.random.pick(&["==", "!="]))
            }
            11 => {
                let (a, b) = (self.expr(scope, 1, less), self.expr(scope, 1, less));
                let op = self.random.pick(&["&&", "||"]);
                format!("({a} {op} {b})")
            }
            _ => {
                let a = self.expr(scope, bits, less);
                if bits == 1 { format!("(!{a})") } else { format!("(~{a})") }
            }
        }
    }

    /// What a remainder is of: a constant mostly, a power of two or not. A known 0 is refused.
    fn divisor(&mut self, scope: &Scope, bits: u32) -> String {
        if bits == 1 || self.random.chance(40) {
            let (text, own) = self.read(scope);
            return cast(text, own, bits);
        }
        let ones = u128::MAX >> (128 - bits);
        let value = match self.random.below(3) {
            0 => 1 << self.random.below(bits as usize),
            1 => 1 + self.random.below(9) as u128,
            _ => self.random.value(bits),
        };
        format!("{bits}w{:#x}", (value & ones).max(1))
    }

    /// What a hash takes: two values mostly; one, or many; all fields of a header; bytes.
    fn operands(&mut self, scope: &Scope, depth: u32) -> String {
        let mut all = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let bits = self.random.width();
            all.push(self.expr(scope, bits, depth));
        }
        match self.random.below(6) {
            0 => {
                for _ in 0..1 + self.random.below(5) {
                    let bits = self.random.width();
                    all.push(self.leaf(scope, bits));
                }
            }
            1 => {
                let header = self.random.pick(&self.headers.clone());
                all = header.fields.iter().map(|(f, _)| format!("{}.{f}", header.name)).collect();
            }
            2 => match self.bytes(scope) {
                Some((bytes, _)) => all.push(bytes),
                None if self.knows_bytes(scope) && self.random.chance(30) => {
                    all.push("body".into())
                }
                None => {}
            },
            _ => {}
        }
        all.join(", ")
    }

    /// Steps of the interpreter, and not in the parser.
    fn knows_bytes(&self, scope: &Scope) -> bool {
        !self.simple && ![Place::Parser, Place::Both].contains(&scope.place)
    }

    /// A field that is bytes and no number, and its name in the header.
    fn bytes(&mut self, scope: &Scope) -> Option<(String, &'static str)> {
        let known = self.headers.iter().filter(|_| self.knows_bytes(scope));
        let known = known.filter_map(|h| Some((format!("{}.{}", h.name, h.bytes?), h.bytes?)));
        let known: Vec<_> = known.collect();
        (!known.is_empty()).then(|| self.random.pick(&known))
    }

    /// Two such fields of one kind.
    pub(super) fn two_of_bytes(&mut self, scope: &Scope) -> Option<(String, String)> {
        let ((a, kind), (b, other)) = (self.bytes(scope)?, self.bytes(scope)?);
        (a != b && kind == other).then_some((a, b))
    }

    /// A place that is read, or a number, of this width.
    pub(super) fn leaf(&mut self, scope: &Scope, bits: u32) -> String {
        if self.random.chance(20) {
            return format!("{bits}w{:#x}", self.random.value(bits));
        }
        let (text, own) = self.read(scope);
        cast(text, own, bits)
    }

    /// A place that is read.
    pub(super) fn leaf_of_any_width(&mut self, scope: &Scope) -> String {
        self.read(scope).0
    }

    fn read(&mut self, scope: &Scope) -> (String, u32) {
        let header = self.random.pick(&self.headers.clone());
        match self.random.below(14) {
            0 if scope.place != Place::Parser => (format!("{}.valid", header.name), 1),
            1 => (format!("{}.length", header.name), 32),
            2 => match &self.stack {
                Some(stack) => {
                    let (field, bits) = self.random.pick(&stack.fields.clone());
                    let at = self.random.below(stack.len + 1);
                    let (name, len) = (stack.name.clone(), stack.len);
                    let element = match self.random.below(3) {
                        0 => format!("[{}]", self.index(scope, len as u32)),
                        _ if at == len => ".last".into(),
                        _ => format!("[{at}]"),
                    };
                    match scope.place != Place::Parser && self.random.chance(25) {
                        true => (format!("{name}{element}.valid"), 1),
                        false => (format!("{name}{element}.{field}"), bits),
                    }
                }
                None => ("std.packet_length".into(), 32),
            },
            3 => match &self.stack {
                Some(stack) => (format!("{}.depth", stack.name), 32),
                None => ("std.ingress_port".into(), 16),
            },
            4 | 5 => self.random.pick(&self.metas.clone()),
            6 | 7 if !scope.locals.is_empty() => self.random.pick(&scope.locals),
            8 => self.intrinsic(scope),
            9 => match header.array {
                Some((count, bits)) => {
                    let index = self.index(scope, count);
                    (format!("{}.arr[{index}]", header.name), bits)
                }
                None => (format!("{}.kind", header.name), 8),
            },
            10 if scope.place == Place::Parser => {
                let (bits, skipped) = match self.random.chance(30) {
                    true => (1 + self.random.below(128), self.random.below(130)),
                    false => (1 + self.random.below(40), self.random.below(20)),
                };
                (format!("lookahead({bits}, {skipped})"), bits as u32)
            }
            11 if scope.place == Place::Parser => ("cursor".into(), 32),
            12 if !self.trailers.is_empty() => {
                let trailer = self.random.pick(&self.trailers.clone());
                let (field, bits) = self.random.pick(&trailer.fields);
                (format!("{}.{field}", trailer.name), bits)
            }
            _ => {
                let (field, bits) = self.random.pick(&header.fields);
                (format!("{}.{field}", header.name), bits)
            }
        }
    }

    /// An index that is mostly inside an array.
    pub(super) fn index(&mut self, scope: &Scope, count: u32) -> String {
        let (text, own) = {
            let header = self.random.pick(&self.headers.clone());
            match scope.locals.last() {
                Some((name, bits)) if self.random.chance(30) => (name.clone(), *bits),
                _ => (format!("{}.kind", header.name), 8),
            }
        };
        let index = cast(text, own, 32);
        match self.random.below(5) {
            0 => format!("{}", self.random.below(count as usize)),
            1 => index,
            _ => format!("({index} & {})", count - 1),
        }
    }

    fn intrinsic(&mut self, scope: &Scope) -> (String, u32) {
        let always = [
            ("ingress_port", 16),
            ("packet_length", 32),
            ("now_ns", 64),
            ("ingress_ns", 64),
            ("ingress_link", 8),
        ];
        let control = [
            ("body_length", 32),
            ("emit_length", 32),
            ("egress_port", 16),
            ("traffic_class", 3),
            ("color", 2),
            ("ect", 1),
            ("packet_path", 8),
        ];
        let ingress = [
            ("parser_error", 8),
            ("checksum_error", 32),
            ("crc_error", 32),
            ("multicast_group", 16),
            ("priority_group", 3),
            ("not_before_ns", 64),
            ("hold_packets", 16),
            ("hold_timeout_ns", 64),
        ];
        let egress = [
            ("congestion_mark", 1),
            ("trimmed", 1),
            ("instance", 16),
            ("enqueue_ns", 64),
            ("dequeue_ns", 64),
            ("enqueue_depth_bytes", 32),
            ("dequeue_depth_bytes", 32),
            ("enqueue_depth_packets", 16),
            ("dequeue_depth_packets", 16),
        ];
        let mut all = always.to_vec();
        if scope.place != Place::Parser {
            all.extend(control);
        }
        match scope.place {
            Place::Parser | Place::Both => {}
            Place::Ingress => all.extend(ingress),
            Place::Egress => all.extend(egress),
        }
        let (name, bits) = self.random.pick(&all);
        (format!("std.{name}"), bits)
    }
}

/// A value in another width.
pub(super) fn cast(text: String, own: u32, bits: u32) -> String {
    if own == bits { text } else { format!("bit<{bits}>({text})") }
}
