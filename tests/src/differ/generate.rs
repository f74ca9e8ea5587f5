//! Random programs that the front end accepts, mostly, and packets for them.

use serde_json::{Map, Value, json};

use super::random::Random;
use super::{Case, packets};

/// A header instance as expressions see it.
#[derive(Clone, Debug)]
pub struct Header {
    /// Name of the instance.
    pub name: String,
    /// Scalar fields with their widths, and slices of wide ones; the first is `kind`, the key of selects.
    pub fields: Vec<(String, u32)>,
    /// Elements and their width of the array `arr`.
    pub array: Option<(u32, u32)>,
    /// It has a field `sum` for a checksum.
    pub sum: bool,
    /// Bits of its field `crc`.
    pub crc: Option<u32>,
    /// It has a variable part whose length each `extract` gives.
    pub given: bool,
    /// Its field that is bytes and no number.
    pub bytes: Option<&'static str>,
    /// Another instance of the same type.
    pub twin: Option<String>,
}

impl Header {
    /// The fields that are declared.
    pub(super) fn declared(&self) -> Vec<(String, u32)> {
        self.fields.iter().filter(|(name, _)| !name.contains('[')).cloned().collect()
    }
}

/// A header stack.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// Elements.
    pub len: usize,
    /// Scalar fields of an element.
    pub fields: Vec<(String, u32)>,
}

/// Which code is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A parser state.
    Parser,
    /// The ingress control, and actions and tables of it.
    Ingress,
    /// The same of egress.
    Egress,
    /// What both controls evaluate: keys of shared tables, values that sums cover.
    Both,
}

/// What code may name.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Where it is.
    pub place: Place,
    /// Locals and parameters with their widths.
    pub locals: Vec<(String, u32)>,
    /// Inside an action: no table is applied there.
    pub in_action: bool,
    /// Actions that may be called: those before this one.
    pub actions: usize,
}

/// An action as its callers see it.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Widths of its parameters.
    pub params: Vec<u32>,
    /// The control it is for.
    pub place: Place,
}

/// A block of `controls` as its callers see it.
#[derive(Clone, Debug)]
pub struct Control {
    /// Its name.
    pub name: String,
    /// Parameters: width, and where one that is copied back goes.
    pub params: Vec<(u32, Option<String>)>,
    /// The control it is for.
    pub place: Place,
}

/// A table as the controls see it.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The control that applies it.
    pub place: Place,
    /// Its actions.
    pub actions: Vec<Action>,
    /// Widths of its keys when the data plane may insert into it.
    pub learnable: Option<Vec<u32>>,
    /// Keys by name, kind and width, when entries may change.
    pub keys: Option<Vec<(String, &'static str, u32)>>,
    /// Its entries at the start.
    pub entries: Vec<Value>,
    /// Members and groups stand for actions.
    pub selects: bool,
    /// Its default may change.
    pub has_default: bool,
}

