//! What the programs emit, judged by others: tshark dissects it without a malformed packet, and
//! scapy's ICRC is ours.
//!
//! The programs run by `wireyard replay`, on the packets of their own tests and on captures of two
//! Linux hosts. InfiniBand goes to tshark in ERF records (it does not read link type 247), Ethernet
//! out of Omni-Path packets without the 16B header. scapy 2.5 computes the ICRC of IPv4 only; its rule
//! is extended to IPv6 and GRH by the few lines of [`SCAPY`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_switch::pcap::{LINK_ERF, PcapHeader, PcapWriter, RecordToWrite, Timestamp};
use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::run;
use wireyard_tests::{capture, has_tool, scripts, shared, skip, workspace_root};

/// Prints one line for each RoCE frame of a capture: number, `right` or `wrong`.
const SCAPY: &str = r#"
import sys, logging
logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from zlib import crc32
from scapy.all import Raw, Ether, Dot1Q, IP, IPv6, UDP, RawPcapReader, raw, bind_layers
from scapy.contrib.roce import BTH, GRH
bind_layers(Dot1Q, GRH, type=0x8915)
def masked(lower, bth):
    bth = bth.copy()
    bth.fecn = bth.becn = 1
    bth.resv6 = 0x3f
    body = bth.self_build() + raw(bth.payload)
    return b"\xff" * 8 + lower + body
def icrc(packet):
    bth = packet[BTH]
    if IP in packet:
        return bth.compute_icrc(raw(bth))
    if IPv6 in packet:
        ip, udp = packet[IPv6].copy(), packet[UDP].copy()
        ip.tc, ip.fl, ip.hlim, udp.chksum = 0xff, 0xfffff, 0xff, 0xffff
        lower = ip.self_build() + udp.self_build()
    else:
        grh = packet[GRH].copy()
        grh.tclass, grh.flowlabel, grh.hoplmt = 0xff, 0xfffff, 0xff
        lower = grh.self_build()
    return crc32(masked(lower, bth)).to_bytes(4, "little")
for number, (data, _) in enumerate(RawPcapReader(sys.argv[1]), 1):
    packet = Ether(data)
    if BTH in packet and packet[BTH].icrc is not None:
        right = icrc(packet) == packet[BTH].icrc.to_bytes(4, "big")
        print(number, "right" if right else "wrong")
"#;

/// A Python that has scapy.
fn scapy() -> Option<&'static str> {
    let has = |python: &&str| {
        let import = Command::new(python).args(["-c", "import scapy.contrib.roce"]).output();
        import.is_ok_and(|done| done.status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(has)
}

/// Skips loudly unless both judges are there.
fn judges(test: &str) -> Option<&'static str> {
    let python = scapy();
    if python.is_none() || !has_tool("tshark") {
        skip(test, "tshark and python3-scapy are not both there");
        return None;
    }
    python
}

/// Right and wrong ICRCs of the RoCE frames in an Ethernet capture, by scapy.
fn icrcs(python: &str, path: &Path) -> (usize, Vec<usize>) {
    let done = Command::new(python).args(["-c", SCAPY]).arg(path).output().expect("python runs");
    assert!(done.status.success(), "scapy: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let (mut right, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let (number, verdict) = line.split_once(' ').unwrap();
        match verdict {
            "right" => right += 1,
            _ => wrong.push(number.parse().unwrap()),
        }
    }
    (right, wrong)
}

