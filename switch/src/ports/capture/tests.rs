use std::path::PathBuf;

use wireyard_pipeline::packet::MemoryConfig;

use super::*;
use crate::pcap::{PcapWriter, RecordToWrite};

fn memory() -> PacketMemory {
    PacketMemory::new(MemoryConfig { chunks: 4, chunk_bytes: 2048, headroom_bytes: 256 }).unwrap()
}

fn write(path: &Path, header: PcapHeader, records: &[(&[u8], u32, u64)]) {
    let mut writer = PcapWriter::pcap(File::create(path).unwrap(), header).unwrap();
    for (data, wire_len, nanos) in records {
        let time = Timestamp { seconds: 1_700_000_000, nanos: *nanos };
        let (data, wire_len) = (*data, *wire_len);
        writer.write(&RecordToWrite { time, data, wire_len, interface: 0, comment: None }).unwrap();
    }
}

fn spec(input: &Path, out: Option<PathBuf>) -> PortSpec {
    PortSpec { out, ..PortSpec::new(super::super::PortKind::Pcap, input.to_str().unwrap()) }
}

/// Sends every frame back out of the port that received it, at its own time.
fn reflect(port: &mut CapturePort, mem: &mut PacketMemory) -> Result<u64, PortError> {
    let (mut frames, mut total) = (Vec::new(), 0);
    while port.rx_burst(mem, Time::ZERO, &mut frames, 3)? > 0 {
        for frame in frames.drain(..) {
            let RxFrame { buf, data_off, len, wire_len, timestamp, .. } = frame;
            let mut one =
                vec![TxFrame { wire_len, ..TxFrame::at_once(buf, data_off, len, Time::ZERO) }];
            total += port.tx_burst(mem, timestamp, &mut one)?.sent as u64;
        }
    }
    port.flush(mem)?;
    Ok(total)
}

#[test]
fn a_reflected_file_is_equal_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let records: [(&[u8], u32, u64); 5] = [
        (&[1; 60], 60, 0),
        (&[2; 64], 1500, 10),
        (&[], 0, 20),
        (&[3; 1700], 10, 30),
        (&[4; 7], 7, 31),
    ];
    let header = PcapHeader { big_endian: true, link_field: 0x3000_0001, ..PcapHeader::new(1) };
    write(&input, header, &records);
    let mut mem = memory();
    let mut port = CapturePort::open(&spec(&input, Some(out.clone()))).unwrap();
    assert_eq!(port.next_time().unwrap(), Some(Time::ZERO));
    assert_eq!(reflect(&mut port, &mut mem).unwrap(), 5);
    assert_eq!(port.link_state(Time::ZERO), LinkState::Ended);
    assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(&out).unwrap());
    assert_eq!(mem.free_chunks(), 4);
    assert_eq!((port.stats().rx_frames, port.stats().tx_bytes), (5, 60 + 64 + 1700 + 7));
}

/// The records of the output may be longer than the input's snap length.
#[test]
fn an_output_states_the_longest_record() {
    for (stated, expected) in [(96, MAX_RECORD_BYTES), (1 << 20, 1 << 20)] {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
        write(&input, PcapHeader { snap_len: stated, ..PcapHeader::new(1) }, &[(&[1; 60], 60, 0)]);
        let mut port = CapturePort::open(&spec(&input, Some(out.clone()))).unwrap();
        assert_eq!(reflect(&mut port, &mut memory()).unwrap(), 1);
        let reader = PcapReader::new(File::open(&out).unwrap()).unwrap();
        assert_eq!(reader.pcap_header().unwrap().snap_len, expected);
    }
}