/// A program under construction.
pub struct Gen {
    pub(super) random: Random,
    pub(super) headers: Vec<Header>,
    pub(super) stack: Option<Stack>,
    /// Headers behind the body.
    pub(super) trailers: Vec<Header>,
    /// Names of pads in front of them.
    pub(super) pads: Vec<String>,
    /// Headers that do not leave.
    pub(super) discarded: Vec<String>,
    pub(super) metas: Vec<(String, u32)>,
    pub(super) register: Vec<u32>,
    /// How the keys of the value sets match: that of `vs`, and those of `pair`.
    pub(super) set_kinds: [&'static str; 3],
    pub(super) actions: Vec<Action>,
    pub(super) tables: Vec<Table>,
    pub(super) controls: Vec<Control>,
    pub(super) crcs: Vec<String>,
    pub(super) two_rates: bool,
    pub(super) per_packet: bool,
    pub(super) entries: Map<String, Value>,
    pub(super) names: usize,
    /// Nothing that keeps a control from path-specialised code.
    pub(super) simple: bool,
}

/// Makes the case of a seed, with a few packets.
pub fn case(seed: u64) -> Case {
    case_of(seed, None)
}

/// Makes the case of a seed with so many packets. The program does not depend on their number.
pub fn case_of(seed: u64, packets: Option<usize>) -> Case {
    case_by(Random::new(seed), packets)
}

/// Makes the case of these decisions.
pub fn case_by(mut random: Random, packets: Option<usize>) -> Case {
    let simple = random.chance(40);
    let mut generator = Gen {
        random,
        headers: Vec::new(),
        stack: None,
        trailers: Vec::new(),
        pads: Vec::new(),
        discarded: Vec::new(),
        metas: Vec::new(),
        register: Vec::new(),
        set_kinds: ["exact"; 3],
        actions: Vec::new(),
        tables: Vec::new(),
        controls: Vec::new(),
        crcs: Vec::new(),
        two_rates: true,
        per_packet: false,
        entries: Map::new(),
        names: 0,
        simple,
    };
    let program = generator.program();
    let entries = (!generator.entries.is_empty()).then(|| Value::Object(generator.entries.clone()));
    let count = packets;
    let changes = if generator.random.chance(40) { generator.changes() } else { Vec::new() };
    let random = &mut generator.random;
    let burst = random.pick(&[1, 3, 16]);
    let traced = if random.chance(25) { 3 } else { 0 };
    let few = random.pick(&[30, 60, 120]);
    // Egress behind ingress, and a register of one worker, are what path-specialised code does.
    let through = random.chance(if simple { 80 } else { 50 });
    let workers = match random.chance(if simple { 80 } else { 60 }) {
        true => 1,
        false => random.pick(&[2, 3]),
    };
    let step_ns = random.pick(&[1_000, 1_000, 100_000, 2_000_000]);
    // Some programs get no such packets at all: they are slow, and most code asks where a packet lies once.
    let odd = random.chance(60);
    let packets = packets::random(random, &program, count.unwrap_or(few), odd);
    Case { program, entries, packets, burst, traced, through, workers, step_ns, changes }
}

impl Gen {
    /// A fresh name.
    pub(super) fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn program(&mut self) -> Value {
        let mut top = Map::new();
        top.insert("pipeline".into(), "random".into());
        self.headers(&mut top);
        self.metadata(&mut top);
        self.state(&mut top);
        let (parser, parsers) = self.parser();
        top.insert("parser".into(), parser);
        if !parsers.is_empty() {
            top.insert("parsers".into(), Value::Object(parsers));
        }
        if self.random.chance(25) {
            top.insert("on_parser_error".into(), "drop".into());
        }
        if !self.simple && self.random.chance(12) {
            let again = top["parser"].clone();
            top.insert("egress_parser".into(), again);
        }
        self.deparser(&mut top);
        self.sums(&mut top);
        self.actions_and_tables(&mut top);
        self.blocks(&mut top);
        for (key, place) in [("ingress", Place::Ingress), ("egress", Place::Egress)] {
            let empty = place == Place::Egress && self.random.chance(20);
            let mut scope = Scope { place, locals: vec![], in_action: false, actions: usize::MAX };
            let mut body = match empty {
                true => Vec::new(),
                false => self.statements(&mut scope, 3, 8),
            };
            if place == Place::Ingress {
                let port = self.random.below(4);
                body.insert(0, json!(format!("std.egress_port = {port}")));
            }
            top.insert(key.into(), Value::Array(body));
        }
        if self.random.chance(40) {
            let header = self.random.pick(&self.headers.clone());
            let (field, bits) = self.random.pick(&header.fields);
            if bits >= 6 {
                let mut qos = json!({ "dscp": format!("{}.{field}[5:0]", header.name) });
                if self.random.chance(50) {
                    qos["pcp"] =
                        json!(format!("{}.{field}[{}:{}]", header.name, bits - 1, bits - 3));
                }
                top.insert("qos".into(), qos);
            }
        }
        Value::Object(top)
    }