/// Columns of every packet that a display filter picks.
pub(crate) fn tshark(path: &Path, filter: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    // Without the heuristics that take a short payload for another protocol.
    command.args(["-n", "-r"]).arg(path).args(["-Y", filter, "-T", "fields"]);
    for column in columns {
        command.args(["-e", column]);
    }
    let done = command.output().expect("tshark runs");
    assert!(done.status.success(), "tshark: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Opcodes whose headers tshark 4.0 does not know: FLUSH, ATOMIC WRITE, RD
/// (0x40 to 0x5f are another protocol to it), CNP, XRC.
fn unknown_to_tshark(opcode: u8) -> bool {
    matches!(opcode, 0x1c | 0x1d | 0x40..=0x5f | 0x80..)
}

/// Packets that tshark calls malformed, that are not among its known limits, and that did not come in
/// like that (a switch passes on what is not its business).
fn malformed(path: &Path, received: &[Vec<u8>]) -> Vec<String> {
    let columns = ["frame.number", "infiniband.bth.opcode", "frame.len", "_ws.col.Info"];
    let judged = frames(path);
    let known = |row: &Vec<String>| {
        let number: usize = row[0].parse().unwrap();
        if received.contains(&judged[number - 1]) {
            return true;
        }
        let opcode = row[1].split(',').next().unwrap_or_default().parse::<u8>();
        // A SEND of a few bytes is taken for IPoIB, and is too short for it.
        let tiny_send = |opcode: u8| opcode & 0x1f <= 5 && row[2].parse::<u32>().unwrap() < 100;
        opcode.is_ok_and(|opcode| unknown_to_tshark(opcode) || tiny_send(opcode))
    };
    let rows = tshark(path, "_ws.malformed", &columns);
    rows.iter().filter(|row| !known(row)).map(|row| row.join(" ")).collect()
}

/// InfiniBand frames as ERF records (type 21), for tshark.
fn as_erf(frames: &[Vec<u8>], path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = PcapWriter::pcap(file, PcapHeader::new(LINK_ERF)).unwrap();
    for (n, frame) in frames.iter().enumerate() {
        let len = frame.len() as u16;
        let mut data = vec![0; 8];
        data.extend([21, 0]);
        data.extend((len + 16).to_be_bytes());
        data.extend([0, 0]);
        data.extend(len.to_be_bytes());
        data.extend(frame);
        let time = Timestamp::from_ns(n as u64 * 1000);
        let wire_len = data.len() as u32;
        let record = RecordToWrite { time, data: &data, wire_len, interface: 0, comment: None };
        writer.write(&record).unwrap();
    }
    writer.flush().unwrap();
}

/// The Ethernet frames inside Omni-Path packets, by the lengths that these say.
fn out_of_opa(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let inner = |packet: &Vec<u8>| {
        let words = u32::from_le_bytes(packet[..4].try_into().unwrap()) >> 20 & 0x7ff;
        assert_eq!(words as usize * 8, packet.len(), "the length counts all of it");
        let pad = usize::from(packet[packet.len() - 1] & 7);
        let icrc = &packet[packet.len() - 5..packet.len() - 1];
        assert_eq!(icrc, [0; 4], "zero stands for the ICRC that nobody can compute");
        packet[20..packet.len() - 5 - pad].to_vec()
    };
    frames.iter().map(inner).collect()
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let records = capture::read(path).expect("a pcap file").records;
    records.into_iter().map(|(bytes, _)| bytes).collect()
}

fn plain(path: &Path, link: LinkType, frames: &[Vec<u8>]) {
    let numbered = frames.iter().enumerate().map(|(n, f)| (n as u64, f.as_slice()));
    scripts::write_pcap(path, link, numbered);
}

/// Runs a program by `replay`; what left each port of its switch.yaml.
fn replay(
    program: &Path,
    entries: Option<&Path>,
    inputs: &BTreeMap<u16, PathBuf>,
    folder: &Path,
) -> Vec<(u16, LinkType, PathBuf)> {
    let outputs: Vec<_> = scripts::ports(&scripts::loaded(program))
        .into_iter()
        .map(|(port, link)| (port, link, folder.join(format!("out{port}.pcap"))))
        .collect();
    let mut arguments = vec!["replay".to_owned(), program.display().to_string()];
    // That machine code makes the same bytes is proven with every packet test; making it takes most of the time here.
    arguments.extend(["--json".to_owned(), "--engine=interp".to_owned()]);
    for (port, path) in inputs {
        arguments.extend(["--in".to_owned(), format!("{port}={}", path.display())]);
    }
    for (port, _, path) in &outputs {
        arguments.extend(["--out".to_owned(), format!("{port}={}", path.display())]);
    }
    if let Some(entries) = entries {
        arguments.extend(["--entries".to_owned(), entries.display().to_string()]);
    }
    let ended = run(&arguments);
    ended.expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["total"]["balanced"], true, "{}: {report}", program.display());
    outputs
}

/// What one packet test makes a program emit.
fn emitted(program: &Path, script: &Path, folder: &Path) -> Vec<(u16, LinkType, PathBuf)> {
    let sent = scripts::sent(script);
    let config: BTreeMap<_, _> = scripts::ports(&scripts::loaded(program)).into_iter().collect();
    let mut inputs = BTreeMap::new();
    for &port in config.keys() {
        let link = sent.links.get(&port).or_else(|| config.get(&port)).copied().unwrap();
        let path = folder.join(format!("in{port}.pcap"));
        let numbered = sent.packets.iter().enumerate().map(|(n, packet)| (n as u64, packet));
        let own = numbered.filter(|(_, (to, _))| *to == port);
        scripts::write_pcap(&path, link, own.map(|(n, (_, bytes))| (n, bytes.as_slice())));
        inputs.insert(port, path);
    }
    replay(program, sent.entries.as_deref(), &inputs, folder)
}

/// Judges what left a port; RoCE frames whose ICRC scapy finds right, and the numbers of others.
fn judge(python: &str, link: LinkType, path: &Path, received: &[Vec<u8>]) -> (usize, Vec<usize>) {
    let all = frames(path);
    if all.is_empty() {
        return (0, Vec::new());
    }
    let copy = path.with_extension("judged.pcap");
    match link {
        LinkType::Infiniband => as_erf(&all, &copy),
        LinkType::Opa => plain(&copy, LinkType::Ethernet, &out_of_opa(&all)),
        _ => plain(&copy, LinkType::Ethernet, &all),
    }
    let bad = malformed(&copy, received);
    assert!(bad.is_empty(), "{}: tshark: {bad:?}", path.display());
    if link == LinkType::Infiniband {
        return (0, Vec::new());
    }
    // What came in wrong may leave wrong.
    let (right, wrong) = icrcs(python, &copy);
    (right, wrong.into_iter().filter(|n| !received.contains(&all[n - 1])).collect())
}

/// The programs of InfiniBand, RoCE and Omni-Path.
const PROGRAMS: [&str; 7] = [
    "rocev1_v2_gateway",
    "rocev2_ib_gateway",
    "opa_vnic_gateway",
    "ib_switch",
    "rocev2_lossless",
    "rocev1_lossless",
    "nic_notification_point",
];

#[test]
fn tshark_and_scapy_agree_with_what_programs_emit() {
    let test = "tshark_and_scapy_agree_with_what_programs_emit";
    let Some(python) = judges(test) else { return };
    let (mut right, mut seen) = (0, 0);
    for name in PROGRAMS {
        let program = workspace_root().join("programs").join(name);
        let mut emitted_here = 0;
        for script in scripts::scripts(&program) {
            let folder = tempfile::tempdir().unwrap();
            let received: Vec<_> =
                scripts::sent(&script).packets.into_iter().map(|(_, bytes)| bytes).collect();
            for (_, link, path) in emitted(&program, &script, folder.path()) {
                emitted_here += frames(&path).len();
                let (good, wrong) = judge(python, link, &path, &received);
                let place = format!("{}: {}", script.display(), path.display());
                assert!(wrong.is_empty(), "{place}: wrong ICRC in {wrong:?}");
                right += good;
            }
        }
        assert!(emitted_here > 5, "{name} emits {emitted_here} packets");
        seen += emitted_here;
    }
    assert!(right > 40 && seen > 150, "{right} ICRCs, {seen} packets");
}

/// One frame of many is made wrong: exactly this one, for scapy; its IPv4 checksum is right.
#[test]
fn the_injector_corrupts_the_icrc_of_one_frame() {
    let test = "the_injector_corrupts_the_icrc_of_one_frame";
    let Some(python) = judges(test) else { return };
    let program = workspace_root().join("programs/event_injector");
    let script = program.join("events.stf");
    let folder = tempfile::tempdir().unwrap();
    let outputs = emitted(&program, &script, folder.path());
    let (_, link, path) = outputs.iter().find(|(port, ..)| *port == 2).unwrap();
    let (right, wrong) = judge(python, *link, path, &[]);
    assert!(right > 4 && wrong.len() == 1, "{right} right, wrong {wrong:?}");
    let bad =
        tshark(path, "ip.checksum.status == 0 || udp.checksum.status == 0", &["frame.number"]);
    assert!(bad.is_empty(), "checksums of {bad:?}");
}

/// The columns that a gateway must not change: what stands from the BTH on.
const TRANSPORT: [&str; 19] = [
    "infiniband.bth.opcode",
    "infiniband.bth.se",
    "infiniband.bth.m",
    "infiniband.bth.padcnt",
    "infiniband.bth.tver",
    "infiniband.bth.p_key",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.deth.q_key",
    "infiniband.deth.srcqp",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.msn",
    "infiniband.immdt",
    "infiniband.ieth",
    "infiniband.payload",
];

/// Two hosts of a capture: their addresses as GIDs, and their MAC addresses.
struct Hosts {
    gids: [String; 2],
    macs: [String; 2],
}

/// The two ends of the first RoCE frame of a capture, by tshark.
fn hosts(path: &Path) -> Hosts {
    let columns = ["ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "eth.src", "eth.dst"];
    let rows = tshark(path, "infiniband.bth", &columns);
    let row = rows.first().expect("a RoCE frame");
    let gid = |v4: &str, v6: &str| if v4.is_empty() { v6.into() } else { format!("::ffff:{v4}") };
    Hosts {
        gids: [gid(&row[0], &row[2]), gid(&row[1], &row[3])],
        macs: [row[4].clone(), row[5].clone()],
    }
}

/// Only the RoCE frames of a capture that `decode` finds whole and right, without VLAN tags.
fn roce_only(source: &Path, path: &Path) {
    let wanted = "infiniband.bth && !vlan && infiniband.bth.opcode != 0x1c";
    let done = Command::new("tshark")
        .args(["-n", "-F", "pcap", "-r"])
        .arg(source)
        .args(["-Y", wanted, "-w"])
        .arg(path)
        .output()
        .expect("tshark runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Native InfiniBand in between: LID 1 and 2 are the hosts.
fn infiniband_entries(hosts: &Hosts) -> String {
    let mut text = "entries:\n  paths:\n".to_owned();
    for (n, gid) in hosts.gids.iter().enumerate() {
        let (own, other) = (n + 1, 2 - n);
        text += &format!(
            "    - {{ match: {{ meta.dst: \"{gid}\" }}, action: \"path_local(2, {other}, {own})\" }}\n"
        );
    }
    text += "  lids:\n";
    for (n, gid) in hosts.gids.iter().enumerate() {
        text += &format!("    - {{ match: {{ meta.lid: {} }}, action: address({gid}) }}\n", n + 1);
    }
    text += "  neighbours:\n";
    for (n, gid) in hosts.gids.iter().enumerate() {
        let (dst, src) = (&hosts.macs[n], &hosts.macs[1 - n]);
        text += &format!(
            "    - {{ match: {{ meta.dst: \"{gid}\" }}, action: \"to_ethernet(1, 0, {src}, {dst})\" }}\n"
        );
    }
    text
}

/// RoCEv1 in between, on port 1.
fn rocev1_entries(hosts: &Hosts) -> String {
    let mut text = "entries:\n".to_owned();
    for (table, action, port) in [("v1_neighbours", "to_v1", 1), ("v2_neighbours", "to_v2", 2)] {
        text += &format!("  {table}:\n");
        for (n, gid) in hosts.gids.iter().enumerate() {
            let (dst, src) = (&hosts.macs[n], &hosts.macs[1 - n]);
            text += &format!(
                "    - {{ match: {{ meta.dst: \"{gid}\" }}, action: \"{action}({port}, 0, {src}, {dst})\" }}\n"
            );
        }
    }
    text
}

/// Captures of two Linux hosts through a gateway and back: tshark sees the same transport in all three,
/// nothing is malformed, and every ICRC is right.
fn there_and_back(test: &str, name: &str, ports: (u16, u16), between: LinkType, v1: bool) {
    let Some(python) = judges(test) else { return };
    let Some(shared) = shared() else { return skip(test, "no ../shared/captures") };
    let program = workspace_root().join("programs").join(name);
    let given = shared.join("captures/linux-rxe-6.12/given");
    for file in
        ["02_rc_write_v4", "03_rc_read_atomic_v4", "05_ud_v4", "06_rc_naks_v4", "13_rc_write_v6"]
    {
        let folder = tempfile::tempdir().unwrap();
        let start = folder.path().join("start.pcap");
        roce_only(&given.join(format!("{file}.pcap")), &start);
        let hosts = hosts(&start);
        let entries = folder.path().join("entries.yaml");
        let text = if v1 { rocev1_entries(&hosts) } else { infiniband_entries(&hosts) };
        std::fs::write(&entries, text).unwrap();
        let step = |from: u16, to: u16, input: &Path, name: &str| {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let inputs = BTreeMap::from([(from, input.to_owned())]);
            let outputs = replay(&program, Some(&entries), &inputs, &folder);
            outputs.into_iter().find(|(port, ..)| *port == to).unwrap().2
        };
        let there = step(ports.0, ports.1, &start, "there");
        let back = step(ports.1, ports.0, &there, "back");
        let (_, wrong_there) = judge(python, between, &there, &[]);
        let (right, wrong_back) = judge(python, LinkType::Ethernet, &back, &[]);
        assert!(wrong_there.is_empty() && wrong_back.is_empty(), "{file}: ICRC");
        let middle = if between == LinkType::Infiniband {
            there.with_extension("judged.pcap")
        } else {
            there
        };
        let columns = |path: &Path| tshark(path, "infiniband.bth", &TRANSPORT);
        let first = columns(&start);
        assert_eq!(frames(&start).len(), first.len());
        assert!(first.len() > 1, "{file}: {} packets", first.len());
        assert_eq!(right, first.len(), "{file}");
        assert_eq!(columns(&middle), first, "{file}: in between");
        assert_eq!(columns(&back), first, "{file}: back");
    }
}

#[test]
fn captures_cross_native_infiniband() {
    let test = "captures_cross_native_infiniband";
    there_and_back(test, "rocev2_ib_gateway", (1, 2), LinkType::Infiniband, false);
}

#[test]
fn captures_cross_rocev1() {
    let test = "captures_cross_rocev1";
    there_and_back(test, "rocev1_v2_gateway", (2, 1), LinkType::Ethernet, true);
}