/// Its own records only, also before its interface is described.
#[test]
fn a_port_takes_its_own_records_of_a_switch() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcapng");
    let mut writer = PcapWriter::pcapng(File::create(&input).unwrap()).unwrap();
    for port in [1, 2] {
        let interface = Interface { link: 1, name: format!("port {port} raw:a in") };
        let (interface, data) = (writer.add_interface(&interface).unwrap(), &[port as u8; 60]);
        let time = Timestamp { seconds: 1_700_000_000, nanos: 0 };
        let record = RecordToWrite { time, data, wire_len: 60, interface, comment: None };
        writer.write(&record).unwrap();
    }
    drop(writer);
    // Without a port of that number, those of all.
    for (port, expected) in [(1, vec![1]), (2, vec![2]), (3, vec![1, 2])] {
        let mut port =
            CapturePort::open_as(&spec(&input, None), Some(PortNumber(port)), None).unwrap();
        let (mut mem, mut frames) = (memory(), Vec::new());
        port.rx_burst(&mut mem, Time::ZERO, &mut frames, 9).unwrap();
        let first = |frame: &RxFrame| mem.frame(&frame.buf, frame.data_off, frame.len)[0];
        assert_eq!(frames.iter().map(first).collect::<Vec<_>>(), expected);
    }
}

/// The header of the file found no room: no record is written behind what is missing, and none counts as sent.
#[test]
fn an_output_that_failed_when_it_was_flushed_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    write(&input, PcapHeader::new(1), &[(&[1; 60], 60, 0)]);
    let mut mem = memory();
    let mut port = CapturePort::open(&spec(&input, Some("/dev/full".into()))).unwrap();
    assert!(port.flush(&mut mem).is_err() && port.output.is_none());
    let sent = reflect(&mut port, &mut mem).map_err(|error| error.to_string());
    assert!(sent.unwrap_err().contains("No space left"));
    assert_eq!((port.stats().tx_frames, port.stats().tx_errors), (0, 1));
}

#[test]
fn records_before_the_damage_are_delivered_and_the_damage_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("cut.pcap");
    write(&input, PcapHeader::new(1), &[(&[1; 60], 60, 0), (&[2; 60], 60, 1)]);
    let bytes = std::fs::read(&input).unwrap();
    std::fs::write(&input, &bytes[..bytes.len() - 1]).unwrap();
    let mut mem = memory();
    let mut port = CapturePort::open(&spec(&input, None)).unwrap();
    let mut frames = Vec::new();
    assert_eq!(port.rx_burst(&mut mem, Time::ZERO, &mut frames, 9).unwrap(), 1);
    let error = port.rx_burst(&mut mem, Time::ZERO, &mut frames, 9).unwrap_err().to_string();
    assert!(error.contains("offset 100") && error.contains("cut.pcap"), "{error}");
    assert_eq!(port.rx_burst(&mut mem, Time::ZERO, &mut frames, 9).unwrap(), 0);
    assert_eq!(port.link_state(Time::ZERO), LinkState::Ended);
}

#[test]
fn without_chunks_records_wait_and_long_ones_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    let long: &[u8] = &[9; 1793];
    write(&input, PcapHeader::new(1), &[(&[1; 60], 60, 0), (long, 1793, 0), (&[2; 60], 60, 1)]);
    let mut mem = memory();
    let hold: Vec<_> = (0..3).map(|_| mem.alloc().unwrap()).collect();
    let mut port = CapturePort::open(&spec(&input, None)).unwrap();
    let mut frames = Vec::new();
    assert_eq!(port.rx_burst(&mut mem, Time::ZERO, &mut frames, 9).unwrap(), 1);
    hold.into_iter().for_each(|buf| mem.free(buf));
    assert_eq!(port.rx_burst(&mut mem, Time::ZERO, &mut frames, 9).unwrap(), 1);
    let stats = port.stats();
    assert_eq!((stats.rx_frames, stats.rx_too_long, stats.rx_no_memory), (2, 1, 1));
}