    fn headers(&mut self, top: &mut Map<String, Value>) {
        let mut types = Map::new();
        let mut instances = Map::new();
        for n in 0..2 + self.random.below(3) {
            let name = format!("h{n}");
            let (declared, mut header) = self.header(&name);
            if self.random.chance(25) {
                let twin = format!("{name}b");
                instances.insert(twin.clone(), json!(name));
                header.twin = Some(twin);
            }
            types.insert(name, declared);
            self.headers.push(header);
        }
        if self.random.chance(if self.simple { 15 } else { 40 }) {
            types.insert("tag".into(), json!({ "fields": { "kind": 8, "more": 24 } }));
            let len = 2 + self.random.below(3);
            instances.insert("tags".into(), json!({ "header": "tag", "stack": len }));
            let fields = vec![("kind".into(), 8), ("more".into(), 24)];
            self.stack = Some(Stack { name: "tags".into(), len, fields });
        }
        if !self.simple && self.random.chance(40) {
            for name in ["tail", "tail2"].into_iter().take(1 + self.random.below(2)) {
                let bits = self.random.pick(&[8, 16, 24, 32, 32, 64]);
                types.insert(name.into(), json!({ "fields": { "kind": 8, "crc": bits } }));
                let fields = vec![("kind".into(), 8), ("crc".into(), bits)];
                let (array, twin, crc) = (None, None, Some(bits));
                let name = name.into();
                let (sum, given, bytes) = (false, false, None);
                self.trailers.push(Header { name, fields, array, sum, crc, given, bytes, twin });
            }
        }
        top.insert("headers".into(), Value::Object(types));
        if !instances.is_empty() {
            top.insert("instances".into(), Value::Object(instances));
        }
        // Twins are headers of their own for code.
        let twins: Vec<Header> = self
            .headers
            .iter()
            .filter_map(|h| {
                let twin = h.twin.clone()?;
                Some(Header { name: twin, twin: Some(h.name.clone()), ..h.clone() })
            })
            .collect();
        self.headers.extend(twins);
        if self.random.chance(15) {
            let first = self.random.below(self.headers.len() - 1);
            let pair = self.headers.get(first..first + 2).unwrap_or_default();
            let names: Vec<&str> = pair.iter().map(|header| header.name.as_str()).collect();
            top.insert("unions".into(), json!({ "both": names }));
        }
    }

    fn header(&mut self, name: &str) -> (Value, Header) {
        let shape = self.random.below(if self.simple { 7 } else { 10 });
        let mut header = Header {
            name: name.into(),
            fields: vec![("kind".into(), 8)],
            array: None,
            sum: false,
            crc: None,
            given: false,
            bytes: None,
            twin: None,
        };
        if shape == 0 {
            return (self.words(&mut header), header);
        }
        let mut fields = Map::new();
        fields.insert("kind".into(), 8.into());
        let mut bits = 8;
        for n in 0..self.random.below(6) {
            let width = self.random.width();
            fields.insert(format!("f{n}"), width.into());
            header.fields.push((format!("f{n}"), width));
            bits += width;
        }
        if bits % 8 != 0 {
            fields.insert("pad".into(), (8 - bits % 8).into());
            header.fields.push(("pad".into(), 8 - bits % 8));
        }
        // Path-specialised code sums whole words, and fields that nobody assigns.
        if self.simple && bits.div_ceil(8) % 2 == 1 {
            fields.insert("fill".into(), 8.into());
        }
        if self.random.chance(if self.simple { 75 } else { 50 }) {
            fields.insert("sum".into(), 16.into());
            if !self.simple || self.random.chance(15) {
                header.fields.push(("sum".into(), 16));
            }
            header.sum = true;
        }
        if self.random.chance(if self.simple { 4 } else { 15 }) {
            let bits = self.random.pick(&[8, 16, 24, 32, 64]);
            fields.insert("crc".into(), bits.into());
            header.fields.push(("crc".into(), bits));
            header.crc = Some(bits);
        }
        match shape {
            7 => {
                let width = self.random.pick(&[8u32, 12, 4, 64]);
                fields.insert("arr".into(), json!({ "array": 4, "bits": width }));
                header.array = Some((4, width));
            }
            6 | 8 if self.random.chance(40) => {
                fields.insert("rest".into(), json!({ "varbits": 160 }));
                (header.given, header.bytes) = (true, Some("rest"));
            }
            8 => {
                fields.insert("len".into(), 8.into());
                header.fields.push(("len".into(), 8));
                let length = self.random.pick(&[
                    "bit<32>(len) * 8",
                    "bit<32>(len & 7) * 8",
                    "bit<32>(len) * 4",
                ]);
                fields.insert("rest".into(), json!({ "varbits": 160, "length": length }));
                header.bytes = Some("rest");
            }
            9 => {
                fields.insert("blob".into(), 136.into());
                header.bytes = Some("blob");
                // Slices that overlap, also up to the widest value.
                for _ in 0..1 + self.random.below(3) {
                    let low = self.random.below(136) as u32;
                    let bits = 1 + self.random.below((136 - low).min(128) as usize) as u32;
                    let slice = format!("blob[{}:{low}]", low + bits - 1);
                    if !header.fields.iter().any(|(known, _)| *known == slice) {
                        header.fields.push((slice, bits));
                    }
                }
            }
            _ => {}
        }
        (json!({ "fields": fields }), header)
    }

