//! Filters of packets, for traces and captures: an expression of the language over the headers of a packet, evaluated
//! on the events of its ingress pass, or by parsing a record.
//!
//! `std.ingress_port == 1 && ipv4.dst == 10.1.0.2 && !tcp.valid`. A comparison with a field of a header that the packet
//! does not have is false. Necessary conditions are available before a packet is parsed: its port, and bytes that it
//! must contain.

use wireyard_pipeline::ast::{Ast, AstBin, AstExpr, AstUn};
use wireyard_pipeline::decode::{Decoder, Parsed};
use wireyard_pipeline::diag::suggest;
use wireyard_pipeline::ids::{FileId, Id, InstanceId};
use wireyard_pipeline::ir::{FieldLayout, Program, SourceSpan};
use wireyard_pipeline::syntax::{Text, expression};
use wireyard_pipeline::trace::{Event, Scope};

use crate::control::ControlError;
use crate::core::PortState;
use crate::ports::{LinkType, PortNumber};
use crate::recorder::Keep;

/// Bits of `std.packet_length`.
const LENGTH_BITS: u32 = 32;

/// A checked filter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Number(u128),
    Port,
    Length,
    Valid(InstanceId),
    Field { instance: InstanceId, layout: FieldLayout },
    Not(Box<Node>),
    Both(AstBin, Box<Node>, Box<Node>),
}

/// A filter of a program.
#[derive(Clone, Debug)]
pub struct Filter {
    node: Option<Node>,
}

type Result<T> = std::result::Result<T, ControlError>;

fn in_filter(text: String) -> ControlError {
    ControlError::invalid(format!("filter: {text}"))
}

impl Filter {
    /// Parses a filter; every packet meets an empty one.
    ///
    /// # Errors
    /// The error in the text; for an unknown name with the nearest known one.
    pub fn read(text: &str, program: &Program) -> Result<Filter> {
        if text.trim().is_empty() {
            return Ok(Filter { node: None });
        }
        let whole = SourceSpan { file: FileId::new(0), start: 0, end: text.len() as u32 };
        let parsed = expression(Text { text, whole, start: Some(0) });
        let parsed = parsed.map_err(|error| in_filter(error.message))?;
        Ok(Filter { node: Some(node(program, &parsed)?) })
    }

    /// True if a packet with these events meets the filter.
    pub fn is_met(&self, events: &[Event]) -> bool {
        self.is_met_by(&Traced(events))
    }

    fn is_met_by(&self, packet: &dyn Packet) -> bool {
        self.node.as_ref().is_none_or(|node| value(node, packet).is_some_and(|value| value != 0))
    }

    /// The filter as a function of the records in a capture of these ports, each of which has three interfaces.
    ///
    /// # Errors
    /// There is not enough memory for a parser.
    pub fn keep(self, program: &Program, ports: Vec<PortState>) -> Result<Keep> {
        let decoder = Decoder::of_parser(program);
        let mut decoder = decoder.map_err(|error| ControlError::Internal(error.to_string()))?;
        Ok(Box::new(move |interface: u32, bytes: &[u8], wire_len: u32| {
            let port = ports.get(interface as usize / 3);
            let is_of_port = |link: &LinkType| port.is_some_and(|it| it.frames == link.name());
            let link = LinkType::ALL.into_iter().find(is_of_port).unwrap_or(LinkType::Ethernet);
            let start = (port.map_or(PortNumber(0), |port| port.port), wire_len as usize);
            let parsed = decoder.parse(bytes, link.code());
            parsed.is_some_and(|parsed| self.is_met_by(&Recorded { parsed, start }))
        }))
    }

    /// The ingress port of all packets that can meet the filter.
    pub fn scope(&self) -> Scope {
        let mut all = Vec::new();
        self.node.iter().for_each(|node| equalities(node, &mut all));
        let port = all.iter().find_map(|(of, value)| match of {
            Node::Port => u16::try_from(*value).ok(),
            _ => None,
        });
        port.map_or(Scope::All, Scope::IngressPort)
    }

