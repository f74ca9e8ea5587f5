//! The crates as a program outside of this repository uses them: ports that break the contract of [`Port`], configurations and entries by their text.

use wireyard_pipeline::packet::PacketMemory;
use wireyard_switch::control::{Control, Entity, Interest, Query, TableEntry};
use wireyard_switch::core::{Core, Statistics};
use wireyard_switch::ports::{
    ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortNumber, PortStats, RxFrame,
    TxDone, TxFrame,
};
use wireyard_switch::program::{DeviceOptions, from_text};
use wireyard_tables::Match;
use wireyard_tables::time::Time;

const ECHO: &str = "
pipeline: echo
ingress: [ std.egress_port = std.ingress_port ]
";

/// A port with frames to receive that breaks the contract of [`Port`] where a test asks for it.
#[derive(Clone, Copy, Default)]
struct BrokenPort {
    frames: usize,
    /// Gives all frames at once, whatever it is asked for.
    gives_too_many: bool,
    /// Says that it sent, and takes nothing.
    only_says_sent: bool,
}

impl Port for BrokenPort {
    fn name(&self) -> &str {
        "broken"
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: LinkType::Ethernet, mtu_bytes: None }
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        let wanted = if self.gives_too_many { self.frames } else { self.frames.min(max) };
        for _ in 0..wanted {
            let buf = mem.alloc_frame(&[0; 60]).expect("a chunk");
            let data_off = mem.config().headroom_bytes as u16;
            let checksum = ChecksumStatus::AsReceived;
            out.push(RxFrame { buf, data_off, len: 60, wire_len: 60, timestamp: now, checksum });
        }
        self.frames -= wanted;
        Ok(wanted)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        _: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let sent = frames.len();
        if !self.only_says_sent {
            frames.drain(..).for_each(|frame| mem.free(frame.buf));
        }
        Ok(TxDone { sent, dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }

    fn link_state(&mut self, _: Time) -> LinkState {
        LinkState::Up
    }
}

fn polled(port: BrokenPort) -> Core {
    let loaded = from_text("echo.yaml", ECHO).unwrap();
    let mut core = loaded.device(DeviceOptions::small()).unwrap();
    core.add_port(PortNumber(1), Box::new(port)).unwrap();
    core.poll(Time::from_ns(1), None);
    core
}

#[test]
fn frames_over_the_burst_are_refused_by_name() {
    let mut core =
        polled(BrokenPort { frames: 200, gives_too_many: true, ..BrokenPort::default() });
    let messages = core.ports_mut().take_messages();
    let texts: Vec<String> = messages.iter().map(|message| message.to_string()).collect();
    let surplus = "gave 136 frames more than the 64";
    assert!(texts.iter().any(|text| text.contains(surplus)), "{texts:?}");
    let total = Statistics::of(&mut core).total;
    assert_eq!((total.received, total.sent, total.balanced), (64, 64, true));
}

#[test]
fn a_port_that_only_says_that_it_sent_has_no_room() {
    let mut core = polled(BrokenPort { frames: 3, only_says_sent: true, ..BrokenPort::default() });
    let total = Statistics::of(&mut core).total;
    assert_eq!((total.received, total.sent, total.queued, total.balanced), (3, 0, 3, true));
}

#[test]
fn a_configuration_by_its_text_gives_queues_or_says_what_is_wrong() {
    let text = "ports: { 1: { rate: 1 Gbit/s } }\nqos: { preset: plain }\n";
    let loaded = from_text("echo.yaml", ECHO).unwrap().with_config("queues.yaml", text).unwrap();
    let mut core = loaded.device(DeviceOptions::small()).unwrap();
    core.add_port(PortNumber(1), Box::new(BrokenPort { frames: 2, ..BrokenPort::default() }))
        .unwrap();
    loaded.set_queues(&mut core, &[PortNumber(1)]).unwrap();
    core.poll(Time::from_ns(1), None);
    let total = Statistics::of(&mut core).total;
    assert_eq!((total.sent, total.queued), (1, 1), "the second waits for the link");

    let wrong = from_text("echo.yaml", ECHO).unwrap().with_config("queues.yaml", "port: 1\n");
    let text = wrong.unwrap_err().to_string();
    assert!(text.contains("queues.yaml:1:1") && text.contains("ports"), "{text}");
}

#[test]
fn an_entry_is_deleted_by_its_key() {
    let program = "
pipeline: wire
actions: { out: { params: { to: port }, do: [ std.egress_port = to ] } }
tables: { ways: { key: { std.ingress_port: exact }, actions: [out, nop], default: nop, size: 4 } }
ingress: [ { apply: ways } ]
";
    let core = from_text("wire.yaml", program).unwrap().device(DeviceOptions::small()).unwrap();
    let control = Control::of(&core).unwrap();
    let ways = control.table("ways").unwrap();
    let entry = TableEntry::new(ways, vec![Match::Exact(1)], control.call("out", &[2]).unwrap());
    control.insert(entry.clone()).unwrap();
    control.delete(entry.key.clone()).unwrap();
    let left: Vec<Entity> = control.read(&Query::Entries { table: Some(ways) }).unwrap();
    assert!(left.is_empty(), "{left:?}");
    let again = control.delete(entry.key).unwrap_err().to_string();
    assert!(again.contains("ways: not found"), "{again}");
}

#[test]
fn a_digest_is_shown_by_its_name_and_values() {
    let program = "
pipeline: talk
digests: { seen: { port: std.ingress_port } }
ingress: [ digest(seen), drop ]
";
    let mut core = from_text("talk.yaml", program).unwrap().device(DeviceOptions::small()).unwrap();
    core.add_port(PortNumber(1), Box::new(BrokenPort { frames: 1, ..BrokenPort::default() }))
        .unwrap();
    let control = Control::of(&core).unwrap().clone();
    let mut stream = control.subscribe(Interest::ALL, 16).unwrap();
    core.poll(Time::from_ns(1), None);
    let notice = format!("{:?}", stream.try_next().expect("a digest"));
    assert!(notice.contains("digest: \"seen\", values: [1]") && notice.len() < 200, "{notice}");
}

/// What a block of P4 computes, keeps or is given is in its digests.
#[test]
fn digests_of_p4_have_the_values_of_their_blocks() {
    let program = std::fs::read_to_string("data/p4/digested.p4").expect("the program");
    let loaded = from_text("digested.p4", &program).unwrap_or_else(|why| panic!("{why}"));
    let mut core = loaded.device(DeviceOptions::small()).unwrap();
    core.add_port(PortNumber(1), Box::new(BrokenPort { frames: 1, ..BrokenPort::default() }))
        .unwrap();
    let control = Control::of(&core).unwrap().clone();
    let mut stream = control.subscribe(Interest::ALL, 16).unwrap();
    core.poll(Time::from_ns(1), None);
    for values in ["[1, 7, 1]", "[3, 2, 1]", "[1, 2, 0]", "[14, 252, 5]", "[21, 22, 23]"] {
        let notice = format!("{:?}", stream.try_next().expect("a digest"));
        assert!(notice.contains(&format!("values: {values}")), "{values}: {notice}");
    }
}
