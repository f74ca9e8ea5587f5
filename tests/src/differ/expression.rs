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
                    // The remainder of a division by a known 0 is refused.
                    "%" => {
                        let (text, own) = self.read(scope);
                        cast(text, own, bits)
                    }
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
                let (w, v) = (self.random.width(), self.random.width());
                let (a, b) = (self.expr(scope, w, less), self.expr(scope, v, less));
                let own = match algorithm {
                    "crc32" | "toeplitz" => 32,
                    "identity" => 64,
                    _ => 16,
                };
                cast(format!("hash({algorithm}, {a}, {b})"), own, bits)
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
                    (format!("{name}{element}.{field}"), bits)
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
                let bits = 1 + self.random.below(40) as u32;
                (format!("lookahead({bits}, {})", self.random.below(20)), bits)
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
        let always = [("ingress_port", 16), ("packet_length", 32), ("now_ns", 64)];
        let control = [
            ("body_length", 32),
            ("emit_length", 32),
            ("egress_port", 16),
            ("traffic_class", 3),
            ("color", 2),
            ("ect", 1),
            ("packet_path", 8),
        ];
        let ingress = [("parser_error", 8), ("checksum_error", 32)];
        let egress = [
            ("congestion_mark", 1),
            ("trimmed", 1),
            ("instance", 16),
            ("enqueue_depth_bytes", 32),
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
