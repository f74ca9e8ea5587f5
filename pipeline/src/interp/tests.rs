//! Behaviour of the interpreter from outside: packets in, packets out.

pub(crate) mod build;
mod layout;
mod random;

use super::phv;
use crate::exec::Verdict;
use crate::ids::*;
use crate::ir::*;
use crate::trace::{Event, Recorder};
use build::{After, Build, Rig, block, body, ethernet_ipv4};
use wireyard_tables::{Entry, Match, MatchKind, Target as EntryTarget, Update as TableUpdate};

/// A packet of Ethernet, IPv4 with a right checksum, and a payload.
pub(crate) fn ipv4_packet(payload: usize) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2];
    ip[2..4].copy_from_slice(&(20 + payload as u16).to_be_bytes());
    let check = checksum(&ip);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(ip);
    packet.extend((0..payload).map(|i| i as u8));
    packet
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = crate::externs::checksum::Sum::default();
    sum.add(bytes);
    sum.checksum()
}

/// Forwards to port 2, after `ops`.
fn forwarder(ops: impl FnOnce(&mut Build, InstanceId, InstanceId) -> Vec<Op>) -> Rig {
    let mut build = Build::new();
    let (ethernet, ipv4) = ethernet_ipv4(&mut build);
    let mut all = vec![build.set_std(StdField::EgressPort, 2)];
    all.extend(ops(&mut build, ethernet, ipv4));
    build.ingress(all);
    build.rig()
}

fn decrement_ttl(build: &mut Build, ipv4: InstanceId) -> Op {
    let (ttl, one) = (build.field(ipv4, "ttl"), build.num(1, 8));
    let less = build.bin(BinOp::Sub, ttl, one);
    build.set(ipv4, "ttl", less)
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let mut rig = forwarder(|_, _, _| vec![]);
    for bytes in
        [ipv4_packet(100), ipv4_packet(0), ipv4_packet(3)[..20].to_vec(), vec![1; 5], vec![]]
    {
        let mut after = rig.packet(&bytes);
        let other = rig.memory.share(after.packet.buf.as_ref().unwrap()).unwrap();
        rig.run(&mut after, Half::Ingress, None);
        assert_eq!(after.meta.verdict(), Verdict::Forward);
        assert_eq!(after.packet.egress_port, 2);
        let mut after = rig.egress(after);
        assert_eq!(after.meta.verdict(), Verdict::Forward);
        assert_eq!(rig.bytes(&after), bytes);
        assert_eq!(after.packet.buf.as_ref(), Some(&other), "still the shared chunk");
        after.meta.original = Some(other);
        rig.free(after);
    }
    assert_eq!(rig.memory.free_chunks(), rig.memory.config().chunks);
}

#[test]
fn the_first_writer_copies() {
    let mut rig = forwarder(|b, _, ipv4| vec![decrement_ttl(b, ipv4)]);
    let bytes = ipv4_packet(40);
    let mut after = rig.packet(&bytes);
    let other = rig.memory.share(after.packet.buf.as_ref().unwrap()).unwrap();
    rig.run(&mut after, Half::Ingress, None);
    let out = rig.bytes(&after);
    assert_eq!(rig.memory.frame(&other, 256, bytes.len() as u32), bytes);
    assert_eq!(out[22], 63);
    assert_eq!(checksum(&out[14..34]), 0);
    assert_eq!((&out[..14], &out[34..]), (&bytes[..14], &bytes[34..]));
    after.meta.original = Some(other);
    rig.free(after);
    assert_eq!(rig.memory.free_chunks(), rig.memory.config().chunks);
}