    /// A header of words with a byte order; fields lie in up to three places.
    fn words(&mut self, header: &mut Header) -> Value {
        let order = self.random.pick(&["little", "big"]);
        let bits: u32 = self.random.pick(&[8, 16, 32, 32, 64]);
        let count = self.random.pick(&[2, 3, 4]).max(if bits == 8 { 4 } else { 2 });
        // Pieces of words, none over another; the first is the key of selects.
        let mut pieces = Vec::new();
        for word in 0..count {
            let mut high = bits;
            while high > 0 {
                let low = match word {
                    0 if high <= 8 => 0,
                    0 => 8 + self.random.below(high as usize - 8) as u32,
                    _ => self.random.below(high as usize) as u32,
                };
                pieces.push((format!("w{word}[{}:{low}]", high - 1), high - low));
                high = low;
            }
        }
        let mut fields = Map::new();
        let key = pieces.iter().position(|(place, _)| place == "w0[7:0]").unwrap_or(0);
        fields.insert("kind".into(), json!(pieces.remove(key).0));
        for name in ["a", "b", "c", "d"] {
            let mut field = Vec::new();
            let mut width = 0;
            for _ in 0..1 + self.random.below(3) {
                if !pieces.is_empty() && width <= 64 {
                    let (place, more) = pieces.remove(self.random.below(pieces.len()));
                    field.push(place);
                    width += more;
                }
            }
            if width > 0 {
                fields.insert(name.into(), json!(field));
                header.fields.push((name.into(), width));
            }
        }
        json!({
            "bytes": count * bits / 8,
            "word": { "bits": bits, "order": order },
            "fields": fields,
        })
    }

    fn metadata(&mut self, top: &mut Map<String, Value>) {
        let mut metadata = Map::new();
        // The length of a variable part that `extract` gives is carried.
        let mut carried = self.headers.iter().filter(|header| header.given).count() as u32;
        // More than the descriptor has lies in the chunk.
        let room = if self.random.chance(25) { 64 } else { 16 };
        for n in 0..4 {
            let bits = self.random.width();
            let bytes = bits.div_ceil(8);
            let carry = carried + bytes <= room && self.random.chance(50);
            carried += if carry { bytes } else { 0 };
            metadata.insert(format!("m{n}"), json!({ "bits": bits, "carried": carry }));
            self.metas.push((format!("meta.m{n}"), bits));
        }
        metadata.insert("colour".into(), 2.into());
        self.metas.push(("meta.colour".into(), 2));
        top.insert("metadata".into(), Value::Object(metadata));
        top.insert("errors".into(), json!(["odd", "bad"]));
    }