    /// Byte strings that every packet that meets the filter contains.
    pub fn needles(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        self.node.iter().for_each(|node| equalities(node, &mut all));
        let bytes = all.iter().filter_map(|(of, value)| match of {
            Node::Field { layout: FieldLayout::Run { bit, bits }, .. }
                if bit.is_multiple_of(8) && bits.is_multiple_of(8) =>
            {
                let bytes = (*bits / 8) as usize;
                Some(value.to_be_bytes().get(16 - bytes..)?.to_vec())
            }
            _ => None,
        });
        bytes.filter(|bytes| bytes.len() > 1).collect()
    }
}

/// Collects the terms that every packet must meet: `field == number`, joined by `&&`.
fn equalities(node: &Node, all: &mut Vec<(Node, u128)>) {
    match node {
        Node::Both(AstBin::LogicalAnd, one, other) => {
            equalities(one, all);
            equalities(other, all);
        }
        Node::Both(AstBin::Eq, one, other) => match (&**one, &**other) {
            (Node::Number(value), of) | (of, Node::Number(value)) => all.push((of.clone(), *value)),
            _ => {}
        },
        _ => {}
    }
}

/// Refuses the comparison of a field with a number that it cannot have: it would be always or never true.
fn check_widths(operator: AstBin, one: &AstExpr, other: &AstExpr, program: &Program) -> Result<()> {
    use AstBin::{Eq, Ge, Gt, Le, Lt, Ne};
    if ![Eq, Ge, Gt, Le, Lt, Ne].contains(&operator) {
        return Ok(());
    }
    for (field, number) in [(one, other), (other, one)] {
        let (Some((name, bits)), Some((value, given))) =
            (width(program, field), constant(program, number))
        else {
            continue;
        };
        if let Some(given) = given.filter(|given| *given != bits) {
            return Err(in_filter(format!(
                "{name} has {bits} bits, and what it is compared with has {given}"
            )));
        }
        let most = u128::MAX >> (128 - bits.clamp(1, 128));
        if value > most {
            return Err(in_filter(format!(
                "{name} has {bits} bits, 0 to {most}: it is never {value}"
            )));
        }
    }
    Ok(())
}

/// The name and width of a field, also of some of its bits; `None` for what is no field.
fn width(program: &Program, expr: &AstExpr) -> Option<(String, u32)> {
    let path = match &expr.value {
        Ast::Path(path) => path,
        Ast::Binary(AstBin::And, one, other) => {
            return width(program, one).or_else(|| width(program, other));
        }
        _ => return None,
    };
    let name = path_text(path)?;
    let bits = match name.as_str() {
        "std.ingress_port" => u16::BITS,
        "std.packet_length" => LENGTH_BITS,
        name => bits_of(program, name)?,
    };
    Some((name, bits))
}

/// A number, or a constant of the program, and the width that is written with it.
fn constant(program: &Program, expr: &AstExpr) -> Option<(u128, Option<u32>)> {
    match &expr.value {
        Ast::Number { value, bits } => Some((*value, *bits)),
        Ast::Path(path) => {
            let name = path_text(path)?;
            let found = program.constants.iter().find(|constant| constant.name == name)?;
            Some((found.value, None))
        }
        _ => None,
    }
}

/// The width of a field by its name, 1 of `HEADER.valid`; `None` if it is not a number.
fn bits_of(program: &Program, name: &str) -> Option<u32> {
    let (header, field) = name.rsplit_once('.')?;
    let instance = program.instances.iter().find(|instance| instance.name == header)?;
    if field == "valid" {
        return Some(1);
    }
    let mut fields = program.headers[instance.header].declared();
    let found = fields.find(|known| known.name == field)?;
    Some(found.bits).filter(|bits| *bits <= 128)
}

fn node(program: &Program, expr: &AstExpr) -> Result<Node> {
    Ok(match &expr.value {
        Ast::Number { value, .. } => Node::Number(*value),
        Ast::Bool(is) => Node::Number(u128::from(*is)),
        Ast::Path(path) => match path_text(path) {
            Some(name) => named(program, &name)?,
            None => return Err(in_filter("write fields as in ipv4.dst or vlan[0].vid".into())),
        },
        Ast::Unary(AstUn::Not, of) => Node::Not(Box::new(node(program, of)?)),
        Ast::Binary(operator, one, other) => {
            use AstBin::{And, Eq, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt, Ne};
            if ![And, Eq, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt, Ne].contains(operator) {
                return Err(in_filter("there are ==, !=, <, <=, >, >=, &, &&, || and !".into()));
            }
            check_widths(*operator, one, other, program)?;
            let (one, other) = (node(program, one)?, node(program, other)?);
            Node::Both(*operator, Box::new(one), Box::new(other))
        }
        _ => {
            return Err(in_filter(
                "there are fields, numbers, comparisons, &, &&, || and !".into(),
            ));
        }
    })
}