#[test]
fn a_wrong_checksum_is_told_and_stays_wrong() {
    let mut rig = forwarder(|b, _, ipv4| vec![decrement_ttl(b, ipv4)]);
    let mut bytes = ipv4_packet(0);
    bytes[24] ^= 0x10;
    let after = rig.ingress(&bytes);
    assert_eq!(after.meta.checksum_error, 1);
    let errors = rig.state.statistics().checksum_errors.read(0).unwrap();
    assert_eq!((errors.packets, errors.bytes), (1, 34));
    let out = rig.bytes(&after);
    let wrong_by = |p: &[u8]| checksum(&p[14..34]) % 0xffff;
    assert_eq!(wrong_by(&out), wrong_by(&bytes));
    assert_ne!(checksum(&out[14..34]), 0);
}

#[test]
fn an_assigned_checksum_is_left_alone() {
    let mut rig = forwarder(|b, _, ipv4| {
        let value = b.num(0xbeef, 16);
        vec![decrement_ttl(b, ipv4), b.set(ipv4, "checksum", value)]
    });
    let after = rig.ingress(&ipv4_packet(0));
    assert_eq!(rig.bytes(&after)[24..26], [0xbe, 0xef]);
}

#[test]
fn a_new_header_gets_its_checksum_in_full() {
    let mut rig = forwarder(|b, _, ipv4| {
        let (ihl, version) = (b.num(5, 4), b.num(4, 4));
        vec![
            Op::SetInvalid(ipv4),
            Op::SetValid(ipv4),
            b.set(ipv4, "version", version),
            b.set(ipv4, "ihl", ihl),
        ]
    });
    let out = rig.ingress(&ipv4_packet(4));
    let out = rig.bytes(&out);
    assert_eq!(out[14..24], [0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(checksum(&out[14..34]), 0);
}

#[test]
fn a_short_packet_is_a_parser_error() {
    let mut rig = forwarder(|_, _, _| vec![]);
    let after = rig.ingress(&ipv4_packet(0)[..30]);
    assert_eq!(u32::from(after.meta.parser_error), BuiltinError::PacketTooShort.id().0);
    assert_eq!(after.packet.body_off, 14);
    assert_eq!(after.packet.body_len, 16);
    let errors = rig.state.statistics().parser_errors.read(1).unwrap();
    assert_eq!((errors.packets, errors.bytes), (1, 30));
}

#[test]
fn no_decision_drops() {
    let mut build = Build::new();
    ethernet_ipv4(&mut build);
    let mut rig = build.rig();
    let after = rig.ingress(&ipv4_packet(0));
    assert_eq!(after.meta.verdict(), Verdict::Drop);
    assert_eq!(after.meta.reason(), BuiltinReason::NoDecision.id());
    assert_eq!(rig.state.statistics().drops.read(1).unwrap().packets, 1);
}

#[test]
fn drop_in_an_action_ends_the_pass() {
    let mut rig =
        forwarder(|b, _, ipv4| vec![Op::Call(ActionId(1), vec![]), decrement_ttl(b, ipv4)]);
    let bytes = ipv4_packet(0);
    let after = rig.ingress(&bytes);
    assert_eq!(after.meta.reason(), BuiltinReason::Dropped.id());
    assert_eq!(rig.bytes(&after), bytes, "a dropped packet is as it came");
}

#[test]
fn a_clone_in_ingress_is_the_packet_as_received() {
    let mut rig = forwarder(|b, _, ipv4| {
        let session = b.num(9, 16);
        vec![decrement_ttl(b, ipv4), Op::Clone(session)]
    });
    let bytes = ipv4_packet(10);
    let mut after = rig.ingress(&bytes);
    assert_eq!((after.meta.clone_count, after.meta.clones[0]), (1, 9));
    let original = after.meta.original.take().unwrap();
    let (off, len) = (after.meta.original_off, after.meta.original_len);
    assert_eq!(rig.memory.frame(&original, off, len), bytes);
    assert_eq!(rig.bytes(&after)[22], 63);
    rig.memory.free(original);
    rig.free(after);
    assert_eq!(rig.memory.free_chunks(), rig.memory.config().chunks);
}

#[test]
fn a_clone_of_a_dropped_packet_carries_metadata() {
    let mut build = Build::new();
    ethernet_ipv4(&mut build);
    let event = build.meta("event", 8, Some(1));
    let (seven, session) = (build.num(7, 8), build.num(1, 16));
    let ops = vec![Op::Set(LValue::Meta(event), seven), Op::Clone(session)];
    let dropped = Term::Drop(BuiltinReason::Dropped.id());
    build.program.ingress = body(vec![block(ops, dropped)]);
    let mut rig = build.rig();
    let bytes = ipv4_packet(4);
    let mut after = rig.ingress(&bytes);
    assert_eq!((after.meta.verdict(), after.packet.carried[1]), (Verdict::Drop, 7));
    let original = after.meta.original.take().unwrap();
    after.packet.forget_headers();
    let packet = after.packet.with_buf(original);
    rig.free(after);
    let clone = rig.egress(After { packet, meta: Default::default() });
    assert_eq!(rig.bytes(&clone), bytes);
}

proptest::proptest! {
    /// A field read as one word is the field read by its layout.
    #[test]
    fn a_quick_field_is_the_field(
        skip in 0u32..70, bits in 1u32..=128, rest in 0u32..60, seed in proptest::num::u64::ANY,
    ) {
        use crate::externs::random::Stream;
        let mut build = Build::new();
        let mut fields = vec![("f", bits)];
        let round = (8 - (skip + bits + rest) % 8) % 8;
        let widths = [("a", skip.min(64)), ("b", skip.saturating_sub(64))];
        fields.splice(0..0, widths.into_iter().filter(|(_, bits)| *bits > 0));
        fields.extend([("c", rest), ("d", round)].into_iter().filter(|(_, bits)| *bits > 0));
        let header = build.header("h", &fields);
        let field = build.fid(header, "f");
        let program = build.program;
        let mut phv = phv::Phv::new(&program);
        let mut stream = Stream::new(seed, 0, 0);
        let len = program.headers[HeaderId(0)].fixed_bytes;
        let bytes: Vec<u8> = (0..len).map(|_| stream.next_u64() as u8).collect();
        phv.append(header, &bytes);
        let quick = phv::quick_fields(&program)[0][field.index()];
        proptest::prop_assert!(quick.is_some() == (skip % 8 + bits <= 64));
        if let Some(quick) = quick {
            proptest::prop_assert_eq!(phv.quick(&quick), 0);
            phv.set_received(header, 0);
            let layout = &program.headers[HeaderId(0)].fields[field].layout;
            proptest::prop_assert_eq!(u128::from(phv.quick(&quick)), layout.read(&bytes));
            let value = stream.next_u64();
            let mut expected = bytes.clone();
            layout.write(&mut expected, value.into());
            phv.set_quick(&quick, value);
            proptest::prop_assert_eq!(phv.header(header), expected);
        }
    }
}

/// L2 learning: the source is learned with its port, the destination looked up.
#[test]
fn a_learned_entry_is_seen_by_the_next_packet() {
    let mut build = Build::new();
    let (ethernet, _) = ethernet_ipv4(&mut build);
    let port = build.local(0, 16);
    let to_port = Op::Set(LValue::Std(StdField::EgressPort), port);
    let forward = build.action("forward", &[("port", 16)], vec![to_port], Term::Return);
    let (src, dst) = (build.field(ethernet, "src"), build.field(ethernet, "dst"));
    let table =
        build.table("macs", &[(dst, MatchKind::Exact)], &[forward, ActionId(1)], ActionId(1));
    build.program.tables[table].counters = true;
    let port = build.std(StdField::IngressPort);
    let learn = Op::Learn { table, key: vec![src], action: forward, args: vec![port] };
    let apply = Term::Apply { table, by_action: vec![], hit: BlockId(1), miss: BlockId(1) };
    build.program.ingress = body(vec![block(vec![learn], apply), block(vec![], Term::Return)]);
    let mut rig = build.rig();
    let first = rig.ingress(&ipv4_packet(0));
    assert_eq!(first.meta.verdict(), Verdict::Drop);
    let mut back = ipv4_packet(0);
    back[..12].rotate_left(6);
    let second = rig.ingress(&back);
    assert_eq!((second.meta.verdict(), second.packet.egress_port), (Verdict::Forward, 1));
    let tables = rig.state.tables().snapshot();
    let counters = tables.table(wireyard_tables::TableId(0)).unwrap().counters().unwrap();
    assert_eq!((0..4).map(|i| counters.read(i).unwrap().packets).sum::<u64>(), 1);
}

#[test]
fn action_data_wider_than_a_word_arrives() {
    let mut build = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut build);
    let key = build.field(ipv4, "dst");
    let wide = build.meta("wide", 128, Some(0));
    let data = build.local(1, 128);
    let ops = vec![build.set_std(StdField::EgressPort, 3), Op::Set(LValue::Meta(wide), data)];
    let params = [("small", 8), ("wide", 128)];
    let action = build.action("set_wide", &params, ops, Term::Return);
    let table = build.table("t", &[(key, MatchKind::Lpm)], &[ActionId(0), action], ActionId(0));
    let (hit, miss) = (BlockId(1), BlockId(2));
    build.program.ingress = body(vec![
        block(vec![], Term::Apply { table, by_action: vec![], hit, miss }),
        block(vec![], Term::Return),
        block(vec![], Term::Drop(BuiltinReason::Checksum.id())),
    ]);
    let value = 0x0123_4567_89ab_cdef_1122_3344_5566_7788;
    let matches = vec![Match::Lpm { value: 0x0a00_0100, prefix_len: 24 }];
    build.program.tables[table].entries.push(TableEntry {
        matches,
        priority: 0,
        call: ActionCall { action, args: vec![1, value] },
        idle_timeout_ms: 0,
        meter: None,
        is_const: false,
    });
    let mut rig = build.rig();
    let after = rig.ingress(&ipv4_packet(0));
    assert_eq!(after.packet.egress_port, 3);
    assert_eq!(after.packet.carried, value.to_le_bytes());
    let mut other = ipv4_packet(0);
    other[32] = 9;
    assert_eq!(rig.ingress(&other).meta.reason(), BuiltinReason::Checksum.id());
}

#[test]
fn a_group_picks_a_member_by_hash() {
    let mut build = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut build);
    let port = build.local(0, 16);
    let to_port = Op::Set(LValue::Std(StdField::EgressPort), port);
    let forward = build.action("forward", &[("port", 16)], vec![to_port], Term::Return);
    let (dst, src) = (build.field(ipv4, "dst"), build.field(ipv4, "src"));
    let table =
        build.table("ecmp", &[(dst, MatchKind::Exact)], &[ActionId(1), forward], ActionId(1));
    build.program.tables[table].selector = Some(Selector {
        hash: HashAlgorithm::Crc16,
        keys: vec![src],
        max_members: 16,
        max_groups: 4,
        empty: None,
    });
    let apply = Term::Apply { table, by_action: vec![], hit: BlockId(1), miss: BlockId(1) };
    build.program.ingress = body(vec![block(vec![], apply), block(vec![], Term::Return)]);
    let mut rig = build.rig();
    let profile = wireyard_tables::ProfileId(0);
    let member = |n: u32| wireyard_tables::GroupMember { member: n, weight: 1 };
    let call = |port| wireyard_tables::ActionCall { action: 1, data: vec![port] };
    let entry = Entry {
        matches: vec![Match::Exact(0x0a00_0102)],
        priority: 0,
        target: EntryTarget::Group(5),
        idle_timeout: None,
        meter: None,
    };
    let updates = [
        TableUpdate::InsertMember(profile, 1, call(11)),
        TableUpdate::InsertMember(profile, 2, call(12)),
        TableUpdate::InsertGroup(profile, 5, vec![member(1), member(2)]),
        TableUpdate::Insert(wireyard_tables::TableId(0), entry),
    ];
    rig.state.tables().batch(&updates, Default::default()).unwrap();
    let mut ports: Vec<u16> = (0..20)
        .map(|n| {
            let mut packet = ipv4_packet(0);
            packet[29] = n;
            rig.ingress(&packet).packet.egress_port
        })
        .collect();
    assert_eq!(ports[0], rig.ingress(&ipv4_packet(0).tap(|p| p[29] = 0)).packet.egress_port);
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports, [11, 12]);
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
impl Tap for Vec<u8> {}