    fn state(&mut self, top: &mut Map<String, Value>) {
        let cells = if self.random.chance(20) { 3 + self.random.below(14) } else { 2 };
        self.register = (0..cells).map(|_| 1 + self.random.below(64) as u32).collect();
        let cells: Map<String, Value> =
            self.register.iter().enumerate().map(|(n, b)| (format!("x{n}"), (*b).into())).collect();
        top.insert(
            "registers".into(),
            json!({ "reg": { "struct": cells, "size": 8 }, "one": { "bits": 16, "size": 8 } }),
        );
        top.insert("counters".into(), json!({ "cnt": { "size": 8 } }));
        let kind = self.random.pick(&["trtcm", "srtcm"]);
        let unit = self.random.pick(&["bytes", "packets"]);
        (self.two_rates, self.per_packet) = (kind == "trtcm", unit == "packets");
        top.insert("meters".into(), json!({ "mtr": { "size": 4, "type": kind, "unit": unit } }));
        let scope = self.scope(Place::Both);
        let values: Map<String, Value> =
            (0..2).map(|n| (format!("d{n}"), json!(self.leaf_of_any_width(&scope)))).collect();
        top.insert("digests".into(), json!({ "dig": values }));
        let sets = self.value_sets();
        top.insert("value_sets".into(), sets);
        let rates = self.rates(kind == "trtcm", unit == "packets");
        if self.random.chance(60) {
            self.entries.insert("meters".into(), json!({ "mtr": { "0": rates, "1": rates } }));
        }
        if self.random.chance(20) {
            let index = self.random.below(8).to_string();
            let count = json!({ "packets": self.random.below(9), "bytes": self.random.below(999) });
            self.entries.insert("counters".into(), json!({ "cnt": { index: count } }));
        }
    }

    /// Rates of a meter.
    pub(super) fn rates(&mut self, two_rates: bool, packets: bool) -> Value {
        let times = self.random.pick(&[1, 1, 1000]);
        let (slow, fast, small, large) = match packets {
            false => {
                (format!("{times}MB/s"), format!("{}MB/s", 3 * times), json!("300B"), json!("600B"))
            }
            true => (format!("{times}kpps"), format!("{}kpps", 3 * times), json!(3), json!(6)),
        };
        match two_rates {
            true => json!({ "cir": slow, "cbs": small, "pir": fast, "pbs": large }),
            false => json!({ "cir": slow, "cbs": small, "ebs": large }),
        }
    }

    /// An empty scope.
    pub(super) fn scope(&self, place: Place) -> Scope {
        Scope { place, locals: vec![], in_action: false, actions: 0 }
    }

    fn deparser(&mut self, top: &mut Map<String, Value>) {
        let mut emit: Vec<String> = self.headers.iter().map(|h| h.name.clone()).collect();
        emit.extend(self.stack.iter().map(|stack| stack.name.clone()));
        if !self.simple && self.random.chance(40) {
            let by = self.random.below(emit.len());
            emit.rotate_left(by);
        }
        let mut deparser = Map::new();
        if self.random.chance(if self.simple { 5 } else { 15 }) && emit.len() > 1 {
            let at = self.random.below(emit.len());
            self.discarded.push(emit.remove(at));
            deparser.insert("discard".into(), json!(self.discarded));
        }
        // Without: as they are declared.
        if !self.random.chance(8) {
            deparser.insert("emit".into(), json!(emit));
        }
        let mut after = Vec::new();
        for trailer in self.trailers.clone() {
            if self.random.chance(60) {
                after.push(self.pad(Some(&trailer.name)));
            }
            after.push(json!(trailer.name));
        }
        if !self.simple && self.random.chance(15) {
            after.push(self.pad(None));
        }
        if !after.is_empty() {
            deparser.insert("after".into(), json!(after));
        }
        if self.random.chance(30) {
            deparser.insert("slack".into(), "strip".into());
        }
        top.insert("deparser".into(), Value::Object(deparser));
    }

    fn pad(&mut self, of: Option<&str>) -> Value {
        let bytes = self.random.pick(&[
            "(4 - (std.emit_length & 3)) & 3",
            "3",
            "(8 - ((std.emit_length + 5) & 7)) & 7",
            "std.body_length & 15",
        ]);
        let mut pad = json!({ "pad": bytes, "fill": self.random.below(3) });
        match of {
            Some(header) if self.random.chance(50) => {
                pad["when"] = json!(format!("{header}.valid"))
            }
            _ if self.random.chance(30) => {
                // What egress finds again: no fields of trailers, and metadata may not be carried.
                let header = self.random.pick(&self.headers.clone()).name;
                let n = self.random.below(3);
                pad["when"] = json!(format!("({header}.kind != {n})"));
            }
            _ => {}
        }
        let name = match self.random.chance(50) {
            true => {
                let name = self.name("pad");
                pad["name"] = json!(name);
                name
            }
            false => "pad".into(),
        };
        self.pads.push(name);
        pad
    }
}