/// A path like `vlan[0].vid` as text.
fn path_text(path: &wireyard_pipeline::ast::Path) -> Option<String> {
    use wireyard_pipeline::ast::PathPart;
    let mut text = String::new();
    for part in &path.parts {
        match part {
            PathPart::Name(name) if text.is_empty() => text.push_str(&name.value),
            PathPart::Name(name) => {
                text.push('.');
                text.push_str(&name.value);
            }
            PathPart::Index(index) => match index.value {
                Ast::Number { value, .. } => text.push_str(&format!("[{value}]")),
                _ => return None,
            },
        }
    }
    Some(text)
}

fn named(program: &Program, name: &str) -> Result<Node> {
    match name {
        "std.ingress_port" => return Ok(Node::Port),
        "std.packet_length" => return Ok(Node::Length),
        _ => {}
    }
    if let Some(constant) = program.constants.iter().find(|constant| constant.name == name) {
        return Ok(Node::Number(constant.value));
    }
    if let Some(field) = name.strip_prefix("std.") {
        return Err(in_filter(format!(
            "there is no `{field}` of std; there are: std.ingress_port, std.packet_length"
        )));
    }
    let (header, field) = name.rsplit_once('.').unwrap_or((name, ""));
    let found = program.instances.entries().find(|(_, instance)| instance.name == header);
    let Some((instance, declared)) = found else {
        let names = program.instances.iter().map(|instance| instance.name.as_str());
        let near = suggest(header, names.chain(["std.ingress_port", "std.packet_length"]));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(in_filter(format!("the program has no header {header}{near}")));
    };
    if field == "valid" {
        return Ok(Node::Valid(instance));
    }
    if field.is_empty() {
        let text = format!("`{header}` is a header: write {header}.valid, or a field of it");
        return Err(in_filter(text));
    }
    let fields = || program.headers[declared.header].declared().filter(|known| known.bits <= 128);
    let Some(known) = fields().find(|known| known.name == field) else {
        let near = suggest(field, fields().map(|known| known.name.as_str()));
        let near = near.map_or(String::new(), |near| format!("; did you mean {header}.{near}?"));
        return Err(in_filter(format!("header {header} has no field `{field}`{near}")));
    };
    Ok(Node::Field { instance, layout: known.layout.clone() })
}

/// The properties of a packet that a filter evaluates.
trait Packet {
    /// The bytes of a header; `None` if the packet does not have it.
    fn header(&self, wanted: InstanceId) -> Option<&[u8]>;
    /// Its ingress port and length.
    fn start(&self) -> Option<(PortNumber, usize)>;
}

/// A packet whose ingress pass was traced.
struct Traced<'a>(&'a [Event]);

impl Packet for Traced<'_> {
    fn header(&self, wanted: InstanceId) -> Option<&[u8]> {
        self.0.iter().rev().find_map(|event| match event {
            Event::Extract { instance, header, .. } if *instance == wanted => {
                Some(header.as_slice())
            }
            _ => None,
        })
    }

    fn start(&self) -> Option<(PortNumber, usize)> {
        self.0.iter().find_map(|event| match event {
            Event::Start { port, bytes, .. } => Some((PortNumber(*port), bytes.len())),
            _ => None,
        })
    }
}

/// A record of a capture.
struct Recorded<'a> {
    parsed: Parsed<'a>,
    start: (PortNumber, usize),
}

impl Packet for Recorded<'_> {
    fn header(&self, wanted: InstanceId) -> Option<&[u8]> {
        self.parsed.bytes_of(wanted)
    }

    fn start(&self) -> Option<(PortNumber, usize)> {
        Some(self.start)
    }
}