#[test]
fn recorded_pace_waits_for_the_time_of_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    write(&input, PcapHeader::new(1), &[(&[1; 60], 60, 500), (&[2; 60], 60, 1500)]);
    let mut mem = memory();
    let paced = PortSpec { pace: Pace::Recorded, ..spec(&input, None) };
    let mut port = CapturePort::open(&paced).unwrap();
    let mut frames = Vec::new();
    assert_eq!(port.rx_burst(&mut mem, Time::from_ns(999), &mut frames, 9).unwrap(), 1);
    assert_eq!(port.next_time().unwrap(), Some(Time::from_ns(1000)));
    assert_eq!(port.rx_burst(&mut mem, Time::from_ns(1000), &mut frames, 9).unwrap(), 1);
    assert_eq!(frames[1].timestamp, Time::from_ns(1000));
}

#[test]
fn link_types_are_known_or_refused_by_name() {
    assert_eq!(link_of(247, None), Ok(LinkType::Infiniband));
    assert_eq!(link_of(197, None), Ok(LinkType::Erf));
    assert_eq!(link_of(150, Some(LinkType::Opa)), Ok(LinkType::Opa));
    assert!(link_of(113, None).unwrap_err().to_string().contains("LINUX_SLL"));
    assert!(link_of(9999, None).unwrap_err().to_string().contains("no registered name"));
    assert!(
        link_of(1, Some(LinkType::Opa)).unwrap_err().to_string().contains("the file says ethernet")
    );
    assert_eq!(link_of(150, None), Err(NoLink::Private(150)));
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("sll.pcap");
    write(&input, PcapHeader::new(113), &[]);
    let error = CapturePort::open(&spec(&input, None)).err().unwrap().to_string();
    assert!(error.contains("LINUX_SLL"), "{error}");
    write(&input, PcapHeader::new(150), &[]);
    for (as_port, gives) in [(None, "link=..."), (Some(PortNumber(3)), "`link` of port 3")] {
        let error =
            CapturePort::open_as(&spec(&input, None), as_port, None).err().unwrap().to_string();
        assert!(error.contains("150 is private") && error.contains(gives), "{error}");
    }
    let missing = CapturePort::open(&spec(&dir.path().join("no"), None)).err().unwrap().to_string();
    assert!(missing.contains("open the capture file"), "{missing}");
}

/// Frames for an output that takes nothing more are not sent, and the port reports that its file is not complete.
#[test]
fn what_cannot_be_written_is_not_sent() {
    let mut mem = memory();
    let burst = |port: &mut CapturePort, mem: &mut PacketMemory| {
        let frame = |mem: &mut PacketMemory| {
            let buf = mem.alloc_frame(&[5; 60]).unwrap();
            TxFrame::at_once(buf, mem.config().headroom_bytes as u16, 60, Time::ZERO)
        };
        let mut frames = vec![frame(mem), frame(mem)];
        let done = port.tx_burst(mem, Time::ZERO, &mut frames);
        assert_eq!((frames.len(), mem.free_chunks()), (0, 4));
        done.map(|done| (done.sent, done.dropped)).map_err(|error| error.to_string())
    };
    // The disk is full; the folder does not exist.
    for out in ["/dev/full", "/nowhere/out.pcap"] {
        let spec =
            PortSpec { out: Some(out.into()), ..PortSpec::new(super::super::PortKind::Pcap, "") };
        let mut port = CapturePort::open(&spec).unwrap();
        let error = burst(&mut port, &mut mem).unwrap_err();
        assert!(error.contains(out), "{error}");
        for _ in 0..2 {
            assert_eq!(burst(&mut port, &mut mem), Ok((0, 2)), "{out}");
        }
        let stats = port.stats();
        assert_eq!((stats.tx_frames, stats.tx_bytes, stats.tx_errors), (0, 0, 6), "{out}");
        assert!(port.flush(&mut mem).is_err(), "{out}");
    }
}

/// The end of a pipe that nobody writes into; opening it, or reading from it, would wait for ever.
#[test]
fn a_port_that_nobody_waits_for_reads_no_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    for input in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
        let refused = CapturePort::open(&spec(input, None)).err().unwrap().to_string();
        assert!(refused.contains("it is no file but a pipe"), "{refused}");
    }
}
