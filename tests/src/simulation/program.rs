//! The programs of simulated devices, and the frames that they forward.

use wireyard_switch::program::{Loaded, from_text};

use crate::differ::random::Random;

/// Devices of a chain, at most: a frame has a place for each.
pub const DEVICES_MAX: usize = 3;
/// Versions of a device's program.
pub const MARKS: u8 = 3;
/// The type of the frames.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// Where the tag begins, where the places of the devices begin in the frame, and where the rest does.
const TAG: usize = 14;
const PLACES: usize = TAG + 10;
const REST: usize = PLACES + TRAIL * DEVICES_MAX;
/// Bytes of a device in a frame: both marks, the version of the entry, the number of the frame there.
const TRAIL: usize = 8;
/// The class that is lossless.
pub const LOSSLESS: u8 = 3;

/// The program of the device at this place, whose ingress and egress leave these marks. A class is taken as written with `keeps_class`.
pub fn text(place: usize, marks: (u8, u8), keeps_class: bool) -> String {
    let places: Vec<String> = (0..DEVICES_MAX)
        .map(|n| format!("in{n}: 8, out{n}: 8, version{n}: 16, met{n}: 32"))
        .collect();
    let class = if keeps_class { "tag.class[2:0]" } else { "0" };
    format!(
        "
pipeline: device_{place}_{ingress}
include: [ethernet]
headers: {{ tag_t: {{ fields: {{ seq: 32, dst: 16, src: 16, class: 8, spare: 8, {places} }} }} }}
instances: {{ tag: tag_t }}
parser:
  start: {{ extract: ethernet, next: tag }}
  tag: {{ extract: tag }}
on_parser_error: drop
registers: {{ met: {{ bits: 32, size: 16 }} }}
counters: {{ passed: {{ size: 16 }} }}
tables:
  routes: {{ key: {{ tag.dst: exact }}, actions: [out, stop], default: stop, size: 64 }}
actions:
  out: {{ params: {{ to: port, version: 16 }}, do: [ std.egress_port = to, tag.version{place} = version ] }}
  stop: {{ do: [ drop stopped ] }}
ingress:
  - tag.in{place} = {ingress}
  - {{ update: \"met[tag.src]\", as: n, do: [ n.value = n.value + 1, tag.met{place} = n.value ] }}
  - count(passed, tag.src)
  - std.traffic_class = {class}
  - apply: routes
egress:
  - tag.out{place} = {egress}
deparser: {{ emit: [ethernet, tag] }}
",
        places = places.join(", "),
        ingress = marks.0,
        egress = marks.1,
    )
}

/// The same, checked.
///
/// # Errors
/// What is wrong with it.
pub fn loaded(place: usize, marks: (u8, u8), keeps_class: bool) -> Result<Loaded, String> {
    from_text("device.yaml", &text(place, marks, keeps_class)).map_err(|error| error.to_string())
}

/// Thresholds of a device, in KB.
#[derive(Clone, Copy, Debug)]
pub struct Queues {
    lossy: usize,
    lossy_out: usize,
    xoff: usize,
    xon: usize,
    is_dynamic: bool,
}

impl Queues {
    /// What a seed chooses.
    pub fn random(random: &mut Random) -> Queues {
        let xoff = random.pick(&[4, 20, 60]);
        Queues {
            lossy: random.pick(&[10, 30]),
            lossy_out: random.pick(&[10, 30]),
            xoff,
            xon: xoff / random.pick(&[2, 4]),
            is_dynamic: random.chance(30),
        }
    }
}

/// The queues of a device with ports of these rates: class 3 is lossless.
pub fn config(ports: &[(u16, u64)], queues: &Queues) -> String {
    let ports: Vec<String> =
        ports.iter().map(|(number, gbps)| format!("{number}: {{ rate: {gbps}Gbps }}")).collect();
    let Queues { lossy, lossy_out, xoff, xon, is_dynamic } = queues;
    let threshold = match is_dynamic {
        true => "pool_alpha: 1/8".to_owned(),
        false => format!("static_th: {xoff} KB"),
    };
    format!(
        "ports: {{ {} }}
qos:
  allow_lossy_headroom: true
  buffer_pools: {{ in: {{ direction: ingress, size: 1 MB }}, out: {{ direction: egress, size: 16 MB }} }}
  buffer_profiles:
    ingress_lossy: {{ pool: in, static_th: {lossy} KB }}
    egress_lossy: {{ pool: out, static_th: {lossy_out} KB }}
    lossless: {{ pool: in, {threshold}, headroom: auto, xon_at: {xon} KB }}
    egress_lossless: {{ pool: out, static_th: 16 MB }}
  port_defaults:
    pfc_enable: [3]
    priority_groups: {{ 3: lossless, default: ingress_lossy }}
    queue_buffers: {{ 3: egress_lossless, default: egress_lossy }}
    mtu: 1518 B
    cable: 5 m
    peer_response: 0 ns
    interface_delay: 0 ns
",
        ports.join(", ")
    )
}

/// What a device wrote into a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Mark of the program of ingress, and of egress.
    pub marks: (u8, u8),
    /// Version of the entry.
    pub version: u16,
    /// The number of the frame among those of its sender there, from a register.
    pub met: u32,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its number among those of its sender.
    pub seq: u32,
    /// The host that it is for.
    pub dst: u16,
    /// The host that sent it.
    pub src: u16,
    /// Its class.
    pub class: u8,
    /// What each device wrote.
    pub trails: [Trail; DEVICES_MAX],
}

fn rest(seq: u32, at: usize) -> u8 {
    (seq as usize * 7 + at) as u8
}

/// A frame of so many bytes.
pub fn frame(tag: &Tag, len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    bytes.extend(ETHER_TYPE);
    bytes.extend(tag.seq.to_be_bytes());
    bytes.extend(tag.dst.to_be_bytes());
    bytes.extend(tag.src.to_be_bytes());
    bytes.extend([tag.class, 0]);
    bytes.resize(REST, 0);
    let more = (REST..len).map(|at| rest(tag.seq, at));
    bytes.extend(more);
    bytes
}

/// What a frame carries; `None`: it is no frame of a host.
pub fn tag(bytes: &[u8]) -> Option<Tag> {
    if bytes.len() < REST || bytes[12..14] != ETHER_TYPE {
        return None;
    }
    let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let four = |at: usize| u32::from(two(at)) << 16 | u32::from(two(at + 2));
    let trail = |n: usize| {
        let at = PLACES + TRAIL * n;
        Trail { marks: (bytes[at], bytes[at + 1]), version: two(at + 2), met: four(at + 4) }
    };
    let trails = std::array::from_fn(trail);
    Some(Tag {
        seq: four(TAG),
        dst: two(TAG + 4),
        src: two(TAG + 6),
        class: bytes[TAG + 8],
        trails,
    })
}

/// True if the rest of a frame is as it was sent.
pub fn is_whole(tag: &Tag, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().skip(REST).all(|(at, byte)| *byte == rest(tag.seq, at))
}