#[test]
fn a_register_update_counts_in_the_entry() {
    let mut build = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut build);
    let cells = ["count", "last"].map(|name| code::Local { name: name.into(), bits: 16 });
    let register =
        build.program.registers.push(Register { name: "r".into(), cells: cells.into(), size: 4 });
    let index = build.field(ipv4, "ecn");
    let (count, one) = (build.local(0, 16), build.num(1, 16));
    let more = build.bin(BinOp::Add, count, one);
    let id = build.field(ipv4, "id");
    let first = LocalId(0);
    build.ingress(vec![
        Op::RegisterLoad { register, index, first, locked: true },
        Op::Set(LValue::Local(LocalId(0)), more),
        Op::Set(LValue::Local(LocalId(1)), id),
        Op::RegisterStore { register, index, first, cells: vec![0, 1], locked: true },
    ]);
    for cell in ["count", "last"] {
        build.program.ingress.locals.push(code::Local { name: cell.into(), bits: 16 });
    }
    let mut rig = Rig::new(build.program, Default::default(), 2);
    for _ in 0..3 {
        rig.ingress(&ipv4_packet(0).tap(|p| p[15] = 2));
    }
    let register = rig.state.register(register).unwrap();
    assert_eq!((register.load(2, 0), register.load(2, 1)), (Some(3), Some(0x1234)));
    assert_eq!((register.load(1, 0), register.load(4, 0)), (Some(0), None));
}