/// The value of a filter for a packet; `None` if a header is missing.
fn value(node: &Node, packet: &dyn Packet) -> Option<u128> {
    Some(match node {
        Node::Number(value) => *value,
        Node::Port => packet.start()?.0.0.into(),
        Node::Length => packet.start()?.1 as u128,
        Node::Valid(instance) => u128::from(packet.header(*instance).is_some()),
        Node::Field { instance, layout } => layout.read(packet.header(*instance)?),
        Node::Not(of) => u128::from(value(of, packet).is_none_or(|value| value == 0)),
        Node::Both(operator, one, other) => {
            let is = |node: &Node| value(node, packet).is_some_and(|value| value != 0);
            match operator {
                AstBin::LogicalAnd => return Some(u128::from(is(one) && is(other))),
                AstBin::LogicalOr => return Some(u128::from(is(one) || is(other))),
                _ => {}
            }
            let (one, other) = (value(one, packet)?, value(other, packet)?);
            match operator {
                AstBin::And => one & other,
                AstBin::Eq => u128::from(one == other),
                AstBin::Ne => u128::from(one != other),
                AstBin::Lt => u128::from(one < other),
                AstBin::Le => u128::from(one <= other),
                AstBin::Gt => u128::from(one > other),
                _ => u128::from(one >= other),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "
pipeline: filtered
include: [ethernet]
parser: { start: { extract: ethernet } }
const: { WANTED: 0x1234, WIDE: 0x10000 }
ingress: [ drop ]
deparser: { emit: [ethernet] }
";

    #[test]
    fn a_filter_is_decided_from_events_and_says_what_it_must_find() {
        let loaded = crate::program::from_text("filtered.yaml", PROGRAM).unwrap();
        let program = &loaded.program;
        let read = |text: &str| Filter::read(text, program);
        let ethernet =
            program.instances.entries().find(|(_, one)| one.name == "ethernet").unwrap().0;
        let header = [&[2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 2], &[0x12, 0x34]].concat();
        let start = Event::Start {
            half: wireyard_pipeline::ir::Half::Ingress,
            port: 3,
            path: 0,
            now_ns: 0,
            bytes: vec![0; 60],
        };
        let events = [start, Event::Extract { instance: ethernet, at: 0, header }];
        for (text, is_met) in [
            ("", true),
            ("ethernet.dst == 02:00:00:00:00:01", true),
            ("ethernet.dst == 02:00:00:00:00:02", false),
            ("ethernet.ether_type == WANTED && std.ingress_port == 3", true),
            ("std.ingress_port == 4 || std.packet_length < 61", true),
            ("!ethernet.valid", false),
            ("ethernet.ether_type & 0xff == 0x34", true),
            ("ethernet.ether_type > 0x1234", false),
        ] {
            assert_eq!(read(text).unwrap().is_met(&events), is_met, "{text}");
            let without = read(text).unwrap().is_met(&events[..1]);
            let needs_it = text.contains("ethernet") && is_met;
            assert!(!(needs_it && without), "{text} without the header");
        }
        let filter = read("std.ingress_port == 3 && ethernet.src == 02:00:00:00:00:02").unwrap();
        assert_eq!(filter.scope(), Scope::IngressPort(3));
        assert_eq!(filter.needles(), [[2, 0, 0, 0, 0, 2].to_vec()]);
        let either = read("std.ingress_port == 3 || ethernet.src == 1").unwrap();
        assert_eq!((either.scope(), either.needles().len()), (Scope::All, 0));
        for (text, why) in [
            ("ethernet.dts == 1", "did you mean ethernet.dst?"),
            ("ethernt.dst == 1", "did you mean ethernet?"),
            ("std.foo == 1", "there is no `foo` of std; there are: std.ingress_port"),
            ("ethernet", "`ethernet` is a header: write ethernet.valid, or a field of it"),
            ("ethernet.dst ==", "filter: "),
            ("ethernet.dst + 1 == 2", "there are =="),
            ("ethernet.ether_type == 0x10000", "ethernet.ether_type has 16 bits, 0 to 65535"),
            ("70000 < ethernet.ether_type", "0 to 65535: it is never 70000"),
            ("ethernet.ether_type == WIDE", "it is never 65536"),
            ("ethernet.ether_type & 0xff == 65536", "it is never 65536"),
            ("ethernet.valid == 2", "0 to 1: it is never 2"),
            ("std.ingress_port == 65536", "std.ingress_port has 16 bits, 0 to 65535"),
            ("std.packet_length > 0x100000000", "0 to 4294967295"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