#[test]
fn a_trace_has_every_step() {
    let mut rig = forwarder(|b, _, ipv4| vec![decrement_ttl(b, ipv4)]);
    let mut recorder = Recorder::default();
    let mut after: After = rig.packet(&ipv4_packet(2));
    rig.run(&mut after, Half::Ingress, Some(&mut recorder));
    let text = crate::trace::text::packet_trace(rig.state.program(), &recorder.events);
    for line in ["ipv4.ttl = 0x3f", ", src 0xa000001,", "state s1", "forward to port 2, 36 bytes"] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn a_trace_has_the_key_that_was_looked_up() {
    let mut build = Build::new();
    ethernet_ipv4(&mut build);
    let color = build.std(StdField::Color);
    let table = build.table("t", &[(color, MatchKind::Exact)], &[ActionId(0)], ActionId(0));
    let rates = wireyard_tables::meter::MeterConfig::SingleRate { cir: 1, cbs: 0, ebs: 1 };
    let declared = &mut build.program.tables[table];
    declared.meter = Some(MeterKind { two_rates: false, packets: true });
    declared.entries.push(TableEntry {
        matches: vec![Match::Exact(0)],
        priority: 0,
        call: ActionCall { action: ActionId(0), args: vec![] },
        idle_timeout_ms: 0,
        meter: Some(rates),
        is_const: false,
    });
    let apply = Term::Apply { table, by_action: vec![], hit: BlockId(1), miss: BlockId(1) };
    build.program.ingress = body(vec![block(vec![], apply), block(vec![], Term::Return)]);
    let mut rig = build.rig();
    let mut recorder = Recorder::default();
    let mut after: After = rig.packet(&ipv4_packet(0));
    rig.run(&mut after, Half::Ingress, Some(&mut recorder));
    let seen = recorder.events.iter().find_map(|event| match event {
        Event::Apply { keys, slot, color, .. } => Some((keys.clone(), *slot, *color)),
        _ => None,
    });
    assert_eq!(seen, Some((vec![0], Some(0), Some(1))));
}
